"""Private parts of TensorFlow and Keras that have no public equivalent.

tests/training/test_private_names.py checks that they still work.
"""

import contextlib
from collections.abc import Iterator

import keras
import tensorflow as tf
from tensorflow.python.distribute.collective_all_reduce_strategy import CollectiveAllReduceExtended

# Methods of Keras optimizers that handle all variables. An optimizer that overrides one of them cannot update each
# variable separately.
OF_ALL_VARIABLES = ("apply", "_backend_update_step", "_apply_weight_decay")


def number_collectives_anew() -> None:
    """Makes the next `MirroredStrategy` use new keys for its collectives, as TensorFlow's own tests do.

    Otherwise, they could clash with those of an earlier strategy in the same process, for example in a notebook.
    """
    tf.distribute.MirroredStrategy._collective_key_base += 1000


@contextlib.contextmanager
def cpus_as_devices(number: int) -> Iterator[None]:
    """Makes MultiWorkerMirroredStrategy use `number` CPU devices per worker inside the block; 0: its default, one."""

    def local_devices(extended: object, resolver: object, worker: str) -> tuple[tuple[str, ...], str]:
        del extended, resolver
        return tuple(f"{worker}/device:CPU:{i}" for i in range(number)), "CPU"

    original = CollectiveAllReduceExtended._initialize_local_devices
    if number:
        CollectiveAllReduceExtended._initialize_local_devices = local_devices  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        CollectiveAllReduceExtended._initialize_local_devices = original


def has_schedule(rule: keras.optimizers.Optimizer) -> bool:
    """Returns whether an optimizer has a learning rate schedule; the public `learning_rate` is only its next value."""
    return isinstance(rule._learning_rate, keras.optimizers.schedules.LearningRateSchedule)
