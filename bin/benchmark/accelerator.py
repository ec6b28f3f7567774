"""t2t-lite-benchmark --accelerator: measures the base and big models under JAX on a GPU or other accelerator."""

import argparse
import json
from pathlib import Path


def show(arguments: argparse.Namespace) -> None:
    """Measures in separate processes, prints a page of Markdown, and writes JSON if --json_file is given."""
    from t2t_lite.benchmark.accelerator.page import as_page
    from t2t_lite.benchmark.accelerator.processes import measure
    from t2t_lite.benchmark.accelerator.stored_batches import read_batches, write_batches
    from t2t_lite.files import check_outputs, write_text
    from t2t_lite.plugins import load_all
    from t2t_lite.system.installed import check_installed

    check_installed("--accelerator", {"jax": "jax", "keras": "keras"}, "jax")
    load_all(arguments.t2t_usr_dir)
    batches = Path(arguments.batches_file) if arguments.batches_file else None
    if arguments.json_file is not None:
        check_outputs({"--json_file": Path(arguments.json_file)}, {"--batches_file": batches} if batches else {})
    if batches and arguments.problem:
        files = Path(arguments.data_dir).glob("*")
        check_outputs({"--batches_file": batches}, {str(file): file for file in files})
        write_batches(arguments.problem, Path(arguments.data_dir), batches)
    if batches:
        read_batches(batches)  # before measuring, which takes minutes
    figures = measure(arguments.minutes, batches)
    print(as_page(figures), end="")
    if arguments.json_file is not None:
        write_text(Path(arguments.json_file), json.dumps(figures, indent=1) + "\n")
