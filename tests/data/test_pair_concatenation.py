"""Concatenated training pairs: their texts, their share, their lengths, resumption, and batches of fixed shapes."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.data.generation.generate import generate
from t2t_lite.data.pipeline import concatenate_pairs, epochs
from t2t_lite.data.problem import Example, Problem, get_problem
from t2t_lite.registry import PROBLEMS

PAIRS = 500


@PROBLEMS.register
class NumberedForTest(Problem):
    """Pairs of different lengths, so that both sides of a pair must be joined with the same other pair."""

    vocab_kind = "characters"
    num_shards = 2

    def examples(self, split, files):
        for number in range(PAIRS if split == "train" else 5):
            yield Example("a" * (number % 7) + f"{number}.", f"{number}," + "b" * (number % 5))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    generate(NumberedForTest(), folder, folder, say=lambda line: None)
    return folder


def batches_of(data, number, rate, **settings):
    sizes = {"batch_tokens": 200, "batch_by": "both", "max_length": 64, "seed": 5} | settings
    dataset = epochs(get_problem("numbered_for_test"), data, pair_concatenation=rate, **sizes)
    return list(dataset.take(number).as_numpy_iterator())


def pairs_of(batches, epoch):
    """Returns the pairs of an epoch, without padding and without end symbols."""
    rows = (zip(batch["inputs"], batch["targets"]) for batch in batches if batch["epoch"] == epoch)
    pairs = [tuple(tuple(ids[ids > 0].tolist()) for ids in pair) for batch in rows for pair in batch]
    pairs = [pair for pair in pairs if pair[0]]  # batches of fixed shapes have empty rows
    assert all(ids[-1] == 1 and 1 not in ids[:-1] for pair in pairs for ids in pair)
    return [tuple(ids[:-1] for ids in pair) for pair in pairs]


def appended_to(pair, originals):
    """Returns the original pair that follows another one in a pair."""
    for first in originals & {(pair[0][:cut], pair[1][:other]) for cut in range(20) for other in range(20)}:
        second = tuple(ids[len(start) :] for ids, start in zip(pair, first))
        if second in originals:
            return first, second
    raise AssertionError(pair)


@pytest.mark.parametrize("batch_by", ["both", "shapes"])
def test_some_pairs_are_followed_by_another_pair_and_every_pair_comes_once_itself(data, batch_by):
    originals = pairs_of(batches_of(data, 60, 0.0), 0)
    assert len(set(originals)) == len(originals) == PAIRS
    epoch_pairs = []
    for epoch in (0, 1):
        pairs = pairs_of(batches_of(data, 200, 0.4, batch_by=batch_by), epoch)
        single = [pair for pair in pairs if pair in set(originals)]
        joined = [appended_to(pair, set(originals)) for pair in pairs if pair not in set(originals)]
        assert collections.Counter([*single, *(first for first, _ in joined)]) == collections.Counter(originals)
        assert len({second for _, second in joined}) > len(joined) / 2
        longest = max(len(ids) for pair in originals for ids in pair)
        assert max(len(ids) for pair in pairs for ids in pair) <= longest
        epoch_pairs.append(joined)
    assert epoch_pairs[0] != epoch_pairs[1]


def test_the_share_is_the_rate_and_too_long_pairs_stay_alone():
    texts = tf.ragged.constant([[2, 3, 1], [4, 1]] * 5_000 + [[5, 6, 7, 8, 9, 1]], tf.int32, row_splits_dtype=tf.int64)
    seed = tf.constant([1, 2], tf.int64)
    inputs, targets = concatenate_pairs(texts, texts, seed, 0.3, longest=6)
    assert inputs.to_list() == targets.to_list() and inputs.to_list()[-1] == [5, 6, 7, 8, 9, 1]
    changed = [row != old for row, old in zip(inputs.to_list(), texts.to_list())]
    assert abs(sum(changed) / len(changed) - 0.3) < 5 * (0.3 * 0.7 / len(changed)) ** 0.5
    again, _ = concatenate_pairs(texts, texts, seed, 0.3, longest=6)
    other, _ = concatenate_pairs(texts, texts, seed + 1, 0.3, longest=6)
    assert again.to_list() == inputs.to_list() != other.to_list()
    everything, _ = concatenate_pairs(texts, texts, seed, 1.0, longest=99)
    assert all(len(row) > len(old) for row, old in zip(everything.to_list(), texts.to_list()))


def test_training_resumes_with_the_same_batches(data):
    batches = batches_of(data, 40, 0.3)
    later = batches[-3]
    assert later["epoch"] > 0
    again = batches_of(data, 3, 0.3, first_epoch=int(later["epoch"]), skip=int(later["position"]))
    np.testing.assert_equal(again, batches[-3:])
