"""The numbers of attention pictures: weights with labels, measures of heads, and their JSON.

A map has the attention weights of one layer for a pair of texts, with labels for their tokens or words. The measures
are how far and how sharply heads attend, and how much weight each neighbour receives; uniform attention over the same
sentences is the baseline of each. HTML files, reports and the server's page read the JSON by static/attention.js.
"""

import dataclasses
import itertools
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from t2t_lite.data.vocab import UNKNOWN_TEXT
from t2t_lite.decoding.alignment import words_of_tokens
from t2t_lite.errors import UserError
from t2t_lite.files import encodable
from t2t_lite.visualization.figures import KINDS

START, END = "<start>", "<end>"
# The labels of a token without text, such as a part of a character, and of a token that is only whitespace.
_BLANKS = ("·", "␣")
_TINY = 1e-12
DIGITS = 4  # decimal places of weights and measures in JSON
MAX_WEIGHTS = 3_000_000  # about 20 MB of JSON, or twice that if it also has the weights by words


class HasAttention(Protocol):
    """A model that provides attention weights: a `Translator` or a `Parser`."""

    @property
    def attention_layers(self) -> Mapping[str, int]: ...

    def attention(
        self, line: Sequence[str], translation: Sequence[str], kind: str, layer: int | None, /
    ) -> list[tuple[np.ndarray, list[str], list[str]]]: ...


@dataclasses.dataclass(frozen=True)
class Axis:
    """The tokens or words along one side of a map."""

    labels: list[str]  # the label of each token or word; it ends in "@@" if other tokens of the same word follow
    # the number of the word that each belongs to, in order from 0; the start and end symbols count as words
    words: list[int]
    special: list[bool]  # whether each is the start or end symbol

    def __len__(self) -> int:
        return len(self.labels)


@dataclasses.dataclass(frozen=True)
class AttentionMap:
    kind: str  # "encoder" or "decoder" for self-attention, "cross" for cross-attention
    layer: int  # the index of the layer, from 0
    weights: np.ndarray = dataclasses.field(repr=False)  # float [heads, queries, keys]; each row sums to 1
    queries: Axis  # a query of the decoder is labelled with the token that it predicts
    keys: Axis  # a key of the decoder is labelled with the token that it reads; the first is the start symbol

    @property
    def num_heads(self) -> int:
        return self.weights.shape[0]

    def in_words(self) -> "AttentionMap":
        """Returns the map by words. Weights are summed over a word's keys and averaged over its queries."""
        # Float [words, tokens]: 1 if a token belongs to a word, else 0.
        to_queries, to_keys = (
            (np.arange(1 + max(axis.words))[:, None] == np.asarray(axis.words)[None]).astype(np.float64)
            for axis in (self.queries, self.keys)
        )
        means = to_queries / to_queries.sum(1, keepdims=True)
        weights = means @ self.weights @ to_keys.T
        return dataclasses.replace(self, weights=weights, queries=_in_words(self.queries), keys=_in_words(self.keys))

    def uniform(self) -> "AttentionMap":
        """Returns the map of one head that attends equally to all allowed keys, the baseline for all measures."""
        every = np.ones(self.weights.shape[1:])
        allowed = np.tril(every) if self.kind == "decoder" else every
        return dataclasses.replace(self, weights=(allowed / allowed.sum(-1, keepdims=True))[None])


def make_map(kind: str, layer: int, weights: np.ndarray, queries: Sequence[str], keys: Sequence[str]) -> AttentionMap:
    return AttentionMap(kind, layer, weights, _axis(queries), _axis(keys, starts=kind == "decoder"))


def attention_map(model: HasAttention, line: str, output: str, kind: str, layer: int) -> AttentionMap:
    """Returns the map of one layer (from 0; -1 is the last) for a line and its translation or tree."""
    (attention,) = model.attention([line], [output], kind, layer)
    return make_map(kind, layer % model.attention_layers.get(kind, 1), *attention)


def chosen_layers(
    model: HasAttention, kinds: Iterable[str] = KINDS, layers: Sequence[int] | None = None
) -> dict[str, list[int]]:
    """Returns the chosen layers (from 0) for each kind. Leaves out kinds for which the model has no weights.

    `layers` may be negative: -1 is the last layer; None: all layers. If only some kinds have a layer, the others leave
    it out.
    """
    having = model.attention_layers
    kinds = list(kinds)
    if layers is not None and not layers:
        raise UserError("`layers` is empty; omit it for all layers", status=2)
    for kind in kinds:
        if kind not in KINDS:
            raise UserError(f"'{kind}' is not a kind of attention; choose from {', '.join(KINDS)}", status=2)
    if not any(having.get(kind) for kind in kinds):
        raise UserError(
            f"the model returns no attention weights of single heads ({', '.join(kinds)}); ensembles, CTranslate2 "
            f"models and layers without self-attention return none"
        )
    chosen = {}
    for kind in kinds:
        number = having.get(kind, 0)
        asked = range(number) if layers is None else layers
        if wanted := list(dict.fromkeys(layer % number for layer in asked if -number <= layer < number)):
            chosen[kind] = wanted
    for layer in layers or ():
        if not any(-having[kind] <= layer < having[kind] for kind in kinds if having.get(kind)):
            most = max(having.get(kind, 0) for kind in kinds)
            raise UserError(f"`layers`: there is no layer {layer}; choose from 0 to {most - 1}", status=2)
    return chosen


def _axis(tokens: Sequence[str], starts: bool = False) -> Axis:
    """Returns the axis of `tokens`, the last of which is the end symbol. `starts` shifts them right for a decoder."""
    *texts, _ = tokens
    words = _words(texts)
    visible = [encodable(text.strip()) or _BLANKS[bool(text)] for text in texts]
    # For each token, whether a visible token of the same word follows.
    goes_on = [
        any(other == word and label not in _BLANKS for other, label in zip(words[place:], visible[place:]))
        for place, word in enumerate(words, start=1)
    ]
    labels = [f"{label}@@" if more else label for label, more in zip(visible, goes_on)]
    ordinary = [False] * len(labels)
    if starts:
        return Axis([START, *labels], [0, *(word + 1 for word in words)], [True, *ordinary])
    return Axis([*labels, END], [*words, words[-1] + 1 if words else 0], [*ordinary, True])


def _words(tokens: Sequence[str]) -> list[int]:
    """Returns the number of the word that each token belongs to.

    Words that share a token count as one. Punctuation tokens at the start or end of a word are separate words.
    """
    word_numbers: list[int] = []
    last: set[int] = set()
    for of_token in words_of_tokens(tokens):
        # A token that overlaps no word, such as a space or a part of a character, belongs to the previous word.
        joins = bool(word_numbers) and (not of_token or not last.isdisjoint(of_token))
        word_numbers.append(word_numbers[-1] if joins else word_numbers[-1] + 1 if word_numbers else 0)
        last = last | set(of_token) if joins else set(of_token)
    edges: list[int] = []  # -1 before the first token of a word that is not punctuation, 1 after the last, else 0
    for _, group in itertools.groupby(zip(word_numbers, tokens), lambda pair: pair[0]):
        marks = [_is_punctuation(token) for _, token in group]
        inside = [place for place, mark in enumerate(marks) if not mark] or range(len(marks))
        edges += [(place > inside[-1]) - (place < inside[0]) for place in range(len(marks))]
    parts = itertools.groupby(zip(word_numbers, edges, strict=True))
    return [number for number, (_, group) in enumerate(parts) for _ in group]


def _is_punctuation(token: str) -> bool:
    text = token.strip()
    return text not in ("", UNKNOWN_TEXT) and all(unicodedata.category(character).startswith("P") for character in text)


def _in_words(axis: Axis) -> Axis:
    parts: list[list[str]] = [[] for _ in range(1 + max(axis.words))]
    special = [False] * len(parts)
    for label, word, is_special in zip(axis.labels, axis.words, axis.special):
        parts[word].append(label.removesuffix("@@"))
        special[word] = is_special
    labels = ["".join(part for part in word if part not in _BLANKS) or word[0] for word in parts]
    return Axis(labels, list(range(len(labels))), special)


# Measures of heads.


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
    first, queries = maps[0], sum(each.queries.special.count(False) for each in maps)
    uniform = {name: values[0] for name, values in _measures([each.uniform() for each in maps]).items()}
    return HeadStatistics(first.kind, first.layer, _measures(maps), uniform, queries)


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
    chosen = ~np.asarray(each.queries.special)  # bool [queries]: all except the end symbol
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


# JSON.


def paper_layer(num_layers: int) -> int:
    """Returns the index, from 0, of the layer that corresponds to the paper's fifth of six layers (figures 3 to 5)."""
    return max(0, round(num_layers * 5 / 6) - 1)


def first_layer(kind: str, num_layers: int) -> int:
    """Returns the index of the layer with which a view opens: the last one of cross-attention, else `paper_layer`."""
    return num_layers - 1 if kind == "cross" else paper_layer(num_layers)


def attention_data(
    model: HasAttention,
    pairs: Sequence[tuple[str, str]],
    kinds: Sequence[str] = KINDS,
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
        "queries": statistics.queries,
    }


def _view(each: AttentionMap, digits: int) -> dict[str, Any]:
    weights = np.asarray(each.weights, np.float64).round(digits)
    return {"queries": each.queries.labels, "keys": each.keys.labels, "weights": weights.tolist()}
