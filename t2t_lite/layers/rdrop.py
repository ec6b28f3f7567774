"""R-Drop (Wu et al. 2021, arXiv 2106.14448): trains two passes with different dropout to give similar distributions."""

from typing import Any

from t2t_lite.arrays import Array
from t2t_lite.layers.cross_entropy import CrossEntropySums, largest_chunk, smoothed_gradient
from t2t_lite.layers.ops import matmul_transposed, ops


def linear_rdrop(
    x: Array, weight: Array, targets: Array, label_smoothing: float, alpha: float, max_chunk: int | None = None
) -> CrossEntropySums:
    """Returns the loss of two passes whose logits are x times the transposed weight.

    For each token, `smoothed` is the mean of both cross-entropies plus alpha / 4 times the sum of both Kullback-Leibler
    divergences: half of the paper's equation 4, so that the loss keeps its usual scale. `plain` is the mean of both
    negative log-likelihoods. As in `linear_cross_entropy`, the logits exist for one chunk at a time.

    Args:
      x: float [2, positions, hidden], the decoder's outputs.
      weight: float [vocab, hidden].
      targets: int [positions]; 0 is padding and does not count.
      label_smoothing: eps.
      alpha: weight of the divergence.
      max_chunk: maximum number of positions whose logits exist at a time; None: half of `largest_chunk`.
    """
    weight = ops.cast(weight, weight.dtype)  # reads the variable, because custom gradients in TensorFlow reject it
    positions, hidden_size = ops.shape(x)[1], x.shape[2]
    num_chunks = 1 + positions // (max_chunk or largest_chunk(hidden_size) // 2)
    size = -(-positions // num_chunks)
    missing = num_chunks * size - positions
    targets = ops.pad(ops.cast(targets, "int32"), ((0, missing),))

    def compute(x: Array, weight: Array) -> tuple[Any, Any]:
        matrix, padded = ops.cast(weight, x.dtype), ops.pad(x, ((0, 0), (0, missing), (0, 0)))

        def add_chunk(number: Array, sums: Array, dx: Array, dweight: Array) -> tuple[Array, ...]:
            start = number * size
            of_chunk = ops.reshape(ops.slice(padded, (0, start, 0), (2, size, hidden_size)), (-1, hidden_size))
            logits = matmul_transposed(of_chunk, matrix, transpose_y=True)
            logits = ops.cast(ops.reshape(logits, (2, size, weight.shape[0])), "float32")
            added, dlogits = _sums_and_gradient(logits, ops.slice(targets, (start,), (size,)), label_smoothing, alpha)
            dlogits = ops.cast(ops.reshape(dlogits, (2 * size, weight.shape[0])), x.dtype)
            of_x = ops.reshape(ops.matmul(dlogits, matrix), (1, 2, size, hidden_size))
            product = matmul_transposed(dlogits, of_chunk, transpose_x=True)
            return (
                number + 1,
                sums + added,
                ops.scatter_update(dx, [[number]], of_x),
                dweight + ops.cast(product, "float32"),
            )

        gradients = (ops.zeros((num_chunks, 2, size, hidden_size), x.dtype), ops.zeros_like(weight, "float32"))
        start = (0, ops.zeros(2, "float32"), *gradients)
        _, sums, dx, dweight = ops.while_loop(lambda number, *_: number < num_chunks, add_chunk, start)

        def backward(*upstream: Array) -> tuple[Array, Array]:
            factor = smoothed_gradient(upstream)
            of_x = ops.reshape(ops.swapaxes(dx, 0, 1), (2, -1, hidden_size))[:, :positions]
            return ops.cast(ops.cast(of_x, "float32") * factor, x.dtype), ops.cast(dweight * factor, weight.dtype)

        return ops.unstack(sums), backward

    return CrossEntropySums(*ops.custom_gradient(compute)(x, weight))


def _sums_and_gradient(logits: Array, targets: Array, label_smoothing: float, alpha: float) -> tuple[Array, Array]:
    """Returns (the sums of the loss and the negative log-likelihood, float32 [2]; the gradient of the logits).

    The logits and their gradient are float32 [2, positions, vocab].
    """
    is_token = ops.cast(targets != 0, "float32")
    log_probs = ops.log_softmax(logits)
    probs = ops.exp(log_probs)
    onehot = ops.one_hot(targets, logits.shape[-1])
    plain = -ops.sum(log_probs * onehot, axis=-1)
    smoothed = (1.0 - label_smoothing) * plain - label_smoothing * ops.mean(log_probs, axis=-1)
    difference = log_probs - ops.flip(log_probs, axis=0)
    divergence = ops.sum(probs * difference, axis=-1)  # of each pass from the other, [2, positions]
    losses = smoothed / 2.0 + alpha / 4.0 * divergence
    of_smoothed = probs - (1.0 - label_smoothing) * onehot - label_smoothing / logits.shape[-1]
    of_divergence = probs * (difference - divergence[:, :, None]) + probs - ops.flip(probs, axis=0)
    gradient = (of_smoothed / 2.0 + alpha / 4.0 * of_divergence) * is_token[:, None]
    return ops.sum(ops.stack([losses, plain / 2.0]) * is_token, axis=(1, 2)), gradient
