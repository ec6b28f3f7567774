"""t2t-lite-benchmark --accelerator: measures the base and big models on a GPU or other accelerator."""

import argparse
import importlib.util
import json
from pathlib import Path


def show(arguments: argparse.Namespace) -> None:
    """Measures in separate processes, prints a page of Markdown, and writes JSON if --json_file is given."""
    from t2t_lite.benchmark.accelerator.page import as_page
    from t2t_lite.benchmark.accelerator.processes import Wanted, measure
    from t2t_lite.benchmark.accelerator.stored_batches import read_batches, write_batches
    from t2t_lite.errors import UserError
    from t2t_lite.exporting.export_dir import open_keras_export
    from t2t_lite.files import check_outputs, write_text
    from t2t_lite.plugins import load_all
    from t2t_lite.system.installed import check_installed

    backend = arguments.backend or ("tensorflow" if importlib.util.find_spec("tensorflow") else "jax")
    if backend == "jax":
        check_installed("--backend=jax", {"jax": "jax", "keras": "keras"}, "jax")
    load_all(arguments.t2t_usr_dir)
    batches, export_dir, trained_dir = (
        Path(path) if path else None for path in (arguments.batches_file, arguments.export_dir, arguments.trained_dir)
    )
    if export_dir:
        open_keras_export(export_dir)
    if trained_dir and trained_dir.exists():
        raise UserError(f"`trained_dir={trained_dir}` already exists; pass a new folder")
    if arguments.json_file is not None:
        check_outputs({"--json_file": Path(arguments.json_file)}, {"--batches_file": batches} if batches else {})
    if batches and arguments.problem:
        files = Path(arguments.data_dir).glob("*")
        check_outputs({"--batches_file": batches}, {str(file): file for file in files})
        write_batches(arguments.problem, Path(arguments.data_dir), batches)
    if batches:
        read_batches(batches)  # before measuring, which takes minutes
    figures = measure(Wanted(backend, arguments.minutes, batches, export_dir, trained_dir))
    print(as_page(figures), end="")
    if arguments.json_file is not None:
        write_text(Path(arguments.json_file), json.dumps(figures, indent=1) + "\n")
