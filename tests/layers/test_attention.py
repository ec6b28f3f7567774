"""Attention against NumPy, head by head; masks; sizes of arrays."""

import numpy as np
import pytest
import tensorflow as tf
from support.paper import PaperInNumpy

from t2t_lite.layers.attention import MultiHeadAttention, attend
from t2t_lite.layers.masks import causal_mask, padding_mask  # the path that plug-ins import
from t2t_lite.layers.ops import dynamic_shape

BATCH, HEADS, QUERIES, LENGTH, DEPTH = 2, 3, 4, 5, 6


@pytest.fixture
def heads():
    """Queries, keys and values, float32 [batch, heads, length, depth]; values have another depth."""
    rng = np.random.default_rng(1)
    shapes = (BATCH, HEADS, QUERIES, DEPTH), (BATCH, HEADS, LENGTH, DEPTH), (BATCH, HEADS, LENGTH, 7)
    return [rng.normal(size=shape).astype("float32") for shape in shapes]


def random_mask():
    """bool [batch, 1, queries, length]; every query may attend to some key, and some queries not to all keys."""
    mask = np.random.default_rng(2).random((BATCH, 1, QUERIES, LENGTH)) < 0.6
    mask[..., 0] = True
    mask[..., -1] = False
    return mask


def test_attend_is_equation_1_in_every_sentence_and_head(heads):
    queries, keys, values = heads
    mask = random_mask()
    result = np.array(attend(queries * DEPTH**-0.5, keys, values, mask)[0])
    assert result.shape == (BATCH, HEADS, QUERIES, 7)
    for row in range(BATCH):
        for head in range(HEADS):
            one = (part[row, head].astype("float64") for part in heads)
            np.testing.assert_allclose(result[row, head], PaperInNumpy.attention(*one, mask[row, 0]), atol=1e-5)


def test_a_fully_masked_row_gives_the_mean_of_the_values(heads):
    mask = random_mask()
    mask[1] = False
    mixed, weights = (np.array(part) for part in attend(*heads, mask))
    assert np.isfinite(mixed).all()
    np.testing.assert_allclose(weights[1], 1 / LENGTH, rtol=1e-6)
    np.testing.assert_allclose(mixed[1, :, 0], heads[2][1].mean(axis=1), atol=1e-6)


@pytest.mark.parametrize("num_heads", [1, 2, 8])
def test_multi_head_attention_equals_a_loop_over_heads(num_heads):
    hidden_size = 16
    layer = MultiHeadAttention(hidden_size, num_heads)
    layer.build((None, None, hidden_size))
    PaperInNumpy.randomize(layer)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(BATCH, QUERIES, hidden_size)).astype("float32")
    memory = rng.normal(size=(BATCH, LENGTH, hidden_size)).astype("float32")
    mask = random_mask()
    result = np.array(layer(layer.queries(x), layer.keys_values(memory), mask))
    for row in range(BATCH):
        expected = PaperInNumpy.multi_head(layer, x[row].astype("float64"), memory[row].astype("float64"), mask[row, 0])
        np.testing.assert_allclose(result[row], expected, atol=1e-5)


def test_the_padding_mask_hides_padding_only():
    ids = np.array([[7, 1, 0, 0], [4, 5, 6, 1], [0, 0, 0, 0]])
    mask = np.array(padding_mask(ids))
    assert mask.dtype == bool
    assert mask.tolist() == [
        [[[True, True, False, False]]],
        [[[True, True, True, True]]],
        [[[False, False, False, False]]],
    ]


def test_a_causal_mask_shows_each_position_itself_and_earlier_ones():
    mask = np.array(causal_mask(np.arange(4)))
    assert mask.dtype == bool
    assert mask.astype(int).tolist() == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [1, 1, 1, 1],
    ]


def test_known_sizes_are_ints_and_unknown_ones_are_those_of_the_run():
    @tf.function(input_signature=[tf.TensorSpec([None, 4, None])], autograph=False)
    def sizes(x):
        batch, known, length = dynamic_shape(x)
        assert type(known) is int
        return batch, length

    assert [int(size) for size in sizes(tf.zeros([3, 4, 5]))] == [3, 5]
    assert list(dynamic_shape(tf.zeros([3, 4, 5]))) == [3, 4, 5]
    made = [node.op for node in sizes.get_concrete_function().graph.as_graph_def().node]
    assert sorted(set(made) - {"Placeholder", "Identity", "NoOp"}) == ["Shape", "Unpack"]
