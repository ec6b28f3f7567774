"""The open brackets after each token: known outputs, random sequences against a list as stack, and stepping."""

import keras
import numpy as np
import pytest

from t2t_lite.layers.beam_ancestry import initial_ancestry, next_ancestry
from t2t_lite.layers.open_brackets import MAX_DEPTH, BracketIds, BracketStack

BRACKETS = BracketIds(4, 3)  # ids 4, 5, 6 open labels 1, 2, 3; ids 7, 8, 9 close them


def innermost_and_numbers(ids):
    """The label of the innermost open bracket, and the number of open brackets, after each token; with a list."""
    stack, labels, numbers = [], [], []
    for token in ids:
        if 4 <= token < 7:
            stack.append(token - 3)
        elif 7 <= token < 10:
            del stack[-1:]
        labels.append(stack[-1] if stack and len(stack) <= MAX_DEPTH else 0)
        numbers.append(min(len(stack), MAX_DEPTH))
    return labels, numbers


def of_model(ids):
    """The same for rows of ids, computed by the layer: a pair for each row."""
    found = BRACKETS.open_after(np.array(ids, "int32"))
    return list(zip(as_list(found.innermost), as_list(found.number), strict=True))


def as_list(array):
    return keras.ops.convert_to_numpy(array).tolist()


@pytest.mark.parametrize(
    ("ids", "labels", "numbers"),
    [
        (
            [4, 3, 5, 3, 3, 8, 6, 3, 9, 7, 1, 0],
            [1, 1, 2, 2, 2, 1, 3, 3, 1, 0, 0, 0],
            [1, 1, 2, 2, 2, 1, 2, 2, 1, 0, 0, 0],
        ),
        ([4, 5, 7, 9, 4, 7], [1, 2, 1, 0, 1, 0], [1, 2, 1, 0, 1, 0]),  # closing brackets with wrong labels
        ([7, 8, 4, 7, 7, 5], [0, 0, 1, 0, 0, 2], [0, 0, 1, 0, 0, 1]),  # surplus closing brackets
    ],
)
def test_known_sequences(ids, labels, numbers):
    assert of_model([ids]) == [(labels, numbers)] == [innermost_and_numbers(ids)]


def test_random_sequences_and_deep_ones_equal_those_of_a_list():
    ids = np.random.default_rng(0).integers(0, 12, (200, 40))
    assert of_model(ids) == [innermost_and_numbers(row) for row in ids]
    deep = [4, 5] * (MAX_DEPTH // 2 + 3) + [7] * (MAX_DEPTH + 2)
    assert of_model([deep]) == [innermost_and_numbers(deep)]


def test_the_stacks_of_hypotheses_follow_their_ancestry():
    random = np.random.default_rng(1)
    batch, beam, length = 3, 4, MAX_DEPTH + 40
    stack, ancestry = BracketStack.empty(batch, beam), initial_ancestry(batch, beam, length)
    histories, depths = np.zeros((batch, beam, 0), int), []
    for position in range(length):
        # Mostly opening brackets first, so that stacks become full, then closing ones.
        first = 4 if position < MAX_DEPTH + 10 else 7
        ids = np.where(random.random((batch, beam)) < 0.97, first, 0) + random.integers(0, 3)
        parents = random.integers(0, beam, (batch, beam)).astype("int32")
        ancestry = next_ancestry(ancestry, parents, position)
        stack = stack.after(ids.astype("int32"), BRACKETS, ancestry)
        histories = np.concatenate([np.take_along_axis(histories, parents[:, :, None], 1), ids[:, :, None]], 2)
        depths.append(np.max(as_list(stack.depth)))
        if position % 10:  # the history since the start takes long to follow
            continue
        found = stack.open_brackets()
        expected = np.array([[innermost_and_numbers(history) for history in beams] for beams in histories])
        assert as_list(found.innermost) == expected[:, :, 0, -1].tolist()
        assert as_list(found.number) == expected[:, :, 1, -1].tolist()
    assert max(depths) > MAX_DEPTH > depths[-1]
