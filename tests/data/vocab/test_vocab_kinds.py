"""WordPiece tokens, characters, bytes and whole words, and imported vocabularies."""

import collections
import functools
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import unicodedata

import pytest
import sentencepiece
import tensorflow as tf

from t2t_lite.data.text_files import read_lines
from t2t_lite.data.vocab import EOS_ID, PAD_ID, UNKNOWN_ID, import_vocabulary, open_vocabulary, train_vocabulary
from t2t_lite.data.vocab.wordpiece import train_tokens
from t2t_lite.errors import UserError

LOSSLESS = ("wordpiece", "characters", "bytes")
KINDS = ("bpe", *LOSSLESS)
SIZES = {"bpe": 2000, "wordpiece": 2000, "characters": 300, "bytes": 259}
FIRST = 259  # id of the first token after 3 symbols and 256 bytes

AWKWARD = [
    *["", " ", "   ", "a  b   c", " a blank first", "   three first", "a blank last ", "three last   ", "\t", "\n"],
    *["a\ttab", "a\nline\nend\n", "\r\n", "no\u00a0break\u3000wide", "a line\u2028separator", "\x01\x1f\x7f"],
    *["🦊 never seen 😀👨\u200d👩\u200d👧", "世界", "A dog🦊ran", "\ue000\U0010ffff", "\ufffd", "\ufeffmark", "ﬁ Ⅷ ½"],
    *["e\u0301 o\u0308\u0323", "\u0301", "a \u0301b", "\u2581", "a\u2581b \u2581c", "#", " #", "##", "a##b ##ing"],
    *["##" * 80, "[UNK]", "a [UNK] b", "<pad>", "</s><unk> ⁇", "<0x41>", "\\ \" ' {}", "<2de>", "a<2de>b"],
    *["a" * 99, "a" * 100, "a" * 101, " " + "a" * 100, "dog" * 60, "ä" * 300 + " a dog", "Q" * 2000],
]


@pytest.fixture(scope="module")
def lines(multi30k_dir):
    return [line for name in ("en", "de") for line in [*read_lines(multi30k_dir / f"train.{name}.gz")][:1500]]


@pytest.fixture(scope="module")
def of_kind(lines, tmp_path_factory):
    """Returns the vocabulary of a kind, learned once; bytes need no text."""

    @functools.cache
    def learnt(kind):
        path = tmp_path_factory.mktemp("vocab") / kind
        symbols = ["<2de>"] if kind in ("bpe", "wordpiece") else []
        train_vocabulary([] if kind == "bytes" else lines, SIZES[kind], path, kind, symbols)
        return open_vocabulary(path)

    return learnt


def different(vocabulary, texts):
    """Returns the texts that change in a round trip, each with the result."""
    decoded = vocabulary.decode(vocabulary.encode(tf.constant(texts)).to_tensor(PAD_ID))
    return [(text, back) for text, back in zip(texts, decoded, strict=True) if text != back]


def all_lines(folder, splits=("train", "val", "test_2016_flickr")):
    return [
        line for split in splits for name in ("en", "de", "fr") for line in read_lines(folder / f"{split}.{name}.gz")
    ]


def as_bytes(text):
    return [3 + byte for byte in text.encode()]


def parts_of(text):
    """Splits a text into words and other characters, each with the blank before it."""
    is_word = [unicodedata.category(character)[0] in "LMN" for character in text]
    parts, end = [], 0
    while end < len(text):
        start = end
        end += 1 + (text[end] == " " and text[end + 1 : end + 2] not in ("", " "))
        while end < len(text) and is_word[end - 1] and is_word[end]:
            end += 1
        parts.append(text[start:end])
    return parts


def max_match(word, ids):
    """Longest-match-first tokens of a word; bytes if there is no match or the word is too long."""
    found, rest = [], word
    while rest:
        fitting = [token for end in range(len(rest), 0, -1) if (token := "##" * bool(found) + rest[:end]) in ids]
        if not fitting or len(word.encode()) > 100:
            return as_bytes(word)
        rest = rest[len(fitting[0]) - 2 * bool(found) :]
        found.append(ids[fitting[0]])
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("kind", LOSSLESS)
def test_awkward_text_survives_a_round_trip_except_nul_in_wordpieces(of_kind, kind):
    assert different(of_kind(kind), AWKWARD) == []
    nul = [("a \0b", "a \ufffdb"), ("\0", "\ufffd")]
    assert different(of_kind(kind), ["a \0b", "\0"]) == (nul if kind == "wordpiece" else [])


@pytest.mark.heavy
@pytest.mark.parametrize("kind, size", [("wordpiece", 4000), ("characters", 300), ("bytes", 259)])
def test_every_line_of_multi30k_survives_a_round_trip_with_a_vocabulary_of_some(multi30k_dir, tmp_path, kind, size):
    every = all_lines(multi30k_dir)
    assert len(every) == 3 * (29_000 + 1014 + 1000)
    train_vocabulary(all_lines(multi30k_dir, splits=["train"])[::12], size, tmp_path / "v", kind)
    vocabulary = open_vocabulary(tmp_path / "v")
    assert 0.95 * size <= vocabulary.size <= size
    assert different(vocabulary, every) == []


@pytest.mark.parametrize("kind", LOSSLESS)
def test_ids_are_within_the_size_and_only_the_last_is_a_symbol(of_kind, lines, kind):
    vocabulary = of_kind(kind)
    ids = vocabulary.encode(tf.constant([*AWKWARD, *lines]))
    assert ids.dtype == tf.int32
    for row in ids.to_list():
        assert row[-1] == EOS_ID and min(row[:-1], default=FIRST) >= 3 and max(row) < vocabulary.size
    assert vocabulary.encode(tf.constant([""])).to_list() == [[EOS_ID]]
    assert vocabulary.encode(tf.constant([], tf.string)).to_list() == []
    tokens = vocabulary.tokens()
    assert tokens[:4] == ["<pad>", "</s>", "<unk>", "<0x00>"] and tokens[FIRST - 1] == "<0xFF>"
    assert len(tokens) == len(set(tokens)) == vocabulary.size <= SIZES[kind]


@pytest.mark.heavy
@pytest.mark.parametrize("kind", KINDS)
def test_plain_python_encode_all_encode_and_a_graph_give_the_same_ids(of_kind, multi30k_dir, kind):
    texts = [*AWKWARD, "a\0b", "x" * 99, f"a {'x' * 100} b", *all_lines(multi30k_dir)]
    ids, rows = of_kind(kind).encode(tf.constant(texts)), of_kind(kind).encode_all(texts)
    assert ids.dtype == rows.dtype == tf.int32
    assert ids.to_list() == rows.to_list() == of_kind(kind).ids_of(texts)
    for number in (999, 9):  # two graphs
        dataset = tf.data.Dataset.from_tensor_slices(texts[:number]).batch(8).map(of_kind(kind).encode)
        assert [row for batch in dataset for row in batch.to_list()] == ids[:number].to_list()


def test_wordpieces_are_the_longest_matches(of_kind, multi30k_dir):
    ids = {token: FIRST + number for number, token in enumerate(of_kind("wordpiece").tokens()[FIRST:])}
    unseen = all_lines(multi30k_dir, splits=["test_2016_flickr"])[::10]
    texts = [*unseen, *(text for text in AWKWARD if "<2de>" not in text)]
    for text, row in zip(texts, of_kind("wordpiece").encode_all(texts).to_list()):
        assert row == [number for word in parts_of(text) for number in max_match(word, ids)] + [EOS_ID], text


@pytest.mark.parametrize("kind", ["characters", "bytes"])
def test_frequent_characters_are_tokens_and_others_are_bytes(of_kind, lines, kind):
    ids = {token: FIRST + number for number, token in enumerate(of_kind(kind).tokens()[FIRST:])}
    counts = collections.Counter("".join(lines))
    others = [count for one, count in counts.items() if one not in ids]
    assert len(ids) == SIZES[kind] - FIRST and min(map(counts.get, ids), default=max(others)) >= max(others)
    for text, row in zip(AWKWARD, of_kind(kind).encode_all(AWKWARD).to_list()):
        assert row == [number for one in text for number in ([ids[one]] if one in ids else as_bytes(one))] + [EOS_ID]


@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_a_symbol_is_one_token(of_kind, kind):
    texts = ["<2de>", "<2de> a dog", "dog<2de>dog", "<<2de><2de>"]
    for text, row in zip(texts, of_kind(kind).encode_all(texts).to_list()):
        assert row.count(of_kind(kind).tokens().index("<2de>")) == text.count("<2de>")
        assert of_kind(kind).tokens_of(row).count("<2de>") == text.count("<2de>")


def test_any_text_can_be_a_symbol_of_wordpieces(tmp_path):
    for symbol in ("the", "a.b(c", "§", "<pad>", "two words", "x" * 100):
        train_vocabulary(["a dog ran to the other dog", "a man sat"], 300, tmp_path / "v", "wordpiece", [symbol])
        vocabulary = open_vocabulary(tmp_path / "v")
        (row,) = vocabulary.ids_of([symbol + " dog"])
        assert row[0] == FIRST and vocabulary.decode([row]) == [symbol + " dog"]


@pytest.mark.parametrize(
    ("kind", "symbols"),
    [
        *(("wordpiece", [symbol]) for symbol in ("##x", "[UNK]", "x" * 101)),
        *(("bpe", [symbol]) for symbol in ("</s>", "<pad>", "<unk>", "<0x41>", "\u2581", "\u2581de")),
        *((kind, ["<2de>", "<2de>"]) for kind in ("wordpiece", "bpe")),
    ],
)
def test_an_invalid_symbol_is_an_error_that_names_it(tmp_path, kind, symbols):
    with pytest.raises(UserError, match=re.escape(f"'{symbols[0]}' cannot be a symbol")):
        train_vocabulary(["a dog ran"], 300, tmp_path / "v", kind, symbols, byte_fallback=True)


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_another_process_learns_the_same_tokens(tmp_path, kind):
    texts = [f"{i * 7919 % 1000:x} and {i * 104729 % 977:b}" for i in range(1000)]
    code = "import json, sys, pathlib; from t2t_lite.data.vocab import train_vocabulary as train\n"
    code += "train(json.load(sys.stdin), 600, pathlib.Path(sys.argv[1]), sys.argv[2])"
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"  # different from that of this process
    how = {"input": json.dumps(texts).encode(), "env": os.environ | {"PYTHONHASHSEED": seed}}
    subprocess.run([sys.executable, "-c", code, tmp_path / "1", kind], check=True, capture_output=True, **how)
    train_vocabulary(texts, 600, tmp_path / "2", kind)
    assert open_vocabulary(tmp_path / "1").size > 400
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


NO_TEXT = [(kind, 1000, texts) for kind in ("bpe", "wordpiece", "characters") for texts in ([], ["", ""])]
NO_ROOM = [("wordpiece", FIRST, ["a b"]), ("characters", FIRST, ["a b"]), ("bpe", 5, ["a b c d e"])]
NO_ROOM += [("bpe", 20, ["a long text of many characters: äöü, 世界"])]


@pytest.mark.parametrize("kind, size, texts", [*NO_TEXT, *NO_ROOM, ("unigram", 999, ["a"])])
def test_a_vocabulary_that_cannot_be_learned_is_an_error_and_leaves_no_file(tmp_path, kind, size, texts):
    with pytest.raises(UserError) as caught:
        train_vocabulary(texts, size, tmp_path / "v", kind)
    assert list(tmp_path.iterdir()) == []
    assert not any(inner in str(caught.value) for inner in ("INTERNAL", ".cc(", "\n"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_tokens_of_a_text_join_to_the_text(of_kind, lines, kind):
    texts = lines[::50] if kind == "bpe" else [*AWKWARD, *lines[::50]]
    for text, row in zip(texts, of_kind(kind).encode_all(texts).to_list()):
        parts = of_kind(kind).tokens_of(row)
        assert len(parts) == len(row) - 1, text
        assert "".join(parts).removeprefix(" " if kind == "bpe" else "") == text


@pytest.mark.parametrize("kind", LOSSLESS)
def test_incomplete_bytes_are_shown_as_replacement_characters(of_kind, kind):
    vocabulary = of_kind(kind)
    (row,) = vocabulary.encode_all(["\U0010ffffa"]).to_list()
    assert vocabulary.tokens_of(row[:4]) == ["\U0010ffff", "", "", ""]
    assert vocabulary.tokens_of(row[:3]) == ["\ufffd", "", ""]
    assert vocabulary.decode([row[1:]]) == ["\ufffd\ufffd\ufffda"]
    assert vocabulary.decode([[3 + 0xFF, *row[4:]]]) == ["\ufffda"]
    assert vocabulary.tokens_of([UNKNOWN_ID, PAD_ID, *row[4:]]) == ["⁇", "a"]


def imported(folder, content):
    (folder / "theirs").write_bytes(content)
    import_vocabulary(folder / "theirs", folder / "ours")
    return open_vocabulary(folder / "ours")


def test_a_vocabulary_file_of_this_package_is_imported_unchanged(of_kind, tmp_path):
    for kind in KINDS:
        assert imported(tmp_path, of_kind(kind).path.read_bytes()).sha256 == of_kind(kind).sha256


@pytest.mark.parametrize(
    "model_type, byte_fallback, rules", [("unigram", False, ""), ("bpe", True, ""), ("bpe", True, "64\t41 54\n")]
)
def test_an_imported_sentencepiece_model_gives_the_same_tokens(lines, tmp_path, model_type, byte_fallback, rules):
    settings = {"model_type": model_type, "byte_fallback": byte_fallback, "vocab_size": 800, "character_coverage": 1.0}
    if rules:  # "d" becomes "AT" in decoded texts
        (tmp_path / "rules.tsv").write_text(rules)
        settings["denormalization_rule_tsv"] = str(tmp_path / "rules.tsv")
    model = io.BytesIO()  # with SentencePiece's own numbers: unknown 0, begin 1, end 2
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, **settings)
    original = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    vocabulary = imported(tmp_path, model.getvalue())
    assert vocabulary.size == 800
    assert vocabulary.tokens() == ["<pad>", "</s>", "<unk>", *map(original.id_to_piece, range(3, 800))]
    texts = [*lines[::10], "A dog 🦊.", "Ж"]
    ids = vocabulary.encode(tf.constant(texts))
    assert ids.to_list() == vocabulary.encode_all(texts).to_list()
    tokens = [[vocabulary.tokens()[number] for number in row] for row in ids.to_list()]
    assert tokens == [[*map(original.id_to_piece, row), "</s>"] for row in original.encode(texts)]
    unseen = [text.replace("d", "AT" if rules else "d") for text in texts[-2:]] if byte_fallback else ["A dog ⁇.", "⁇"]
    expected = [*original.decode(original.encode(texts[:-2])), *unseen]
    assert vocabulary.decode(ids.to_tensor()) == expected and expected[-2].startswith("A ATog") == bool(rules)
    in_graph = tf.function(vocabulary.decode_in_graph)(ids.to_tensor())
    assert [text.decode() for text in in_graph.numpy()] == expected


LIST = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "man", "walk", "walking", "##ing", "##s", "##i", ".", "über"]


def test_a_list_of_wordpieces_is_imported_in_order(tmp_path):
    vocabulary = imported(tmp_path, "\n".join(LIST).encode())
    assert vocabulary.tokens() == ["<pad>", "</s>", "<unk>", *LIST[5:]]
    ids = vocabulary.encode(tf.constant(["A man walkings.", " WALKS\tin  ÜBER", "a zebra", ""]))
    assert [row[:-1] for row in ids.to_list()] == [[3, 4, 6, 8, 10], [5, 8, UNKNOWN_ID, 11], [3, UNKNOWN_ID], []]
    # Without what is newer than Python's Unicode, or not a character.
    every = [one for one in map(chr, range(1, 0x3200)) if unicodedata.category(one) != "Cn"]
    texts = [*AWKWARD, "a中man文", "x" * 101, *(f"man{one}walk" for one in every)]
    assert vocabulary.encode(tf.constant(texts)).to_list() == vocabulary.ids_of(texts)
    assert vocabulary.decode(ids.to_tensor()) == ["a man walkings .", "walks ⁇ über", "a ⁇", ""]


OTHERS = [b"", b"hello\nworld\n", b"a\n##b\na\n", b"{}", b'{"kind": "other"}', b'{"kind": "bytes", "pie', None]
OTHERS += [bytes(range(256)), b"\0" * 9, b"a\n##\xe9\n", b"a\n##b\n" + b"c" * 999, "half"]
OTHERS += [b'{"kind": "wordpiece", "pieces": [1]}', b'{"kind": "wordpiece", "pieces": ["a", "a"]}']


@pytest.mark.parametrize("content", OTHERS)
def test_a_file_that_is_not_a_vocabulary_is_an_error_that_names_it_and_writes_nothing(of_kind, tmp_path, content):
    content = of_kind("bpe").path.read_bytes()[:1000] if content == "half" else content
    if content is not None:
        (tmp_path / "theirs").write_bytes(content)
    with pytest.raises(UserError, match=rf"{tmp_path}/theirs.*t2t-lite-datagen"):
        open_vocabulary(tmp_path / "theirs")
    with pytest.raises(UserError, match=str(tmp_path / "theirs")):
        import_vocabulary(tmp_path / "theirs", tmp_path / "ours")
    assert {path.name for path in tmp_path.iterdir()} <= {"theirs"}


def test_the_wordpieces_of_a_text_stay_those_of_0_9():
    verbs = ("walk", "talk", "jump", "read", "sing")
    begun = [before + verb for before in ("un", "re", "over", "", "pre") for verb in verbs]
    words = [begin + after for begin in begun for after in ("ing", "ed", "s", "er", "", "ers")]
    lines = [" ".join(words[(i * i + 7 * j) % len(words)] for j in range(i % 9 + 3)) for i in range(400)]
    digest = hashlib.sha256(train_tokens("wordpiece", lines, 340)).hexdigest()
    assert digest == "62457e6904618ce09ff92377fa2d8024b293877f20976f4d81442c9f822fe800"


BRACKETED = ["(S (NP XX )NP )S", "(S XX )S", "(NP XX XX )NP", "é 词 (S"]
WORDS = ["(S", "XX", ")NP", ")S", "(NP", "é", "词"]


@pytest.fixture
def words(tmp_path):
    train_vocabulary(BRACKETED, 100, tmp_path / "vocab", "words")
    return open_vocabulary(tmp_path / "vocab")


def test_tokens_are_words_by_descending_frequency(words):
    counts = {word: sum(line.split().count(word) for line in BRACKETED) for word in WORDS}
    expected = sorted(counts, key=lambda word: (-counts[word], word))
    assert words.tokens() == ["<pad>", "</s>", "<unk>", *expected]
    assert words.size == len(WORDS) + 3


def test_texts_survive_a_round_trip_with_single_blanks_and_other_words_are_unknown(words):
    encode = tf.function(words.encode, input_signature=[tf.TensorSpec([None], tf.string)])
    texts = [*BRACKETED, "", "  XX \t XX ", "XX (VP XX"]
    ids = words.encode(tf.constant(texts))
    assert ids.dtype == tf.int32 and [row[-1] for row in ids.to_list()] == 7 * [EOS_ID]
    assert ids.to_list() == encode(tf.constant(texts)).to_list() == words.encode_all(texts).to_list()
    place = words.tokens().index("XX")
    assert ids.to_list()[-3:] == [[EOS_ID], [place, place, EOS_ID], [place, UNKNOWN_ID, place, EOS_ID]]
    assert words.decode(ids.to_tensor().numpy()) == [*BRACKETED, "", "XX XX", "XX ⁇ XX"]


def test_symbols_come_first_even_if_no_text_has_them(tmp_path):
    train_vocabulary(BRACKETED, 100, tmp_path / "vocab", "words", [")S", "<new>"])
    tokens = open_vocabulary(tmp_path / "vocab").tokens()
    assert tokens[3:6] == [")S", "<new>", "XX"] and len(tokens) == len(set(tokens)) == len(WORDS) + 4


@pytest.mark.parametrize(("different", "left_out"), [(1000, 0), (1001, 1)])
def test_among_many_words_those_seen_once_become_unknown(tmp_path, different, left_out):
    every = [f"w{number:04}" for number in range(different)]
    train_vocabulary([" ".join(every), " ".join(every[1:])], 2000, tmp_path / "vocab", "words")
    assert open_vocabulary(tmp_path / "vocab").tokens()[3:] == (every[1:] if left_out else [*every[1:], every[0]])
