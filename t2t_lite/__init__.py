"""t2t-lite: the Transformer system of "Attention Is All You Need" on today's TensorFlow and Keras."""

__version__ = "0.1.0"
