"""Keras' operations. They have no annotations, and type checkers infer that most of them may return None."""

from typing import Any

import keras

ops: Any = keras.ops
