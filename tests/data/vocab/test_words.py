"""A vocabulary of whole words."""

import pytest
import tensorflow as tf

from t2t_lite.data.vocab import EOS_ID, UNKNOWN_ID, open_vocabulary, train_vocabulary

LINES = ["(S (NP XX )NP )S", "(S XX )S", "(NP XX XX )NP", "é 词 (S"]
WORDS = ["(S", "XX", ")NP", ")S", "(NP", "é", "词"]


@pytest.fixture
def vocabulary(tmp_path):
    train_vocabulary(LINES, 100, tmp_path / "vocab", "words")
    return open_vocabulary(tmp_path / "vocab")


def test_tokens_are_words_by_descending_frequency(vocabulary):
    counts = {word: sum(line.split().count(word) for line in LINES) for word in WORDS}
    expected = sorted(counts, key=lambda word: (-counts[word], word))
    assert vocabulary.tokens() == ["<pad>", "</s>", "<unk>", *expected]
    assert vocabulary.size == len(WORDS) + 3


def test_texts_survive_a_round_trip_with_single_blanks_and_other_words_are_unknown(vocabulary):
    encode = tf.function(vocabulary.encode, input_signature=[tf.TensorSpec([None], tf.string)])
    texts = [*LINES, "", "  XX \t XX ", "XX (VP XX"]
    ids = vocabulary.encode(tf.constant(texts))
    assert ids.dtype == tf.int32 and [row[-1] for row in ids.to_list()] == 7 * [EOS_ID]
    assert ids.to_list() == encode(tf.constant(texts)).to_list() == vocabulary.encode_all(texts).to_list()
    place = vocabulary.tokens().index("XX")
    assert ids.to_list()[-3:] == [[EOS_ID], [place, place, EOS_ID], [place, UNKNOWN_ID, place, EOS_ID]]
    assert vocabulary.decode(ids.to_tensor().numpy()) == [*LINES, "", "XX XX", "XX ⁇ XX"]


def test_symbols_come_first_even_if_no_text_has_them(tmp_path):
    train_vocabulary(LINES, 100, tmp_path / "vocab", "words", [")S", "<new>"])
    tokens = open_vocabulary(tmp_path / "vocab").tokens()
    assert tokens[3:6] == [")S", "<new>", "XX"] and len(tokens) == len(set(tokens)) == len(WORDS) + 4


@pytest.mark.parametrize(("different", "left_out"), [(1000, 0), (1001, 1)])
def test_among_many_words_those_seen_once_become_unknown(tmp_path, different, left_out):
    words = [f"w{number:04}" for number in range(different)]
    train_vocabulary([" ".join(words), " ".join(words[1:])], 2000, tmp_path / "vocab", "words")
    assert open_vocabulary(tmp_path / "vocab").tokens()[3:] == (words[1:] if left_out else [*words[1:], words[0]])
