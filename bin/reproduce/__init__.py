"""t2t-lite-reproduce: the command and its parts."""

from t2t_lite.bin.reproduce.command import main, make_parser

__all__ = ["main", "make_parser"]
