"""Tracks which elements are open at a position in HTML markup, by the rules of the HTML standard.

It handles start tags that close other elements, such as <li> and <td> (section 13.2.6), and formatting elements, which
stay open after the end of their paragraph. Each tag takes constant time at any depth.
"""

import collections
import dataclasses


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Texts in these elements are not for readers, or must not change.
_KEPT = _names(
    "script style code pre textarea template noscript kbd samp var svg math xmp iframe noembed noframes plaintext"
)
_VOID = _names("area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr")
_FORMATTING = _names("a b big code em font i nobr s small strike strong tt u")
_HEADINGS = _names("h1 h2 h3 h4 h5 h6")
_ROW_GROUPS = _names("tbody thead tfoot caption colgroup")
# Scopes: an end tag inside these elements closes no element outside them.
_SCOPES = _names("applet caption html table td th marquee object template")
# Formatting elements do not stay open after the end of these elements.
_MARKERS = _names("applet caption td th marquee object template")
_PARAGRAPH_ENDS = _names(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form header "
    "hgroup hr li dd dt listing main menu nav ol p plaintext pre search section summary table ul xmp"
)
_SPECIAL = frozenset(
    _PARAGRAPH_ENDS
    | _HEADINGS
    | _ROW_GROUPS
    | _SCOPES
    | _VOID
    | _names("body button frameset head iframe noembed noframes noscript script select style textarea title tr")
) - {"dialog"}
# Kinds of elements, for lookups. Their names contain a blank, unlike names of tags.
_KINDS = {
    "kept element": _KEPT,
    "any formatting": _FORMATTING,
    "any heading": _HEADINGS,
    "any special": _SPECIAL,
    "end of list": _SPECIAL - {"address", "div", "p", "li", "dd", "dt"},
    "dd or dt": frozenset(("dd", "dt")),
    "td or th": frozenset(("td", "th")),
    "rt or rp": frozenset(("rt", "rp")),
    "row group": _ROW_GROUPS,
    "any scope": _SCOPES,
    "button scope": _SCOPES | {"button"},
    "list scope": _SCOPES | {"ol", "ul"},
    "table scope": frozenset(("table", "template")),
    "cell scope": _names("td th caption template"),
    "any marker": _MARKERS,
}


def _groups(name: str) -> tuple[str, ...]:
    """Returns the lookup keys of an HTML element: its name and its kinds."""
    kinds = (kind for kind, names in _KINDS.items() if name in names)
    return (name, *kinds, *(() if name in _HEADINGS else ("no heading",)))


_GROUPS = {name: _groups(name) for name in frozenset().union(*_KINDS.values())}
_ROW_ENDS = (("caption", "table scope"), ("td or th", "table scope"), ("tr", "table scope"))
# The elements that a start tag closes first, as (group, boundary): the last open element of the group, if it is inside
# the last open element of the boundary.
_CLOSES: dict[str, tuple[tuple[str, str], ...]] = {
    "li": (("li", "end of list"),),
    "dd": (("dd or dt", "end of list"),),
    "dt": (("dd or dt", "end of list"),),
    "option": (("option", "any special"),),
    "optgroup": (("option", "any special"), ("optgroup", "any special")),
    "rt": (("rt or rp", "any special"),),
    "rp": (("rt or rp", "any special"),),
    "button": (("button", "any scope"),),
    "a": (("a", "any marker"),),
    "nobr": (("nobr", "any marker"),),
    "td": (("caption", "table scope"), ("td or th", "table scope")),
    "th": (("caption", "table scope"), ("td or th", "table scope")),
    "tr": _ROW_ENDS,
    **dict.fromkeys(_ROW_GROUPS, (*_ROW_ENDS, ("row group", "table scope"))),
    **dict.fromkeys(_HEADINGS, (("any heading", "no heading"),)),
    "table": (("table", "cell scope"),),
    "select": (("select", "any scope"),),
    "body": (("head", "any scope"),),
}
# Start tags that end an enclosing <svg> or <math>.
_NOT_FOREIGN = _names(
    "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing menu meta "
    "nobr ol p pre ruby s small span strong strike sub sup table tt u ul var"
)
# Elements of SVG and MathML that contain HTML.
_INTEGRATION = _names("foreignobject desc title annotation-xml mi mo mn ms mtext")


@dataclasses.dataclass(slots=True)
class _Element:
    order: int  # the number of its start tag
    kept: bool | None  # whether its attributes forbid translation; None: unspecified
    groups: tuple[str, ...]  # its lookup keys
    is_foreign: bool = False  # whether it belongs to SVG or MathML
    has_html: bool = True  # whether it contains HTML
    is_open: bool = True


class OpenElements:
    def __init__(self) -> None:
        self._number = 0  # the number of start tags
        self._stack: list[_Element] = []  # without formatting elements, which overlap others
        self._groups: dict[str, list[_Element]] = collections.defaultdict(list)

    @property
    def is_kept(self) -> bool:
        """Whether a text here must not change, because of an element such as <code> or the innermost `translate`."""
        said = self._last("with translate")
        return self._last("kept element") is not None or (said is not None and bool(said.kept))

    @property
    def in_foreign(self) -> bool:
        return bool(self._stack) and not self._stack[-1].has_html

    def open(self, name: str, kept: bool | None, closes_itself: bool) -> bool:
        """Opens the element of a start tag (`name` in lower case). Returns whether it belongs to SVG or MathML.

        `kept`: whether its attributes forbid translation; None: unspecified. `closes_itself`: whether the tag ends in
        "/>", which matters only in SVG and MathML.
        """
        self._number += 1
        if name in _NOT_FOREIGN:
            self._close_foreign()
        if self.in_foreign or name in ("svg", "math"):
            if not closes_itself:
                groups = (f"foreign {name}", *(("kept element",) if name in _KEPT else ()))
                has_html = name in _INTEGRATION and self.in_foreign
                self._add(_Element(self._number, kept, groups, is_foreign=True, has_html=has_html))
            return True
        if name in _PARAGRAPH_ENDS or name in _HEADINGS:
            self._close_in_scope("p", "button scope")
        for group, boundary in _CLOSES.get(name, ()):
            self._close_in_scope(group, boundary)
        if name not in _VOID:
            self._add(_Element(self._number, kept, _GROUPS.get(name) or _groups(name)))
        return False

    def close(self, name: str) -> None:
        if name in ("p", "br"):
            self._close_foreign()
        if self._stack and self._stack[-1].is_foreign and (element := self._last(f"foreign {name}")):
            self._close(element)
        elif name in _FORMATTING:
            self._close_in_scope(name, "any marker")
        elif name in _HEADINGS:
            self._close_in_scope("any heading", "any scope")
        elif name == "p":
            self._close_in_scope(name, "button scope")
        elif name == "li":
            self._close_in_scope(name, "list scope")
        elif name in _ROW_GROUPS or name in ("td", "th", "tr"):
            self._close_in_scope(name, "table scope")
        elif name in ("table", "template"):
            self._close_in_scope(name, "template")
        elif name not in ("body", "html"):  # later content still belongs to these elements
            self._close_in_scope(name, "any scope" if name in _SPECIAL else "any special")

    def _close_foreign(self) -> None:
        while self.in_foreign:
            self._close(self._stack[-1])

    def _last(self, group: str) -> _Element | None:
        elements = self._groups[group]
        while elements and not elements[-1].is_open:
            elements.pop()
        return elements[-1] if elements else None

    def _add(self, element: _Element) -> None:
        if "any formatting" not in element.groups:
            self._stack.append(element)
        for group in (*element.groups, *(("with translate",) if element.kept is not None else ())):
            self._groups[group].append(element)

    def _close_in_scope(self, group: str, boundary: str) -> None:
        """Closes the last element of `group`, unless the last element of `boundary` was opened after it."""
        element, outer = self._last(group), self._last(boundary)
        if element and (outer is None or outer.order <= element.order):
            self._close(element)

    def _close(self, element: _Element) -> None:
        element.is_open = False
        if "any formatting" in element.groups:
            special = self._last("any special")
            if special is None or special.order < element.order:
                self._pop(element.order)
            return
        marker = self._pop(element.order)
        while marker and (inner := self._last("any formatting")) and inner.order > marker.order:
            inner.is_open = False

    def _pop(self, order: int) -> _Element | None:
        """Closes the elements on the stack from `order` on. Returns the outermost marker among them."""
        marker = None
        while self._stack and self._stack[-1].order >= order:
            element = self._stack.pop()
            element.is_open = False
            marker = element if "any marker" in element.groups else marker
        return marker
