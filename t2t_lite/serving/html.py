"""Translates the texts of HTML and keeps its tags."""

from collections.abc import Iterator, Sequence

from selectolax.lexbor import LexborHTMLParser, LexborNode

# What is in these is no text for a reader, or must stay as it is.
_KEPT = frozenset(
    ("script", "style", "code", "pre", "textarea", "template", "noscript", "kbd", "samp", "var", "svg", "math")
)
_PAGE_BEGINNINGS = ("<!doctype", "<html", "<head", "<body")
# The parser's time grows with the square of the depth.
MAX_TAGS = 10_000


class TooManyTags(ValueError):
    """HTML has more tags than can be read in a short time."""


class Html:
    """A piece of HTML, or a whole page, read as browsers do.

    Args:
      markup: the HTML.

    Attributes:
      texts: the texts between tags, in order. Each is translated by itself.

    Raises:
      TooManyTags: if it has more than `MAX_TAGS` tags.
    """

    def __init__(self, markup: str) -> None:
        if markup.count("<") > MAX_TAGS:
            raise TooManyTags
        self._markup = markup
        self.texts = [node.text(deep=False) for node in _texts(_parsed(markup))]

    def with_texts(self, texts: Sequence[str]) -> str:
        """Returns the HTML with other texts between the tags; characters with a meaning in HTML are escaped."""
        tree = _parsed(self._markup)
        for node, text in zip(list(_texts(tree)), texts, strict=True):
            node.replace_with(text)
        return tree.html or ""


def _parsed(markup: str) -> LexborHTMLParser:
    if markup.lstrip()[:10].lower().startswith(_PAGE_BEGINNINGS):
        return LexborHTMLParser(markup)
    # A template may have anything at its top, such as the cells of a table.
    return LexborHTMLParser(markup, is_fragment=True, fragment_tag="template")


def _texts(tree: LexborHTMLParser) -> Iterator[LexborNode]:
    """Yields the texts to translate: no comments, no code, nothing that is marked with translate="no"."""
    kept: set[int] = set()  # nodes whose content stays as it is
    for node in tree.root.traverse(include_text=True) if tree.root else ():
        parent = node.parent
        if parent is not None and parent.mem_id in kept:
            kept.add(node.mem_id)
        elif node.is_text_node:
            if node.text(deep=False).strip():
                yield node
        elif _is_kept(node):
            kept.add(node.mem_id)


def _is_kept(node: LexborNode) -> bool:
    if node.tag in _KEPT:
        return True
    attributes = node.attributes if node.is_element_node else {}
    return attributes.get("translate") == "no" or "notranslate" in (attributes.get("class") or "").split()
