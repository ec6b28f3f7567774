"""Self-attention with head sizes, rotations, relative positions and neighborhoods against loops; dropout; memory."""

import math

import numpy as np
import pytest
import tensorflow as tf
from support.layers import attention_by_loops, built, random
from support.seeds import seeds_of

from t2t_lite.layers.local_attention import LocalSelfAttention
from t2t_lite.layers.self_attention import RelativeSelfAttention, SelfAttention

HIDDEN, HEADS, LENGTH = 12, 3, 7
# The second sentence has three positions of padding.
LENGTHS = (7, 4)
PADDING_MASK = np.array([[True] * 7, [True] * 4 + [False] * 3])[:, None, None, :]
CASES = [
    {},
    {"key_size": 2, "value_size": 5},
    {"key_size": 6, "value_size": 1},
    {"value_size": 3},
    {"key_size": 5},
    {"rotary": True},
    {"rotary": True, "key_size": 2},
    {"rotary": True, "key_size": 6},
    *({"max_relative_position": far} for far in (1, 2, LENGTH - 1, 20)),
    {"max_relative_position": 2, "key_size": 5, "value_size": 2},
]


def make(how, **more):
    kind = RelativeSelfAttention if "max_relative_position" in how else SelfAttention
    return kind(HIDDEN, HEADS, **how, **more)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("how", CASES, ids=str)
def test_self_attention_is_that_of_the_loops(how, causal):
    layer = built(make(how, causal=causal), HIDDEN)
    keys, values, far = how.get("key_size", 4), how.get("value_size", 4), how.get("max_relative_position", 0)
    shapes = [(HIDDEN, HEADS * keys)] * 2 + [(HIDDEN, HEADS * values), (HEADS * values, HIDDEN)]
    shapes += [(2 * far + 1, keys), (2 * far + 1, values)] if far else []
    assert sorted(tuple(variable.shape) for variable in layer.variables) == sorted(shapes)
    x = random(2, LENGTH, HIDDEN)
    result = np.array(layer(x, PADDING_MASK))
    for row, length in enumerate(LENGTHS):
        allowed = np.tri(LENGTH, dtype=bool) if causal else np.arange(LENGTH)[None].repeat(LENGTH, 0) < length
        expected = attention_by_loops(layer, x[row].astype("float64"), allowed, how.get("rotary", False), far)
        np.testing.assert_allclose(result[row], expected, atol=1e-5)


@pytest.mark.parametrize("how", [{}, {"rotary": True}, {"max_relative_position": 2}], ids=str)
def test_attention_dropout_keeps_the_mean_of_the_weights(how):
    rate, batch, length = 0.3, 4, 50
    layer = make(how, causal=False, dropout=rate)
    layer.build((None, None, HIDDEN))
    # With zero queries all weights are 1 / length. Every value is 1, so a head's output is the sum of its weights.
    for variable in layer.variables:
        variable.assign(np.zeros(variable.shape))
    layer.value.assign(np.concatenate([np.ones((1, HIDDEN)), np.zeros((HIDDEN - 1, HIDDEN))]))
    layer.output_projection.assign(np.eye(HIDDEN))
    x = random(batch, length, HIDDEN)
    x[:, :, 0] = 1.0
    sums = np.array(layer(x, np.ones((batch, 1, 1, length), bool), seeds=seeds_of()))[:, :, :: HIDDEN // HEADS]
    kept = sums * length * (1 - rate)  # number of kept weights per query and head
    np.testing.assert_allclose(kept, np.round(kept), atol=5e-3)
    assert 0 < kept.min() < kept.max() < length
    deviation = math.sqrt(rate / (1 - rate) / (sums.size * length))
    assert abs(sums.mean() - 1.0) < 4 * deviation


# Neighborhoods, which are computed in blocks.


def neighborhood(length, size, causal):
    """bool [length, length]: size / 2 positions on both sides and itself, or the last `size` including itself."""
    distance = np.arange(length)[:, None] - np.arange(length)[None, :]
    return (distance >= 0) & (distance < size) if causal else abs(distance) <= size / 2


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("neighborhood_size", [2, 4, 8])
@pytest.mark.parametrize("how", [{}, {"rotary": True}, {"key_size": 2, "value_size": 5}], ids=str)
def test_local_attention_is_attention_within_neighborhoods(how, neighborhood_size, causal):
    layer = built(LocalSelfAttention(HIDDEN, HEADS, causal, neighborhood_size, **how), HIDDEN)
    # Below, equal to, between and at multiples of the block sizes.
    for padded in (1, 3, 4, 8, 11, 16, 17):
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
def test_no_tensor_grows_quadratically_with_the_length(causal):
    layer = built(LocalSelfAttention(HIDDEN, HEADS, causal, 8), HIDDEN)
    largest = largest_tensor(layer, 512)
    assert largest < 512 * 64
    assert largest == 2 * largest_tensor(layer, 256)
    full = SelfAttention(HIDDEN, HEADS, causal)
    full.build((None, None, HIDDEN))
    assert largest_tensor(full, 512) == HEADS * 512 * 512  # the measurement finds quadratic tensors
