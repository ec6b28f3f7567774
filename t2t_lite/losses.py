"""The loss of section 5.4 of the paper, for Keras' `compile`."""

import keras

from t2t_lite.arrays import Array
from t2t_lite.errors import UserError
from t2t_lite.layers.ops import ops

_REDUCTIONS = ("mean_with_sample_weight", "sum", "none")


@keras.saving.register_keras_serializable(package="t2t_lite")
class SmoothedCrossEntropy(keras.losses.Loss):
    """Cross-entropy against (1 - eps) on the target plus eps spread evenly over the vocabulary, in float32.

    Padding (id 0) does not count. t2t-lite-trainer minimizes this loss.

    Args:
      label_smoothing: eps.
      reduction: "mean_with_sample_weight": the sum over the real tokens, divided by their number; with sample weights,
        the weighted mean. "sum": the (weighted) sum over the real tokens. "none" or None: one loss per position,
        weighted, 0 at padding.
      name: the name of the loss.

    Call arguments:
      y_true: int [batch, length], padded with 0.
      y_pred: the logits, float [batch, length, vocab].
      sample_weight: float [batch] for whole sentences or [batch, length] for tokens; None: 1.

    Raises:
      UserError: if eps is not in [0, 1), or for any other reduction: Keras' "mean" and "sum_over_batch_size" would
        divide by the number of positions, padding included.

    Example:

    >>> loss = SmoothedCrossEntropy(label_smoothing=0.1)
    >>> round(float(loss(ops.array([[3, 1, 0]]), ops.zeros((1, 3, 8)))), 4)  # the logarithm of 8
    2.0794
    """

    def __init__(
        self,
        label_smoothing: float = 0.1,
        reduction: str | None = "mean_with_sample_weight",
        name: str = "smoothed_cross_entropy",
    ) -> None:
        if not 0.0 <= label_smoothing < 1.0:
            raise UserError(f"label_smoothing={label_smoothing} is out of range: it must be at least 0 and below 1")
        if (reduction or "none") not in _REDUCTIONS:
            raise UserError(f"reduction={reduction!r} would count padding; use one of {', '.join(_REDUCTIONS)}")
        super().__init__(name=name, reduction=reduction or "none", dtype="float32")
        self.label_smoothing = label_smoothing

    def __call__(self, y_true: Array, y_pred: Array, sample_weight: Array | None = None) -> Array:
        """Returns the reduced loss, float32: a scalar, or [batch, length] without reduction."""
        weights = ops.cast(ops.not_equal(y_true, 0), "float32")
        if sample_weight is not None:
            given = ops.cast(sample_weight, "float32")
            weights = weights * (given[:, None] if len(given.shape) == 1 else given)
        return super().__call__(y_true, y_pred, weights)

    def call(self, y_true: Array, y_pred: Array) -> Array:
        """Returns the loss of each position, padding included, float32 [batch, length]."""
        # CE + eps * (logit of the target - mean logit) equals the cross-entropy against the smoothed distribution.
        targets = ops.cast(y_true, "int32")[:, :, None]
        target_logits = ops.take_along_axis(y_pred, targets, axis=-1)[:, :, 0]
        plain = ops.logsumexp(y_pred, axis=-1) - target_logits
        return plain + self.label_smoothing * (target_logits - ops.mean(y_pred, axis=-1))

    def get_config(self) -> dict[str, object]:
        """Returns the constructor's arguments."""
        return {"label_smoothing": self.label_smoothing, "reduction": self.reduction, "name": self.name}
