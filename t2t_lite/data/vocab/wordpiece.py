"""Vocabularies stored as lists of tokens: WordPiece (Schuster and Nakajima 2012), characters, bytes, words.

The file is JSON: {"kind": ..., "pieces": [...]}. Ids 0 to 2 are padding, end and unknown. Ids 3 to 258 are the 256
bytes, which encode all text without tokens, so that encoding is lossless (except for NUL with WordPiece). The other
tokens follow. WordPiece tokens include the space before a word (" the"), and continuations of a word begin with "##".
An imported list has neither spaces nor bytes: see `PlainListVocabulary`. Nor has a list of whole words, for texts with
few distinct words, such as the symbols of a tree: its words follow the first three ids.

Everything is implemented twice: in plain Python, for `ids_of`, and as TensorFlow ops, in `in_graph.py`.
"""

import collections
import functools
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_lite.data.vocab.symbols import (
    BLANKS,
    EOS_ID,
    FIRST_BYTE,
    FIRST_TOKEN,
    JOINER,
    SYMBOLS,
    UNKNOWN_ID,
    UNKNOWN_TEXT,
    UNKNOWN_WORD,
    parts_pattern,
)
from t2t_lite.data.vocab.vocabulary import Vocabulary, json_content
from t2t_lite.errors import UserError

if TYPE_CHECKING:
    import tensorflow as tf

    from t2t_lite.data.vocab import in_graph

# Chinese characters, which BERT treats as words.
_CHINESE = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip
# Words with more bytes have no tokens, as in TensorFlow's word tokenizer.
_MAX_WORD_BYTES = 100


# Up to this number of distinct words, the vocabulary is assumed to be closed. Above it, words that occur once become
# unknown, so that the model learns to handle unknown words.
_CLOSED = 1000


class TokenListVocabulary(Vocabulary):
    """Bytes, characters or WordPiece tokens, all lossless, from the parsed content of a file."""

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        super().__init__(path)
        self._kind, self._own, self._symbols = content["kind"], _checked(content["pieces"]), content.get("symbols", [])
        self._normalizes = content.get("normalize_whitespace", False)
        self._texts = [token.removeprefix(JOINER) if self._kind == "wordpiece" else token for token in self._own]
        self.size = FIRST_TOKEN + len(self._own)
        ids = {token: id for id, token in enumerate(self._own, start=FIRST_TOKEN)}
        kinds: dict[str, Callable[[], Callable[[str], list[int]]]] = {
            "bytes": lambda: _byte_ids,
            "characters": lambda: functools.partial(_character_ids, ids),
            "wordpiece": lambda: _Words(ids, self._symbols, self._normalizes),
        }
        self._ids_of_text = kinds[self._kind]()

    def tokens(self) -> list[str]:
        return [*SYMBOLS, *(f"<0x{byte:02X}>" for byte in range(256)), *self._own]

    def ids_of(self, texts: Sequence[str]) -> list[list[int]]:
        return [[*self._ids_of_text(text), EOS_ID] for text in texts]

    @functools.cached_property
    def _ops(self) -> "Callable[[tf.Tensor], tf.RaggedTensor]":
        return self.in_graph.token_list(self._kind, self._own, self._symbols, self._normalizes)

    def _text_of(self, token: int) -> str:
        return UNKNOWN_TEXT if token < FIRST_TOKEN else self._texts[token - FIRST_TOKEN]

    def _byte_of(self, token: int) -> int | None:
        return token - FIRST_BYTE if FIRST_BYTE <= token < FIRST_TOKEN else None


class PlainListVocabulary(Vocabulary):
    """An imported list of WordPiece tokens. Tokens that continue a word begin with "##".

    Texts are split at whitespace and punctuation, as in BERT, and decoded with a space between any two words. If the
    list has no capital letters, texts are lower-cased. Words without tokens are unknown.
    """

    starts_with_blank = True

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        super().__init__(path)
        self._own = _checked(content["pieces"])
        self.size = len(SYMBOLS) + len(self._own)
        self._lowercase = all(token == token.lower() for token in self._own)
        self._ids = {token: id for id, token in enumerate(self._own, start=len(SYMBOLS))}
        self._ids_of_word = functools.lru_cache(100_000)(lambda word: longest_first(word, self._ids) or [UNKNOWN_ID])

    def tokens(self) -> list[str]:
        return [*SYMBOLS, *self._own]

    def ids_of(self, texts: Sequence[str]) -> list[list[int]]:
        lines = [text.lower() for text in texts] if self._lowercase else texts
        return [[*(id for word in _words(line) for id in self._ids_of_word(word)), EOS_ID] for line in lines]

    @functools.cached_property
    def _ops(self) -> "in_graph.PlainList":
        return self.in_graph.PlainList(self._own, self._lowercase)

    def _text_of(self, token: int) -> str:
        if token < len(SYMBOLS):
            return " " + UNKNOWN_TEXT
        text = self._own[token - len(SYMBOLS)]
        return text.removeprefix(JOINER) if text.startswith(JOINER) else " " + text


class WordVocabulary(Vocabulary):
    """Words separated by whitespace, from the parsed content of a file; other words are unknown."""

    starts_with_blank = True

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        super().__init__(path)
        self._own = content["pieces"]
        self.size = len(SYMBOLS) + len(self._own)
        self._ids = {word.encode(): id for id, word in enumerate(self._own, start=len(SYMBOLS))}

    def tokens(self) -> list[str]:
        return [*SYMBOLS, *self._own]

    def ids_of(self, texts: Sequence[str]) -> list[list[int]]:
        # As bytes, because TensorFlow splits only at ASCII whitespace.
        return [[*(self._ids.get(word, UNKNOWN_ID) for word in _text_bytes(text).split()), EOS_ID] for text in texts]

    @functools.cached_property
    def _ops(self) -> "in_graph.WordTable":
        return self.in_graph.WordTable(self._ids, UNKNOWN_ID)

    def resources(self) -> list[object]:
        return [self._ops.table]

    def _text_of(self, token: int) -> str:
        return " " + (UNKNOWN_TEXT if token < len(SYMBOLS) else self._own[token - len(SYMBOLS)])


def _checked(tokens: list[str]) -> list[str]:
    """Returns the tokens. Raises ValueError if TensorFlow's tokenizer would reject them."""
    if len(set(tokens)) < len(tokens):
        raise ValueError("a token is listed twice")
    if any(len(token.encode()) > _MAX_WORD_BYTES for token in tokens):
        raise ValueError(f"a token has more than {_MAX_WORD_BYTES} bytes")
    return tokens


def _byte_ids(text: str) -> list[int]:
    return [FIRST_BYTE + byte for byte in text.encode("utf-8", errors="replace")]


def _character_ids(ids: Mapping[str, int], text: str) -> list[int]:
    return [id for each in text for id in ([ids[each]] if each in ids else _byte_ids(each))]


class _Words:
    """Splits a text into words and characters, and these into tokens."""

    def __init__(self, ids: Mapping[str, int], symbols: Sequence[str], normalizes: bool) -> None:
        self._normalizes = normalizes
        self._symbols = (
            re.compile("|".join(map(re.escape, sorted(symbols, key=len, reverse=True)))) if symbols else None
        )
        self._part = re.compile(parts_pattern(chr))
        self._ids_of_part = functools.lru_cache(100_000)(lambda part: longest_first(part, ids) or _byte_ids(part))

    def __call__(self, text: str) -> list[int]:
        text = text.replace("\x00", "\ufffd")
        if self._normalizes:
            text = re.sub(BLANKS, " ", text).strip(" ")
        return [id for part in self._parts(text) for id in self._ids_of_part(part)]

    def _parts(self, text: str) -> list[str]:
        if self._symbols is None:
            return self._part.findall(text)
        parts, end = [], 0
        # Symbols come first, because a space before one would otherwise be joined with its first character.
        for symbol in self._symbols.finditer(text):
            parts += [*self._part.findall(text[end : symbol.start()]), symbol.group()]
            end = symbol.end()
        return parts + self._part.findall(text[end:])


def longest_first(word: str, ids: Mapping[str, int]) -> list[int]:
    """Returns a word's longest token, then the longest "##..." of the rest, and so on; [] if that fails."""
    if len(word.encode("utf-8", errors="replace")) > _MAX_WORD_BYTES:
        return []
    token_ids, start = [], 0
    while start < len(word):
        joiner = JOINER if start else ""
        end = next((end for end in range(len(word), start, -1) if joiner + word[start:end] in ids), None)
        if end is None:
            return []
        token_ids.append(ids[joiner + word[start:end]])
        start = end
    return token_ids


def _words(text: str) -> list[str]:
    """Splits a text at white space and around punctuation marks and Chinese characters, as BERT does."""
    spaced = "".join(f" {character} " if _is_alone(character) else character for character in text)
    return [word for word in re.split(BLANKS, spaced) if word]


@functools.lru_cache(10_000)
def _is_alone(character: str) -> bool:
    """Returns whether a character forms its own word: a punctuation mark or a Chinese character."""
    if "!" <= character <= "~":
        return not character.isalnum()
    is_chinese = any(first <= ord(character) <= last for first, last in _CHINESE)
    return is_chinese or unicodedata.category(character).startswith("P")


def plain_list(content: bytes) -> bytes:
    """Converts an imported list of WordPiece tokens, one per line, to the content of a vocabulary file.

    The list's own symbols in brackets ("[CLS]") are dropped, because ids 0 to 2 replace them. Raises a UserError if the
    file has another format.
    """
    lines = [line.rstrip("\r") for line in content.decode("utf-8-sig").split("\n")]
    tokens = [line for line in lines if line and not re.fullmatch(r"\[([A-Z]+|unused)\d*\]", line)]
    if len(tokens) < 2 or not any(token.startswith(JOINER) for token in tokens):
        raise UserError(f'not a list of WordPiece tokens: no line begins with "{JOINER}"')
    if len(set(tokens)) < len(tokens):
        raise UserError("a list of WordPiece tokens that contains a token twice")
    return json_content("wordpiece_list", tokens, symbols=[])


def train_tokens(
    kind: str, texts: Sequence[str], size: int, symbols: Sequence[str] = (), normalize_whitespace: bool = False
) -> bytes:
    """Learns a vocabulary of kind "wordpiece", "characters" or "bytes" and returns its file content.

    `size` includes the first 259 tokens; there are fewer if the text does not yield enough. Symbols are texts that are
    always one WordPiece token. "bytes" needs no texts.
    """
    for symbol in symbols if kind == "wordpiece" else ():
        if (
            symbol.startswith(JOINER)
            or symbol == UNKNOWN_WORD
            or len(symbol.encode()) > _MAX_WORD_BYTES
            or list(symbols).count(symbol) > 1
        ):
            raise UserError(
                f"'{symbol}' cannot be a symbol: it begins with {JOINER}, is reserved, is too long or is listed twice"
            )
    room = size - FIRST_TOKEN - len(symbols)
    if kind != "bytes" and room < 1:
        raise UserError(
            f"vocab_size={size} is too small: the first {FIRST_TOKEN} tokens are symbols and bytes; raise it"
        )
    tokens = []
    if kind == "characters":
        counts = collections.Counter(itertools.chain.from_iterable(texts))
        by_frequency = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        tokens = [character for character, _ in by_frequency[:room]]
    elif kind == "wordpiece":
        from t2t_lite.data.vocab import in_graph  # imported late, because it needs TensorFlow

        tokens = [*symbols, *in_graph.learn_wordpieces(texts, room, symbols, normalize_whitespace)]
    normalizes = {"normalize_whitespace": True} if normalize_whitespace and kind == "wordpiece" else {}
    return json_content(kind, tokens, symbols=list(symbols), **normalizes)


def train_words(texts: Iterable[str], size: int, symbols: Iterable[str] = ()) -> bytes:
    """Returns a vocabulary file of the symbols and the most frequent words, with at most `size` tokens.

    If there are more than 1,000 distinct words, words that occur only once are left out.
    """
    counts: collections.Counter[bytes] = collections.Counter()
    for text in texts:
        counts.update(_text_bytes(text).split())
    symbols = list(symbols)
    least = 2 if len(counts) > _CLOSED else 1
    by_word = {word.decode(): count for word, count in counts.items()}
    known = {word for word, count in by_word.items() if count >= least}
    others = sorted(known - set(symbols), key=lambda word: (-by_word[word], word))
    words = [*symbols, *others][: size - len(SYMBOLS)]
    return json_content("words", words)


def _text_bytes(text: str) -> bytes:
    return text.encode("utf-8", errors="replace")
