"""Scores of a checkpoint on a split, and how the run directory stores them with the outputs.

scores/<split>.<checkpoint>.<settings>/
  inputs.txt, hypotheses.txt, references.txt, references.2.txt ...   one line per pair of the split
  hypotheses.only_trees.txt   parsing: the outputs of a search among trees only
  scores.json                 all scores, what they depend on, and its digest
  report.md                   the scores in readable form
  examples.json               the worst and the best lines, see `examples`
"""

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_lite.config import DecodeHParams, names_in
from t2t_lite.data.text_files import read_lines
from t2t_lite.decoding.loading import ModelSource
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.files import file_sha256, one_line
from t2t_lite.plugins import code_digest
from t2t_lite.registry import CONSTRAINTS, METRICS, PROBLEMS, REGISTRIES_OF_SETTINGS, SCORERS, Registry
from t2t_lite.runs.checkpoint_files import INDEX, checkpoint_step
from t2t_lite.runs.run_dir import RunDir

FOLDER = "scores"
SCORES, REPORT = "scores.json", "report.md"
INPUTS, HYPOTHESES, TREES_ONLY = "inputs.txt", "hypotheses.txt", "hypotheses.only_trees.txt"
FORMAT = 1
NOTE = "Note: "
_MAX_NAME = 150  # in characters; file systems allow 255 bytes


@dataclasses.dataclass(frozen=True)
class Figure:
    """A score with its meaning."""

    name: str  # its name, such as "bleu"
    label: str  # its name in reports
    meaning: str  # one line
    score: float
    signature: str = ""  # scores are comparable only if their signatures match; "" if unknown
    # low, high: the 95% confidence interval by bootstrap resampling; None: not known.
    low: float | None = None
    high: float | None = None
    metric: str = ""  # the name of the registered output metric; "" for a metric of tokens

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def note(self) -> str:
        """What makes the score mean less than it seems; "" if nothing does. It is a part of the meaning."""
        return self.meaning.partition(NOTE)[2]


@dataclasses.dataclass(frozen=True)
class SplitScores:
    """The scores of a checkpoint on a split, as stored in the run directory.

    Args:
      path: the folder with scores.json, report.md and the texts.
      output_dir: the run directory.
      checkpoint: the path of the checkpoint, without suffix.
      members: the steps of the averaged checkpoints; [] if it is not an average, or they are unknown.
      split: the split.
      figures: the scores with their meanings, in the order of the report.
      content: everything in scores.json.
      decoded_now: whether this call ran the model; otherwise, its outputs are the stored ones.
      scored_now: whether this call computed the scores; otherwise, they are the stored ones.
    """

    path: Path
    output_dir: Path
    checkpoint: Path
    members: list[int]
    split: str
    figures: list[Figure] = dataclasses.field(repr=False)
    content: Mapping[str, Any] = dataclasses.field(repr=False, hash=False)
    decoded_now: bool = False
    scored_now: bool = False

    def __str__(self) -> str:
        scores = ", ".join(f"{figure.label} {figure.score:.{2 if figure.metric else 4}f}" for figure in self.figures)
        return f"{self.checkpoint.name} on {self.split}: {scores}"

    @property
    def step(self) -> int:
        """The step of the checkpoint."""
        return checkpoint_step(self.checkpoint)

    @property
    def scores(self) -> dict[str, float]:
        """The scores by name: "bleu", "perplexity", ..."""
        return {figure.name: figure.score for figure in self.figures}

    @property
    def loss(self) -> float:
        """The loss in nats per target token, without padding, with label smoothing, as in training."""
        return self.scores["loss"]

    @property
    def nll_loss(self) -> float:
        """The loss without label smoothing."""
        return self.scores["nll_loss"]

    @property
    def perplexity(self) -> float:
        """exp(nll_loss)."""
        return self.scores["perplexity"]

    @property
    def accuracy(self) -> float:
        """The share of target tokens that the model ranks first, given the previous ones; 0 to 1."""
        return self.scores["accuracy"]

    @property
    def bleu(self) -> float | None:
        """sacreBLEU of the translations, 0 to 100; None for parsing or without decoding."""
        return self.scores.get("bleu")

    @property
    def f1(self) -> float | None:
        """Labelled bracketing F1 of the trees, 0 to 100; None for translation or without decoding."""
        return self.scores.get("f1")

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """The 95% confidence intervals by name, where known."""
        return {figure.name: figure.interval for figure in self.figures if figure.interval}

    @property
    def signatures(self) -> dict[str, str]:
        """The signature of each score by name, where known: scores are comparable only if their signatures match."""
        return {figure.name: figure.signature for figure in self.figures if figure.signature}

    @property
    def decode_hparams(self) -> dict[str, Any]:
        """All search settings."""
        return self.content["decoded_by"]["decode_hparams"]

    @property
    def hypotheses(self) -> list[str]:
        """The outputs; [] if the problem has none, or without decoding."""
        return list(read_lines(self.path / HYPOTHESES))

    @property
    def only_trees(self) -> list[str]:
        """The outputs of a search among trees only; [] if there was none."""
        path = self.path / TREES_ONLY
        return list(read_lines(path)) if path.exists() else []

    @property
    def inputs(self) -> list[str]:
        """The inputs."""
        return list(read_lines(self.path / INPUTS))

    @property
    def references(self) -> list[list[str]]:
        """The sets of references, the split's own first."""
        return [list(read_lines(path)) for path in self.reference_paths]

    @property
    def reference_digests(self) -> list[str]:
        """The SHA-256 of each set of references."""
        return [each["sha256"] for each in self.content["references"]]

    @property
    def reference_paths(self) -> list[Path]:
        """The files with the sets of references."""
        return [self.path / name for name in reference_names(len(self.content["references"]))]


def reference_names(number: int) -> list[str]:
    return ["references.txt", *(f"references.{place}.txt" for place in range(2, number + 1))]


def folder_name(split: str, checkpoint: Path, settings: str) -> str:
    """Returns the name of a folder with scores, such as "test.average-8000.beam_size=4.alpha=0.6"."""
    name = re.sub(r"\.v\d+$", "", checkpoint.name)
    # No commas, because they separate files in flags.
    return re.sub(r"[^\w.=+-]", "_", f"{split}.{name}.{settings}".replace(",", "."))[:_MAX_NAME]


def code_of_outputs(run_dir: RunDir, settings: DecodeHParams) -> str:
    """Returns the `code_digest` of the registered code that determines the outputs and which are worst and best."""
    names: list[tuple[Registry, str]] = [
        (PROBLEMS, run_dir.problem.data_name),
        (METRICS, run_dir.problem.metric),
        *((registry, getattr(run_dir.hparams, name)) for name, registry in REGISTRIES_OF_SETTINGS.items()),
        *((CONSTRAINTS, name) for name in names_in(settings.constraints)),
        *((SCORERS, name) for name in names_in(settings.scorers)),
    ]
    return code_digest(names)


def read_scores(folder: Path, output_dir: Path, checkpoint: Path, decoded_now: bool = False) -> SplitScores | None:
    """Returns the scores stored in a folder; None if there are none, they cannot be read, or the texts were changed."""
    try:
        content = json.loads((folder / SCORES).read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            return None
        # A score of null stands for a number that is not finite.
        numbers = [math.nan if each["score"] is None else each["score"] for each in content["figures"]]
        figures = [Figure(**{**each, "score": score}) for each, score in zip(content["figures"], numbers)]
        members = [int(step) for step in content["checkpoint"]["members"]]
        names = [INPUTS, HYPOTHESES, *reference_names(len(content["references"]))]
        if not all((folder / name).exists() for name in names) or changed_texts(folder):
            return None
        return SplitScores(
            folder, output_dir, checkpoint, members, content["decoded_by"]["split"], figures, content, decoded_now
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def changed_texts(folder: Path) -> list[str]:
    """Returns the names of texts in a folder that were changed after scoring."""
    try:
        content = json.loads((folder / SCORES).read_text(encoding="utf-8"))
        texts = dict(content.get("texts", {}))  # versions up to 0.8 did not record them
        return [name for name, digest in texts.items() if file_sha256(folder / name) != digest]
    except (OSError, ValueError, TypeError, AttributeError):
        return []


def stored_evaluation(source: ModelSource, split: str) -> SplitScores:
    """Returns the stored evaluation of a checkpoint: the one with the run's own search settings, else the only one.

    Raises a UserError if there is no evaluation, or there are several and none has the run's own settings.
    """
    run_dir, checkpoint = source.run_dir, source.selection.path
    for line in source.checkpoint_remarks:
        LOG.warning(line)
    if not (stored := stored_evaluations(run_dir, split, checkpoint)):
        raise UserError(
            f"{run_dir.path} has no scores of {checkpoint.name} on {split}; run t2t-lite-eval "
            f"--output_dir={run_dir.path} --split={split} first"
        )
    of_own = [one for one in stored if one.decode_hparams == vars(source.settings)]
    if not of_own and len(stored) > 1:
        names = ", ".join(one.path.name for one in stored)
        raise UserError(
            f"{run_dir.path} has scores of {checkpoint.name} with several settings ({names}); pass one, such as "
            f"`hypothesis={stored[0].path}/hypotheses.txt`"
        )
    return (of_own or stored)[0]


def stored_evaluations(run_dir: RunDir, split: str, checkpoint: Path) -> list[SplitScores]:
    """Returns all stored evaluations of a checkpoint whose outputs were made by the current code."""
    digest = file_sha256(Path(f"{checkpoint}{INDEX}"))
    stored = []
    for folder in sorted((run_dir.path / FOLDER).glob(f"{folder_name(split, checkpoint, '')}*")):
        one = read_scores(folder, run_dir.path, checkpoint)
        if one is None or one.content["decoded_by"]["checkpoint"] != digest or not one.content.get("decoded", True):
            continue
        known = {name: value for name, value in one.decode_hparams.items() if name in DecodeHParams.names()}
        if one.content["decoded_by"].get("plugins", "") == code_of_outputs(run_dir, DecodeHParams().replace(**known)):
            stored.append(one)
    return stored


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Writes one text per line, each converted by `one_line`; `read_lines` reads them back."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.writelines(f"{one_line(line)}\n" for line in lines)


# Reports, in Markdown that is readable as plain text.


def evaluation_report(scores: SplitScores) -> str:
    content = scores.content
    settings = content["decoded_by"]["decode_hparams"]
    members = f", the average of steps {', '.join(map(str, scores.members))}" if scores.members else ""
    chosen = f" ({content['checkpoint']['chosen']})" if content["checkpoint"]["chosen"] else ""
    speed = f", {content['lines_per_second']:.1f} lines/s, including compilation" if content["lines_per_second"] else ""
    lines = [
        f"# {scores.output_dir.name}: {scores.checkpoint.name} on {scores.split}",
        "",
        f"- run: {content['run']}",
        f"- checkpoint: {scores.checkpoint.name}{chosen}{members}",
        f"- search: beam_size={settings['beam_size']}, alpha={settings['alpha']:g}; all settings are in scores.json"
        if content.get("decoded", True)
        else "- search: none, only losses",
        f"- {content['lines']:,} lines in {content['seconds']:.1f} s{speed}",
        f"- references: {', '.join(each['file'] for each in content['references'])}",
        f"- version {content['version']}, {content['date']}",
        "",
        *figure_table(scores.figures),
        "",
        *(
            f"- {figure.label}: {figure.meaning}{f' Signature: {figure.signature}' if figure.signature else ''}"
            for figure in scores.figures
        ),
    ]
    if scores.intervals:
        lines.append("- 95% interval: bootstrap resampling of the lines, 1,000 samples.")
    if by_length := content.get("by_length"):
        cells = []
        for row in by_length:
            if row["score"] is not None:
                ratio = "" if row["length_ratio"] is None else f"{row['length_ratio']:.3f}"
                cells.append([row["words"], f"{row['lines']:,}", f"{row['score']:.2f}", ratio])
        titles = ["words", "lines", scores.figures[0].label, "length ratio"]
        note = "length ratio: whitespace-separated words in the outputs / in the first set of references."
        lines += ["", "By number of source words:", "", *table(titles, cells), "", note]
    return "\n".join(lines) + "\n"


def figure_table(figures: Sequence[Figure]) -> list[str]:
    # Output scores are percentages; losses, perplexities and shares need more digits.
    rows = [
        [figure.label, f"{figure.score:.{2 if figure.metric else 4}f}", format_interval(figure.interval)]
        for figure in figures
    ]
    return table(["", "score", "95% interval"], rows)


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a Markdown table with aligned columns; the first column is text, the others are numbers."""
    widths = [max(len(row[column]) for row in [titles, *rows]) for column in range(len(titles))]

    def line(cells: Sequence[str]) -> str:
        first, *others = cells
        padded = [f"{first:{widths[0]}}", *(f"{cell:>{width}}" for cell, width in zip(others, widths[1:]))]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return [line(titles), line(rule), *map(line, rows)]


def format_interval(interval: tuple[float, float] | None) -> str:
    return f"{interval[0]:.2f} to {interval[1]:.2f}" if interval else ""


def format_p_value(p_value: float | None) -> str:
    return "" if p_value is None else f"{p_value:.4f}"
