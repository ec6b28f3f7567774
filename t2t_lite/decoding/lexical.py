"""Turns the texts of phrases that outputs must contain into a search constraint."""

import re
import unicodedata
from collections.abc import Sequence

from t2t_lite.data.vocab import EOS_ID, Vocabulary
from t2t_lite.decoding.search.phrases import Phrases, Places, phrase_places
from t2t_lite.decoding.search_requests import LineConstraint
from t2t_lite.errors import UserError

# Stands for a byte that is not a character on its own, usually part of a letter.
_PART = "\N{REPLACEMENT CHARACTER}"


class PhraseVocabulary:
    """Tokenizes phrases as they occur inside an output."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._texts = ["".join(vocabulary.tokens_of([token])) for token in range(vocabulary.size)]
        # A token with a leading blank begins no output, unless the vocabulary puts a blank before the first word.
        blanks = () if vocabulary.starts_with_blank else tuple(text.startswith(" ") for text in self._texts)
        begins = tuple(_is_in_word(text[:1]) for text in self._texts)
        ends = tuple(_is_in_word(text[-1:]) for text in self._texts)
        self._constraint = Phrases(begins, ends, blanks, EOS_ID)

    def constraint(self, phrases: Sequence[Sequence[str]], first_line: int = 1) -> LineConstraint:
        """Returns the constraint that makes each line's output contain its phrases as whole words.

        Blank and repeated phrases are ignored.
        """
        rows = []
        for number, line in enumerate(phrases, start=first_line):
            tokens = [self._tokens(phrase, number) for phrase in dict.fromkeys(map(str.strip, line)) if phrase]
            rows.append(phrase_places(tokens))
        inputs = {f"phrase_{name}": [getattr(row, name) for row in rows] for name in Places._fields}
        # Leaves room for other words between the phrases.
        return LineConstraint(self._constraint, inputs, [2 * len(row.tokens) + 1 for row in rows])

    def _tokens(self, phrase: str, line: int) -> list[int]:
        is_first = self._vocabulary.starts_with_blank
        (ids,) = self._vocabulary.ids_of([phrase if is_first else f" {phrase}"])
        ids = ids[:-1]
        if not is_first and self._texts[ids[0]] == " ":
            ids = ids[1:]
        if self._vocabulary.unknown_id in ids:
            raise UserError(
                f"line {line}: the phrase '{phrase}' has characters or words that are not in "
                f"{self._vocabulary.path.name}, so no output can contain it; remove the phrase"
            )
        return ids


def _is_in_word(character: str) -> bool:
    is_letter = re.fullmatch(r"\w", character) or character == _PART
    return bool(character) and bool(is_letter or unicodedata.category(character).startswith("M"))
