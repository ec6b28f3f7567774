"""t2t-lite-benchmark: the command and its parts."""

from t2t_lite.bin.benchmark.command import main, make_parser

__all__ = ["main", "make_parser"]
