"""The flags that name folders with user code and allow it to run."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path


def add_plugin_flags(parser: argparse.ArgumentParser, runs: bool) -> None:
    """Adds the flags; `runs`: whether the command opens run directories, which may name plug-ins."""
    parser.add_argument(
        "--t2t_usr_dir",
        type=os.path.expanduser,
        metavar="DIR",
        help="a folder with your Python files that register problems, hparam sets, models, metrics and so on",
    )
    if runs:
        parser.add_argument(
            "--trust_plugins",
            action="store_true",
            help="permanently trust the folder of --t2t_usr_dir and the folders that the run names: their code runs "
            "whenever a run names them",
        )


def trust_plugins(arguments: argparse.Namespace, runs: Sequence[str]) -> None:
    """Applies --trust_plugins, if given. Call it before the run directories are opened."""
    from t2t_lite.plugins.trust import trust
    from t2t_lite.run_dir import trust_plugins_of

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
