"""Terms with the translations that outputs must use: which of them a line contains.

The translations become phrases of the line's search, see `t2t_lite.decoding.search.phrases`.
"""

import collections
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from t2t_lite.data.text_files import read_lines
from t2t_lite.errors import UserError

# Thai to Myanmar, Khmer, kana, Han: scripts that separate no words with blanks.
_WITHOUT_BLANKS = re.compile("[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_START = 3  # terms are found by at most this many characters at their start


def is_in_word(character: str) -> bool:
    """Returns whether a character joins its neighbours to a word; "": no. It does not in scripts without blanks."""
    is_letter = re.fullmatch(r"\w", character) or unicodedata.category(character or " ").startswith("M")
    return bool(is_letter) and not _WITHOUT_BLANKS.match(character)


class _Match(NamedTuple):
    start: int
    end: int
    translation: str


class Glossary:
    """Finds terms in lines.

    A term occurs in a line as whole words; in scripts without blanks, anywhere. A lower-case term occurs in any case,
    others only as they are written. Of terms that overlap in a line, the longest one counts.

    Args:
      terms: the terms with their translations, as a dict or pairs, or a file with TERM<tab>TRANSLATION on each line.

    Raises:
      UserError: if the file cannot be read, a term or a translation is blank, or a term has two translations.
    """

    def __init__(self, terms: "Terms") -> None:
        if isinstance(terms, Glossary):
            self.terms: dict[str, str] = terms.terms
        elif isinstance(terms, str | PathLike):
            self.terms = _checked(_rows(Path(terms)))
        else:
            pairs: Any = terms.items() if isinstance(terms, Mapping) else terms
            self.terms = _checked((f"`terms`: '{term}'", term, found) for term, found in pairs)
        # From the start of terms, in lower case, to the lengths of terms, longest first.
        self._lengths: dict[str, dict[int, None]] = collections.defaultdict(dict)
        for term in sorted(self.terms, key=len, reverse=True):
            self._lengths[term[:_START].lower()][len(term)] = None

    def __or__(self, other: "Glossary") -> "Glossary":
        """Returns a glossary with the terms of both; for terms in both, the translations of the other one."""
        return Glossary(self.terms | other.terms)

    def phrases_in(self, line: str) -> list[str]:
        """Returns the translation of each term that occurs in a line, as often as it occurs, in the line's order."""
        lower = line.lower()
        if len(lower) != len(line):  # few characters have two lower-case ones, such as the Turkish I with a dot
            lower = line
        found = [match for start in range(len(line)) for match in self._at(line, lower, start)]
        chosen: list[_Match] = []
        for match in sorted(found, key=lambda match: (match.start - match.end, match.start)):
            if all(match.end <= other.start or other.end <= match.start for other in chosen):
                chosen.append(match)
        return [match.translation for match in sorted(chosen)]

    def added_to(self, phrases: Sequence[Sequence[str]] | None, lines: Sequence[str]) -> list[list[str]]:
        """Returns the phrases of lines with those of their terms. An equal phrase of a line stands for one of them."""
        added = []
        for own, line in zip(phrases or [()] * len(lines), lines, strict=True):
            rest = collections.Counter(self.phrases_in(line)) - collections.Counter(map(str.strip, own))
            added.append([*own, *rest.elements()])
        return added

    def _at(self, line: str, lower: str, start: int) -> Iterable[_Match]:
        if start and is_in_word(line[start - 1]) and is_in_word(line[start]):
            return
        for size in range(1, _START + 1):
            for length in self._lengths.get(lower[start : start + size], ()):
                term, end = line[start : start + length], start + length
                if term not in self.terms and ((term := lower[start:end]) not in self.terms or not term.islower()):
                    continue
                if end <= len(line) and not (is_in_word(line[end - 1]) and is_in_word(line[end : end + 1])):
                    yield _Match(start, end, self.terms[term])


Terms: TypeAlias = Glossary | Mapping[str, str] | Iterable[tuple[str, str]] | str | PathLike


def _rows(path: Path) -> Iterable[tuple[str, str, str]]:
    for number, line in enumerate(read_lines(path), start=1):
        where, (term, *rest) = f"{path}, line {number}", line.split("\t")
        if not line.strip():
            continue
        if len(rest) != 1:
            raise UserError(f"{where}: found {len(rest)} tabs instead of 1; write TERM<tab>TRANSLATION")
        yield where, term, rest[0]


def _checked(rows: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    terms: dict[str, str] = {}
    for where, term, translation in ((where, term.strip(), found.strip()) for where, term, found in rows):
        if not term or not translation:
            raise UserError(f"{where}: a term and its translation must not be blank")
        if terms.setdefault(term, translation) != translation:
            raise UserError(f"{where}: '{term}' has two translations, '{terms[term]}' and '{translation}'; keep one")
    return terms
