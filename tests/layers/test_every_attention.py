"""What all kinds of self-attention have in common: weights, stepping, graphs of unknown length, 16-bit precision."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from support.beams import descending_beams
from support.layers import assert_follows_its_ancestors, built, random, stepped, traced

from t2t_lite.layers.convolution import Convolution
from t2t_lite.layers.local_attention import LocalSelfAttention
from t2t_lite.layers.recurrent import Recurrent
from t2t_lite.layers.self_attention import RelativeSelfAttention, SelfAttention

HIDDEN, HEADS, LENGTH = 12, 3, 11
LENGTHS = (11, 4, 1)
FAR = 2  # shorter than the sentences
OWN_SIZES = {"key_size": 5, "value_size": 2}


def local(causal, size, **how):
    return LocalSelfAttention(HIDDEN, HEADS, causal, size, **how)


def convolution(causal, kernel_size, dilation, separable, **how):
    return Convolution(HIDDEN, causal, kernel_size, separable=separable, dilation=dilation, **how)


# name: makes a layer, causal or not
KINDS = {
    "plain": lambda causal, **how: SelfAttention(HIDDEN, HEADS, causal, **how),
    "own sizes": lambda causal, **how: SelfAttention(HIDDEN, HEADS, causal, **OWN_SIZES, **how),
    "rotary": lambda causal, **how: SelfAttention(HIDDEN, HEADS, causal, rotary=True, **how),
    "rotary, own sizes": lambda causal, **how: SelfAttention(
        HIDDEN, HEADS, causal, rotary=True, key_size=2, value_size=5, **how
    ),
    "relative": lambda causal, **how: RelativeSelfAttention(HIDDEN, HEADS, causal, FAR, **how),
    "relative, own sizes": lambda causal, **how: RelativeSelfAttention(HIDDEN, HEADS, causal, FAR, **OWN_SIZES, **how),
    "recurrent": lambda causal, **how: Recurrent(HIDDEN, causal, **how),
    # Neighborhoods whose cache slots are reused once and several times, and one that is longer than the sentence.
    **{
        f"local {size}{', rotary' * rotary}": lambda causal, size=size, rotary=rotary, **how: local(
            causal, size, rotary=rotary, **how
        )
        for size in (2, 4, 8, 16)
        for rotary in (False, True)
    },
    "local, own sizes": lambda causal, **how: local(causal, 8, **OWN_SIZES, **how),
    **{
        f"convolution {part}": lambda causal, part=part, **how: convolution(causal, *part, **how)
        for part in itertools.product((1, 3, 5), (1, 2, 3), (False, True))
    },
}
EACH = pytest.mark.parametrize("kind", KINDS)


@EACH
def test_steps_follow_the_beam_ancestry_and_equal_one_pass(kind):
    assert_follows_its_ancestors(built(KINDS[kind](True), HIDDEN), HIDDEN)


@EACH
@pytest.mark.parametrize("causal", [False, True])
def test_batch_and_length_may_be_unknown_in_a_graph(kind, causal):
    layer = built(KINDS[kind](causal), HIDDEN)
    run = traced(layer, HIDDEN)
    for rows, length in ((3, LENGTH), (2, 3), (1, 1)):
        x, mask = random(rows, length, HIDDEN), np.arange(length)[None, :] < np.array(LENGTHS[:rows])[:, None]
        np.testing.assert_allclose(run(x, mask[:, None, None]), layer(x, mask[:, None, None]), atol=1e-6)


@EACH
def test_bfloat16_is_close_to_float32_in_one_pass_and_in_steps(kind):
    exact, layer = (built(KINDS[kind](True, dtype=dtype), HIDDEN) for dtype in ("float32", "mixed_bfloat16"))
    x = random(2, LENGTH, HIDDEN)
    result = layer(x)
    assert result.dtype == "bfloat16"
    # 8 significant bits; values and their sums are about 1, and a few units in convolutions.
    atol = 0.1 if "convolution" in kind else 0.06
    np.testing.assert_allclose(tf.cast(result, "float32"), exact(x), atol=atol)
    np.testing.assert_allclose(stepped(layer, tf.cast(x, "bfloat16"), room=2), exact(x), atol=atol)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith(("recurrent", "convolution"))])
def test_attention_weights_are_those_applied_to_the_values(kind, causal):
    layer = built(KINDS[kind](causal), HIDDEN)
    x, mask = random(2, LENGTH, HIDDEN), np.arange(LENGTH)[None, :] < np.array([[LENGTH], [6]])
    weights, result = np.array(layer.attention(x, mask[:, None, None])), layer(x, mask[:, None, None])
    assert weights.shape == (2, HEADS, LENGTH, LENGTH)
    np.testing.assert_allclose(weights[0].sum(-1), 1.0, atol=1e-6)
    distance = np.arange(LENGTH)[None, :] - np.arange(LENGTH)[:, None]
    if causal:
        assert not weights[0][:, distance > 0].any()
    if isinstance(layer, LocalSelfAttention):
        assert not weights[0][:, (distance < -layer.before) | (distance > layer.after)].any()
    # The weights of padding positions do not matter; positions that see only padding have uniform weights.
    assert not weights[1, :, :6, 6:].any()
    if not isinstance(layer, RelativeSelfAttention):  # it adds vectors of distances to the values
        values = np.array(layer.heads(x, np.arange(LENGTH))[1][1])
        np.testing.assert_allclose(layer.combine_heads(weights @ values)[0], result[0], atol=1e-5)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(Recurrent(HIDDEN, True), (2, 3, HIDDEN)), (convolution(True, 5, 2, False), (2, 3, 2 * (5 - 1), HIDDEN))],
)
def test_a_state_or_the_reach_of_a_kernel_is_all_that_is_cached_for_any_length(layer, shape):
    built(layer, HIDDEN)
    cache = layer.start_cache(2, 3, 100)
    for position, ancestry, _ in descending_beams(2, 3, 12):
        assert cache.shape == shape
        _, cache = layer.step(random(2, 3, HIDDEN), tf.constant(position), cache, ancestry)
