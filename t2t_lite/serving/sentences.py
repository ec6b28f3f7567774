"""Splits texts into sentences, and joins their translations with the original blanks and line breaks."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sentencex import segment  # type: ignore[attr-defined]  compiled

# Each line of a text is a paragraph: no sentence continues on the next line.
_LINES = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")


# The rules for quotation marks take quadratic time, in which no other thread runs. So longer paragraphs are first cut
# into parts of at most this many characters.
MAX_PART = 10_000
# Where a part ends if possible: after the last sentence, else after the last blank.
_PART_ENDS = [re.compile(pattern, re.DOTALL) for pattern in (r".*[.!?…。！？]['\"”’»)\]]{0,3}\s", r".*\s")]


class SplitText(NamedTuple):
    """A text split into sentences, with the blanks before, between and after them."""

    sentences: list[str]  # without surrounding blanks
    between: list[str]  # blanks and line breaks; one entry more than `sentences`

    def joined(self, sentences: Sequence[str]) -> str:
        """Returns the text with other sentences, such as translations, in place of its own."""
        parts = [self.between[0]]
        for sentence, blanks in zip(sentences, self.between[1:], strict=True):
            parts += (sentence, blanks)
        return "".join(parts)


def split_sentences(text: str, language: str) -> SplitText:
    """Splits a text of any number of lines. Every sentence has at most `MAX_PART` characters.

    `language` is its BCP 47 code, which selects the rules for sentence ends; "": unknown, the rules of English.
    """
    sentences, between = [], [""]
    for piece in _pieces(text, language.partition("-")[0].lower() or "en"):
        sentence = piece.strip()
        if not sentence:
            between[-1] += piece
            continue
        start = piece.index(sentence)
        between[-1] += piece[:start]
        sentences.append(sentence)
        between.append(piece[start + len(sentence) :])
    return SplitText(sentences, between)


def _pieces(text: str, language: str) -> Iterator[str]:
    """Yields pieces of a text, each with at most one sentence. Together they are the text."""
    end = 0
    for breaks in _LINES.finditer(text):
        yield from _sentences(text[end : breaks.start()], language)
        yield breaks.group()
        end = breaks.end()
    yield from _sentences(text[end:], language)


def _sentences(paragraph: str, language: str) -> Iterator[str]:
    while paragraph:
        part = paragraph[:MAX_PART]
        if len(part) < len(paragraph):
            ends = (found.end() for pattern in _PART_ENDS if (found := pattern.match(part)))
            part = part[: next(ends, MAX_PART)]
        pieces = segment(language, part)
        yield from pieces if "".join(pieces) == part else [part]  # keep every character
        paragraph = paragraph[len(part) :]
