"""t2t-lite-datagen: the command and its parts."""

from t2t_lite.bin.datagen.command import main, make_parser

__all__ = ["main", "make_parser"]
