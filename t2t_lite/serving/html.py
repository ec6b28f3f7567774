"""Replaces the texts in HTML and keeps every other character of the markup."""

import html
import itertools
import re
from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

# The tokens of the HTML standard (section 13.2.5). These regular expressions never read a character twice, because `*+`
# and `++` do not backtrack.
_ATTRIBUTE = re.compile(
    r"""(?P<name>[^\t\n\f\r />][^\t\n\f\r />=]*+)(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+
    (?:"(?P<double>[^"]*+)(?:"|\Z)|'(?P<single>[^']*+)(?:'|\Z)|(?P<bare>[^\t\n\f\r >]*+)))?+""",
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
_NAME_ENDS = r"(?=[\t\n\f\r />])"
# A script up to its end tag. In a comment, it may contain another script with its end tag.
_SCRIPT = re.compile(
    rf"""(?:[^<]++|<!---?>|<!--(?:[^<-]++|<script{_NAME_ENDS}(?:[^<-]++|(?!-->|</script{_NAME_ENDS}).)*+(?:</script)?
    |(?!-->|</script{_NAME_ENDS}).)*+|(?!</script{_NAME_ENDS}).)*+""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_BLANKS = " \t\n\f\r"
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\xa0": "&nbsp;"})


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Texts in these elements are not for readers, or must not change.
_KEPT = _names(
    "script style code pre listing textarea template noscript kbd samp var svg math xmp iframe noembed noframes "
    "plaintext"
)
_RAW = _names("title textarea style xmp iframe noembed noframes noscript plaintext")  # they contain text but no tags
_VOID = _names("area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr")
_FORMATTING = _names("a b big code em font i nobr s small strike strong tt u")
_MARKERS = _names("applet caption td th marquee object template")  # formatting ends with these elements
_SCOPES = _MARKERS | _names("html table")  # end tags inside these elements close no element outside them
_PARAGRAPH_SCOPES = _SCOPES | {"button"}
_HEADINGS = _names("h1 h2 h3 h4 h5 h6")
_BLOCKS = _HEADINGS | _names(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form header "
    "hgroup hr li dd dt listing main menu nav ol p plaintext pre search section summary table ul xmp"
)
_GROUPS = _names("tbody thead tfoot colgroup caption")
_SPECIAL = _BLOCKS | _PARAGRAPH_SCOPES | _GROUPS | _names("body head select tr")
_TABLES = _names("table template")
# Start tags, the elements that they close first, and the elements inside which they close nothing outside.
_CLOSED = (
    (_BLOCKS, {"p"}, _PARAGRAPH_SCOPES),
    ({"li"}, {"li"}, _SPECIAL - {"address", "div", "p"}),
    ({"dd", "dt"}, {"dd", "dt"}, _SPECIAL - {"address", "div", "p"}),
    ({"option", "optgroup"}, {"option"}, _SPECIAL),
    ({"optgroup"}, {"optgroup"}, _SPECIAL),
    ({"rt", "rp"}, {"rt", "rp"}, _SPECIAL),
    ({"td", "th", "tr", *_GROUPS}, {"td", "th", "caption"}, _TABLES),
    ({"tr", *_GROUPS}, {"tr"}, _TABLES),
    (_GROUPS, _GROUPS, _TABLES),
    ({"table"}, {"table"}, _MARKERS),
    ({"body"}, {"head"}, _SCOPES),
    *(({name}, {name}, _SCOPES) for name in ("a", "nobr", "button", "select")),
)
# The elements inside which an end tag closes nothing outside, where these are not _SCOPES.
_BOUNDS = {
    "li": _SCOPES | {"ol", "ul"},
    "p": _PARAGRAPH_SCOPES,
    **dict.fromkeys({"td", "th", "tr", *_GROUPS}, _TABLES),
    **{name: {"template"} for name in _TABLES},
}
_REACH = 50  # how many of the innermost elements a tag can close, so that each tag takes constant time
_NO, _YES, _ALWAYS = range(3)  # whether texts are kept; _ALWAYS: even if an element inside has translate="yes"


class _Text(NamedTuple):
    start: int  # in the markup, without the white space around it
    end: int
    text: str  # as a reader sees it


class _Element(NamedTuple):
    name: str  # with "/" at its end in SVG and MathML
    own: int | None  # whether its texts are kept by what its tag says; None: it says nothing
    kept: int  # whether they are kept, with what the elements around it say


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

        An unchanged text keeps its character references, line breaks and blanks.
        """
        parts, end = [], 0
        for original, text in zip(self._originals, texts, strict=True):
            if text != original.text:
                parts += (self._markup[end : original.start], text.translate(_ESCAPED))
                end = original.end
        return "".join([*parts, self._markup[end:]])


def _texts(markup: str) -> Iterator[_Text]:
    """Yields the texts that should be translated, in order; some are blank."""
    stack = [_Element("", None, _NO)]  # the elements that are open, outermost first
    start = place = int(markup.startswith("\ufeff"))  # where the text begins, and where the search for its end begins
    while True:
        match = _MARKUP.search(markup, place)
        end = match.start() if match else len(markup)
        if start < end and stack[-1].kept == _NO:
            text = markup[start:end].strip(_BLANKS)
            first = markup.index(text, start)
            # White space is one blank to readers, except in <pre> and <textarea>, which are never translated.
            yield _Text(first, first + len(text), re.sub(f"[{_BLANKS}]+", " ", _unescaped(text)))
        if not match:
            return
        if tag := _TAG.match(markup, end):
            start, place = tag.end(), _read(tag, stack)
        elif other := (stack[-1].name.endswith("/") and _CDATA.match(markup, end)) or _OTHER.match(markup, end):
            start = place = other.end()
        else:  # a tag without an end, which browsers ignore
            return


def _read(tag: re.Match[str], stack: list[_Element]) -> int:
    """Opens or closes elements. Returns where the next tag may begin: some elements contain only text."""
    name = tag["name"].lower()
    if tag["slash"]:
        if name not in ("body", "html"):  # later content still belongs to these elements
            usual = _SCOPES if name in _SPECIAL or name in _FORMATTING else _SPECIAL
            _close(stack, _HEADINGS if name in _HEADINGS else {name, f"{name}/"}, _BOUNDS.get(name, usual))
        return tag.end()
    own = _ALWAYS if name in _KEPT else _said(tag["attributes"])
    if stack[-1].name.endswith("/") or name in ("svg", "math"):
        if not tag["attributes"].endswith("/"):
            _open(stack, f"{name}/", own)
        return tag.end()
    for starts, closed, bounds in _CLOSED:
        if name in starts:
            _close(stack, closed, bounds)
    if name in _HEADINGS and stack[-1].name in _HEADINGS:
        stack.pop()
    if name not in _VOID:
        _open(stack, name, own)
    if name in _RAW:
        end = re.compile(f"</{name}{_NAME_ENDS}", re.IGNORECASE).search(tag.string, tag.end())
        return end.start() if end and name != "plaintext" else len(tag.string)
    script = _SCRIPT.match(tag.string, tag.end()) if name == "script" else None
    return script.end() if script else tag.end()


def _open(stack: list[_Element], name: str, own: int | None) -> None:
    around = stack[-1].kept
    stack.append(_Element(name, own, around if own is None or around == _ALWAYS else own))


def _close(stack: list[_Element], names: Set[str], bounds: Set[str]) -> None:
    """Closes the innermost element with one of the names, unless one of `bounds` is open inside it."""
    for place in range(len(stack) - 1, max(0, len(stack) - 1 - _REACH), -1):
        if stack[place].name in names:
            break
        if stack[place].name in bounds:
            return
    else:
        return
    closed, *inner = stack[place:]
    del stack[place:]
    # Elements overlap: </b> closes no block inside <b>, and the end of a block no <b> inside it.
    if closed.name not in _FORMATTING or _SPECIAL.isdisjoint(each.name for each in inner):
        outside = itertools.takewhile(lambda each: each.name not in _MARKERS, (closed, *inner))
        inner = [each for each in outside if each.name in _FORMATTING and each is not closed]
    for each in inner:
        _open(stack, each.name, each.own)


def _said(attributes: str) -> int | None:
    """Returns whether attributes say that texts are kept."""
    if "translate" not in attributes.lower():
        return None
    values: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(attributes):
        value = match["double"] or match["single"] or match["bare"] or ""
        values.setdefault(match["name"].lower(), _unescaped(value))  # a repeated name: the first counts
    if "notranslate" in values.get("class", "").split():
        return _YES
    return {"no": _YES, "yes": _NO, "": _NO}.get(values.get("translate", "none").lower())


def _unescaped(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # Python rejects numbers of more than 4,300 digits
        return text
