"""Sinusoids against the formula of section 3.5, element by element."""

import math

import numpy as np
import pytest

from t2t_lite.layers.positions import sinusoids


@pytest.mark.parametrize("hidden_size", [2, 6, 512])
def test_each_element_follows_the_formula(hidden_size, paper):
    positions = [0, 1, 2, 17, 255]
    expected = [[paper.position(pos, channel, hidden_size) for channel in range(hidden_size)] for pos in positions]
    result = np.array(sinusoids(np.array(positions), hidden_size))
    assert result.dtype == np.float32
    # An angle of 255 has 2e-5 between neighbouring float32 numbers.
    np.testing.assert_allclose(result, expected, atol=2e-5)


def test_sines_and_cosines_are_interleaved_with_the_literal_rates():
    row = np.array(sinusoids(np.array([3]), 4))[0]
    # 10000 ** (0 / 4) = 1 and 10000 ** (2 / 4) = 100.
    np.testing.assert_allclose(row, [math.sin(3.0), math.cos(3.0), math.sin(0.03), math.cos(0.03)], atol=1e-6)


def test_position_zero_is_zero_and_one_in_turn():
    assert np.array(sinusoids(np.array([0]), 6)).tolist() == [[0, 1, 0, 1, 0, 1]]


def test_a_position_has_the_same_encoding_alone_and_among_others():
    together = np.array(sinusoids(np.arange(9), 16))
    np.testing.assert_array_equal(np.array(sinusoids(np.array([7]), 16))[0], together[7])
