"""A graph over pairs of padded sequences."""

import threading
from collections.abc import Callable

import numpy as np
import tensorflow as tf


class PairGraph:
    """Runs a function of inputs and targets, both int32 [batch, length], as a graph for all shapes. It is thread-safe.

    Args:
      function: returns a tensor.
    """

    def __init__(self, function: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]) -> None:
        ids = tf.TensorSpec([None, None], tf.int32)
        self._function = tf.function(function, input_signature=[ids, ids], autograph=False)
        self._graph: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None = None
        self._lock = threading.Lock()

    def __call__(self, inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Returns the function's result. The first call makes the graph."""
        with self._lock:
            # Made explicitly, because TensorFlow warns of many graphs made by calls, as those of several models.
            graph = self._graph = self._graph or self._function.get_concrete_function()
        return graph(tf.constant(inputs, tf.int32), tf.constant(targets, tf.int32)).numpy()
