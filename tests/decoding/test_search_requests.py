"""What a search gets to know of each line, and constraints that a caller brings."""

import numpy as np

from t2t_lite.config import DecodeHParams
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
