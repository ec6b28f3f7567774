"""What `t2t-lite-datagen --inspect` measures and draws, compared with texts and batches."""

import collections

import numpy as np
import pytest

from t2t_lite.config import HParams
from t2t_lite.data.inspection import WordCounter, inspect_split
from t2t_lite.data.pipeline import batches
from t2t_lite.data.problem import SIDES, get_problem
from t2t_lite.data.vocab import open_vocabulary


@pytest.fixture(scope="module")
def found(grammar_data):
    return inspect_split(grammar_data, "grammar_ende", "train")


def tokens_per_word(vocabulary, texts):
    rows = vocabulary.ids_of(texts)
    flat = np.array([token for row in rows for token in row])
    return WordCounter(vocabulary).tokens_per_word(flat, np.array([len(row) for row in rows]))


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("bytes", '{"kind": "bytes", "pieces": []}'),
        ("wordpiece", '{"kind": "wordpiece", "pieces": ["a", " ", " big", "##ger", "b", "##ig"]}'),
    ],
)
def test_tokens_are_counted_by_word(tmp_path, kind, content):
    (tmp_path / "vocab").write_text(content)
    vocabulary = open_vocabulary(tmp_path / "vocab")
    expected = {
        "bytes": {1: 1, 5: 1, 7: 1, 3: 1},  # a, _b ü g (ü is two bytes), _bigger; big begins a text
        "wordpiece": {1: 1, 5: 1, 2: 2},  # bytes spell " büg"; " big" + "##ger"; "b" + "##ig"
    }
    assert tokens_per_word(vocabulary, ["a büg bigger", "big", ""]) == expected[kind]
    assert tokens_per_word(vocabulary, ["", ""]) == {}


def test_words_of_real_data_are_those_between_blanks(found, grammar_data):
    problem = get_problem("grammar_ende")
    lines = {side: (grammar_data / problem.text_filename("dev", side)).read_text().splitlines() for side in SIDES}
    of_dev = inspect_split(grammar_data, "grammar_ende", "dev")
    for side, vocabulary in zip(SIDES, of_dev.vocabularies):
        words = [word for line in lines[side] for word in line.split()]
        assert of_dev.tokens_per_word[side].total() == len(words)
        tokens = sum(length * count for length, count in of_dev.lengths[side].items()) - len(lines[side])
        assert sum(number * count for number, count in of_dev.tokens_per_word[side].items()) == tokens
        naive = [tokens for line in lines[side] for tokens in naive_tokens_per_word(vocabulary, line)]
        assert of_dev.tokens_per_word[side] == collections.Counter(naive)


def naive_tokens_per_word(vocabulary, line):
    """Returns the number of tokens of each word of a line without doubled blanks."""
    counts = []
    for text in vocabulary.tokens_of(vocabulary.ids_of([line])[0]):
        if not counts or text.startswith(" "):
            counts.append(0)
        counts[-1] += 1
    return counts


def test_padding_is_that_of_training_batches(found, grammar_data):
    sizes = {"batch_tokens": HParams.batch_tokens, "max_length": HParams.max_length}
    made = batches(get_problem("grammar_ende"), grammar_data, "train", batch_by="both", **sizes)
    for side in SIDES:
        shapes = [(batch[side].shape, int(np.count_nonzero(batch[side]))) for batch in made]
        padding = found.padding[side]
        assert [(rows, length) for (rows, length), _ in shapes] == list(zip(padding.rows, padding.lengths))
        assert [tokens for _, tokens in shapes] == padding.tokens.tolist()
        positions = sum(rows * length for (rows, length), _ in shapes)
        assert padding.share == pytest.approx(1 - sum(tokens for _, tokens in shapes) / positions)
