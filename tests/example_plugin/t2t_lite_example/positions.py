"""A position encoding: the binary digits of the position."""

import keras
from keras import ops

from t2t_lite.layers.positions import PositionEncoding


@keras.saving.register_keras_serializable(package="t2t_lite_example")
class BinaryPositions(PositionEncoding):
    """Adds 1 to channel i if digit i of the position is set, and subtracts 1 otherwise; for the first 16 digits."""

    def encode(self, positions):
        """Returns the vectors of int positions [length]: float [length, hidden]."""
        digits = ops.arange(self.hidden_size)
        is_set = ops.bitwise_and(ops.right_shift(positions[:, None], ops.minimum(digits, 16)[None]), 1)
        return ops.where(digits < 16, 2 * ops.cast(is_set, "float32") - 1, 0.0)


def binary_positions(hparams, **options):
    """Returns the encoding for a model with these settings."""
    return BinaryPositions(hparams.hidden_size, **options)
