"""Local attention in blocks against loops with explicit neighborhoods; memory."""

import numpy as np
import pytest
import tensorflow as tf
from support.layers import built, random

from t2t_lite.layers.local_attention import LocalSelfAttention
from t2t_lite.layers.self_attention import SelfAttention

HIDDEN, HEADS = 12, 3
SIZES = (2, 4, 8)
# Lengths below, equal to, between and at multiples of the block sizes.
LENGTHS = (1, 3, 4, 8, 11, 16, 17)


def make(paper, causal, neighborhood_size, **how):
    return built(LocalSelfAttention(HIDDEN, HEADS, causal, neighborhood_size, **how), paper, HIDDEN)


def neighborhood(length, neighborhood_size, causal):
    """bool [length, length]: r / 2 positions on both sides and itself, or the last r including itself."""
    allowed = np.zeros((length, length), bool)
    for i, j in np.ndindex(length, length):
        near = i - neighborhood_size < j <= i if causal else abs(i - j) <= neighborhood_size / 2
        allowed[i, j] = near
    return allowed


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("neighborhood_size", SIZES)
@pytest.mark.parametrize("how", [{}, {"rotary": True}, {"key_size": 2, "value_size": 5}], ids=str)
def test_local_attention_is_attention_within_neighborhoods(how, neighborhood_size, causal, paper, attention_by_loops):
    layer = make(paper, causal, neighborhood_size, **how)
    for padded in LENGTHS:
        lengths = [padded, *(length for length in (1, 5, 8) if length < padded)]
        x = random(len(lengths), padded, HIDDEN)
        mask = (np.arange(padded) < np.array(lengths)[:, None])[:, None, None]
        result = np.array(layer(x, mask))
        assert result.shape == x.shape and np.isfinite(result).all()
        np.testing.assert_array_equal(layer(x[:1]), layer(x[:1], mask[:1]))
        for row, length in enumerate(lengths):
            allowed = neighborhood(length, neighborhood_size, causal)
            own = x[row, :length].astype("float64")  # the sentence without padding
            expected = attention_by_loops(layer, own, allowed, rotary="rotary" in how)
            np.testing.assert_allclose(result[row, :length], expected, atol=1e-5)


def largest_tensor(layer, length):
    """Returns the number of elements of the largest tensor in one sentence's graph, including nested functions."""
    run = tf.function(lambda x, mask: layer(x, mask))
    given = tf.TensorSpec((1, length, HIDDEN)), tf.TensorSpec((1, 1, 1, length), tf.bool)
    graph = run.get_concrete_function(*given).graph
    operations = graph.get_operations()
    for function in graph.as_graph_def().library.function:
        operations += graph._get_function(function.signature.name).graph.get_operations()
    shapes = [output.shape for operation in operations for output in operation.outputs]
    assert all(shape.is_fully_defined() for shape in shapes)
    return max(shape.num_elements() for shape in shapes)


@pytest.mark.parametrize("causal", [False, True])
def test_no_tensor_grows_quadratically_with_the_length(causal, paper):
    layer = make(paper, causal, 8)
    largest = largest_tensor(layer, 512)
    assert largest < 512 * 64
    assert largest == 2 * largest_tensor(layer, 256)
    full = SelfAttention(HIDDEN, HEADS, causal)
    full.build((None, None, HIDDEN))
    assert largest_tensor(full, 512) == HEADS * 512 * 512  # the measurement finds quadratic tensors
