"""Local attention in blocks against loops with explicit neighborhoods; steps, reach and memory."""

import numpy as np
import pytest
import tensorflow as tf
from support.layers import random

from t2t_lite.layers.local_attention import LocalSelfAttention
from t2t_lite.layers.self_attention import SelfAttention

HIDDEN, HEADS = 12, 3
SIZES = (2, 4, 8)
# Lengths below, equal to, between and at multiples of the block sizes.
LENGTHS = (1, 3, 4, 8, 11, 16, 17)


def make(paper, causal, neighborhood_size, **how):
    layer = LocalSelfAttention(HIDDEN, HEADS, causal, neighborhood_size, **how)
    layer.build((None, None, HIDDEN))
    paper.randomize(layer, seed=7)
    return layer


def neighborhood(length, neighborhood_size, causal):
    """bool [length, length]: r / 2 positions on both sides and itself, or the last r including itself."""
    allowed = np.zeros((length, length), bool)
    for i, j in np.ndindex(length, length):
        near = i - neighborhood_size < j <= i if causal else abs(i - j) <= neighborhood_size / 2
        allowed[i, j] = near
    return allowed


def everything(length, rows=1):
    return np.ones((rows, 1, 1, length), bool)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("neighborhood_size", SIZES)
@pytest.mark.parametrize("length", LENGTHS)
def test_local_attention_is_attention_masked_to_neighborhoods(length, neighborhood_size, causal, paper):
    layer = make(paper, causal, neighborhood_size)
    x = random(1, length, HIDDEN)
    own = x[0].astype("float64")
    expected = paper.multi_head(layer, own, own, neighborhood(length, neighborhood_size, causal))
    result = np.array(layer(x))
    assert result.shape == x.shape
    np.testing.assert_allclose(result[0], expected, atol=1e-5)
    np.testing.assert_array_equal(layer(x, everything(length)), result)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("neighborhood_size", SIZES)
@pytest.mark.parametrize("how", [{}, {"rotary": True}, {"key_size": 2, "value_size": 5}], ids=str)
def test_padding_is_not_attended_to(how, neighborhood_size, causal, paper, attention_by_loops):
    layer = make(paper, causal, neighborhood_size, **how)
    lengths = (11, 5, 1, 8)
    x = random(len(lengths), 11, HIDDEN)
    mask = np.array([[position < length for position in range(11)] for length in lengths])[:, None, None, :]
    result = np.array(layer(x, mask))
    assert np.isfinite(result).all()
    for row, length in enumerate(lengths):
        allowed = neighborhood(length, neighborhood_size, causal)
        own = x[row, :length].astype("float64")  # the sentence without padding
        expected = attention_by_loops(layer, own, allowed, rotary="rotary" in how)
        np.testing.assert_allclose(result[row, :length], expected, atol=1e-5)


# Stepping.


@pytest.mark.parametrize("causal", [False, True])
def test_attention_weights_are_zero_outside_the_neighborhood(causal, paper):
    layer = make(paper, causal, 4)
    x, mask = random(2, 9, HIDDEN), np.arange(9)[None, :] < np.array([[9], [6]])
    weights = np.array(layer.attention(x, mask[:, None, None, :]))
    assert weights.shape == (2, HEADS, 9, 9)
    np.testing.assert_allclose(weights[0].sum(-1), 1.0, atol=1e-6)
    far = np.arange(9)[None, :] - np.arange(9)[:, None]
    # The weights of padding positions do not matter; positions that see only padding have uniform weights.
    assert not weights[0][:, (far < -layer.before) | (far > layer.after)].any() and not weights[1, :, :6, 6:].any()
    values = np.array(layer.heads(x, np.arange(9))[1][1])
    np.testing.assert_allclose(layer.combine_heads(weights @ values)[0], layer(x, mask[:, None, None, :])[0], atol=1e-5)


# Memory.


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
