"""The flags that say where code of the user's is, and that it may run."""

import argparse
import os
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
            help="trust the folder of --t2t_usr_dir, else the one that the run names: from now on its code runs when a "
            "run names it",
        )


def trust_plugins(arguments: argparse.Namespace, runs: Sequence[str]) -> None:
    """Does what --trust_plugins asks for, if it was given, before these run directories are opened."""
    from t2t_lite.run_dir import trust_plugins_of
    from t2t_lite.trust import trust

    if not arguments.trust_plugins:
        return
    if arguments.t2t_usr_dir:
        trust(Path(arguments.t2t_usr_dir))
        return
    for run in runs:
        trust_plugins_of(Path(run))
