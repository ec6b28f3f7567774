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
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError

SOURCES = [[5, 6, 7, 1], [5, 1], [8, 9, 1]]
LINES = ["The old man sees the small dogs.", "I sleep.", "She sleeps."]


@pytest.fixture(scope="module")
def translator(small_run):
    return Translator.from_run_dir(small_run, "extra_length=5", xla_compile=False)


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


def test_limits_are_the_maximum_output_lengths():
    np.testing.assert_array_equal(inputs_of([0, 2]).limits, [6, 5])
    np.testing.assert_array_equal(inputs_of([0, 1, 2], max_positions=5).limits, [5, 4, 5])


def test_an_output_has_room_for_its_prefix_and_the_end():
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


def test_only_trees_is_refused_for_a_translator(translator):
    with pytest.raises(UserError, match="only_trees=True is for parsing"):
        translator.translate(LINES, only_trees=True)


@pytest.mark.parametrize("forbidden", [[5], [5, 6, 7, 8]])
def test_a_constraint_needs_one_input_per_line(translator, forbidden):
    with pytest.raises(ValueError, match="'forbidden' must occur once, with one entry for each of the 3 lines"):
        translator.translate(LINES, constraints=[LineConstraint(Without(), {"forbidden": forbidden})])


def test_two_constraints_cannot_share_an_input(translator):
    twice = [LineConstraint(Without(), {"forbidden": [5, 5, 5]})] * 2
    with pytest.raises(ValueError, match="must occur once"):
        translator.translate(LINES, constraints=twice)
