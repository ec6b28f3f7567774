"""Cross-entropy with label smoothing (section 5.4 of the paper), from the logits or from their two factors.

The logits of a batch and their copies are the largest tensors of a training step: 131 MB each for 4,096 tokens and a
vocabulary of 8,000. `linear_cross_entropy` therefore computes the logits of one chunk of positions at a time. It
computes the gradient in the forward pass, because that needs the same logits (as in Hsu et al. 2024, arXiv
2410.10989, and Wijmans et al. 2024, arXiv 2411.09009).

R-Drop (Wu et al. 2021, arXiv 2106.14448) trains two passes with different dropout to give similar distributions.
"""

from typing import Any, NamedTuple

import keras

from t2t_lite.arrays import Array
from t2t_lite.layers.ops import matmul_transposed, ops

# The usual number of positions in a chunk is half the hidden size, within these bounds, measured on a CPU with hidden
# sizes of 128 and 512. In smaller chunks, summing the weight's gradients takes more time than chunks save; in larger
# ones, the logits exceed the processor's caches.
_FEWEST_POSITIONS, _MOST_POSITIONS = 96, 1024

# A softmax probability below this may have lost digits or be rounded to 0.
_SMALLEST_PROBABILITY = 1e-30


class CrossEntropySums(NamedTuple):
    """Sums over the real tokens of a batch, float32 scalars. Only `smoothed` is differentiable."""

    smoothed: Array  # cross-entropy against (1 - eps) on the target plus eps spread evenly over the vocabulary, in nats
    plain: Array  # negative log-likelihood of the targets, in nats
    correct: Array | None = None  # number of targets with the largest logit; None: not counted


def largest_chunk(hidden_size: int) -> int:
    """Returns the maximum number of positions in a chunk; with several chunks, each has at least half as many."""
    usual = min(max(hidden_size // 2, _FEWEST_POSITIONS), _MOST_POSITIONS)
    return 3 * usual // 2


def linear_cross_entropy(
    x: Array, weight: Array, targets: Array, label_smoothing: float, trains: bool = True, max_chunk: int | None = None
) -> CrossEntropySums:
    """Returns the cross-entropy of the logits, which are x times the transposed weight.

    The computation, gradient included, is in float32; only the matrix products have the type of `x`.

    Args:
      x: float [positions, hidden], the decoder's output.
      weight: float [vocab, hidden], the weight of the projection, or the embedding matrix tied to it.
      targets: int [positions]; 0 is padding and does not count.
      label_smoothing: eps.
      trains: whether gradients are needed; if not, there are fewer matrix products, and `correct` is counted.
      max_chunk: maximum number of positions whose logits exist at a time; None: `largest_chunk`.
    """
    weight = ops.cast(weight, weight.dtype)  # reads the variable, because custom gradients in TensorFlow reject it
    positions, hidden_size = ops.shape(x)[0], x.shape[1]
    num_chunks = 1 + positions // (max_chunk or largest_chunk(hidden_size))
    size = -(-positions // num_chunks)  # equal chunks need little padding
    missing = num_chunks * size - positions
    targets = ops.pad(ops.cast(targets, "int32"), ((0, missing),))
    is_token = ops.cast(targets != 0, "float32")[:, None]
    # 16-bit products of the softmax alone have too few digits to subtract the targets' part afterwards.
    subtracts_rows = x.dtype == "float32" and not _is_fused()
    subtracted = label_smoothing if trains and not subtracts_rows else None

    def compute(x: Array, weight: Array) -> tuple[Any, Any]:
        matrix, padded = ops.cast(weight, x.dtype), ops.pad(x, ((0, missing), (0, 0)))
        of_tokens = padded * ops.cast(is_token, x.dtype)

        def add_chunk(number: Array, sums: Array, dx: Array, dweight: Array) -> tuple[Array, ...]:
            start, shape = (number * size, 0), (size, hidden_size)
            logits = matmul_transposed(ops.slice(padded, start, shape), matrix, transpose_y=True)
            of_chunk = ops.slice(targets, start[:1], shape[:1])
            added, dlogits = _sums_and_gradient(logits, of_chunk, subtracted, counts_correct=not trains)
            if trains:
                dx = ops.scatter_update(dx, [[number]], ops.matmul(dlogits, matrix)[None])
                product = matmul_transposed(dlogits, ops.slice(of_tokens, start, shape), transpose_x=True)
                dweight = dweight + ops.cast(product, "float32")
            return number + 1, sums + added, dx, dweight

        gradients = (0, 0)
        if trains:
            gradients = (ops.zeros((num_chunks, size, hidden_size), x.dtype), ops.zeros_like(weight, "float32"))
        start = (0, ops.zeros(2 if trains else 3, "float32"), *gradients)
        _, sums, dx, dweight = ops.while_loop(lambda number, *_: number < num_chunks, add_chunk, start)
        # The mean logit of a position is x times the mean weight.
        sum_of_x = ops.sum(ops.cast(of_tokens, "float32"), axis=0)
        mean_weight = ops.mean(ops.cast(weight, "float32"), axis=0)

        def backward(*upstream: Array) -> tuple[Array, Array]:
            factor = smoothed_gradient(upstream)
            of_x = ops.cast(ops.reshape(dx, (-1, hidden_size)), "float32") - label_smoothing * mean_weight
            of_weight = dweight - label_smoothing / weight.shape[0] * sum_of_x
            if subtracts_rows:  # for each target, a row of each product instead of one element of dlogits
                of_x = of_x - (1.0 - label_smoothing) * ops.take(weight, targets, axis=0)
                of_weight = of_weight - (1.0 - label_smoothing) * ops.segment_sum(of_tokens, targets, weight.shape[0])
            of_x = (of_x * is_token * factor)[:positions]
            return ops.cast(of_x, x.dtype), ops.cast(of_weight * factor, weight.dtype)

        return _results(sums, ops.sum(sum_of_x * mean_weight), label_smoothing), backward

    return CrossEntropySums(*ops.custom_gradient(compute)(x, weight))


def cross_entropy(logits: Array, targets: Array, label_smoothing: float) -> CrossEntropySums:
    """Returns the cross-entropy of logits, computed in float32 together with its gradient.

    It has a custom gradient, because automatic differentiation would need several more passes over the logits.

    Args:
      logits: float [positions, vocab].
      targets, label_smoothing: see `linear_cross_entropy`.
    """
    targets = ops.cast(targets, "int32")
    is_token = ops.cast(targets != 0, "float32")

    def compute(logits: Array) -> tuple[Any, Any]:
        sums, softmax, probs = _sums_and_softmax(logits, targets, counts_correct=True)
        dlogits = _with_targets(softmax, targets, probs, label_smoothing, logits.dtype)
        sum_of_means = ops.sum(ops.mean(ops.cast(logits, "float32"), axis=-1) * is_token)

        def backward(*upstream: Array) -> Array:
            whole = ops.cast(dlogits, "float32") - label_smoothing / ops.shape(logits)[1]
            return ops.cast(whole * (is_token * smoothed_gradient(upstream))[:, None], logits.dtype)

        return _results(sums, sum_of_means, label_smoothing), backward

    return CrossEntropySums(*ops.custom_gradient(compute)(logits))


def _sums_and_softmax(logits: Array, targets: Array, counts_correct: bool) -> tuple[Array, Array, Array]:
    """Returns sums over the tokens, and the softmax of the logits.

    Arguments: see `cross_entropy`.

    Returns:
      ((sum of `plain`, sum of the targets' logits, `correct` if counted), float32 [2 or 3]; the softmax, float32
      [positions, vocab]; the targets' probabilities, float32 [positions]).
    """
    positions, vocab_size = ops.shape(logits)
    logits = ops.cast(logits, "float32")
    softmax = ops.softmax(logits)
    places = ops.arange(positions, dtype="int32") * vocab_size + targets
    target_logits, probs = (ops.take(ops.reshape(x, (-1,)), places) for x in (logits, softmax))
    log_probs = _log_probs(logits, target_logits, ops.where(targets != 0, probs, 1.0))
    summands = [-log_probs, target_logits]
    if counts_correct:
        summands.append(ops.cast(target_logits >= ops.max(logits, axis=-1), "float32"))
    return ops.sum(ops.stack(summands) * ops.cast(targets != 0, "float32"), axis=1), softmax, probs


def _is_fused() -> bool:
    # JAX always compiles with XLA, which fuses many operations into few passes over the logits.
    return keras.backend.backend() == "jax"


def _sums_and_gradient(
    logits: Array, targets: Array, label_smoothing: float | None, counts_correct: bool
) -> tuple[Array, Array]:
    """Returns the sums of `_sums_and_softmax` and the result of `_with_targets`, or the softmax if eps is None."""
    if label_smoothing is None or not _is_fused():
        sums, softmax, probs = _sums_and_softmax(logits, targets, counts_correct)
        if label_smoothing is None:
            return sums, softmax
        return sums, _with_targets(softmax, targets, probs, label_smoothing, logits.dtype)
    dtype, logits = logits.dtype, ops.cast(logits, "float32")
    is_target = ops.arange(logits.shape[1], dtype="int32") == targets[:, None]
    shifted = logits - ops.max(logits, axis=-1, keepdims=True)
    log_sum = ops.log(ops.sum(ops.exp(shifted), axis=-1, keepdims=True))
    target_logits, target_shifted = (ops.sum(ops.where(is_target, x, 0.0), axis=-1) for x in (logits, shifted))
    summands = ops.stack([log_sum[:, 0] - target_shifted, target_logits])
    gradient = ops.exp(shifted - log_sum) - ops.where(is_target, 1.0 - label_smoothing, 0.0)
    return ops.sum(summands * ops.cast(targets != 0, "float32"), axis=1), ops.cast(gradient, dtype)


def _with_targets(softmax: Array, targets: Array, probs: Array, label_smoothing: float, dtype: str) -> Array:
    """Returns softmax - (1 - eps) * onehot in a dtype: the gradient of the logits without the mean logit's term."""
    places = ops.stack([ops.arange(ops.shape(targets)[0], dtype="int32"), targets], axis=1)
    return ops.scatter_update(ops.cast(softmax, dtype), places, ops.cast(probs - (1.0 - label_smoothing), dtype))


def _log_probs(logits: Array, target_logits: Array, probs: Array) -> Array:
    """Returns the log-probabilities of the targets, computed from the logits if a probability underflows."""
    underflow = ops.min(probs) < _SMALLEST_PROBABILITY
    return ops.cond(underflow, lambda: target_logits - ops.logsumexp(logits, axis=-1), lambda: ops.log(probs))


def _results(sums: Array, sum_of_means: Array, label_smoothing: float) -> list[Array]:
    """Returns the `CrossEntropySums`, with CE + eps * (logit of the target - mean logit) for `smoothed`."""
    plain, target_logits, *correct = ops.unstack(sums)
    return [plain + label_smoothing * (target_logits - sum_of_means), plain, *correct]


def smoothed_gradient(upstream: tuple[Array, ...]) -> Array:
    """Returns the gradient of `smoothed`. JAX passes one tuple for all results, TensorFlow one argument per result."""
    return keras.tree.flatten(upstream)[0]


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
            added, dlogits = _rdrop_sums_and_gradient(
                logits, ops.slice(targets, (start,), (size,)), label_smoothing, alpha
            )
            dlogits = ops.cast(ops.reshape(dlogits, (2 * size, weight.shape[0])), x.dtype)
            of_x = ops.reshape(ops.matmul(dlogits, matrix), (1, 2, size, hidden_size))
            product = matmul_transposed(dlogits, of_chunk, transpose_x=True)
            dx = ops.scatter_update(dx, [[number]], of_x)
            return number + 1, sums + added, dx, dweight + ops.cast(product, "float32")

        gradients = (ops.zeros((num_chunks, 2, size, hidden_size), x.dtype), ops.zeros_like(weight, "float32"))
        start = (0, ops.zeros(2, "float32"), *gradients)
        _, sums, dx, dweight = ops.while_loop(lambda number, *_: number < num_chunks, add_chunk, start)

        def backward(*upstream: Array) -> tuple[Array, Array]:
            factor = smoothed_gradient(upstream)
            of_x = ops.reshape(ops.swapaxes(dx, 0, 1), (2, -1, hidden_size))[:, :positions]
            return ops.cast(ops.cast(of_x, "float32") * factor, x.dtype), ops.cast(dweight * factor, weight.dtype)

        return ops.unstack(sums), backward

    return CrossEntropySums(*ops.custom_gradient(compute)(x, weight))


def _rdrop_sums_and_gradient(
    logits: Array, targets: Array, label_smoothing: float, alpha: float
) -> tuple[Array, Array]:
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
