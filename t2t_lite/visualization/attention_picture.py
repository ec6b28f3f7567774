"""An attention picture, which notebooks display and which can be saved as HTML, SVG, PNG or PDF."""

import html
import string
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import t2t_lite
from t2t_lite.errors import UserError
from t2t_lite.files import encodable, write_text
from t2t_lite.visualization.attention_data import attention_data, closest, paper_layer
from t2t_lite.visualization.attention_drawing import Panel, draw_lines, draw_matrices, draw_overview
from t2t_lite.visualization.attention_map import AttentionMap, HasAttention, attention_map, chosen_layers
from t2t_lite.visualization.choices import FORMS, KINDS, MAX_SENTENCES
from t2t_lite.visualization.figures import save
from t2t_lite.visualization.head_statistics import head_statistics
from t2t_lite.visualization.html import check_picture_file, render

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAX_PANELS = 12
_MAX_DRAWN = 200_000  # maximum weights in a picture that is not HTML; each takes a few hundred bytes
_FRAME_HEIGHT = 640  # pixels, in a notebook


class AttentionPicture:
    """A picture of a model's attention for some sentences. Notebooks display it.

    Args:
      model: a `Translator` or a `Parser`.
      pairs: each sentence with its translation or tree.
      kinds: the kinds of attention; None: all in HTML, else the first that the model has.
      layers: the layers, from 0; None: all in HTML and in an overview, else the one that `paper_layer` returns.
      heads: the heads, from 0; None: all.
      form: "lines", as in the paper; "matrix"; or "overview", which shows all heads with their measures.
      words: whether to show whole words instead of tokens; None: at first in HTML, unless `query` is given.
      query: the only query to draw lines for, by its label or its index from 0; None: all queries.

    Raises:
      UserError: if an argument is invalid, or the model provides no weights or lacks a layer. Methods also raise it for
        a head or query that does not exist.
    """

    def __init__(
        self,
        model: HasAttention,
        pairs: Sequence[tuple[str, str]],
        *,
        kinds: Sequence[str] | None = None,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
        form: str = "lines",
        words: bool | None = None,
        query: str | int | None = None,
    ) -> None:
        if form not in FORMS:
            raise UserError(f"`form={form}` is unknown; choose from {', '.join(FORMS)}", status=2)
        if not 0 < len(pairs) <= MAX_SENTENCES:
            raise UserError(f"a picture shows 1 to {MAX_SENTENCES} sentences, but there are {len(pairs)}")
        self._model, self.pairs, self.form, self.words = model, list(pairs), form, words
        self._kinds, self._layers, self._heads, self._query = kinds, layers, heads, query
        chosen_layers(model, kinds or KINDS, layers)  # before computing anything

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.pairs)} sentence{'s' if len(self.pairs) > 1 else ''}>"

    def _repr_html_(self) -> str:
        content = html.escape(self.to_html(), quote=True)
        return (
            f'<iframe title="attention" sandbox="allow-scripts" srcdoc="{content}" '
            f'style="width: 100%; height: {_FRAME_HEIGHT}px; border: 0"></iframe>'
        )

    def to_html(self) -> str:
        """Returns a self-contained HTML document."""
        data = self.data()
        title = self.pairs[0][0] if len(self.pairs) == 1 else f"{len(self.pairs)} sentences"
        return render("attention.html", title=f"Attention: {encodable(title)}", version=t2t_lite.__version__, data=data)

    def data(self) -> dict[str, Any]:
        """Returns the data for the HTML: that of `attention_data`, plus the initial choices."""
        data = attention_data(self._model, self.pairs, self._kinds or KINDS, self._layers)
        heads = _checked_heads(self._heads, max(data["heads"].values()))
        shown: dict[str, Any] = {"form": self.form, "heads": heads, "words": self.words, "query": None}
        if self._kinds or self._query is not None:
            shown["kind"] = kind = next(iter(data["layers"]))
            if self._query is not None:
                shown["words"] = bool(self.words)
                shown["query"] = self._query_in(self._maps([kind], [data["first"][kind]])[0])
        return data | {"shown": shown}

    def save(self, file: str | PathLike) -> Path:
        """Writes the picture to a file, which appears only once it is complete.

        Args:
          file: a name that ends in .html, .svg, .png or .pdf.

        Returns:
          the path.

        Raises:
          UserError: if the file cannot be written, or cannot show so many sentences or weights.
        """
        file = Path(file)
        check_picture_file(file, "file")
        if file.suffix.lower() == ".html":
            write_text(file, self.to_html())
            return file
        if len(self.pairs) > 1:
            raise UserError(
                f"{file} shows one sentence, but there are {len(self.pairs)}; use a file name that ends in .html"
            )
        save(self._figure(), file)
        return file

    def _figure(self) -> "Figure":
        maps, heads = self._panels()
        if self.form == "overview":
            return draw_overview(maps, [head_statistics([each]) for each in maps])
        queries = [self._query_in(each) for each in maps]
        sizes = (each.weights[0].size if query is None else len(each.keys) for each, query in zip(maps, queries))
        if (weights := len(heads) * sum(sizes)) > _MAX_DRAWN:
            raise UserError(
                f"{weights:,} weights are too many for one picture, which shows at most {_MAX_DRAWN:,}; choose "
                f"fewer with `query`, `heads` or `layers`, or use a shorter line"
            )
        if self.form == "matrix":
            return draw_matrices(maps, heads)
        return draw_lines([Panel(each, heads, query) for each, query in zip(maps, queries)])

    def check(self, file: Path) -> None:
        """Raises UserError if the chosen layers and heads cannot be drawn in `file`. Does not check the query."""
        if file.suffix.lower() == ".html":
            first = chosen_layers(self._model, self._kinds or KINDS, self._layers)
            each = self._maps(list(first)[:1], next(iter(first.values()))[:1])[0]
            _checked_heads(self._heads, each.num_heads)
        else:
            self._panels()

    def _panels(self) -> tuple[list[AttentionMap], list[int]]:
        kinds = self._kinds or list(chosen_layers(self._model))[:1]
        layers = self._layers
        if layers is None and self.form != "overview":
            most = max(self._model.attention_layers.get(kind, 0) for kind in kinds)
            layers = [closest(range(most), paper_layer(most))]
        maps = self._maps(kinds, layers)
        heads = _checked_heads(self._heads, min(each.num_heads for each in maps))
        panels = len(maps) * (len(heads) if self.form == "matrix" else 1)
        if self.form != "overview" and panels > _MAX_PANELS:
            raise UserError(
                f"{panels} panels are too many for one picture, which shows at most {_MAX_PANELS}; choose fewer "
                f"layers, heads or kinds of attention, or use a file name that ends in .html"
            )
        return maps, heads

    def _query_in(self, each: AttentionMap) -> int | None:
        return None if self._query is None else find_query(each, self._query)

    def _maps(self, kinds: Sequence[str], layers: Sequence[int] | None) -> list[AttentionMap]:
        chosen = chosen_layers(self._model, kinds, layers)
        maps = [attention_map(self._model, *self.pairs[0], kind, layer) for kind in chosen for layer in chosen[kind]]
        return [each.in_words() for each in maps] if self.words else maps


def _checked_heads(heads: Sequence[int] | None, number: int) -> list[int]:
    if heads is not None and not heads:
        raise UserError("`heads` is empty; omit it for all heads", status=2)
    for head in heads or ():
        if not -number <= head < number:
            raise UserError(f"`heads`: there is no head {head}; choose from 0 to {number - 1}", status=2)
    return list(range(number)) if heads is None else list(dict.fromkeys(head % number for head in heads))


def find_query(each: AttentionMap, query: str | int, argument: str = "query") -> int:
    """Returns the index of a query, which is given by its index or its text; of several matches, the first."""
    labels = each.queries.labels
    if isinstance(query, str):
        word = query.strip(string.punctuation).lower()
        plain = [label.strip(string.punctuation).lower() for label in labels]
        for wanted, among in ((query, labels), (word, plain)):
            if wanted and wanted in among:
                return among.index(wanted)
        if not query.isdecimal():
            raise UserError(
                f"`{argument}={query}` is not one of: {' '.join(labels)}; pass one of these (@@ marks parts of "
                f"words) or an index, or show whole words with `words`"
            )
    if not 0 <= int(query) < len(labels):
        raise UserError(f"`{argument}={query}`: there are {len(labels)} queries; indices start at 0")
    return int(query)
