"""t2t-lite-score: the command and its parts."""

from t2t_lite.bin.score.command import main, make_parser

__all__ = ["main", "make_parser"]
