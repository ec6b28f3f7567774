"""Self-attention with head sizes, rotations and relative positions against loops; stepping against one pass."""

import math

import numpy as np
import pytest
from support.layers import built, random
from support.seeds import seeds_of

from t2t_lite.layers.self_attention import RelativeSelfAttention, SelfAttention

HIDDEN, HEADS, LENGTH = 12, 3, 7
# The second sentence has three positions of padding.
LENGTHS = (7, 4)
PADDING_MASK = np.array([[True] * 7, [True] * 4 + [False] * 3])[:, None, None, :]
FAR = 2  # shorter than the sentences


def allowed_pairs(causal, length, of_sentence):
    """bool [length, length]: which positions of a padded sentence may see which."""
    allowed = np.zeros((length, length), bool)
    for i, j in np.ndindex(length, length):
        allowed[i, j] = j <= i if causal else j < of_sentence
    return allowed


@pytest.mark.parametrize("causal", [False, True])
def test_self_attention_is_multi_head_attention_of_a_sequence_to_itself(causal, paper):
    layer = built(SelfAttention(HIDDEN, HEADS, causal), paper, HIDDEN)
    x = random(2, LENGTH, HIDDEN)
    result = np.array(layer(x, PADDING_MASK))
    for row, length in enumerate(LENGTHS):
        own = x[row].astype("float64")
        expected = paper.multi_head(layer, own, own, allowed_pairs(causal, LENGTH, length))
        np.testing.assert_allclose(result[row], expected, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("key_size", "value_size"), [(2, 5), (6, 1), (None, 3), (5, None)])
def test_key_and_value_sizes_of_heads_can_be_set(key_size, value_size, causal, paper, attention_by_loops):
    layer = built(SelfAttention(HIDDEN, HEADS, causal, key_size=key_size, value_size=value_size), paper, HIDDEN)
    keys, values = HEADS * (key_size or 4), HEADS * (value_size or 4)
    assert {variable.name: tuple(variable.shape) for variable in layer.variables} == {
        "query": (HIDDEN, keys),
        "key": (HIDDEN, keys),
        "value": (HIDDEN, values),
        "output": (values, HIDDEN),
    }
    x = random(2, LENGTH, HIDDEN)
    result = np.array(layer(x, PADDING_MASK))
    for row, length in enumerate(LENGTHS):
        expected = attention_by_loops(layer, x[row].astype("float64"), allowed_pairs(causal, LENGTH, length))
        np.testing.assert_allclose(result[row], expected, atol=1e-5)


# Dropout on attention weights.


def make_kinds(**how):
    return [
        SelfAttention(HIDDEN, HEADS, **how),
        SelfAttention(HIDDEN, HEADS, rotary=True, **how),
        RelativeSelfAttention(HIDDEN, HEADS, max_relative_position=FAR, **how),
    ]


@pytest.mark.parametrize("kind", range(3), ids=["plain", "rotary", "relative"])
def test_attention_dropout_keeps_the_mean_of_the_weights(kind):
    rate, batch, length = 0.3, 4, 50
    layer = make_kinds(causal=False, dropout=rate)[kind]
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


# Rotations.


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("key_size", [None, 2, 6])
def test_rotary_attention_rotates_queries_and_keys_as_complex_numbers(key_size, causal, paper, attention_by_loops):
    layer = built(SelfAttention(HIDDEN, HEADS, causal, rotary=True, key_size=key_size), paper, HIDDEN)
    x = random(2, LENGTH, HIDDEN)
    result = np.array(layer(x, PADDING_MASK))
    for row, length in enumerate(LENGTHS):
        allowed = allowed_pairs(causal, LENGTH, length)
        expected = attention_by_loops(layer, x[row].astype("float64"), allowed, rotary=True)
        np.testing.assert_allclose(result[row], expected, atol=1e-5)


# Relative positions: equations 3 and 4 of Shaw et al. 2018.


def relative_by_loops(layer, x, allowed, far):
    """z_i = sum_j alpha_ij (x_j W^V + a^V_ij), where alpha is the softmax of x_i W^Q (x_j W^K + a^K_ij) / sqrt(d_z)."""
    query, key, value, output, relative_keys, relative_values = (
        np.array(variable).astype(np.float64)
        for variable in (
            layer.query,
            layer.key,
            layer.value,
            layer.output_projection,
            layer.relative_keys,
            layer.relative_values,
        )
    )
    d_k, d_v = relative_keys.shape[1], relative_values.shape[1]
    result = np.zeros_like(x)
    for head, i in np.ndindex(HEADS, len(x)):
        of_keys, of_values = slice(head * d_k, (head + 1) * d_k), slice(head * d_v, (head + 1) * d_v)
        total, mixed = 0.0, np.zeros(d_v)
        for j in np.flatnonzero(allowed[i]):
            place = max(-far, min(far, j - i)) + far
            score = x[i] @ query[:, of_keys] @ (x[j] @ key[:, of_keys] + relative_keys[place]) / math.sqrt(d_k)
            total += math.exp(score)
            mixed += math.exp(score) * (x[j] @ value[:, of_values] + relative_values[place])
        result[i] += mixed / total @ output[of_values]
    return result


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("far", [1, FAR, LENGTH - 1, 20])
@pytest.mark.parametrize("sizes", [{}, {"key_size": 5, "value_size": 2}], ids=["even sizes", "own sizes"])
def test_relative_attention_is_equations_3_and_4(sizes, far, causal, paper):
    layer = built(RelativeSelfAttention(HIDDEN, HEADS, causal, max_relative_position=far, **sizes), paper, HIDDEN)
    assert tuple(layer.relative_keys.shape) == (2 * far + 1, sizes.get("key_size", 4))
    assert tuple(layer.relative_values.shape) == (2 * far + 1, sizes.get("value_size", 4))
    x = random(2, LENGTH, HIDDEN)
    result = np.array(layer(x, PADDING_MASK))
    for row, length in enumerate(LENGTHS):
        allowed = allowed_pairs(causal, LENGTH, length)
        expected = relative_by_loops(layer, x[row].astype("float64"), allowed, far)
        np.testing.assert_allclose(result[row], expected, atol=1e-5)


# Stepping, graphs and precision.


def make_layers(causal, **how):
    """All kinds, with default and with explicit head sizes."""
    return {
        "plain": SelfAttention(HIDDEN, HEADS, causal, **how),
        "own sizes": SelfAttention(HIDDEN, HEADS, causal, key_size=5, value_size=2, **how),
        "rotary": SelfAttention(HIDDEN, HEADS, causal, rotary=True, **how),
        "rotary, own sizes": SelfAttention(HIDDEN, HEADS, causal, rotary=True, key_size=2, value_size=5, **how),
        "relative": RelativeSelfAttention(HIDDEN, HEADS, causal, FAR, **how),
        "relative, own sizes": RelativeSelfAttention(HIDDEN, HEADS, causal, FAR, key_size=5, value_size=2, **how),
    }


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", make_layers(True))
def test_attention_weights_are_those_applied_to_the_values(kind, causal, paper):
    layer = built(make_layers(causal)[kind], paper, HIDDEN)
    x, mask = (
        random(2, LENGTH, HIDDEN),
        np.arange(LENGTH)[None, None, None, :] < np.array([LENGTH, 3]).reshape(2, 1, 1, 1),
    )
    weights = np.array(layer.attention(x, mask))
    assert weights.shape == (2, HEADS, LENGTH, LENGTH)
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-6)
    if causal:
        assert not np.triu(weights, 1).any()
    else:
        assert not weights[1, ..., 3:].any()
    if not isinstance(layer, RelativeSelfAttention):  # it adds vectors of distances to the values
        values = np.array(layer.heads(x, np.arange(LENGTH))[1][1])
        np.testing.assert_allclose(layer.combine_heads(weights @ values), layer(x, mask), atol=1e-5)
