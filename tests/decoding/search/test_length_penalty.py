"""The length penalty on Python numbers, NumPy arrays and tensors."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.decoding.search.length_penalty import length_penalty


def test_values_by_hand():
    assert length_penalty(1, 0.6) == 1
    assert length_penalty(7, 1.0) == 2
    assert length_penalty(19, 0.5) == 2


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_the_penalty_is_the_same_for_integers_arrays_and_tensors(alpha):
    lengths = np.arange(1, 50)
    expected = np.array([length_penalty(int(length), alpha) for length in lengths])
    np.testing.assert_allclose(length_penalty(lengths, alpha), expected)
    for dtype in (tf.int32, tf.float32):
        tensor = length_penalty(tf.constant(lengths, dtype), alpha)
        assert tensor.dtype == tf.float32
        np.testing.assert_allclose(tensor, expected, rtol=1e-6)


def test_no_penalty_at_alpha_zero():
    np.testing.assert_array_equal(length_penalty(np.arange(1, 100), 0), 1)
