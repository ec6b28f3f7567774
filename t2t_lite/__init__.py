"""t2t-lite: the Transformer system of "Attention Is All You Need" on current TensorFlow and Keras."""

import sys

from t2t_lite import registry
from t2t_lite.quiet import QuietFinder

__version__ = "0.2.0"


def _load_all_once() -> None:
    from t2t_lite import plugins  # only when a name is missing: it looks for installed packages

    plugins.load_all_once()


registry.set_loader(_load_all_once)
sys.meta_path.insert(0, QuietFinder())
