"""The worst and the best lines of an evaluation, with word alignments: what reports show of its texts.

They are picked right after decoding (`picked_examples`) and kept beside the texts, in examples.json:

format       1
metric       the metric that scored the lines
label        what reports call it
worst, best  {"line" (from 1), "score", "alignment"} of each line, the worst (best) one first; "alignment" is "i-j ...",
             see `Translator.align`, or None
attention    the attention weights of a few lines, as static/attention.js reads them, or None
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

EXAMPLES = "examples.json"
FORMAT = 1


def examples_text(examples: Mapping[str, Any]) -> str:
    """Returns the text of examples.json: readable, but for the many weights."""
    lines = json.dumps({**examples, "attention": None}, ensure_ascii=False, indent=1, allow_nan=False)
    weights = json.dumps(examples["attention"], ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return lines.removesuffix("null\n}") + weights + "\n}\n"


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
