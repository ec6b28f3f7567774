"""Replaces the texts in HTML and keeps every other character of the markup."""

import html
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from t2t_lite.serving.html_elements import OpenElements

# The tokens of the HTML standard (section 13.2.5). These regular expressions never read a character twice, because `*+`
# and `++` do not backtrack.
_BLANK = r"[\t\n\f\r ]"
_ATTRIBUTE = re.compile(
    rf"""(?P<name>[^\t\n\f\r />][^\t\n\f\r />=]*+)
    (?:{_BLANK}*+={_BLANK}*+(?:"(?P<double>[^"]*+)(?:"|\Z)|'(?P<single>[^']*+)(?:'|\Z)|(?P<bare>[^\t\n\f\r >]*+)))?+""",
    re.VERBOSE,
)
_UNNAMED_ATTRIBUTE = re.sub(r"\?P<\w+>", "?:", _ATTRIBUTE.pattern)
_TAG = re.compile(
    rf"<(?P<slash>/?)(?P<name>[A-Za-z][^\t\n\f\r />]*+)(?P<attributes>(?:[\t\n\f\r /]++|{_UNNAMED_ATTRIBUTE})*+)>",
    re.VERBOSE,
)
_CDATA = re.compile(r"<!\[CDATA\[(?s:.*?)(?:\]\]>|\Z)")
# Comments, declarations and processing instructions. Without an end, they extend to the end of the markup.
_OTHER = re.compile(r"<!--(?:-?>|(?s:.*?)(?:--!?>|\Z))|<(?:[!?]|/(?![A-Za-z]))[^>]*+(?:>|\Z)")
_MARKUP = re.compile(r"<(?=[A-Za-z!?/])")
# The ends of elements that contain text but no tags.
_ENDS = {
    name: re.compile(rf"</{name}(?=[\t\n\f\r />])", re.IGNORECASE)
    for name in ("title", "textarea", "style", "xmp", "iframe", "noembed", "noframes", "noscript")
}
_IN_SCRIPTS = re.compile(r"<!---?>|(<!--)|(-->)|<(/?)script(?=[\t\n\f\r />])", re.IGNORECASE)
# How special characters are escaped in texts.
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\xa0": "&nbsp;"})


class _Text(NamedTuple):
    """A text between tags: its position in the markup, and the text as a reader sees it."""

    start: int
    end: int
    text: str


class Html:
    """A fragment of HTML or a whole page. Each of the `texts` is between two tags and is translated separately.

    The markup is read as tokens, not as a tree: a serialized tree would differ from the original, and 50 kB of markup
    can have millions of nodes, because each <p> reopens all unclosed <b>. The tokenizer is our own, because the
    tokenizers of libraries do not report where texts begin and end in the markup, or do not support <svg>, which has
    its own rules. Time and memory are linear in the length of the markup.
    """

    def __init__(self, markup: str) -> None:
        self._markup = markup
        self._originals = [each for each in _texts(markup) if each.text.strip()]
        self.texts = [each.text for each in self._originals]

    def with_texts(self, texts: Sequence[str]) -> str:
        """Returns the HTML with new texts between the tags. Special characters are escaped.

        An unchanged text keeps its original character references.
        """
        parts, end = [], 0
        for original, text in zip(self._originals, texts, strict=True):
            if text != original.text:
                parts += (self._markup[end : original.start], text.translate(_ESCAPED))
                end = original.end
        return "".join([*parts, self._markup[end:]])


def _texts(markup: str) -> Iterator[_Text]:
    """Yields the texts that should be translated, in order; some are blank."""
    elements = OpenElements()
    start = place = int(markup.startswith("\ufeff"))  # where the text begins, and where the search for its end begins
    while True:
        match = _MARKUP.search(markup, place)
        end = match.start() if match else len(markup)
        if start < end and not elements.is_kept:
            yield _Text(start, end, _unescaped(markup[start:end]))
        if not match:
            return
        if tag := _TAG.match(markup, end):
            start = tag.end()
            place = _after(tag, elements)
        elif other := (elements.in_foreign and _CDATA.match(markup, end)) or _OTHER.match(markup, end):
            start = place = other.end()
        else:  # a tag without an end, which browsers ignore
            return


def _after(tag: re.Match[str], elements: OpenElements) -> int:
    name = tag["name"].lower()
    if tag["slash"]:
        elements.close(name)
        return tag.end()
    is_foreign = elements.open(name, _is_kept(tag["attributes"]), tag["attributes"].endswith("/"))
    if is_foreign:
        return tag.end()
    markup = tag.string
    if name == "plaintext":
        return len(markup)
    if name == "script":
        return _end_of_script(markup, tag.end())
    if name in _ENDS:
        ended = _ENDS[name].search(markup, tag.end())
        return ended.start() if ended else len(markup)
    return tag.end()


def _end_of_script(markup: str, start: int) -> int:
    in_comment = in_inner = False
    for match in _IN_SCRIPTS.finditer(markup, start):
        begins, ends, slash = match.groups()
        if begins:
            in_comment = True
        elif ends:
            in_comment = in_inner = False
        elif slash and not in_inner:
            return match.start()
        elif slash is not None:
            in_inner = in_comment and not slash
    return len(markup)


def _is_kept(attributes: str) -> bool | None:
    """Returns whether attributes forbid translation; None: unspecified."""
    if "translate" not in attributes.lower():
        return None
    values: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(attributes):
        value = match["double"] or match["single"] or match["bare"] or ""
        values.setdefault(match["name"].lower(), _unescaped(value))  # a repeated name: the first counts
    if "notranslate" in values.get("class", "").split():
        return True
    return {"no": True, "yes": False, "": False}.get(values.get("translate", "none").lower())


def _unescaped(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # Python rejects numbers of more than 4,300 digits
        return text
