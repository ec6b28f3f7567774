"""Language names and language detection."""

import functools
import math
from typing import TYPE_CHECKING, NamedTuple

import babel

from t2t_lite.errors import UserError

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier


# The maximum number of languages that detection returns.
_MOST = 5


class Detected(NamedTuple):
    """A probable language of a text."""

    language: str  # its code
    confidence: float  # in percent


def language_name(code: str) -> str:
    """Returns the English name of a language by its BCP 47 code, or the code if it has none."""
    try:
        return babel.Locale.parse(code, sep="-").get_display_name("en") or code
    except (ValueError, babel.UnknownLocaleError):
        return code


def find(code: str, known: list[str]) -> str | None:
    """Returns the language in `known` with this code, else one with the same primary code (pt for pt-BR), or None."""
    exact = {each.lower(): each for each in known}
    primary = {each.partition("-")[0].lower(): each for each in reversed(known)}
    return exact.get(code.lower()) or primary.get(code.lower().replace("_", "-").partition("-")[0])


def pairs_in(text: str) -> list[tuple[str, str]]:
    """Returns pairs of languages: "en-de,pt-BR:de" -> [("en", "de"), ("pt-BR", "de")].

    Raises UserError if a part is not a pair.
    """
    pairs = []
    for part in text.split(","):
        source, _, target = part.strip().partition(":" if ":" in part else "-")
        if not source or not target:
            raise UserError(f"`languages` must be SOURCE-TARGET, such as en-de, not '{part}'", status=2)
        pairs.append((source, target))
    return pairs


def detect(text: str, languages: tuple[str, ...] = ()) -> list[Detected]:
    """Returns the probable languages of a text, most probable first. Considers `languages`, or all if empty."""
    by_primary = {language.partition("-")[0].lower(): language for language in reversed(languages)}
    ranked = [(code, score) for code, score in _identifier().rank(text) if not languages or code in by_primary]
    if not ranked:
        return [Detected(languages[0], 100.0 / len(languages))]
    highest = ranked[0][1]
    shares = [math.exp(score - highest) for _, score in ranked]
    detected = [
        Detected(by_primary.get(code) or code, round(100 * share / sum(shares), 1))
        for (code, _), share in zip(ranked[:_MOST], shares)
    ]
    return [each for each in detected if each.confidence >= 1] or detected[:1]


@functools.cache
def _identifier() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE)
