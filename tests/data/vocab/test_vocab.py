from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from t2t_lite.data.problem import get_problem
from t2t_lite.data.text_files import read_lines
from t2t_lite.data.vocab import EOS_ID, PAD_ID, UNKNOWN_ID, open_vocabulary, train_vocabulary
from t2t_lite.errors import UserError

TEXTS = [
    *["The cat sat on the mat.", "A dog ran.", "Ein Hund lief über die Straße.", "two  blanks,   three blanks"],
    *[" a leading blank", "   three leading blanks", "a trailing blank ", "two trailing blanks  ", "a\ttab"],
    *["no\u00a0break, ideographic\u3000space", "decomposed e\u0301, composed \u00e9, ligature \ufb01, wide \uff21"],
    *["a line\u2028separator and a form\x0cfeed", "emoji 😀 and 世界"],
]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.subwords"
    train_vocabulary(TEXTS, 300, path)
    return open_vocabulary(path)


def round_trip(vocabulary, texts):
    return vocabulary.decode(vocabulary.encode(tf.constant(texts)).to_tensor(PAD_ID))


def test_training_texts_survive_a_round_trip(vocabulary, tmp_path):
    texts = [*TEXTS, "", "  ", "\t"]
    assert round_trip(vocabulary, texts) == texts
    # Those like symbols, and those longer than 4192 bytes, too.
    for text in ("</s> <s> <pad> <unk>", "a long line, " * 500 + "with a Ж at its end"):
        train_vocabulary([*TEXTS, "and/or", text], 300, tmp_path / "v")
        assert round_trip(open_vocabulary(tmp_path / "v"), [text]) == [text]
    # Few texts have fewer tokens than are asked for.
    train_vocabulary(["a b", "b a"], 100, tmp_path / "v")
    assert 5 <= open_vocabulary(tmp_path / "v").size < 100
    assert round_trip(open_vocabulary(tmp_path / "v"), ["a b a"]) == ["a b a"]


def test_with_the_space_as_a_symbol_each_word_begins_with_it(tmp_path):
    train_vocabulary(TEXTS, 400, tmp_path / "v", symbols=(" ",), byte_fallback=True)
    vocabulary = open_vocabulary(tmp_path / "v")
    texts = ["The dog sat .", "dog", "unseen wörds", ""]
    rows = vocabulary.ids_of(texts)
    assert vocabulary.tokens()[3] == "\u2581"
    for text, ids in zip(texts, rows):
        spelled = "".join("|" if token == 3 else vocabulary.bytes_of(token).decode("latin1") for token in ids)
        assert spelled.encode("latin1").decode().split("|")[1:] == text.split()
    assert vocabulary.encode(tf.constant(texts)).to_list() == rows
    assert round_trip(vocabulary, texts) == texts


@pytest.mark.xfail(reason="without byte fallback SentencePiece has no tokens for these characters", strict=True)
@pytest.mark.parametrize("character", ["\u2581", "\u2585", "\0"], ids=["U+2581", "U+2585", "NUL"])
def test_characters_reserved_by_sentencepiece_survive_a_round_trip(tmp_path, character):
    text = f"one {character} of them"
    train_vocabulary([*TEXTS, text], 300, tmp_path / "v")
    assert round_trip(open_vocabulary(tmp_path / "v"), [text]) == [text]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["multi30k_ende", "multi30k_enfr"])
def test_every_line_of_multi30k_survives_a_round_trip(multi30k_dir, tmp_path, name):
    problem = get_problem(name)
    lines = [line for source in problem.sources for line in read_lines(multi30k_dir / source.name)]
    assert len(lines) == 2 * (29_000 + 1014 + 1000)
    train_vocabulary(lines, problem.vocab_size, tmp_path / "v")
    vocabulary = open_vocabulary(tmp_path / "v")
    assert vocabulary.size == problem.vocab_size
    assert [pair for pair in zip(round_trip(vocabulary, lines), lines) if pair[0] != pair[1]] == []


def test_ids_0_to_2_are_padding_end_and_unknown(vocabulary):
    assert (PAD_ID, EOS_ID, UNKNOWN_ID) == (0, 1, 2)
    tokens = sentencepiece.SentencePieceProcessor(model_proto=vocabulary.path.read_bytes())
    assert [tokens.id_to_piece(number) for number in range(3)] == ["<pad>", "</s>", "<unk>"]
    ids = vocabulary.encode(tf.constant(TEXTS))
    assert ids.dtype == tf.int32
    for row in ids.to_list():
        assert row[-1] == EOS_ID
        assert min(row[:-1]) > UNKNOWN_ID


def test_decoding_stops_at_the_end_symbol(vocabulary):
    dog, cat = vocabulary.encode(tf.constant(["A dog ran.", "The cat"])).to_list()
    assert vocabulary.decode([dog + cat + [PAD_ID] * 3]) == ["A dog ran."]
    assert vocabulary.decode([dog[:-1]]) == ["A dog ran."]


def test_unseen_characters_become_the_unknown_token(vocabulary):
    texts = ["Ωmega", "шесть", "🦊", "\x01\x02", "\ufffe", "мир the cat"]
    rows = vocabulary.encode(tf.constant(texts)).to_list()
    assert all(UNKNOWN_ID in row and row[-1] == EOS_ID for row in rows)
    assert all(isinstance(text, str) for text in round_trip(vocabulary, texts))


@pytest.mark.parametrize("error", [UserError("en.txt, line 2: not UTF-8"), ValueError("own"), KeyboardInterrupt()])
def test_an_error_raised_by_the_text_iterator_is_passed_on(tmp_path, error):
    def texts():
        yield "some text"
        raise error

    with pytest.raises(type(error)) as caught:
        train_vocabulary(texts(), 100, tmp_path / "v")
    assert str(caught.value) == str(error)
    assert list(tmp_path.iterdir()) == []


def test_sentencepieces_own_numbers_are_refused(tmp_path):
    """Unknown 0, begin 1, end 2."""
    model = {"model_prefix": str(tmp_path / "m"), "vocab_size": 60, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXTS), **model)
    with pytest.raises(UserError, match=rf"{tmp_path}/m\.model.*t2t-lite-datagen"):
        open_vocabulary(tmp_path / "m.model")


# Byte fallback.

FREQUENT = ["the cat sat on the mat and the dog ran"] * 500


@pytest.fixture(scope="module")
def with_bytes(tmp_path_factory):
    """A vocabulary with tokens for the more frequent characters, and bytes for all others."""
    path = tmp_path_factory.mktemp("vocab") / "vocab.subwords"
    train_vocabulary(FREQUENT + TEXTS, 400, path, byte_fallback=True, character_coverage=0.9995)
    return open_vocabulary(path)


def test_with_byte_fallback_any_text_survives_a_round_trip(with_bytes):
    others = ["👩🏽‍🚀🇺🇳 and 🦊", "我们今天去看电影吧", "one \0 of them\0", "\0", "U+2585 \u2585 stays"]
    others += ["\x01\x02\x7f \ufffe \U0010ffff", "</s> <s> <pad> <unk> <0x41>", "Ωmega, шесть, مرحبا"]
    ids = with_bytes.encode_all(TEXTS + others)
    assert UNKNOWN_ID not in ids.flat_values.numpy()
    assert with_bytes.decode(ids.to_tensor(PAD_ID)) == round_trip(with_bytes, TEXTS + others) == TEXTS + others


@pytest.mark.slow
def test_every_character_except_the_blank_symbol_survives_a_round_trip(with_bytes):
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000 and code != 0x2581]
    texts = ["a" + "".join(characters[i : i + 64]) + "b" for i in range(0, len(characters), 64)]
    ids = with_bytes.encode_all(texts)
    assert UNKNOWN_ID not in ids.flat_values.numpy()
    assert with_bytes.decode(ids.to_tensor(PAD_ID)) == texts
    assert with_bytes.decode(with_bytes.encode_all(["a\u2581b"]).to_tensor(PAD_ID)) == ["a b"]


def test_without_byte_fallback_every_character_gets_a_token(tmp_path):
    train_vocabulary(FREQUENT + TEXTS, 300, tmp_path / "v", character_coverage=0.9)
    assert round_trip(open_vocabulary(tmp_path / "v"), TEXTS) == TEXTS


@pytest.mark.parametrize("beyond", [-1, -(10**6), "size", 2**31 - 1])
@pytest.mark.parametrize("name", ["tied", "bytes", "characters", "words"])
def test_an_invalid_id_is_an_error_with_the_vocabulary_size(name, beyond):
    (path,) = (Path(__file__).parents[2] / "frozen" / "0.1" / name / "run").glob("vocab.*")
    vocabulary = open_vocabulary(path)
    beyond = vocabulary.size if beyond == "size" else beyond
    with pytest.raises(UserError, match=f"has {vocabulary.size} tokens but no id {beyond}; "):
        vocabulary.decode(np.array([[3, beyond, 4]]))
