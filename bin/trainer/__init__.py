"""t2t-lite-trainer: the command and its parts."""

from t2t_lite.bin.trainer.command import main, make_parser

__all__ = ["main", "make_parser"]
