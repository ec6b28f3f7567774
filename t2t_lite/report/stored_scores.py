"""Reads the stored evaluations of a run, for reports."""

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t2t_lite.errors import UserError
from t2t_lite.evaluation.examples import read_examples
from t2t_lite.evaluation.figures import Figure
from t2t_lite.evaluation.options import SPLITS
from t2t_lite.evaluation.request import FOLDER
from t2t_lite.evaluation.split_scores import SplitScores, read_scores
from t2t_lite.report.values import number, text

_LINK = re.compile(r"(\d{1,6})-(\d{1,6})")
_MOST_ATTENTION = 1_500_000  # bytes
_MOST_WORDS = 300  # maximum number of words in an output that is shown with its alignment


class Bucket(NamedTuple):
    """The score of the lines in a range of lengths."""

    words: str  # "1-10"
    lines: float
    score: float
    length_ratio: float  # NaN if meaningless


class ExampleLine(NamedTuple):
    """One of the worst or best lines."""

    line: int  # the line number, from 1
    score: float
    source: str
    output: str
    reference: str
    words: list[tuple[str, str]]  # the words of the output, each with its source word; [] without alignment


@dataclasses.dataclass(frozen=True)
class Examples:
    """The worst and best lines of an evaluation."""

    label: str  # the name of the metric that scored the lines
    # worst, best: the lines, worst (best) first.
    worst: list[ExampleLine]
    best: list[ExampleLine]
    # The attention of a few lines, in the format of static/attention.js; None: not stored.
    attention: dict[str, Any] | None = None


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A stored evaluation of a checkpoint on a split."""

    folder: Path  # its folder in the run directory
    split: str  # the name of the split
    problem: str  # the problem, with the run's direction
    texts: str  # the digests of its texts; scores are comparable only for the same texts
    checkpoint: str  # the name of the checkpoint
    chosen: str  # why the checkpoint was chosen; "" if no reason is needed
    members: list[int]  # the steps that the checkpoint averages
    search: str  # the search settings that folder names always contain: "beam_size=4, alpha=0.6"
    date: str  # the date of the evaluation
    lines: float  # number of lines
    lines_per_second: float  # the search speed; NaN: unknown
    figures: list[Figure]  # the scores
    by_length: list[Bucket]  # the scores by number of source words; [] if none
    examples: Examples | None  # the worst and best lines; None: not stored


def read_stored_scores(path: Path, remarks: list[str]) -> list[Evaluation]:
    """Returns all stored evaluations of a run, by split and date. Adds a remark about each unreadable one."""
    evaluations = []
    for folder in sorted(path.glob(f"{FOLDER}/*")):
        if not folder.is_dir() or not folder.name.startswith(tuple(f"{split}." for split in SPLITS)):
            continue
        try:
            if (scores := read_scores(folder, path, folder)) is None:
                raise ValueError("scores.json or a text file is missing, damaged, changed or from another version")
            evaluations.append(_evaluation(scores))
        except (UserError, OSError, ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
            reason = text(str(error).split("\n")[0])
            remarks.append(f"{FOLDER}/{folder.name} cannot be read ({reason}); remove it and evaluate again.")
    return sorted(evaluations, key=lambda each: (each.split, each.date))


def _evaluation(scores: SplitScores) -> Evaluation:
    content, settings = scores.content, scores.decode_hparams
    checkpoint = content["checkpoint"]
    return Evaluation(
        scores.path,
        text(scores.split),
        text(content["decoded_by"].get("problem")),
        text([content["decoded_by"].get("inputs"), *(each["sha256"] for each in content["references"])]),
        text(Path(text(checkpoint.get("path"))).name),
        text(checkpoint.get("chosen")),
        scores.members,
        f"beam_size={text(settings.get('beam_size'))}, alpha={text(settings.get('alpha'))}",
        text(content.get("date"))[:16].replace("T", " "),
        number(content.get("lines")),
        number(content.get("lines_per_second")),
        [_figure(figure) for figure in scores.figures],
        [
            Bucket(text(row["words"]), number(row["lines"]), number(row["score"]), number(row.get("length_ratio")))
            for row in content.get("by_length") or []
        ],
        _examples(scores),
    )


def _figure(figure: Figure) -> Figure:
    """Returns the figure with all fields converted to their types."""
    texts = {name: text(getattr(figure, name)) for name in ("name", "label", "meaning", "signature", "metric")}
    ends = (None, None) if figure.interval is None else tuple(map(number, figure.interval))
    return dataclasses.replace(figure, **texts, score=number(figure.score), low=ends[0], high=ends[1])


def _examples(scores: SplitScores) -> Examples | None:
    stored = read_examples(scores.path)
    if stored is None:
        return None
    texts = (scores.inputs, scores.hypotheses, scores.references[0])
    lines = {name: [_example(line, texts) for line in stored[name]] for name in ("worst", "best")}
    return Examples(text(stored.get("label")), lines["worst"], lines["best"], _attention(stored.get("attention")))


def _attention(stored: object) -> dict[str, Any] | None:
    """Returns the attention of a few lines; None if there is none or it is too large for a report."""
    if not isinstance(stored, dict) or not stored.get("sentences"):
        return None
    try:
        is_small = len(json.dumps(stored, allow_nan=False).encode()) <= _MOST_ATTENTION
        json.dumps(stored, ensure_ascii=False).encode()  # fails for lone surrogates
    except (ValueError, RecursionError):
        return None
    return stored if is_small else None


def _example(stored: Mapping[str, Any], texts: Sequence[Sequence[str]]) -> ExampleLine:
    source, output, reference = (str(lines[stored["line"] - 1]) for lines in texts)
    words = _aligned(source.split(), output.split(), stored.get("alignment"))
    return ExampleLine(stored["line"], number(stored["score"]), text(source), text(output), text(reference), words)


def _aligned(source: Sequence[str], output: Sequence[str], alignment: object) -> list[tuple[str, str]]:
    """Returns the words of an output with their source words, according to an alignment, "i-j ..."."""
    links = {int(theirs): int(ours) for ours, theirs in _LINK.findall(alignment)} if isinstance(alignment, str) else {}
    if not links or len(output) > _MOST_WORDS or max(links) >= len(output) or max(links.values()) >= len(source):
        return []
    return [(word, source[links[place]] if place in links else "") for place, word in enumerate(output)]
