import collections
import itertools
import json

import numpy as np
import pytest
import tensorflow as tf
from support.letters import records_of
from support.vocabularies import vocabulary_paths

from t2t_lite.data import pipeline
from t2t_lite.data.generation.generate import generate
from t2t_lite.data.manifest import check_data
from t2t_lite.data.pipeline import batches, epochs
from t2t_lite.data.problem import SIDES, Example, Problem, get_problem
from t2t_lite.errors import UserError
from t2t_lite.registry import HPARAMS
from t2t_lite.runs.run_dir import RunDir
from t2t_lite.training.options import TrainOptions
from t2t_lite.training.run import set_up

MULTI30K = {"batch_tokens": 4096, "max_length": 256}


class Numbered(Problem):
    """Pairs of different lengths, each with its own number."""

    vocab_size = 60
    byte_fallback = False
    num_shards = 3
    num_train = 400

    def examples(self, split, files):
        for index in range(self.num_train if split == "train" else 30):
            yield Example("ab " * (index % 7) + str(index), str(index) + " cd" * (index * index % 11))


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("numbered")
    generate(Numbered(), data_dir, data_dir / "none", say=lambda line: None)
    return data_dir


SIZES = {"batch_tokens": 300, "max_length": 100}


def pairs_of(batch):
    """The pairs of a batch as tuples of ids without padding, in order."""
    rows = zip(*(batch[side].numpy() for side in SIDES))
    return [tuple(tuple(ids[ids != 0].tolist()) for ids in pair) for pair in rows]


def epoch_of(problem, data_dir, split="train", **settings):
    return [pairs_of(batch) for batch in batches(problem, data_dir, split, **settings)]


def stored_pairs(problem, data_dir, split):
    """The pairs of a split in the order of the shards."""
    for record in records_of(problem, data_dir, split):
        yield tuple(tuple(record[side]) for side in SIDES)


def flat(epoch):
    return list(itertools.chain.from_iterable(epoch))


@pytest.mark.parametrize("seed, batch_by", [(None, "targets"), (1, "both")])
def test_multi30k_batches_are_full_with_little_padding(multi30k_data, seed, batch_by):
    dataset = batches(get_problem("multi30k_ende"), multi30k_data, "train", seed=seed, batch_by=batch_by, **MULTI30K)
    tokens, positions, real = [], 0, 0
    for batch in dataset:
        tokens.append(np.count_nonzero(batch["targets"]))
        positions += sum(ids.numpy().size for ids in batch.values())
        real += sum(map(np.count_nonzero, batch.values()))
    assert 1 - real / positions < 0.12
    assert np.mean(tokens) == pytest.approx(4096, rel=0.05)
    assert min(tokens) > 0.9 * 4096 and max(tokens) < 1.1 * 4096


@pytest.mark.heavy
@pytest.mark.parametrize("split, seed", [("train", 1), ("dev", None)])
def test_every_pair_of_multi30k_occurs_exactly_once_per_epoch(multi30k_data, split, seed):
    problem = get_problem("multi30k_ende")
    found = collections.Counter(flat(epoch_of(problem, multi30k_data, split, seed=seed, **MULTI30K)))
    assert found == collections.Counter(stored_pairs(problem, multi30k_data, split))


def test_a_batch_is_two_int32_matrices_padded_with_0(numbered):
    dataset = batches(Numbered(), numbered, "train", **SIZES)
    assert set(dataset.element_spec) == {"inputs", "targets"}
    for batch in dataset:
        for ids in batch.values():
            assert ids.dtype == tf.int32 and ids.shape.rank == 2
            lengths = np.count_nonzero(ids, axis=1)
            assert lengths.max() == ids.shape[1]  # no column with only padding
            assert ((ids.numpy() != 0) == (np.arange(ids.shape[1]) < lengths[:, np.newaxis])).all()


@pytest.mark.parametrize("batch_tokens", [1, 50, 300, 10**6])
@pytest.mark.parametrize("seed, batch_by", [(None, "targets"), (3, "targets"), (3, "both")])
def test_every_pair_occurs_exactly_once_for_any_batch_size(numbered, batch_tokens, seed, batch_by):
    epoch = epoch_of(Numbered(), numbered, batch_tokens=batch_tokens, max_length=100, seed=seed, batch_by=batch_by)
    assert collections.Counter(flat(epoch)) == collections.Counter(stored_pairs(Numbered(), numbered, "train"))
    assert min(len(batch) for batch in epoch) > 0
    assert len(epoch) == 1 or batch_tokens < 10**6


def test_batches_of_few_shapes_have_every_pair_once_an_epoch_and_can_be_resumed(numbered, monkeypatch):
    monkeypatch.setattr(pipeline, "WINDOW", 200)

    def first(number, **settings):
        dataset = epochs(Numbered(), numbered, seed=5, **SIZES, batch_by="shapes", **settings)
        return list(dataset.take(number).as_numpy_iterator())

    found = first(60)
    epoch = [batch for batch in found if batch["epoch"] == 0]
    assert len(epoch) < 60 and len({(batch["inputs"].shape, batch["targets"].shape) for batch in found}) <= 12
    pairs = [tuple(tuple(ids[ids != 0]) for ids in pair) for b in epoch for pair in zip(b["inputs"], b["targets"])]
    expected = collections.Counter(stored_pairs(Numbered(), numbered, "train"))
    assert collections.Counter(pair for pair in pairs if pair != ((), ())) == expected
    again = first(5, first_epoch=int(found[-5]["epoch"]), skip=int(found[-5]["position"]))
    np.testing.assert_equal(again, found[-5:])


@pytest.mark.slow
def test_the_same_seed_and_epoch_give_the_same_batches_in_no_order_of_length(numbered):
    first, again, *others = (
        epoch_of(Numbered(), numbered, seed=seed, epoch=epoch, **SIZES)
        for seed, epoch in ((1, 0), (1, 0), (1, 1), (2, 0), (0, 1))
    )
    assert again == first
    for other in others:
        assert flat(other) != flat(first)
        assert sorted(flat(other)) == sorted(flat(first))
        assert {frozenset(batch) for batch in other} != {frozenset(batch) for batch in first}
    longest = [max(len(targets) for _, targets in batch) for batch in first]
    assert longest not in (sorted(longest), sorted(longest, reverse=True))


def numbered_batches(data_dir, take, **settings):
    dataset = epochs(Numbered(), data_dir, seed=5, **SIZES, batch_by="both", **settings)
    return [(int(batch["epoch"]), int(batch["position"]), pairs_of(batch)) for batch in dataset.take(take)]


@pytest.fixture(scope="module", autouse=True)
def global_seed():
    """TensorFlow's global seed, which other tests change and on which the order of shards depends, too."""
    tf.random.set_seed(1)


@pytest.mark.slow
def test_the_global_seed_may_be_zero(numbered):
    tf.random.set_seed(0)  # as --random_seed=0 does
    try:
        first = numbered_batches(numbered, 50)
        assert numbered_batches(numbered, 50) == first
        epoch, position, _ = first[40]
        assert numbered_batches(numbered, 10, first_epoch=epoch, skip=position) == first[40:]
    finally:
        tf.random.set_seed(1)


@pytest.fixture(scope="module")
def undisturbed(numbered):
    """The first batches of an uninterrupted run: more than three epochs."""
    return numbered_batches(numbered, 100)


@pytest.mark.slow
def test_epochs_follow_one_another_endlessly(numbered, undisturbed):
    expected = []
    for epoch in range(3):
        of_epoch = epoch_of(Numbered(), numbered, seed=5, epoch=epoch, batch_by="both", **SIZES)
        expected += [(epoch, position, batch) for position, batch in enumerate(of_epoch)]
    assert len(undisturbed) == 100 > len(expected)
    assert undisturbed[: len(expected)] == expected
    assert undisturbed[len(expected)][:2] == (3, 0)


def test_a_resumed_run_sees_the_same_batches_as_an_uninterrupted_one(numbered, undisturbed):
    _, second, third, *_ = (index for index, (_, position, _) in enumerate(undisturbed) if position == 0)
    for used in (0, 1, second - 1, second, third + 1):
        # The trainer's state: the epoch of the last batch, and how many of its batches have been used.
        epoch, position = undisturbed[used - 1][:2] if used else (0, -1)
        going_on = numbered_batches(numbered, len(undisturbed) - used, first_epoch=epoch, skip=position + 1)
        assert going_on == undisturbed[used:]


@pytest.mark.heavy
def test_only_pairs_longer_than_max_length_are_dropped(numbered):
    stored = list(stored_pairs(Numbered(), numbered, "train"))
    lengths = [max(map(len, pair)) for pair in stored]
    for limit in (min(lengths), sorted(lengths)[200], max(lengths) - 1):
        expected = collections.Counter(pair for pair, length in zip(stored, lengths) if length <= limit)
        for seed in (None, 1):
            epoch = epoch_of(Numbered(), numbered, batch_tokens=300, max_length=limit, seed=seed)
            assert collections.Counter(flat(epoch)) == expected


@pytest.mark.parametrize("seed", [None, 1])
def test_a_window_with_only_too_long_pairs_gives_no_batch(numbered, monkeypatch, seed):
    monkeypatch.setattr(pipeline, "WINDOW", 2)
    stored = list(stored_pairs(Numbered(), numbered, "train"))
    limit = sorted(max(map(len, pair)) for pair in stored)[60]
    epoch = epoch_of(Numbered(), numbered, batch_tokens=300, max_length=limit, seed=seed)
    assert sorted(flat(epoch)) == sorted(pair for pair in stored if max(map(len, pair)) <= limit)


def test_an_epoch_may_be_a_single_pair(tmp_path):
    problem = Numbered()
    problem.num_train = 1
    generate(problem, tmp_path, tmp_path / "none", say=lambda line: None)
    assert len(flat(epoch_of(problem, tmp_path, seed=1, **SIZES))) == 1


@pytest.mark.slow
def test_a_reversed_problem_swaps_the_sides(numbered):
    forward = flat(epoch_of(Numbered(), numbered, seed=1, **SIZES))
    reverse = epoch_of(Numbered(is_reversed=True), numbered, seed=1, **SIZES)
    assert sorted(flat(reverse)) == sorted((targets, inputs) for inputs, targets in forward)
    assert max(sum(len(targets) for _, targets in batch) for batch in reverse) < 1.3 * SIZES["batch_tokens"]


@pytest.mark.slow
@pytest.mark.parametrize("window", [399, 350, 210, 190])
@pytest.mark.parametrize("seed", [None, 3])
def test_few_pairs_at_the_end_do_not_make_small_batches(numbered, monkeypatch, window, seed):
    monkeypatch.setattr(pipeline, "WINDOW", window)
    epoch = epoch_of(Numbered(), numbered, seed=seed, **SIZES)
    assert collections.Counter(flat(epoch)) == collections.Counter(stored_pairs(Numbered(), numbered, "train"))
    tokens = [sum(len(targets) for _, targets in batch) for batch in epoch]
    assert min(tokens) > 0.8 * SIZES["batch_tokens"]


def test_windows_are_of_equal_size():
    window = pipeline.WINDOW
    for examples in (1, window, window + 1, 3 * window // 2 - 1, 2 * window - 1, 4_508_785):
        size = pipeline.window_size(examples)
        number = -(-examples // size)
        assert size <= 1.5 * window and examples - (number - 1) * size > 0.99 * size


class Uneven(Problem):
    """Pairs with one long and one short side."""

    vocab_size = 60
    byte_fallback = False
    num_shards = 1

    def examples(self, split, files):
        for number in range(10):
            yield Example("ab " * 20, str(number)) if number % 2 else Example(str(number), "cd " * 20)


@pytest.mark.parametrize("by_early_version", [False, True])
def test_a_max_length_that_no_pair_meets_on_both_sides_is_refused(tmp_path, by_early_version):
    generate(Uneven(), tmp_path, tmp_path / "none", say=lambda line: None)
    path = tmp_path / "manifest.uneven.json"
    if by_early_version:
        made = json.loads(path.read_text())
        for split in made["splits"].values():
            del split["lengths"]["longer"]
        path.write_text(json.dumps(made))
    hparams = HPARAMS["transformer_tiny"]().replace(
        hidden_size=8, filter_size=8, num_heads=2, batch_tokens=100, max_length=12
    )
    vocabulary = vocabulary_paths(tmp_path, Uneven())[1]
    run_dir = RunDir(tmp_path / "run", hparams, Uneven(), vocabulary, vocabulary)
    manifest = check_data(tmp_path, Uneven())
    with pytest.raises(UserError, match=r"max_length=12 tokens.*`hparams=max_length=\d+`"):
        manifest.check_lengths(hparams)  # an early version's manifest does not tell
        set_up(run_dir, tmp_path, manifest, tf.distribute.get_strategy(), TrainOptions())
    lengths = json.loads(path.read_text())["splits"]["train"]["lengths"]
    assert by_early_version or min(map(int, lengths["longer"])) > 12 > max(min(map(int, lengths["inputs"])), 2)
