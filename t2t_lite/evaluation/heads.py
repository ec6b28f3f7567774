"""Measures whether attention heads specialise, and which dependencies between words they follow.

An attention head follows a dependency if the dependent word attends to its head word more than to any other word except
itself. The baseline points to the word at a fixed distance. The best head and the best distance are chosen on one half
of the lines and scored on the other. (The paper's section "Attention Visualizations" shows examples; the measure is
from Voita et al. 2019, arXiv 1905.09418, and Clark et al. 2019, arXiv 1906.04341.)
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from t2t_lite.data.problem import Dependency, Problem
from t2t_lite.decoding.alignment import words_of_tokens
from t2t_lite.errors import UserError
from t2t_lite.visualization.attention_data import statistics_json
from t2t_lite.visualization.attention_map import HasAttention, chosen_layers, make_map
from t2t_lite.visualization.head_statistics import head_statistics

FORMAT = 1
MIN_CASES = 10  # minimum per half; fewer cases say nothing about a relation
_OFFSETS = range(-15, 16)  # words
_KINDS = {"inputs": "encoder", "targets": "decoder"}  # the attention in which the words on a side attend to each other

# kind, layer and head
Head: TypeAlias = tuple[str, int, int]


class _Case(NamedTuple):
    """A dependency between two words, and which attention heads follow it."""

    line: int
    relation: str
    right: dict[Head, bool]  # whether each attention head points to the head word
    offset: int  # distance from the dependent word to the head word, in words


class Pairs(NamedTuple):
    """Pairs of lines from a split, with their dependencies."""

    # inputs, targets: as the model reads and writes them.
    inputs: list[str]
    targets: list[str]
    dependencies: list[list[Dependency]]  # the dependencies of each pair


def labelled_pairs(problem: Problem, inputs: Iterable[str], targets: Iterable[str], number: int) -> Pairs:
    """Returns the first `number` pairs with text on both sides, and the dependencies that the problem knows."""
    chosen = [pair for pair in zip(inputs, targets) if all(text.strip() for text in pair)][:number]
    if not chosen:
        raise UserError("cannot measure heads: no line has text on both sides; check the texts in `data_dir`")
    return Pairs(
        [line for line, _ in chosen], [text for _, text in chosen], [problem.dependencies(*pair) for pair in chosen]
    )


def measure_heads(model: HasAttention, pairs: Pairs) -> dict[str, Any]:
    """Returns measurements of all heads of a `Translator` or `Parser`, as JSON data.

    Returns:
      {"format", "lines", "layers": [`head_statistics` of each layer], "relations": [{"relation", "cases", "head":
      {"kind", "layer", "head"}, "accuracy", "interval", "offset", "baseline", "baseline_interval"}]}. Relations with
      few cases are omitted.

    Raises:
      UserError: if the model has no attention weights.
    """
    layers, cases = [], {}
    for kind, numbers in chosen_layers(model).items():
        for layer in numbers:
            attentions = model.attention(pairs.inputs, pairs.targets, kind, layer)
            layers.append(statistics_json(head_statistics([make_map(kind, layer, *of_line) for of_line in attentions])))
            if kind in _KINDS.values():
                _point(cases, attentions, pairs, kind, layer)
    relations = dict.fromkeys(case.relation for case in cases.values())
    scored = [_scored([case for case in cases.values() if case.relation == relation]) for relation in relations]
    return {
        "format": FORMAT,
        "lines": len(pairs.inputs),
        "layers": layers,
        "relations": [relation for relation in scored if relation],
    }


def _point(cases: dict[tuple, _Case], attentions: Sequence[tuple], pairs: Pairs, kind: str, layer: int) -> None:
    """Records in `cases` which heads of a layer, given its `attentions`, point to the head word of each dependency."""
    for line, ((weights, queries, _), dependencies) in enumerate(zip(attentions, pairs.dependencies, strict=True)):
        wanted = [each for each in dependencies if _KINDS[each.side] == kind]
        if not wanted:
            continue
        of_words = _of_words(weights, queries[:-1], reads_before=kind == "decoder")
        for each in wanted:
            if max(each.word, each.head) >= of_words.shape[1]:
                continue  # the line was truncated
            if kind == "decoder" and each.head > each.word:
                continue  # the head word is not written yet
            row = of_words[:, each.word].copy()
            row[:, each.word] = -1.0
            case = _Case(line, f"{each.relation} ({each.side})", {}, each.head - each.word)
            case = cases.setdefault((line, *each), case)
            for head, pointed in enumerate(row.argmax(-1)):
                case.right[kind, layer, head] = bool(pointed == each.head)


def _of_words(weights: np.ndarray, tokens: Sequence[str], reads_before: bool) -> np.ndarray:
    """Returns the weights between whitespace-separated words, float [heads, words, words].

    Args:
      weights: float [heads, queries, keys], including the end symbol.
      tokens: the tokens without the end symbol.
      reads_before: whether position k of the keys reads token k - 1, as in the decoder.
    """
    of_tokens = words_of_tokens(tokens)
    number = 1 + max((word for words in of_tokens for word in words), default=-1)
    belongs = np.array([[word in words for words in of_tokens] for word in range(number)], float).reshape(number, -1)
    keys = weights[:, :-1, 1:] if reads_before else weights[:, :-1, :-1]
    means = belongs / np.maximum(belongs.sum(1, keepdims=True), 1.0)
    return means @ keys.astype(float) @ belongs.T


def _scored(cases: Sequence[_Case]) -> dict[str, Any] | None:
    """Returns the accuracy of a relation's best head and best fixed distance; None if there are too few cases."""
    halves = [[case for case in cases if case.line % 2 == half] for half in (0, 1)]
    chosen_on, scored_on = halves
    if min(map(len, halves)) < MIN_CASES:
        return None
    heads = list(chosen_on[0].right)
    best = max(heads, key=lambda head: sum(case.right[head] for case in chosen_on))
    offset = max(_OFFSETS, key=lambda offset: sum(case.offset == offset for case in chosen_on))
    lines = [case.line for case in scored_on]
    accuracy, interval = _share(lines, [case.right[best] for case in scored_on])
    baseline, baseline_interval = _share(lines, [case.offset == offset for case in scored_on])
    return {
        "relation": cases[0].relation,
        "cases": len(scored_on),
        "head": dict(zip(("kind", "layer", "head"), best)),
        "accuracy": accuracy,
        "interval": interval,
        "offset": offset,
        "baseline": baseline,
        "baseline_interval": baseline_interval,
    }


def _share(lines: Sequence[int], right: Sequence[bool]) -> tuple[float, list[float]]:
    """Returns the share of correct cases and its 95% interval, given the line of each case.

    Cases on the same line are not independent. The interval is therefore Wilson's for the number of independent cases
    that would have the same variance between lines (design effect; Kish 1965, Survey Sampling).
    """
    cases, share = len(right), float(np.mean(right))
    _, line = np.unique(lines, return_inverse=True)
    differences = np.bincount(line, np.asarray(right, float) - share)  # for each line, the deviation from the mean
    independent = float(len(differences))
    if len(differences) > 1 and differences.any():
        of_lines = np.sum(differences**2) * len(differences) / (len(differences) - 1)
        of_cases = share * (1 - share) * cases * cases / (cases - 1)  # if they were independent
        independent = cases / max(1.0, of_lines / of_cases)
    z = 1.959964
    extra = z * z / independent
    middle = (share + extra / 2) / (1 + extra)
    half = z * math.sqrt(share * (1 - share) / independent + extra / independent / 4) / (1 + extra)
    return round(share, 4), [round(max(0.0, middle - half), 4), round(min(1.0, middle + half), 4)]
