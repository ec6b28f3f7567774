"""What tests see of a report: its texts, its links and its charts."""

import html.parser
from pathlib import Path

_EMPTY = {"meta", "link", "br", "img", "hr", "input", "wbr"}


class Report(html.parser.HTMLParser):
    """A parsed report: its source, (name, attributes) of all its elements, and what describes its charts, by title."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.source = file.read_text(encoding="utf-8")
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.charts: dict[str, str] = {}
        self._open: list[str] = []
        self._texts: list[str] = []
        self._title = ""
        self.feed(self.source)
        assert self._open == [], f"not closed: {self._open}"

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in _EMPTY:
            self._open.append(tag)
        if tag == "figcaption":
            self._title = ""
        if dict(attributes).get("role") == "img":
            self.charts[self._title] = dict(attributes)["aria-label"]

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] == "figcaption":
            self._title += data
        if not {"style", "script", "svg"} & set(self._open):
            # A place for a line break inside a word does not divide the text.
            if self._texts and self.elements[-1][0] == "wbr":
                data = self._texts.pop() + data
            self._texts.append(data)

    @property
    def text(self) -> str:
        """The visible text, with single blanks."""
        return " ".join(" ".join(self._texts).split())
