"""tensor2tensor's vocabularies, with the ids and texts of its encoders.

They are subwords (SubwordTextEncoder), lists of tokens (TokenTextEncoder) and bytes (ByteTextEncoder).

Their files are JSON: {"kind": "subwords", "pieces": [...]} and {"kind": "t2t_tokens", "pieces": [...]}, by id, and
{"kind": "t2t_bytes"}. Ids 0 and 1 are padding and end; subwords and bytes have no unknown token.

Subwords: a text is split into runs of letters and digits and runs of other characters; a single space between two runs
is omitted. Each run ends with "_" and is written greedily as the longest subwords from its start. "\\\\" and "\\u"
stand for a backslash and "_", and "\\123;" for the character with this number if the vocabulary lacks it. Encoding is
therefore lossless for any text.
"""

import functools
import itertools
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_lite.data.vocab.symbols import (
    END_OF_RUN,
    EOS_ID,
    FIRST_BYTE,
    NO_CHARACTER,
    PAD_ID,
    SYMBOLS,
    UNKNOWN_ID,
    is_alphanumeric,
)
from t2t_lite.data.vocab.vocabulary import Vocabulary, as_ragged, json_content
from t2t_lite.errors import UserError

if TYPE_CHECKING:
    import tensorflow as tf

    from t2t_lite.data.vocab import in_graph


_RESERVED = 2  # padding and end
# Characters used in escapes; every list of subwords contains them, to spell characters that it lacks.
_ESCAPES = frozenset("\\_u;0123456789")
_ESCAPED = re.compile(r"\\u|\\\\|\\([0-9]+);")


class SubwordVocabulary(Vocabulary):
    """tensor2tensor's subwords, from the parsed content of a file."""

    unknown_id = None

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        super().__init__(path)
        self._own = content["pieces"]
        self.size = len(self._own)
        self._alphabet = _ESCAPES.union(*self._own)
        self._ids = {subword: id for id, subword in enumerate(self._own) if subword}
        self._longest = max(map(len, self._own))
        self._ids_of_run = functools.lru_cache(100_000)(self._subwords_of)

    def tokens(self) -> list[str]:
        return [*SYMBOLS[:_RESERVED], *self._own[_RESERVED:]]

    def ids_of(self, texts: Sequence[str]) -> list[list[int]]:
        return [[*(id for run in split_runs(text) for id in self._ids_of_run(run)), EOS_ID] for text in texts]

    def encode_all(self, texts: Sequence[str]) -> "tf.RaggedTensor":
        """See `Vocabulary`. Works in Python, twice as fast as in a graph, because most runs in a text repeat."""
        return as_ragged(self.ids_of(texts))

    def decode_in_graph(self, ids: "tf.Tensor") -> "tf.Tensor":
        return self._ops.decode(ids)

    def ends_run(self, token: int) -> bool:
        return token >= _RESERVED and self._own[token].endswith(END_OF_RUN)

    def tokens_of(self, ids: Sequence[int]) -> list[str]:
        """Gives a run's first token the space before the run and, if the run has escapes, all its text."""
        ids = self._before_end(ids)
        parts, was_word, run = [], False, []
        for number, token in enumerate(ids):
            run.append("" if token == PAD_ID else self._own[token])
            if not run[-1].endswith(END_OF_RUN) and number + 1 < len(ids):
                continue
            text = unescaped("".join(run))
            is_word = is_alphanumeric(text[:1])
            blank = " " if was_word and is_word else ""
            was_word = is_word if text else was_word
            if "\\" in "".join(run):
                parts += [blank + text, *[""] * (len(run) - 1)]
            else:
                parts += [blank + run[0].removesuffix(END_OF_RUN), *(part.removesuffix(END_OF_RUN) for part in run[1:])]
            run = []
        return parts

    def _subwords_of(self, run: str) -> list[int]:
        """Returns the ids of a run: its longest first subword, then the longest of the rest, and so on."""
        escaped = run.replace("\\", "\\\\").replace(END_OF_RUN, "\\u")
        known = (each if each in self._alphabet and each != "\n" else f"\\{ord(each)};" for each in escaped)
        text = "".join(known) + END_OF_RUN
        ids, start = [], 0
        while start < len(text):
            ends = range(min(len(text), start + self._longest), start, -1)
            end = next((end for end in ends if text[start:end] in self._ids), None)
            if end is None:
                raise UserError(f"{self.path} is not a list of subwords: it has none for '{text[start]}'")
            ids.append(self._ids[text[start:end]])
            start = end
        return ids

    def _text_of(self, token: int) -> str:
        return unescaped(self._own[token])

    @functools.cached_property
    def _ops(self) -> "in_graph.SubwordOps":
        return self.in_graph.SubwordOps(self._own, sorted(self._alphabet - {"\n"}))


def split_runs(text: str) -> list[str]:
    """Splits a text into runs of letters and digits and runs of others, without single spaces between two runs."""
    runs = ["".join(group) for _, group in itertools.groupby(text, is_alphanumeric)]
    return [run for number, run in enumerate(runs) if run != " " or number in (0, len(runs) - 1)]


def unescaped(run: str) -> str:
    return _ESCAPED.sub(_character, run.removesuffix(END_OF_RUN))


def _character(escape: re.Match[str]) -> str:
    if escape[1] is None:
        return END_OF_RUN if escape[0] == "\\u" else "\\"
    number = int(escape[1][-12:]) if not escape[1][:-12].strip("0") else sys.maxunicode + 1
    is_surrogate = 0xD800 <= number < 0xE000
    return NO_CHARACTER if number > sys.maxunicode or is_surrogate else chr(number)


def is_subword_list(content: bytes) -> bool:
    return content.lstrip(b"'\"").startswith(b"<pad>")


def subword_list(content: bytes) -> bytes:
    """Converts a tensor2tensor file, with a quoted subword on each line, to the content of a vocabulary file.

    Raises a UserError if the file has another format.
    """
    lines = [line.rstrip() for line in content.decode("utf-8").removesuffix("\n").split("\n")]
    own = [line[1:-1] if len(line) > 1 and line[0] == line[-1] and line[0] in "'\"" else line for line in lines]
    if [name.removesuffix(END_OF_RUN) for name in own[:_RESERVED]] != ["<pad>", "<EOS>"]:
        raise UserError("a list of subwords that does not begin with <pad> and <EOS>")
    if len(set(own)) < len(own):
        raise UserError("a list of subwords that contains one twice")
    if missing := sorted(_ESCAPES.union(*own) - set(own)):
        raise UserError(f"a list of subwords without the character {missing[0]!r} by itself")
    return json_content("subwords", own)


# tensor2tensor's names for the token of unknown words, which usually follows the reserved tokens.
_UNKNOWN_NAMES = ("UNK", "<UNK>", "<unk>")
# The whitespace at which Python splits a text, as code points for TensorFlow's regular expressions.
_WHITE_SPACE = r"[\t-\r\x1c-\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}]+"


class T2tTokenVocabulary(Vocabulary):
    """Tokens separated by spaces, as in a text that was split by byte-pair encoding.

    A word that is not in the list becomes the unknown token; without an unknown token, it is an error.
    """

    starts_with_blank = True

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        super().__init__(path)
        self._own = content["pieces"]
        self.size = len(self._own)
        # For a token that is listed twice, the last id counts.
        self._ids = {token: id for id, token in enumerate(self._own) if id >= _RESERVED}
        candidates = (self._own[UNKNOWN_ID : UNKNOWN_ID + 1], self._ids)
        named = (self._own.index(name) for tokens in candidates for name in _UNKNOWN_NAMES if name in tokens)
        self.unknown_id = next(named, None)

    def tokens(self) -> list[str]:
        """Returns a unique name for every token by id: the token, followed by its id if it is a duplicate or empty."""
        last = {token: id for id, token in enumerate(self._own)}
        return [token if token and last[token] == id else f"{token}<{id}>" for id, token in enumerate(self._own)]

    def ids_of(self, texts: Sequence[str]) -> list[list[int]]:
        rows = [[self._ids.get(token, self.unknown_id) for token in text.split()] for text in texts]
        for row, text in zip(rows, texts):
            if None in row:
                raise UserError(
                    f"{self.path} has no token '{text.split()[row.index(None)]}', and no UNK for unknown words"
                )
        return [[*(id for id in row if id is not None), EOS_ID] for row in rows]

    def encode_all(self, texts: Sequence[str]) -> "tf.RaggedTensor":
        return as_ragged(self.ids_of(texts))

    def resources(self) -> list[object]:
        return [self._ops.table]

    @functools.cached_property
    def _ops(self) -> "in_graph.WordTable":
        refusal = f"{self.path} lacks a token, and has no UNK for unknown words"
        return self.in_graph.WordTable(self._ids, self.unknown_id, _WHITE_SPACE, refusal)

    def _text_of(self, token: int) -> str:
        return f" {self._own[token]}"


class T2tByteVocabulary(Vocabulary):
    """The 256 byte values of UTF-8, which tensor2tensor's character problems use."""

    unknown_id = None
    size = _RESERVED + 256

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        super().__init__(path)

    def tokens(self) -> list[str]:
        return [*SYMBOLS[:_RESERVED], *(f"<0x{byte:02X}>" for byte in range(256))]

    def ids_of(self, texts: Sequence[str]) -> list[list[int]]:
        return [[*(byte + _RESERVED for byte in text.encode("utf-8", errors="replace")), EOS_ID] for text in texts]

    def encode(self, texts: "tf.Tensor") -> "tf.RaggedTensor":
        return self.in_graph.with_end_symbol(self.in_graph.byte_ids(texts) - (FIRST_BYTE - _RESERVED))

    def _text_of(self, token: int) -> str:
        return ""

    def _byte_of(self, token: int) -> int | None:
        return None if token in (PAD_ID, EOS_ID) else token - _RESERVED


def is_token_list(content: bytes) -> bool:
    """Returns whether a file is a tensor2tensor token list, which unlike a subword list lacks the escapes."""
    lines = [line.strip() for line in content.split(b"\n")]
    return lines[:2] == [b"<pad>", b"<EOS>"] and not set(lines).issuperset(map(str.encode, _ESCAPES))


def token_list(content: bytes) -> bytes:
    own = [line.strip() for line in content.decode("utf-8").removesuffix("\n").split("\n")]
    return json_content("t2t_tokens", own)


def byte_list() -> bytes:
    return json_content("t2t_bytes", [])
