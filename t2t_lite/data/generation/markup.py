"""Finds what is left of web pages in a line of text: HTML entities, tags and invisible characters."""

import re
from html.entities import html5

_ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});")
# Closing tags, empty tags and tags with attributes, of HTML, XML or SGML: </seg>, <x/>, <seg id="1">.
_NAME, _VALUE = r"[A-Za-z][\w:.-]*", r"\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>]+"
_TAG = re.compile(rf"<((/?{_NAME})(?:\s+[\w:.-]+\s*=\s*(?:{_VALUE}))*\s*/?)>")
# Opening tags without attributes count only if they are HTML's, because <unk> or <de> may be symbols of the user. Names
# of HTML that are also language codes or usual symbols are left out: hr, s, td, th, tr, tt.
_NAMES = """a abbr article b big blockquote body br caption center cite code dd del div dl dt em figcaption figure font
footer form h1 h2 h3 h4 h5 h6 head header html i iframe img input ins label li link nav ol option p pre q ruby script
section select small span strike strong style sub sup table tbody tfoot thead title u ul"""
_HTML = frozenset(_NAMES.split())
# Zero-width space, word joiner and byte-order mark. Thai, Lao, Tibetan, Myanmar and Khmer, which have no spaces between
# words, may have U+200B there. U+200C and U+200D belong to Persian, to Indic scripts and to emoji.
_NO_SPACES = r"\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff"
_INVISIBLE = re.compile(rf"[\u2060\ufeff]|(?<![{_NO_SPACES}])\u200b(?![{_NO_SPACES}])")


def find_entity(text: str) -> str:
    """Returns the first HTML entity in a text, such as "&amp;"; "" if there is none."""
    if "&" not in text:
        return ""
    found = (match[0] for match in _ENTITY.finditer(text))
    return next((entity for entity in found if entity[1] == "#" or entity[1:] in html5), "")


def find_tag(text: str) -> str:
    """Returns the first tag in a text, without its attributes, such as "<br>"; "" if there is none."""
    if "<" not in text:
        return ""
    for match in _TAG.finditer(text):
        content, name = match[1].strip(), match[2]
        if content != name or name.startswith("/") or name.lower() in _HTML:
            return f"<{name}>"
    return ""


def find_invisible(text: str) -> str:
    """Returns the first invisible character in a text, such as "U+200B"; "" if there is none."""
    if not ("\u200b" in text or "\u2060" in text or "\ufeff" in text):  # much faster than the pattern
        return ""
    match = _INVISIBLE.search(text)
    return f"U+{ord(match[0]):04X}" if match else ""
