"""Which lines are searched together, what a search gets to know of each, and constraints that a caller brings."""

import random

import numpy as np
import pytest

from t2t_lite.config import DecodeHParams
from t2t_lite.data.vocab import PAD_ID
from t2t_lite.decoding.engine import by_length, padded
from t2t_lite.decoding.search_requests import LinesToDecode, make_beam_search, make_constraints, search_inputs

SOURCES = [[5, 6, 7, 1], [5, 1], [8, 9, 1]]


class WithUnknown:
    """What searches need to know of a vocabulary."""

    size, unknown_id = 11, 2


def request(hparams="", prefixes=None):
    # Under the name that plug-ins of earlier versions import.
    settings = DecodeHParams(extra_length=2).override(hparams)
    return LinesToDecode(["a b c", "d", "e f"], SOURCES, settings, WithUnknown(), None, prefixes)


def inputs_of(rows, hparams="", prefixes=None, max_positions=None):
    asked = request(hparams, prefixes)
    return search_inputs(asked, rows, make_constraints(asked), max_positions)


def test_limits_are_the_maximum_output_lengths_with_room_for_a_prefix_and_the_end():
    np.testing.assert_array_equal(inputs_of([0, 2]).limits, [6, 5])
    np.testing.assert_array_equal(inputs_of([0, 1, 2], max_positions=5).limits, [5, 4, 5])
    inputs = inputs_of([1, 2], prefixes=[[3], [3] * 9, []])
    np.testing.assert_array_equal(inputs.limits, [10, 5])
    np.testing.assert_array_equal(inputs.constraint_inputs["prefixes"], [[3] * 9, [0] * 9])


def test_a_minimum_length_is_counted_without_the_end_symbol():
    inputs = inputs_of([0, 1], "min_length_ratio=1.5")
    np.testing.assert_array_equal(inputs.constraint_inputs["min_lengths"], [1 + 5, 1 + 2])


def test_a_prefix_lifts_the_ban_on_padding_and_unknown_tokens():
    for prefixes, never in ((None, (0, 2)), ([[2], [], []], ())):
        wanted = make_constraints(request(prefixes=prefixes))
        assert make_beam_search(DecodeHParams(), WithUnknown(), 0, wanted).never == never


@pytest.mark.parametrize(
    ("rows", "lengths", "tokens", "batches"),
    [
        # 10 // 9 = 1 row of length 9, 10 // 5 = 2 rows of at most 5, 10 // 3 = 3 rows of at most 3.
        (range(6), [2, 9, 4, 5, 1, 3], 10, [[1], [3, 2], [5, 0, 4]]),
        ([4, 2, 6], [3] * 7, 6, [[4, 2], [6]]),  # rows of one length keep their order
        ([], [1, 2], 10, []),
        (range(4), [2, 99, 2, 98], 4, [[1], [3], [0, 2]]),  # a row too long for any batch is alone
    ],
)
def test_rows_of_similar_length_are_in_one_batch(rows, lengths, tokens, batches):
    assert list(by_length(rows, lengths, lambda length: tokens // length)) == batches


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
    ids = padded([(5, 6, 7), np.array([], int), range(8, 9)])
    np.testing.assert_array_equal(ids, [[5, 6, 7], [PAD_ID] * 3, [8, PAD_ID, PAD_ID]])
    assert ids.dtype == np.int32
    assert [padded(none).shape for none in ([], [[]], [[], []])] == [(0, 0), (1, 0), (2, 0)]
