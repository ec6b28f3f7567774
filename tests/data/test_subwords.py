"""Subwords, tokens and bytes have the ids and texts of tensor2tensor's encoders, in Python and in a graph."""

import gzip
import json
import random

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.data.inspection import WordCounter
from t2t_lite.data.vocab import import_vocabulary, open_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.importing.t2t_model import import_t2t_vocabulary


@pytest.fixture(scope="module")
def vocabulary(t2t_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("subwords") / "vocabulary"
    import_vocabulary(t2t_dir / "data" / "vocab.translate30k_small.2048.subwords", path)
    return open_vocabulary(path)


@pytest.fixture(scope="module")
def encoded(t2t_dir):
    """(texts, ids) that tensor2tensor wrote: lines of Multi30k in three languages, and hostile strings."""
    with gzip.open(t2t_dir / "ids.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts, ids = zip(*map(json.loads, lines))
    return list(texts), [[*row, 1] for row in ids]


def hostile(number):
    draw = random.Random(1)
    kinds = [" _\\u;0123456789", "abcäßŁ9٣Ⅷ", "!,.-'\"<>", "\n\t\r\u2028\u00a0\u3000", "你好ひ한é\u0301"]
    kinds.append("😀\U0010ffff\ue000\x00\x7f")
    return ["".join(draw.choice(draw.choice(kinds)) for _ in range(draw.randrange(30))) for _ in range(number)]


def test_texts_have_the_ids_that_tensor2tensor_gave_them(vocabulary, encoded):
    texts, ids = encoded
    assert len(texts) == 4401
    assert vocabulary.ids_of(texts) == ids
    assert vocabulary.decode(ids) == texts


@pytest.mark.slow
def test_a_graph_gives_the_same_ids(vocabulary, encoded):
    texts = [*encoded[0], *hostile(2000), "", " ", "  ", "a" * 3000]
    found = tf.function(vocabulary.encode)(tf.constant(texts))
    assert found.to_list() == vocabulary.ids_of(texts)
    assert vocabulary.encode_all([]).to_list() == []
    assert vocabulary.encode_all(["", ""]).to_list() == [[1], [1]]


def test_any_text_comes_back(vocabulary):
    texts = hostile(10_000)
    assert vocabulary.decode(vocabulary.ids_of(texts)) == texts


def test_texts_of_tokens_make_the_text(vocabulary):
    for text in ("the girl's 2 dogs", "a_b\\c", "Łódź 😀 x", " a  b ", "_"):
        (ids,) = vocabulary.ids_of([text])
        parts = vocabulary.tokens_of(ids)
        assert "".join(parts) == text and len(parts) == len(ids) - 1


def test_graphs_decode_alike(vocabulary, encoded):
    _, ids = encoded
    draw = random.Random(2)
    escapes = [vocabulary.tokens().index(character) for character in "\\_u;0129"]
    rows = [*ids, *([draw.choice([*escapes, draw.randrange(vocabulary.size)]) for _ in range(12)] for _ in range(2000))]
    rows += [[], [1], [1, 5], [0, 5, 0, 1]]
    padded = tf.ragged.constant(rows, dtype=tf.int32).to_tensor(0)
    found = [text.decode() for text in tf.function(vocabulary.decode_in_graph)(padded).numpy()]
    assert found == vocabulary.decode(rows)
    assert vocabulary.decode_in_graph(tf.zeros([0, 3], tf.int32)).shape == (0,)


def test_words_are_counted_between_blanks(vocabulary):
    for text in ("The girl's 2 dogs, and (a) cat.", "a b", " a  b", "x,y z"):
        (ids,) = vocabulary.ids_of([text])
        counts = WordCounter(vocabulary).tokens_per_word(np.array(ids), np.array([len(ids)]))
        assert counts.total() == len(text.split()) and sum(n * k for n, k in counts.items()) == len(ids) - 1


def test_outputs_that_no_text_has_are_decoded_as_by_tensor2tensor(vocabulary):
    def ids(*subwords):
        return [vocabulary.tokens().index(subword) for subword in subwords]

    assert vocabulary.decode([ids("\\", "9", "9", "9", "9", "9", "9", "9", "9", ";", "_")]) == ["〓"]
    assert vocabulary.decode([ids("_", "_", "a_", "_", "der_")]) == ["a der"]
    assert vocabulary.decode([ids("a_", "Frau_", "e", "i")]) == ["a Frau ei"]


@pytest.mark.parametrize(
    "content, why",
    [
        ("'<pad>_'\n'b_'\n", "does not begin with <pad> and <EOS>"),
        ("'<pad>_'\n'<EOS>_'\n'a'\n'a'\n", "contains one twice"),
        ("'<pad>_'\n'<EOS>_'\n'ab_'\n", "without the character"),
    ],
)
def test_other_files_are_refused(tmp_path, content, why):
    (tmp_path / "vocab.x.subwords").write_text(content)
    with pytest.raises(UserError, match=why) as caught:
        import_vocabulary(tmp_path / "vocab.x.subwords", tmp_path / "vocabulary")
    assert "\n" not in str(caught.value) and not (tmp_path / "vocabulary").exists()


# Lists of tokens, and bytes.

# Of such a list as that of its problem translate_ende_wmt_bpe32k, whose unknown words are UNK.
LIST = "<pad>\n<EOS>\nUNK\nthe\nho@@\nuse\n.\né\n"


def token_list(folder, text=LIST):
    (folder / "vocab.bpe").write_text(text, encoding="utf-8")
    import_vocabulary(folder / "vocab.bpe", folder / "made")
    return open_vocabulary(folder / "made")


# The ids were computed by TokenTextEncoder("vocab.bpe", replace_oov="UNK").encode of tensor2tensor 1.15.7.
TOKENS = {
    "the ho@@ use .": [3, 4, 5, 6],
    "  the\tnew\u3000use\x1c. é ": [3, 2, 5, 6, 7],
    "The ho@@use\u00a0the": [2, 2, 3],
    "": [],
}
# And those by ByteTextEncoder().encode.
BYTES = {"aé\n": [99, 197, 171, 12], "\x00 ÿ": [2, 34, 197, 193], "": []}


def test_tokens(tmp_path):
    vocabulary = token_list(tmp_path)
    expected = [[*ids, 1] for ids in TOKENS.values()]
    assert vocabulary.size == 8 and vocabulary.unknown_id == 2
    assert vocabulary.ids_of(list(TOKENS)) == expected
    assert tf.function(vocabulary.encode)(tf.constant(list(TOKENS))).to_list() == expected
    texts = ["the ho@@ use .", "the UNK use . é", "UNK UNK the", ""]
    assert vocabulary.decode(expected) == texts
    padded = tf.ragged.constant(expected, tf.int32).to_tensor()
    assert [text.decode() for text in vocabulary.decode_in_graph(padded).numpy()] == texts


def test_without_a_token_for_unknown_words_they_are_errors(tmp_path):
    vocabulary = token_list(tmp_path, LIST.replace("UNK", "no"))
    assert vocabulary.unknown_id is None and vocabulary.ids_of(["no use"]) == [[2, 5, 1]]
    with pytest.raises(UserError, match="has no token 'house', and no UNK"):
        vocabulary.encode_all(["the house"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="lacks a token"):
        tf.function(vocabulary.encode)(tf.constant(["the house"]))


def test_bytes(tmp_path):
    import_t2t_vocabulary("bytes", tmp_path / "vocab")
    vocabulary = open_vocabulary(tmp_path / "vocab")
    expected = [[*ids, 1] for ids in BYTES.values()]
    assert vocabulary.size == 258 and vocabulary.unknown_id is None
    assert vocabulary.ids_of(list(BYTES)) == expected
    assert tf.function(vocabulary.encode)(tf.constant(list(BYTES))).to_list() == expected
    assert vocabulary.decode(expected) == list(BYTES)
    assert vocabulary.decode([[99, 197, 1]]) == ["a\ufffd"]
    assert len(set(vocabulary.tokens())) == 258
