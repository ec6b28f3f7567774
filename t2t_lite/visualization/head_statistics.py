"""Measures how far and how sharply attention heads attend, and how much weight each neighbour receives.

Uniform attention over the same sentences is the baseline for every measure.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t2t_lite.visualization.attention_map import AttentionMap

_TINY = 1e-12


class Measure(NamedTuple):
    name: str
    label: str
    meaning: str
    is_share: bool = False


MEASURES = (
    Measure("distance", "mean distance", "in tokens, weighted by attention, without the start and end symbols"),
    Measure("entropy", "entropy", "of the weights, in bits"),
    Measure("previous", "previous", "share of the weight on the previous token", is_share=True),
    Measure("same", "same", "share on the token itself", is_share=True),
    Measure("next", "next", "share on the next token", is_share=True),
    Measure("end", "start/end", "share on the end symbol, or on the start symbol in the decoder", is_share=True),
)
# In the decoder, a query cannot attend to the token it predicts; positions in two languages are not comparable.
_MEASURED = {
    "encoder": ("distance", "entropy", "previous", "same", "next", "end"),
    "decoder": ("distance", "entropy", "previous", "end"),
    "cross": ("entropy", "end"),
}


class HeadStatistics(NamedTuple):
    kind: str  # the layer's kind of attention
    layer: int  # the index of the layer, from 0
    # the values of all heads, by the name of the measure; it contains only the measures of this kind of attention
    heads: dict[str, list[float]]
    uniform: dict[str, float]  # the value for uniform attention, by the name of the measure
    queries: int  # the number of queries that were measured


def head_statistics(maps: Sequence[AttentionMap]) -> HeadStatistics:
    """Returns the measures of a layer's heads over all queries in its maps, except those of the end symbol."""
    first = maps[0]
    heads = _measures(maps)
    uniform = {name: values[0] for name, values in _measures([each.uniform() for each in maps]).items()}
    return HeadStatistics(first.kind, first.layer, heads, uniform, sum(_queries(each).sum() for each in maps))


def _measures(maps: Sequence[AttentionMap]) -> dict[str, list[float]]:
    sums: dict[str, np.ndarray] = {}
    for each in maps:
        for name, values in _sums(each).items():
            sums[name] = sums.get(name, 0) + values
    count = np.maximum(sums.pop("count"), 1)
    distance = sums.pop("distance") / np.maximum(sums.pop("to tokens"), _TINY)
    measures = {"distance": distance} | {name: values / count for name, values in sums.items()}
    return {name: measures[name].tolist() for name in _MEASURED[maps[0].kind]}


def _sums(each: AttentionMap) -> dict[str, np.ndarray]:
    """Returns sums over the queries of a map, each [heads], for `_measures`."""
    chosen = _queries(each)
    weights = each.weights[:, chosen].astype(np.float64)  # [heads, queries, keys]
    # How many tokens each key is after each query, int [queries, keys].
    first_key = -1 if each.kind == "decoder" else 0  # the start symbol precedes the first token
    offsets = (np.arange(len(each.keys))[None] + first_key - np.arange(len(each.queries))[:, None])[chosen]
    ordinary = ~np.asarray(each.keys.special)
    to_tokens = weights * ordinary
    sums = {
        name: (to_tokens * (offsets == offset)).sum((1, 2))
        for name, offset in (("previous", -1), ("same", 0), ("next", 1))
    }
    return sums | {
        "count": np.full(each.num_heads, chosen.sum()),
        "distance": (to_tokens * abs(offsets)).sum((1, 2)),
        "to tokens": to_tokens.sum((1, 2)),
        "entropy": -(weights * np.log2(np.maximum(weights, _TINY))).sum((1, 2)),
        "end": (weights * ~ordinary).sum((1, 2)),
    }


def _queries(each: AttentionMap) -> np.ndarray:
    """Returns which queries count, bool [queries]: all except the end symbol."""
    return ~np.asarray(each.queries.special)
