"""Draws attention pictures with matplotlib, as SVG, PNG or PDF.

The opacity of a line or cell is its weight, so an SVG file contains the weights with six decimal places. Weights that
would be 0 there are left out.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from t2t_lite.visualization.attention_map import MEASURES, AttentionMap, HeadStatistics, head_statistics
from t2t_lite.visualization.figures import COLORS, make_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW = 0.23  # inches per token
_LETTER = 0.085  # inches per character of a label
_COLUMN = 1.9  # inches between the two columns of tokens
_SMALLEST = 5e-7  # smaller weights round to 0 at six decimal places
_TITLES = {"encoder": "encoder self-attention", "decoder": "decoder self-attention", "cross": "cross-attention"}


def head_color(head: int) -> str:
    return COLORS[head % len(COLORS)]


def layer_title(kind: str, layer: int) -> str:
    """Returns the title of a layer, such as "encoder self-attention, layer 4"."""
    return f"{_TITLES[kind]}, layer {layer}"


class Panel(NamedTuple):
    """One panel of a picture in the form of the paper's figures."""

    map: AttentionMap  # the weights
    heads: Sequence[int]  # the heads to draw, each in its own colour
    query: int | None = None  # the only query to draw lines for, as in figure 3; None: all queries


def draw_lines(panels: Sequence[Panel]) -> "Figure":
    """Draws a row of panels, as in the paper's figures 3 to 5: two columns of tokens, joined by lines."""
    from matplotlib.lines import Line2D

    maps = [panel.map for panel in panels]
    heads = sorted({head for panel in panels for head in panel.heads})
    rows = max(max(len(each.queries), len(each.keys)) for each in maps)
    letters = [max(map(len, axis.labels)) for each in maps for axis in (each.queries, each.keys)]
    width = _COLUMN + 2 * max(letters) * _LETTER + 0.2 * len(heads) + 0.3
    figure = make_figure(max(2.8, width) * len(maps), (rows + 2) * _ROW + 0.3)
    for axes, panel in zip(figure.subplots(1, len(maps), squeeze=False)[0], panels):
        _lines(axes, panel, rows)
    handles = [Line2D([], [], color=head_color(head), linewidth=3, label=f"head {head}") for head in heads]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(heads), 4), frameon=False, fontsize=9)
    return figure


def _lines(axes: "Axes", panel: Panel, rows: int) -> None:
    from matplotlib.collections import LineCollection

    each, heads, query = panel
    boxes = 0.06 * len(heads) if query is not None else 0.0  # width of the boxes beside the keys, as in figure 3
    for head in heads:
        for place in range(len(each.queries)) if query is None else [query]:
            weights = each.weights[head, place]
            shown = np.flatnonzero(weights >= _SMALLEST).tolist()
            lines = LineCollection(
                [[(0.0, place), (1.0, key)] for key in shown],
                colors=head_color(head),
                alpha=_opacities(weights[shown]),
                linewidths=2.2,
                capstyle="butt",
                gid=f"{each.kind}-layer{each.layer}-head{head}-query{place}",
            )
            axes.add_collection(lines, autolim=False)
    for place, label in enumerate(each.queries.labels):
        weight = "bold" if place == query else "normal"
        axes.text(-0.03, place, _escaped(label), ha="right", va="center", fontsize=10, weight=weight)
    for place, label in enumerate(each.keys.labels):
        axes.text(1.03 + boxes, place, _escaped(label), ha="left", va="center", fontsize=10)
    if query is not None:
        for column, head in enumerate(heads):
            boxes_of_head = [(1.02 + 0.06 * column, key - 0.42, 0.05, 0.84) for key in range(len(each.keys))]
            name = f"box-{each.kind}-layer{each.layer}-head{head}-query{query}"
            _cells(axes, boxes_of_head, each.weights[head, query], head, name)
    axes.set(xlim=(-0.01, 1.01 + boxes), ylim=(rows - 0.4, -0.6))
    axes.set_axis_off()
    axes.set_title(layer_title(each.kind, each.layer), fontsize=10)


def draw_matrices(maps: Sequence[AttentionMap], heads: Sequence[int]) -> "Figure":
    """Draws a matrix for each map (rows) and head (columns): queries down, keys across, weights as opacity."""
    rows, columns = (max(len(axis) for axis in axes) for axes in zip(*((each.queries, each.keys) for each in maps)))
    letters = max(len(label) for each in maps for axis in (each.queries, each.keys) for label in axis.labels)
    margin = letters * _LETTER
    figure = make_figure((columns * _ROW + margin + 0.3) * len(heads), (rows * _ROW + margin + 0.5) * len(maps))
    for row, each in zip(figure.subplots(len(maps), len(heads), squeeze=False), maps):
        places = [(key, query, 1.0, 1.0) for query in range(len(each.queries)) for key in range(len(each.keys))]
        for panel, head in zip(row, heads):
            _cells(panel, places, each.weights[head].ravel(), head, f"{each.kind}-layer{each.layer}-head{head}")
            panel.set(xlim=(0, len(each.keys)), ylim=(len(each.queries), 0))
            panel.set_xticks(np.arange(len(each.keys)) + 0.5, list(map(_escaped, each.keys.labels)), rotation=90)
            panel.set_yticks(np.arange(len(each.queries)) + 0.5, list(map(_escaped, each.queries.labels)))
            panel.xaxis.tick_top()
            panel.tick_params(length=0, labelsize=9)
            panel.set_title(f"{layer_title(each.kind, each.layer)}, head {head}", fontsize=10)
    return figure


def _cells(
    panel: "Axes", cells: Sequence[tuple[float, float, float, float]], weights: np.ndarray, head: int, gid: str
) -> None:
    """Draws the rectangles `cells`, each (x, y, width, height), with their weights as opacity."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgb

    shown = np.flatnonzero(weights >= _SMALLEST).tolist()
    corners = [
        [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]
        for x, y, width, height in (cells[place] for place in shown)
    ]
    colors = [(*to_rgb(head_color(head)), opacity) for opacity in _opacities(weights[shown])]
    panel.add_collection(PolyCollection(corners, facecolors=colors, edgecolors="none", gid=gid), autolim=False)


def draw_overview(maps: Sequence[AttentionMap]) -> "Figure":
    """Draws each head of each layer as a thumbnail, with its measures and those of uniform attention.

    The maps are for one sentence. Maps of the same kind have the same number of heads.
    """
    from matplotlib.colors import to_rgb

    statistics = [head_statistics([each]) for each in maps]
    columns = max(each.num_heads for each in maps)
    lines = max(len(each.uniform) for each in statistics)
    figure = make_figure(1.75 * columns, (1.5 + 0.15 * lines) * len(maps) + 0.3)
    panels = figure.subplots(len(maps), columns, squeeze=False)
    for row, each, measured in zip(panels, maps, statistics, strict=True):
        for head, panel in enumerate(row):
            if head >= each.num_heads:
                panel.set_axis_off()
                continue
            pixels = np.empty((*each.weights[head].shape, 4))  # RGBA, with the weights as opacity
            pixels[..., :3], pixels[..., 3] = to_rgb(head_color(head)), np.minimum(each.weights[head], 1.0)
            panel.imshow(pixels, aspect="auto", interpolation="nearest")
            panel.set(xticks=[], yticks=[])
            panel.set_title(f"{each.kind}, layer {each.layer}, head {head}", fontsize=8)
            panel.set_xlabel("\n".join(described(measured, head)), fontsize=7)
    return figure


def described(statistics: HeadStatistics, head: int) -> list[str]:
    lines = []
    for measure in MEASURES:
        if measure.name in statistics.uniform:
            value, baseline = statistics.heads[measure.name][head], statistics.uniform[measure.name]
            form = "{:.0%}" if measure.is_share else "{:.2f}"
            lines.append(f"{measure.label} {form.format(value)} (uniform {form.format(baseline)})")
    return lines


def _opacities(weights: np.ndarray) -> list[float]:
    """Returns the opacity of each weight: the weight, limited to 1, which it may exceed by a rounding error."""
    return np.minimum(weights.astype(float), 1.0).tolist()


def _escaped(label: str) -> str:
    return label.replace("$", r"\$")
