"""Converts attention weights to JSON for static/attention.js in HTML files, reports and the server's page."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from t2t_lite.errors import UserError
from t2t_lite.files import encodable
from t2t_lite.visualization.attention_map import AttentionMap, HasAttention, attention_map, chosen_layers
from t2t_lite.visualization.head_statistics import MEASURES, HeadStatistics, head_statistics

DIGITS = 4  # decimal places of weights and measures
MAX_WEIGHTS = 3_000_000  # about 20 MB of JSON, or twice that if it also has the weights by words


def paper_layer(num_layers: int) -> int:
    """Returns the index, from 0, of the layer that corresponds to the paper's fifth of six layers (figures 3 to 5)."""
    return max(0, round(num_layers * 5 / 6) - 1)


def first_layer(kind: str, num_layers: int) -> int:
    """Returns the index of the layer with which a view opens: the last one of cross-attention, else `paper_layer`."""
    return num_layers - 1 if kind == "cross" else paper_layer(num_layers)


def attention_data(
    model: HasAttention,
    pairs: Sequence[tuple[str, str]],
    kinds: Sequence[str] = ("encoder", "decoder", "cross"),
    layers: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Returns the attention weights for some sentences, with measures of the heads.

    `pairs` has each sentence with its translation or tree. For `kinds` and `layers`, see `chosen_layers`. Raises
    UserError if the model provides no weights, a layer does not exist, or there are too many weights.
    """
    chosen = chosen_layers(model, kinds, layers)
    maps: list[list[AttentionMap]] = []
    weights = 0
    for line, output in pairs:
        maps.append([attention_map(model, line, output, kind, layer) for kind in chosen for layer in chosen[kind]])
        weights += sum(each.weights.size for each in maps[-1])
        if weights > MAX_WEIGHTS:
            raise UserError(
                f"the lines have more than {MAX_WEIGHTS:,} attention weights, too many for a browser; choose fewer "
                f"layers or kinds of attention, or use fewer or shorter lines"
            )
    return {
        "measures": [measure._asdict() for measure in MEASURES],
        "layers": chosen,
        "first": {kind: closest(chosen[kind], first_layer(kind, model.attention_layers[kind])) for kind in chosen},
        "heads": {each.kind: each.num_heads for each in maps[0]},
        "statistics": [statistics_json(head_statistics(of_layer)) for of_layer in zip(*maps)],
        "sentences": [
            {"input": encodable(line), "output": encodable(output), "maps": [map_json(each) for each in of_pair]}
            for (line, output), of_pair in zip(pairs, maps, strict=True)
        ],
    }


def closest(layers: Sequence[int], wanted: int) -> int:
    return min(layers, key=lambda layer: abs(layer - wanted))


def map_json(each: AttentionMap, digits: int = DIGITS) -> dict[str, Any]:
    """Returns the JSON of a map: its weights by tokens and, if these differ, by words."""
    words = each.in_words()
    views = {"tokens": _view(each, digits)}
    if (words.queries.labels, words.keys.labels) != (each.queries.labels, each.keys.labels):
        views["words"] = _view(words, digits)
    return {"kind": each.kind, "layer": each.layer, **views}


def statistics_json(statistics: HeadStatistics) -> dict[str, Any]:
    return {
        "kind": statistics.kind,
        "layer": statistics.layer,
        "heads": {name: [round(value, DIGITS) for value in values] for name, values in statistics.heads.items()},
        "uniform": {name: round(value, DIGITS) for name, value in statistics.uniform.items()},
        "queries": int(statistics.queries),
    }


def _view(each: AttentionMap, digits: int) -> dict[str, Any]:
    weights = np.asarray(each.weights, np.float64).round(digits)
    return {"queries": each.queries.labels, "keys": each.keys.labels, "weights": weights.tolist()}
