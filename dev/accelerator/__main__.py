"""Measures the base and big models on the GPUs of this machine: python -m dev.accelerator, in the checkout."""

import argparse
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from dev.accelerator.page import as_page
from dev.accelerator.processes import BACKENDS, Wanted, measure
from dev.accelerator.stored_batches import read_batches, write_batches
from t2t_lite.bin.cli.flags import as_flags
from t2t_lite.decoding.export_dir import open_keras_export
from t2t_lite.errors import UserError
from t2t_lite.files import check_outputs, write_text
from t2t_lite.plugins import load_all
from t2t_lite.system.installed import check_installed
from t2t_lite.system.tensorflow import prepare_process


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the script with the flags `argv` (default: those of this process) and returns its exit status."""
    parser = make_parser()
    arguments = parser.parse_args(argv)
    if bool(arguments.problem) != bool(arguments.data_dir):
        parser.error("pass --problem and --data_dir together")
    for name in ("problem", "export_dir"):
        if getattr(arguments, name) and not arguments.batches_file:
            parser.error(f"--{name} also needs --batches_file")
    if arguments.trained_dir and not arguments.export_dir:
        parser.error("--trained_dir needs --export_dir")
    if arguments.export_dir and arguments.backend != "jax":
        parser.error("--export_dir needs --backend=jax; with TensorFlow, use t2t-lite-trainer")
    try:
        _show(arguments)
    except UserError as error:
        print(f"{parser.prog}: error: {as_flags(str(error))}", file=sys.stderr)
        return 1
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the flags."""
    parser = argparse.ArgumentParser(
        "python -m dev.accelerator",
        description="Measures a GPU: training steps of base and big, where their time goes, loss curves and search.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    installed = "tensorflow" if importlib.util.find_spec("tensorflow") else "jax"
    add("--backend", choices=BACKENDS, default=installed, help="what to train with (default: the installed one)")
    add("--minutes", type=float, default=10.0, help="approximate time limit (default: 10)")
    add("--json_file", type=Path, help="write all results to this JSON file")
    add(
        "--batches_file",
        type=Path,
        metavar="FILE.npz",
        help="batches for loss curves in float32 and bfloat16; with --problem and --data_dir, they are written first",
    )
    add("--problem", help="write batches of this problem to --batches_file; needs TensorFlow")
    add("--data_dir", type=Path, help="folder with the problem's data")
    add("--export_dir", type=Path, help="with jax: an export in the format keras, which the curves start from")
    add("--trained_dir", type=Path, help="with --export_dir: write the model after the float32 curve as an export")
    return parser


def _show(arguments: argparse.Namespace) -> None:
    """Measures in separate processes, prints a page of Markdown, and writes JSON if --json_file is given."""
    if arguments.backend == "jax":
        check_installed("--backend=jax", {"jax": "jax", "keras": "keras"}, "dev")
    load_all()
    batches, export_dir, trained_dir = arguments.batches_file, arguments.export_dir, arguments.trained_dir
    if export_dir:
        open_keras_export(export_dir)
    if trained_dir and trained_dir.exists():
        raise UserError(f"`trained_dir={trained_dir}` already exists; pass a new folder")
    if arguments.json_file:
        check_outputs({"--json_file": arguments.json_file}, {"--batches_file": batches} if batches else {})
    if arguments.problem:
        check_outputs({"--batches_file": batches}, {str(file): file for file in arguments.data_dir.glob("*")})
        write_batches(arguments.problem, arguments.data_dir, batches)
    if batches:
        read_batches(batches)  # before measuring, which takes minutes
    figures = measure(Wanted(arguments.backend, arguments.minutes, batches, export_dir, trained_dir))
    print(as_page(figures), end="")
    if arguments.json_file:
        write_text(arguments.json_file, json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    prepare_process()
    sys.exit(main())
