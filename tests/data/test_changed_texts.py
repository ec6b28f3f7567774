"""Training texts that change: BPE dropout, against algorithm 1 of Provilkov et al. 2020, and concatenated pairs."""

import collections
import functools
import io
import random

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from t2t_lite.data.bpe_dropout import BpeDropout, NewTokens
from t2t_lite.data.generation.generate import generate
from t2t_lite.data.pipeline import concatenate_pairs, epochs
from t2t_lite.data.problem import Example, Problem
from t2t_lite.data.vocab import open_vocabulary, train_vocabulary
from t2t_lite.errors import UserError

BLANK, PAIRS = "\u2581", 500
WORDS = ["the", "lower", "newest", "widest", "lowest", "newer", "wide", "tower", "towel", "renew", "wider", "lowers"]


def sentences(number, seed=1):
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randint(1, 6))) for _ in range(number)]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = tmp_path_factory.mktemp("bpe") / "vocab.subwords"
    train_vocabulary(sentences(400), 320, path, symbols=["<2de>"], byte_fallback=True)
    return open_vocabulary(path)


def split(vocabulary, texts, rate, seed=1):
    """Returns the new ids of texts as lists."""
    rows = vocabulary.ids_of(texts)
    flat, lengths = np.concatenate(rows).astype(np.int32), np.array([len(row) for row in rows])
    ids, counts = BpeDropout(vocabulary, rate)(flat, lengths, np.random.default_rng(seed))
    assert ids.dtype == np.int32 and counts.sum() == len(ids)
    return [part.tolist() for part in np.split(ids, np.cumsum(counts)[:-1])]


def test_without_dropout_tokens_are_sentencepieces_own(vocabulary):
    texts = ["", "new  two blanks ", "unknown: ж 漢 \t", "<2de> lower<2de>est", "xyz", "newestnewest"]
    texts += sentences(200, seed=2)
    assert split(vocabulary, texts, 0.0) == vocabulary.ids_of(texts)


def test_texts_stay_the_same_with_any_rate(vocabulary):
    texts = [*sentences(50, seed=3), "", " new  blanks ", "ж <2de> newest"]
    plain = vocabulary.ids_of(texts)
    for rate in (0.1, 0.5, 0.999):
        rows = split(vocabulary, texts, rate)
        assert vocabulary.decode(rows) == vocabulary.decode(plain)
        assert all(row[-1] == 1 for row in rows)
    symbol = vocabulary.tokens().index("<2de>")
    assert symbol in rows[-1] and max(map(len, rows)) > max(map(len, plain))  # characters, but for the symbol


@pytest.mark.parametrize("setting", ["split_by_whitespace", "add_dummy_prefix"])
def test_models_whose_words_do_not_begin_with_a_blank_are_split_alike(setting, tmp_path):
    model = io.BytesIO()
    sizes = {"model_type": "bpe", "vocab_size": 120, "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    settings = {setting: False, "hard_vocab_limit": False, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences(400)), model_writer=model, **sizes, **settings
    )
    (tmp_path / "vocab.subwords").write_bytes(model.getvalue())
    vocabulary = open_vocabulary(tmp_path / "vocab.subwords")
    texts = sentences(50, seed=4)
    plain = vocabulary.ids_of(texts)
    assert split(vocabulary, texts, 0.0) == plain
    rows = split(vocabulary, texts, 0.4)
    assert rows != plain and vocabulary.decode(rows) == vocabulary.decode(plain)


def distribution_of(word, scores, rate):
    """Returns the probability of each split of a word by algorithm 1: all cases of dropped merges, one by one."""

    @functools.cache
    def splits(symbols):
        merges = [i for i in range(len(symbols) - 1) if symbols[i] + symbols[i + 1] in scores]
        # The best merge first. It is made if it is kept and all better ones are dropped.
        merges.sort(key=lambda i: (-scores[symbols[i] + symbols[i + 1]], i))
        found, dropped = collections.Counter(), 1.0
        for i in merges:
            merged = (*symbols[:i], symbols[i] + symbols[i + 1], *symbols[i + 2 :])
            for result, probability in splits(merged).items():
                found[result] += dropped * (1 - rate) * probability
            dropped *= rate
        found[symbols] += dropped
        return found

    return splits(tuple(word))


@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_splits_are_as_frequent_as_the_algorithm_says(vocabulary, rate):
    tokens, number = vocabulary.tokens(), 20_000
    scores = {tokens[id]: score for id, score in vocabulary.merge_scores().items()}
    rows = split(vocabulary, ["newest lower"] * number, rate)
    for word in (f"{BLANK}newest", f"{BLANK}lower"):
        expected = distribution_of(word, scores, rate)
        assert sum(expected.values()) == pytest.approx(1.0)
        counts = collections.Counter()
        for row in rows:
            pieces = [tokens[id] for id in row[:-1]]
            second = max(i for i, piece in enumerate(pieces) if piece.startswith(BLANK))
            counts[tuple(pieces[:second] if word == f"{BLANK}newest" else pieces[second:])] += 1
        assert set(counts) <= set(expected) and len(counts) > 3
        for pieces, probability in expected.items():
            deviation = (number * probability * (1 - probability)) ** 0.5
            assert abs(counts[pieces] - number * probability) < 5 * deviation + 1


def test_a_text_that_would_be_too_long_keeps_its_tokens(vocabulary):
    texts, longest = ["newest newest newest", "lower"], 10
    rows = vocabulary.ids_of(texts)
    new_tokens = NewTokens([BpeDropout(vocabulary, 0.999), None], longest)
    ragged = vocabulary.encode_all(texts)
    seed = tf.constant([1, 0], tf.int64)
    inputs, targets = new_tokens.of_window(ragged, ragged, seed, tf.constant(0, tf.int64))
    assert inputs.to_list()[0] == rows[0] and targets.to_list() == rows
    assert len(rows[1]) < len(inputs.to_list()[1]) <= longest


class Words(Problem):
    vocab_size = 320
    num_shards = 2

    def examples(self, split, files):
        for text in sentences(60 if split == "train" else 5, seed=len(split)):
            yield Example(text, text)


class WholeWords(Words):
    vocab_kind = "words"


class Numbered(Problem):
    """Pairs of different lengths, so that both sides of a pair must be joined with the same other pair."""

    vocab_kind = "characters"
    num_shards = 2

    def examples(self, split, files):
        for number in range(PAIRS if split == "train" else 5):
            yield Example("a" * (number % 7) + f"{number}.", f"{number}," + "b" * (number % 5))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for problem in (Words(), WholeWords(), Numbered()):
        generate(problem, folder, folder, say=lambda line: None)
    return folder


def batches_of(data, number, problem, **settings):
    sizes = {"batch_tokens": 200, "batch_by": "both", "max_length": 64, "seed": 5} | settings
    return list(epochs(problem, data, **sizes).take(number).as_numpy_iterator())


@pytest.mark.parametrize(
    ("problem", "how"), [(Words(), {"bpe_dropout": 0.3}), (Numbered(), {"pair_concatenation": 0.3})]
)
def test_training_resumes_with_the_same_batches(data, problem, how):
    batches = batches_of(data, 40, problem, **how)
    later = batches[-3]
    assert later["epoch"] > 0
    again = batches_of(data, 3, problem, **how, first_epoch=int(later["epoch"]), skip=int(later["position"]))
    np.testing.assert_equal(again, batches[-3:])


def test_each_epoch_has_other_tokens_of_the_same_texts(data):
    batches = batches_of(data, 40, Words(), bpe_dropout=0.3)
    vocabulary = open_vocabulary(next(data.glob("vocab.words.*")))
    epoch_rows = []
    for epoch in (0, 1):
        rows = [row for batch in batches if batch["epoch"] == epoch for row in batch["inputs"].tolist()]
        assert sorted(vocabulary.decode(rows)) == sorted(sentences(60, seed=5))
        epoch_rows.append({tuple(row) for row in rows})
    assert epoch_rows[0] != epoch_rows[1]
    assert any(batch["inputs"].tolist() != batch["targets"].tolist() for batch in batches)


def test_data_without_byte_pairs_is_refused(data):
    with pytest.raises(UserError, match=r"bpe_dropout=0.3: the vocabularies in .* have no byte-pair tokens"):
        batches_of(data, 1, WholeWords(), bpe_dropout=0.3)


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
    originals = pairs_of(batches_of(data, 60, Numbered()), 0)
    assert len(set(originals)) == len(originals) == PAIRS
    epoch_pairs = []
    for epoch in (0, 1):
        pairs = pairs_of(batches_of(data, 200, Numbered(), pair_concatenation=0.4, batch_by=batch_by), epoch)
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
