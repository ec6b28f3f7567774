"""Language codes, names and detection."""

import functools
import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import babel
from babel.core import get_global, parse_locale

from t2t_lite.decoding.translator import has_letters

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

# The maximum number of languages that detection returns.
_MOST = 5
# LibreTranslate's own codes.
_OF_LIBRETRANSLATE = {"zt": "zh-Hant", "pb": "pt-BR"}


class Detected(NamedTuple):
    language: str  # its code
    confidence: float  # in percent


def language_name(code: str) -> str:
    """Returns the English name of a language by its BCP 47 code, or the code if it has none."""
    try:
        return babel.Locale.parse(canonical(code), sep="-").get_display_name("en") or code
    except (ValueError, babel.UnknownLocaleError):
        return code


class _Code(NamedTuple):
    language: str
    script: str  # the likely script if the code has none; "": unknown
    region: str  # "": none
    rest: str = ""  # a variant; or the whole code if it is not a valid one


def canonical(code: str) -> str:
    """Returns a code in the usual form: "pt_br" -> "pt-BR", "zh_hant" -> "zh-Hant"."""
    parts = re.split("[-_]", code)
    usual = {2: str.upper, 4: str.title}  # a region, a script
    return "-".join([parts[0].lower(), *(usual.get(len(part), str)(part) for part in parts[1:])])


def shortest(code: str) -> str:
    """Returns a code in the usual form, with its language in two letters if there are such: "por_BR" -> "pt-BR"."""
    language, *rest = canonical(code).split("-")
    short = get_global("language_aliases").get(language, "")
    return "-".join([short if len(short) == 2 else language, *rest])


def primary(code: str) -> str:
    """Returns the language of a code without its script and region: "pt_BR" -> "pt"."""
    return canonical(code).partition("-")[0]


def distance(code: str, other: str) -> int | None:
    """Returns how far a requested code is from the code of a model; None if the model does not serve it.

    Codes are compared as BCP 47, with CLDR's likely scripts. `code` may also be one of LibreTranslate's: zt (zh-Hant),
    pb (pt-BR). The result is 0 for the same code, except for case and underscores; 1 for another spelling of it, such
    as zh-TW for zh-Hant; 2 if the code has no region, and the model has the likely one; 3 if the model has another one.
    """
    if canonical(code) == canonical(other):
        return 0
    asked, of_model = _parsed(_OF_LIBRETRANSLATE.get(code.lower(), code)), _parsed(other)
    if asked == of_model:
        return 1
    if asked.region or asked != of_model._replace(region=""):
        return None
    return 2 if _likely(asked.language, asked.script).region == of_model.region else 3


def nearest(code: str, known: Iterable[str]) -> str | None:
    """Returns the language in `known` that serves a code, see `distance`; None if none, or several equally well."""
    distances = {each: found for each in known if (found := distance(code, each)) is not None}
    best = [each for each, found in distances.items() if found == min(distances.values())]
    return best[0] if best and (len(best) == 1 or distances[best[0]] < 3) else None


@functools.lru_cache(1000)
def _parsed(code: str) -> _Code:
    try:
        language, region, script, variant, *_ = parse_locale(code.replace("_", "-"), sep="-")
    except ValueError:
        return _Code("", "", "", code.lower())
    language, _, alias_script = (get_global("language_aliases").get(language) or language).partition("_")
    full = _likely(language, script or alias_script, region)
    if region and region == _likely(language, full.script).region and _regions_have_scripts(language):
        region = ""
    return _Code(language, full.script, region or "", (variant or "").lower())


def _likely(language: str, script: str | None = None, region: str | None = None) -> _Code:
    likely = get_global("likely_subtags")
    for parts in ((language, script, region), (language, region), (language, script), (language,)):
        if all(parts) and (found := likely.get("_".join(filter(None, parts)))):
            _, its_region, its_script, *_ = parse_locale(found)
            return _Code(language, script or its_script or "", region or its_region or "")
    return _Code(language, script or "", region or "")


@functools.cache
def _regions_have_scripts(language: str) -> bool:
    """Returns whether the region decides the script, as in Chinese; then zh-TW is another spelling of zh-Hant."""
    script = _likely(language).script
    return any(
        key.startswith(f"{language}_") and len(key) <= len(language) + 4 and parse_locale(full)[2] != script
        for key, full in get_global("likely_subtags").items()
    )


def detect(text: str, languages: Sequence[str] = ()) -> list[Detected]:
    """Returns which of some languages a text may be in, most probable first. The confidences sum to about 100.

    For a text without letters, or languages that are unknown to the detector, that is the first one with confidence 0.
    """
    by_primary = {language.partition("-")[0].lower(): language for language in reversed(languages)}
    ranked = [(by_primary[code], score) for code, score in _identifier().rank(text) if code in by_primary]
    if not ranked or not has_letters(text):
        return [Detected(language, 0.0) for language in languages[:1]]
    shares = [math.exp(score - ranked[0][1]) for _, score in ranked]
    first = zip(ranked[:_MOST], shares)
    detected = [Detected(language, round(100 * share / sum(shares), 1)) for (language, _), share in first]
    return [each for each in detected if each.confidence >= 1] or detected[:1]


@functools.cache
def _identifier() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE)
