"""Draws attention weights, as pictures that notebooks display and that can be saved as HTML, SVG, PNG or PDF."""

import html
import string
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import t2t_lite
from t2t_lite.decoding.loading import open_model
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.files import encodable, write_text
from t2t_lite.parsing.parser import Parser
from t2t_lite.visualization.attention_drawing import Panel, draw_lines, draw_matrices, draw_overview
from t2t_lite.visualization.attention_map import (
    AttentionMap,
    HasAttention,
    attention_data,
    attention_map,
    chosen_layers,
    paper_layer,
)
from t2t_lite.visualization.figures import FORMS, KINDS, MAX_SENTENCES, check_picture_file, render, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAX_PANELS = 12
_MAX_DRAWN = 200_000  # maximum weights in a picture that is not HTML; each takes a few hundred bytes
_FRAME_HEIGHT = 640  # pixels, in a notebook


def draw_attention(
    model: Translator | Parser | str | PathLike,
    inputs: str | Sequence[str],
    targets: str | Sequence[str] | None = None,
    *,
    file: str | PathLike | None = None,
    kinds: Sequence[str] | None = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    form: str = "lines",
    words: bool | None = None,
    query: str | int | None = None,
) -> "AttentionPicture":
    """Draws the attention weights of a model for some sentences, as in figures 3 to 5 of the paper.

    Args:
      model: a `Translator`, a `Parser`, or a run directory.
      inputs: a sentence, or a list of up to 20 sentences.
      targets: the translation (or tree) of each sentence; None: the model generates them.
      file: where to save the picture: an .html file holds all sentences; .svg, .png and .pdf files hold one sentence.
      kinds: any of "encoder", "decoder" and "cross"; None: all in HTML, else the first kind that the model has.
      layers: counted from 0, -1 is the last; None: all in HTML and in an overview, else the layer that corresponds to
        the paper's layer 5 of 6.
      heads: counted from 0; None: all.
      form: "lines", as in the paper; "matrix"; or "overview", which shows all heads with their measures.
      words: whether to show words instead of subwords; None: at first in HTML, unless `query` is given. Weights are
        summed over a word's keys and averaged over its queries.
      query: the only query to draw lines for, as in figure 3, by its text or its index from 0; None: all queries.

    Returns:
      a picture. Notebooks display it, and `save(file)` writes it to a file.

    Raises:
      UserError: if a package of the extra `plot` is missing, the model provides no attention weights, or the layer,
        head or query does not exist.
    """
    if file is not None:
        check_picture_file(Path(file), "file")
    lines = [inputs] if isinstance(inputs, str) else list(inputs)
    given = [targets] if isinstance(targets, str) else targets
    if given is not None and len(given) != len(lines):
        raise UserError(f"there are {len(lines)} inputs but {len(given)} targets; pass one target per input")
    if isinstance(model, str | PathLike):
        source = open_model(model)
        translator = Translator.of(source, EngineOptions())
        model = Parser(translator) if source.writes_trees else translator
    outputs = model.translate(lines) if given is None else given
    pairs = list(zip(lines, outputs, strict=True))
    drawn = AttentionPicture(model, pairs, kinds=kinds, layers=layers, heads=heads, form=form, words=words, query=query)
    if file is not None:
        drawn.save(file)
    return drawn


class AttentionPicture:
    """A picture of a model's attention for some sentences. Notebooks display it.

    `pairs` has each sentence with its translation or tree. For the other arguments, see `draw_attention`. The
    constructor raises UserError if an argument is invalid, or the model provides no weights or lacks a layer; methods
    also raise it for a head or query that does not exist.
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
        return (
            f'<iframe title="attention" sandbox="allow-scripts" srcdoc="{html.escape(self.to_html(), quote=True)}" '
            f'style="width: 100%; height: {_FRAME_HEIGHT}px; border: 0"></iframe>'
        )

    def to_html(self) -> str:
        """Returns a self-contained HTML document."""
        data = attention_data(self._model, self.pairs, self._kinds or KINDS, self._layers)
        heads = _checked_heads(self._heads, max(data["heads"].values()))
        shown: dict[str, Any] = {"form": self.form, "heads": heads, "words": self.words, "query": None}
        if self._kinds or self._query is not None:
            shown["kind"] = kind = next(iter(data["layers"]))
            if self._query is not None:
                shown["words"] = bool(self.words)
                shown["query"] = self._query_in(self._maps([kind], [data["first"][kind]])[0])
        about = self.pairs[0][0] if len(self.pairs) == 1 else f"{len(self.pairs)} sentences"
        title, version = f"Attention: {encodable(about)}", t2t_lite.__version__
        return render("attention.html", title=title, version=version, data=data | {"shown": shown})

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
            return draw_overview(maps)
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
            _checked_heads(self._heads, self._maps(list(first)[:1], next(iter(first.values()))[:1])[0].num_heads)
        else:
            self._panels()

    def _panels(self) -> tuple[list[AttentionMap], list[int]]:
        kinds = self._kinds or list(chosen_layers(self._model))[:1]
        layers = self._layers
        if layers is None and self.form != "overview":
            layers = [paper_layer(max(self._model.attention_layers.get(kind, 0) for kind in kinds))]
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
