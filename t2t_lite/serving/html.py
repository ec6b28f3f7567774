"""Translates the texts of HTML and keeps its tags."""

from collections.abc import Iterator, Sequence

import bs4
from bs4.element import NavigableString, PageElement

# What is in these is no text for a reader, or must stay as it is.
_KEPT = ("script", "style", "code", "pre", "textarea", "template", "kbd", "samp", "var", "svg", "math")


class Html:
    """A piece of HTML, or a whole page.

    Args:
      markup: the HTML; broken one is read as browsers do.

    Attributes:
      texts: the texts between tags, in order. Each is translated by itself.
    """

    def __init__(self, markup: str) -> None:
        self._soup = bs4.BeautifulSoup(markup, "html.parser")
        self._strings = list(_texts(self._soup))
        self.texts = [str(string) for string in self._strings]

    def with_texts(self, texts: Sequence[str]) -> str:
        """Returns the HTML with other texts between the tags; characters with a meaning in HTML are escaped.

        An instance can be used once.
        """
        for string, text in zip(self._strings, texts, strict=True):
            string.replace_with(NavigableString(text))
        return self._soup.decode(formatter="minimal")


def _texts(soup: bs4.BeautifulSoup) -> Iterator[NavigableString]:
    """Yields the texts to translate: no comments, no code, nothing that is marked with translate="no"."""
    kept_until: PageElement | None = None
    inside = False
    for element in soup.descendants:
        if inside and element is kept_until:
            inside = False
        if inside:
            continue
        if isinstance(element, bs4.Tag):
            if _is_kept(element):
                inside, kept_until = True, _next_after(element)
        elif type(element) is NavigableString and element.strip():
            yield element


def _is_kept(tag: bs4.Tag) -> bool:
    return tag.name in _KEPT or tag.get("translate") == "no" or "notranslate" in tag.get_attribute_list("class")


def _next_after(tag: bs4.Tag) -> PageElement | None:
    """Returns the element after a tag and all that it contains."""
    node: PageElement | None = tag
    while node is not None and node.next_sibling is None:
        node = node.parent
    return None if node is None else node.next_sibling
