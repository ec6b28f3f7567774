"""The worst and the best lines of an evaluation, with word alignments: what reports show of its texts.

They are picked right after decoding, while the model is loaded, and kept beside the texts, in examples.json:

format       1
metric       the metric that scored the lines
label        what reports call it
worst, best  {"line" (from 1), "score", "alignment"} of each line, the worst (best) one first; "alignment" is "i-j ...",
             see `Translator.align`, or None
attention    the attention weights of a few lines, as static/attention.js reads them, or None
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from t2t_lite.data.problem import Problem
from t2t_lite.errors import UserError
from t2t_lite.scoring.changes import scores_of_lines
from t2t_lite.scoring.metric import figure_of, label_of, options_for

EXAMPLES = "examples.json"
NUM_LINES = 5  # of the worst, and of the best
FORMAT = 1


class Aligner(Protocol):
    """What is used of a `Translator`."""

    def align(self, lines: Sequence[str], translations: Sequence[str]) -> list[str]:
        """See `Translator.align`."""
        ...


def examples_of(
    problem: Problem,
    translator: Aligner,
    inputs: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
) -> dict[str, Any] | None:
    """Returns the content of examples.json; None if there are no outputs.

    Lines are scored by the problem's metric if it can score single lines, otherwise by chrF2. No line is among both the
    worst and the best ones, so a split of few lines has fewer of them.

    Args:
      problem: the problem.
      translator: the model that has decoded.
      inputs, hypotheses, references: the lines.
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
    alignments = {} if problem.writes_trees else _alignments(translator, inputs, hypotheses, rows)
    return {
        "format": FORMAT,
        "metric": metric,
        "label": label_of(figure_of(metric)),
        **{
            name: [{"line": row + 1, "score": scores[row], "alignment": alignments.get(row)} for row in group]
            for name, group in chosen.items()
        },
        "attention": None,
    }


def _alignments(
    translator: Aligner, inputs: Sequence[str], hypotheses: Sequence[str], rows: Sequence[int]
) -> dict[int, str]:
    """Returns the alignments by row; {} of a model without attention to its inputs."""
    rows = [row for row in rows if inputs[row].strip() and hypotheses[row].strip()]
    try:
        found = translator.align([inputs[row] for row in rows], [hypotheses[row] for row in rows])
    except UserError:
        return {}
    return dict(zip(rows, found, strict=True))


def examples_text(examples: Mapping[str, Any]) -> str:
    """Returns the text of examples.json."""
    return json.dumps(examples, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def read_examples(folder: Path) -> dict[str, Any] | None:
    """Returns what a folder of scores has of examples; None if it has none, or this version cannot read them."""
    try:
        found = json.loads((folder / EXAMPLES).read_text(encoding="utf-8"))
        is_known = found["format"] == FORMAT
        lines = [line for name in ("worst", "best") for line in found[name]] if is_known else []
        are_complete = all(type(line["line"]) is int and isinstance(line["score"], int | float) for line in lines)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return found if is_known and are_complete else None
