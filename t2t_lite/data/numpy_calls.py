"""Calls of NumPy functions from input pipelines that do not block the end of the program.

A pipeline reads ahead in threads. If such a thread calls a Python function when the interpreter ends, it waits for
ever, and so does the end of the pipeline's iterator. Therefore no call starts any more when the program ends.
"""

import atexit
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.arrays import Array

# At the end of the program, pipelines have stopped if none has called a function for this long.
_QUIET_SECONDS = 0.05


class _Calls:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._last = 0.0  # the time of the last call
        self._is_ended = False

    def run(self, function: Callable[..., Any], arguments: Sequence[np.ndarray]) -> Any:  # noqa: ANN401
        """Returns what a function returns. Raises RuntimeError if the program ends."""
        with self._lock:
            self._last = time.monotonic()
            if self._is_ended:
                raise RuntimeError("the program ends")
            self._running += 1
        try:
            return function(*arguments)
        finally:
            with self._lock:
                self._running -= 1
                self._last = time.monotonic()

    def end(self) -> None:
        """Lets further calls fail, and waits until there are none."""
        self._is_ended = True
        while self._running or time.monotonic() - self._last < _QUIET_SECONDS:
            time.sleep(_QUIET_SECONDS / 5)


_calls = _Calls()
atexit.register(_calls.end)


def call_numpy(function: Callable[..., Any], arguments: Sequence[Array], dtypes: Sequence[tf.DType]) -> list[tf.Tensor]:
    """Returns the tensors that a function of NumPy arrays returns, one for each type. For input pipelines.

    The function must not depend on anything but its arguments.
    """

    def call(*arrays: np.ndarray) -> Any:  # noqa: ANN401
        return _calls.run(function, arrays)

    return tf.nest.flatten(tf.numpy_function(call, list(arguments), list(dtypes), stateful=False))
