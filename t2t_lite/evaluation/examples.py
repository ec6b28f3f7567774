"""The worst and the best lines of an evaluation, with word alignments, for reports.

They are chosen right after decoding, while the model is loaded, and stored beside the texts in examples.json:

format       1
metric       the metric that scored the lines
label        the metric's name in reports
worst, best  {"line" (from 1), "score", "alignment"} of each line, the worst (best) one first; "alignment" is "i-j ...",
             see `Translator.align`, or None
attention    the attention weights of a few lines, as static/attention.js reads them, or None
"""

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_lite.data.problem import Problem
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.evaluation.comparison import scores_of_lines
from t2t_lite.files import as_json
from t2t_lite.metric import figure_label, figure_name, options_for
from t2t_lite.parsing.parser import Parser
from t2t_lite.visualization.attention_map import attention_data, paper_layer

EXAMPLES = "examples.json"
FORMAT = 1
NUM_LINES = 5  # number of worst lines and of best lines
_NUM_ATTENTIONS = 3  # number of lines with attention: a bad, an average and a good one
_MOST_ATTENTION = 300_000  # bytes of JSON; keeps reports about several runs small
_MOST_WORDS = 25  # maximum number of source words in a line with attention


def examples_text(examples: Mapping[str, Any]) -> str:
    """Returns the text of examples.json: indented, except for the attention weights, which are on one line."""
    lines = as_json({**examples, "attention": None})
    weights = json.dumps(examples["attention"], ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return lines.removesuffix("null\n}") + weights + "\n}\n"


def read_examples(folder: Path) -> dict[str, Any] | None:
    """Returns the examples in a folder of scores; None if it has none, or this version cannot read them."""
    try:
        examples = json.loads((folder / EXAMPLES).read_text(encoding="utf-8"))
        is_known = examples["format"] == FORMAT
        lines = [line for name in ("worst", "best") for line in examples[name]] if is_known else []
        are_complete = all(type(line["line"]) is int and isinstance(line["score"], int | float) for line in lines)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return examples if is_known and are_complete else None


def make_examples(
    problem: Problem,
    translator: Translator,
    inputs: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
) -> dict[str, Any] | None:
    """Returns the content of examples.json; None if there are no outputs.

    Lines are scored by the problem's metric if it supports single lines, otherwise by chrF2. No line is among both the
    worst and the best, so a split with few lines has fewer of each.
    """
    if not hypotheses:
        return None
    metric, scores = scores_of_lines(problem.metric, hypotheses, references, **options_for(problem.metric, problem))
    ranked = sorted((row for row, score in enumerate(scores) if math.isfinite(score)), key=lambda row: scores[row])
    half = (len(ranked) + 1) // 2
    chosen = {
        "worst": ranked[:half][:NUM_LINES],
        "best": sorted(ranked[half:], key=lambda row: (-scores[row], row))[:NUM_LINES],
    }
    rows = [row for group in chosen.values() for row in group]
    alignments: dict[int, str] = {}
    if not problem.writes_trees:
        aligned = [row for row in rows if inputs[row].strip() and hypotheses[row].strip()]
        with contextlib.suppress(UserError):  # a model without attention to its inputs
            links = translator.align([inputs[row] for row in aligned], [hypotheses[row] for row in aligned])
            alignments = dict(zip(aligned, links, strict=True))
    return {
        "format": FORMAT,
        "metric": metric,
        "label": figure_label(figure_name(metric)),
        **{
            name: [{"line": row + 1, "score": scores[row], "alignment": alignments.get(row)} for row in group]
            for name, group in chosen.items()
        },
        "attention": _attention(problem, translator, [(inputs[row], hypotheses[row]) for row in ranked]),
    }


def _attention(problem: Problem, translator: Translator, ranked: Sequence[tuple[str, str]]) -> dict[str, Any] | None:
    """Returns the attention of a few lines spread over the ranking; None if there is none or it is too large."""
    lines = [pair for pair in ranked if pair[1].strip() and 1 < len(pair[0].split()) <= _MOST_WORDS]
    places = range(len(lines) // (2 * _NUM_ATTENTIONS), len(lines), max(1, len(lines) // _NUM_ATTENTIONS))
    chosen = [lines[place] for place in places[:_NUM_ATTENTIONS]]
    model = Parser(translator) if problem.writes_trees else translator
    having = model.attention_layers
    if not chosen or not any(having.values()):
        return None
    # Drop lines, then layers, until the result is small enough.
    only = [paper_layer(max(having.values()))]
    for number, layers in [*((number, None) for number in range(len(chosen), 0, -1)), (1, only)]:
        try:
            attention = attention_data(model, chosen[:number], layers=layers)
        except UserError:  # a truncated line's tree has fewer words
            continue
        if len(json.dumps(attention, ensure_ascii=False).encode(errors="replace")) <= _MOST_ATTENTION:
            return attention
    return None
