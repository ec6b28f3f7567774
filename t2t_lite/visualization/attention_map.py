"""Attention maps: the attention weights of one layer for a pair of texts, with labels for their tokens or words."""

import dataclasses
import itertools
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from t2t_lite.data.vocab import UNKNOWN_TEXT
from t2t_lite.decoding.alignment import words_of_tokens
from t2t_lite.errors import UserError
from t2t_lite.files import encodable
from t2t_lite.visualization.choices import KINDS

START, END = "<start>", "<end>"
# The labels of a token without text, such as a part of a character, and of a token that is only whitespace.
_BLANKS = ("·", "␣")


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
        allowed = np.ones(self.weights.shape[1:])
        if self.kind == "decoder":
            allowed = np.tril(allowed)
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
        wanted = (
            range(number)
            if layers is None
            else dict.fromkeys(layer % number for layer in layers if -number <= layer < number)
        )
        if wanted:
            chosen[kind] = list(wanted)
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
