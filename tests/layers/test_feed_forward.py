"""The gated network and attention over parameters (the paper's appendix) against equations and loops; dropout.

The usual feed-forward network is in tests/models.
"""

import math

import numpy as np
import pytest
from support.layers import built, random
from support.seeds import seeds_of

from t2t_lite.layers.feed_forward import FeedForward, GatedFeedForward, ParameterAttention
from t2t_lite.registry import HPARAMS


def test_the_gated_network_is_swiglu_at_every_position():
    gated = built(GatedFeedForward(4, 10), 4)
    w_and_v = np.array(gated.expand.kernel).astype("float64")
    w, v, w2 = w_and_v[:, :10], w_and_v[:, 10:], np.array(gated.project.kernel).astype("float64")
    x = random(2, 3, 4)
    result = np.array(gated(x))
    assert result.shape == x.shape
    for row, position in np.ndindex(2, 3):
        own = x[row, position].astype("float64")
        gate = own @ w
        expected = (gate / (1.0 + np.exp(-gate)) * (own @ v)) @ w2
        np.testing.assert_allclose(result[row, position], expected, atol=1e-5)


@pytest.mark.parametrize("kind", [FeedForward, GatedFeedForward])
def test_dropout_acts_on_the_inner_layer_and_only_with_seeds(kind):
    rate, size = 0.25, 16
    layer, whole = (built(kind(size, size, dropout=dropout), size) for dropout in (rate, 0.0))
    for one in (layer, whole):
        one.project.kernel.assign(np.eye(size))  # makes the output equal to the inner layer
        for bias in one.variables[3:]:
            bias.assign(np.zeros(size))
    x = random(10, 20, size)
    inner = np.array(whole(x))
    np.testing.assert_array_equal(layer(x), inner)
    dropped = np.array(layer(x, seeds=seeds_of()))
    active = np.abs(inner) > 1e-6
    is_kept = active & (dropped != 0.0)
    np.testing.assert_allclose(dropped[is_kept], inner[is_kept] / (1 - rate), rtol=1e-4)
    deviation = (rate * (1 - rate) / active.sum()) ** 0.5
    assert abs(is_kept.sum() / active.sum() - (1 - rate)) < 4 * deviation


# Attention over parameters.

# All sizes differ, and heads * size is not the width.
HIDDEN, HEADS, SIZE, PAIRS = 6, 2, 5, 7


def by_loops(layer, x):
    """Attention over parameters for one position, float64 [hidden] -> [hidden]."""
    query, output, keys, values = (
        np.array(variable).astype(np.float64)
        for variable in (layer.query, layer.output_projection, layer.keys, layer.values)
    )
    result = np.zeros(HIDDEN)
    for head in range(HEADS):
        mine = slice(head * SIZE, (head + 1) * SIZE)
        asked = x @ query[:, mine]
        scores = [math.exp(asked @ (keys[head, pair] * math.sqrt(HIDDEN)) / math.sqrt(SIZE)) for pair in range(PAIRS)]
        for pair in range(PAIRS):
            result += scores[pair] / sum(scores) * (values[head, pair] * math.sqrt(HIDDEN)) @ output[mine]
    return result


def test_every_position_attends_to_the_stored_pairs():
    layer = built(ParameterAttention(HIDDEN, HEADS, SIZE, PAIRS), HIDDEN)
    x = random(2, 3, HIDDEN)
    result = np.array(layer(x))
    assert result.shape == x.shape
    for row, position in np.ndindex(2, 3):
        expected = by_loops(layer, x[row, position].astype("float64"))
        np.testing.assert_allclose(result[row, position], expected, atol=2e-5)


@pytest.mark.parametrize(("number", "heads", "size", "pairs"), [(1, 8, 64, 1536), (2, 16, 64, 512)])
def test_the_appendix_sizes_match_a_feed_forward_network_without_biases(number, heads, size, pairs):
    hparams = HPARAMS[f"transformer_aop{number}"]()
    assert (hparams.parameter_heads, hparams.parameter_head_size, hparams.parameter_pairs) == (heads, size, pairs)
    layer = ParameterAttention(512, heads, size, pairs)
    layer.build((None, None, 512))
    assert layer.count_params() == 2 * 512 * 2048 == 2_097_152
    assert {variable.name: tuple(variable.shape) for variable in layer.trainable_variables} == {
        "query": (512, heads * size),
        "output": (heads * size, 512),
        "keys": (heads, pairs, size),
        "values": (heads, pairs, size),
    }
    # Times sqrt(512) they have unit variance. 524,288 draws or more: a deviation of 0.002.
    for stored in (layer.keys, layer.values):
        assert abs(np.array(stored).var() * 512 - 1.0) < 0.01


def test_dropout_keeps_the_mean_of_the_weights():
    rate, positions, pairs = 0.3, 200, 10
    layer = ParameterAttention(4, 4, 1, pairs, dropout=rate)
    layer.build((None, None, 4))
    # With zero queries all weights are equal, and every value is 1, so a head's output is the sum of its weights.
    layer.query.assign(np.zeros((4, 4)))
    layer.values.assign(np.full((4, pairs, 1), 0.5))
    layer.output_projection.assign(np.eye(4))
    sums = np.array(layer(random(1, positions, 4), seeds=seeds_of()))
    kept = sums * pairs * (1 - rate)
    np.testing.assert_allclose(kept, np.round(kept), atol=5e-3)
    assert kept.min() < kept.max()
    deviation = math.sqrt(rate / (1 - rate) / (sums.size * pairs))
    assert abs(sums.mean() - 1.0) < 4 * deviation
