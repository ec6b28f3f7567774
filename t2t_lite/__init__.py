"""t2t-lite: the Transformer system of "Attention Is All You Need" on current TensorFlow and Keras."""

import sys

from t2t_lite.quiet import QuietFinder

__version__ = "0.2.0"

sys.meta_path.insert(0, QuietFinder())
