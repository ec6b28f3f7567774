"""The flags that say where code of the user's is, and that it may run."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path


def add_plugin_flags(parser: argparse.ArgumentParser, runs: bool) -> None:
    """Adds them; `runs` says whether the command opens run directories, which may name plug-ins."""
    parser.add_argument(
        "--t2t_usr_dir",
        type=os.path.expanduser,
        metavar="DIR",
        help="a folder with Python files of yours that register problems, hparam sets or models",
    )
    if runs:
        parser.add_argument(
            "--trust_plugins",
            action="store_true",
            help="trust the folder of --t2t_usr_dir and those that the run names: from now on their code runs when a "
            "run names them",
        )


def trust_plugins(arguments: argparse.Namespace, runs: Sequence[str]) -> None:
    """Does what --trust_plugins asks for, if it was given, before these run directories are opened."""
    from t2t_lite.run_dir import trust_plugins_of
    from t2t_lite.trust import trust

    if not arguments.trust_plugins:
        return
    folders = []
    if arguments.t2t_usr_dir:
        folders.append(Path(arguments.t2t_usr_dir).resolve())
        trust(folders[0])
    for run in runs:
        folders += trust_plugins_of(Path(run))
    for folder in dict.fromkeys(folders):
        print(f"trusted from now on: {folder}", file=sys.stderr)
