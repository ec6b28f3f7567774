import random

import numpy as np
import pytest

from t2t_lite.data.vocab import PAD_ID
from t2t_lite.decoding.batching import by_length, padded


def test_batches_by_hand():
    lengths = [2, 9, 4, 5, 1, 3]
    # 10 // 9 = 1 row of length 9, 10 // 5 = 2 rows of at most 5, 10 // 3 = 3 rows of at most 3.
    assert list(by_length(range(6), lengths, lambda length: 10 // length)) == [[1], [3, 2], [5, 0, 4]]


def test_rows_of_one_length_keep_their_order():
    assert list(by_length(range(7), [3] * 7, lambda length: 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(by_length([4, 2, 6], [3] * 7, lambda length: 3)) == [[4, 2, 6]]


def test_only_the_requested_rows_are_batched():
    assert list(by_length([5, 0, 3], [1, 2, 3, 4, 5, 6], lambda length: 2)) == [[5, 3], [0]]


def test_no_rows_make_no_batch():
    assert list(by_length([], [1, 2], lambda length: 2)) == []
    assert list(by_length([], [], lambda length: 2)) == []


@pytest.mark.parametrize("too_few", [0, -1])
def test_a_row_too_long_for_any_batch_is_alone(too_few):
    lengths = [1, 99, 1, 98]
    batches = list(by_length(range(4), lengths, lambda length: too_few if length > 10 else 2))
    assert batches == [[1], [3], [0, 2]]


def test_one_large_batch_holds_all_rows():
    assert list(by_length(range(4), [1, 2, 3, 4], lambda length: 1000)) == [[3, 2, 1, 0]]


def test_empty_rows_come_last():
    assert list(by_length(range(3), [0, 5, 0], lambda length: 2)) == [[1, 0], [2]]


@pytest.mark.parametrize("seed", range(20))
def test_random_lengths_give_full_batches_longest_first(seed):
    rng = random.Random(seed)
    lengths = [rng.randrange(1, 30) for _ in range(rng.randrange(1, 200))]
    rows = rng.sample(range(len(lengths)), rng.randrange(1, len(lengths) + 1))
    batches = list(by_length(rows, lengths, lambda length: 64 // length))
    in_order = [row for batch in batches for row in batch]
    assert sorted(in_order) == sorted(rows)
    assert [lengths[row] for row in in_order] == sorted((lengths[row] for row in rows), reverse=True)
    wanted = [64 // max(lengths[row] for row in batch) for batch in batches]
    assert [len(batch) for batch in batches[:-1]] == wanted[:-1]
    assert 1 <= len(batches[-1]) <= wanted[-1]


def test_shorter_sequences_are_padded_at_their_ends():
    ids = padded([[5, 6, 7], [], [8]])
    np.testing.assert_array_equal(ids, [[5, 6, 7], [PAD_ID] * 3, [8, PAD_ID, PAD_ID]])
    assert ids.dtype == np.int32


@pytest.mark.parametrize(("sequences", "shape"), [([], (0, 0)), ([[]], (1, 0)), ([[], []], (2, 0)), ([[4]], (1, 1))])
def test_small_batches_have_the_right_shape(sequences, shape):
    ids = padded(sequences)
    assert (ids.shape, ids.dtype) == (shape, np.int32)


def test_sequences_may_be_of_any_type():
    np.testing.assert_array_equal(padded([(3, 4), np.array([5]), range(6, 8)]), [[3, 4], [5, PAD_ID], [6, 7]])
