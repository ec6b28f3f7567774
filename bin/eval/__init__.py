"""t2t-lite-eval: the command and its parts."""

from t2t_lite.bin.eval.command import main, make_parser

__all__ = ["main", "make_parser"]
