"""Attention against NumPy, head by head."""

import numpy as np
import pytest

from t2t_lite.layers.attention import MultiHeadAttention, attend

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


def test_attend_is_equation_1_in_every_sentence_and_head(heads, paper):
    queries, keys, values = heads
    mask = random_mask()
    result = np.array(attend(queries * DEPTH**-0.5, keys, values, mask)[0])
    assert result.shape == (BATCH, HEADS, QUERIES, 7)
    for row in range(BATCH):
        for head in range(HEADS):
            one = (part[row, head].astype("float64") for part in heads)
            np.testing.assert_allclose(result[row, head], paper.attention(*one, mask[row, 0]), atol=1e-5)


def test_weights_sum_to_one_and_are_exactly_zero_where_masked(heads):
    mask = random_mask()
    weights = np.array(attend(*heads, mask)[1])
    assert weights.shape == (BATCH, HEADS, QUERIES, LENGTH)
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-6)
    allowed = np.broadcast_to(mask, weights.shape)
    assert (weights[~allowed] == 0.0).all()
    assert (weights[allowed] > 0.0).all()


def test_masked_weights_are_exactly_zero_even_for_large_scores(heads):
    queries, keys, values = heads
    mask = random_mask()
    weights = np.array(attend(queries * 1000.0, keys, values, mask)[1])
    assert (weights[~np.broadcast_to(mask, weights.shape)] == 0.0).all()
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-6)


def test_a_fully_masked_row_gives_the_mean_of_the_values(heads):
    mask = random_mask()
    mask[1] = False
    mixed, weights = (np.array(part) for part in attend(*heads, mask))
    assert np.isfinite(mixed).all()
    np.testing.assert_allclose(weights[1], 1 / LENGTH, rtol=1e-6)
    np.testing.assert_allclose(mixed[1, :, 0], heads[2][1].mean(axis=1), atol=1e-6)


def test_weights_are_float32_for_bfloat16_heads(heads):
    from keras import ops

    mixed, weights = attend(*(ops.cast(part, "bfloat16") for part in heads), random_mask())
    assert (mixed.dtype, weights.dtype) == ("bfloat16", "float32")
    np.testing.assert_allclose(np.array(weights).sum(axis=-1), 1.0, atol=1e-6)


@pytest.mark.parametrize("num_heads", [1, 2, 8])
def test_multi_head_attention_equals_a_loop_over_heads(num_heads, paper):
    hidden_size = 16
    layer = MultiHeadAttention(hidden_size, num_heads)
    layer.build((None, None, hidden_size))
    paper.randomize(layer)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(BATCH, QUERIES, hidden_size)).astype("float32")
    memory = rng.normal(size=(BATCH, LENGTH, hidden_size)).astype("float32")
    mask = random_mask()
    result = np.array(layer(layer.queries(x), layer.keys_values(memory), mask))
    for row in range(BATCH):
        expected = paper.multi_head(layer, x[row].astype("float64"), memory[row].astype("float64"), mask[row, 0])
        np.testing.assert_allclose(result[row], expected, atol=1e-5)


def test_queries_keys_and_values_are_split_by_head():
    layer = MultiHeadAttention(12, 3)
    layer.build((None, None, 12))
    x = np.random.default_rng(4).normal(size=(2, 5, 12)).astype("float32")
    queries, together = layer.queries_keys_values(x)
    np.testing.assert_allclose(queries, layer.queries(x), atol=1e-6)
    for made, same, kernel in zip(layer.keys_values(x), together, (layer.key, layer.value)):
        np.testing.assert_allclose(made, same, atol=1e-6)
        assert made.shape == (2, 3, 5, 4)
        for head in range(3):
            np.testing.assert_allclose(made[:, head], x @ np.array(kernel)[:, 4 * head : 4 * head + 4], atol=1e-5)


@pytest.mark.parametrize("num_heads", [1, 4])
def test_there_are_four_square_matrices_and_no_biases(num_heads):
    layer = MultiHeadAttention(8, num_heads)
    layer.build((None, None, 8))
    assert layer.count_params() == 4 * 8**2
    assert [tuple(variable.shape) for variable in layer.trainable_variables] == [(8, 8)] * 4
