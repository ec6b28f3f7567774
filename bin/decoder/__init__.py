"""t2t-lite-decoder: the command and its parts."""

from t2t_lite.bin.decoder.command import main, make_parser

__all__ = ["main", "make_parser"]
