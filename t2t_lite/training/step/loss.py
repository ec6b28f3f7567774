"""Cross-entropy with label smoothing (section 5.4 of the paper)."""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import tensorflow as tf

from t2t_lite.arrays import static_size

Number = TypeVar("Number", tf.Tensor, float)


class LossSums(NamedTuple, Generic[Number]):
    """Sums over the real tokens of a batch, to be divided by the `tokens` of the whole global batch.

    Only `smoothed` is differentiable.
    """

    smoothed: Number  # float32, the training objective
    plain: Number  # float32, negative log-likelihood in nats: perplexity is exp(plain / tokens)
    tokens: Number  # float32, number of real target tokens


def smoothed_cross_entropy(logits: tf.Tensor, targets: tf.Tensor, label_smoothing: float) -> LossSums[tf.Tensor]:
    """Cross-entropy against (1 - eps) on the target plus eps spread evenly over the vocabulary, in float32.

    Args:
      logits: float [batch, length, vocab].
      targets: int32 [batch, length]; 0 is padding and does not count.
      label_smoothing: eps.
    """
    vocab_size = logits.shape[-1]
    labels = tf.reshape(targets, [-1])
    weights = tf.cast(tf.not_equal(labels, 0), tf.float32)
    smoothed, plain = _per_position(tf.reshape(logits, [-1, vocab_size]), labels, label_smoothing)
    return LossSums(tf.reduce_sum(smoothed * weights), tf.reduce_sum(plain * weights), tf.reduce_sum(weights))


def _per_position(logits: tf.Tensor, labels: tf.Tensor, label_smoothing: float) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns (smoothed, plain) losses, float32 [positions], of logits [positions, vocab].

    One operation with its own gradient: smoothed = CE + eps * (logit of the target - mean logit), whose gradient is
    softmax - (1 - eps) * onehot - eps / vocab. Automatic differentiation would need several more passes over
    [positions, vocab], and on a CPU TensorFlow's fused cross-entropy kernel takes twice as long as its softmax kernel.
    """

    @tf.custom_gradient
    def compute(logits: tf.Tensor) -> tuple[tuple[tf.Tensor, tf.Tensor], Callable[..., tf.Tensor]]:
        given_dtype = logits.dtype
        vocab_size = static_size(logits, -1)
        logits = tf.cast(logits, tf.float32)
        at_label = tf.stack([tf.range(tf.size(labels)), labels], axis=1)  # [positions, 2]
        softmax = tf.nn.softmax(logits)
        # log-sum-exp from the most probable token, whose probability is at least 1 / vocab and never underflows.
        normalizer = tf.reduce_max(logits, axis=-1) - tf.math.log(tf.reduce_max(softmax, axis=-1))
        target_logits = tf.gather_nd(logits, at_label)
        plain = normalizer - target_logits
        smoothed = plain + label_smoothing * (target_logits - tf.reduce_mean(logits, axis=-1))

        def backward(upstream: tf.Tensor, upstream_plain: tf.Tensor) -> tf.Tensor:
            del upstream_plain  # `plain` is only reported
            scaled = (softmax - label_smoothing / vocab_size) * upstream[:, None]
            scaled = tf.tensor_scatter_nd_sub(scaled, at_label, (1.0 - label_smoothing) * upstream)
            return tf.cast(scaled, given_dtype)

        return (smoothed, plain), backward

    return compute(logits)  # pyright: ignore[reportReturnType]  the decorator drops the gradient function
