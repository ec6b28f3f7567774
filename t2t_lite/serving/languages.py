"""Languages: their names, and which one a text is in."""

import functools
from typing import TYPE_CHECKING, NamedTuple

import babel

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier


# How many languages a detection names.
_MOST = 5


class Detected(NamedTuple):
    """The language that a text is probably in."""

    language: str  # its code
    confidence: float  # in percent


def name_of(code: str) -> str:
    """Returns the English name of a language, given its BCP 47 code; the code if it has none."""
    try:
        return babel.Locale.parse(code, sep="-").get_display_name("en") or code
    except (ValueError, babel.UnknownLocaleError):
        return code


def find(code: str, known: list[str]) -> str | None:
    """Returns the language of `known` that a client means: of the same code, or of the same primary one (pt-BR, pt)."""
    exact = {each.lower(): each for each in known}
    primary = {each.partition("-")[0].lower(): each for each in reversed(known)}
    return exact.get(code.lower()) or primary.get(code.lower().replace("_", "-").partition("-")[0])


def detect(text: str, languages: tuple[str, ...] = ()) -> list[Detected]:
    """Returns the probable languages of a text, the most probable first.

    Args:
      text: the text.
      languages: the languages in question; none: all that are known.
    """
    by_primary = {language.partition("-")[0].lower(): language for language in reversed(languages)}
    ranked = _identifier(tuple(by_primary)).rank(text)
    found = [Detected(by_primary.get(code) or code, round(100 * float(share), 1)) for code, share in ranked]
    return [each for each in found[:_MOST] if each.confidence >= 1] or found[:1]


@functools.lru_cache(maxsize=8)
def _identifier(languages: tuple[str, ...]) -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    if known := [language for language in languages if language in identifier.nb_classes]:
        identifier.set_languages(known)
    return identifier
