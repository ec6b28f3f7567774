"""What a search gets to know of each line, and constraints that a caller brings."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.config import DecodeHParams
from t2t_lite.decoding.search.beam_state import NONE
from t2t_lite.decoding.search_requests import (
    LineConstraint,
    LinesToDecode,
    make_beam_search,
    make_constraints,
    search_inputs,
)
from t2t_lite.errors import UserError

SOURCES = [[5, 6, 7, 1], [5, 1], [8, 9, 1]]
LINES = ["The old man sees the small dogs.", "I sleep.", "She sleeps."]


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


@dataclasses.dataclass(frozen=True)
class Without:
    """Forbids a token, another one in each line."""

    def apply(self, logits, unconstrained, state, inputs):
        token = inputs.constraint_inputs["forbidden"][:, tf.newaxis, tf.newaxis]
        return tf.where(tf.range(tf.shape(logits)[2]) == token, NONE, logits)


@pytest.mark.heavy
def test_a_caller_may_pass_a_constraint(translator):
    free = translator.translate(LINES)
    ids = translator.vocabulary.encode(free).to_list()
    forbidden = [row[0] for row in ids]
    without = LineConstraint(Without(), {"forbidden": forbidden})
    found = translator.translate(LINES, constraints=[without])
    assert found != free
    for row, text in zip(forbidden, found):
        assert row not in translator.vocabulary.encode([text]).to_list()[0]
    # Whatever else is in the batch.
    alone = LineConstraint(Without(), {"forbidden": forbidden[1:2]})
    assert translator.translate(LINES[1:2], constraints=[alone]) == found[1:2]


@pytest.mark.parametrize(("inputs", "times"), [([5], 1), ([5, 6, 7, 8], 1), ([5, 5, 5], 2)])
def test_constraints_need_inputs_of_their_own_with_one_entry_per_line(translator, inputs, times):
    constraints = [LineConstraint(Without(), {"forbidden": inputs})] * times
    with pytest.raises(ValueError, match="'forbidden' must occur once, with one entry for each of the 3 lines"):
        translator.translate(LINES, constraints=constraints)
    with pytest.raises(UserError, match="only_trees=True is for parsing"):
        translator.translate(LINES, only_trees=True)
