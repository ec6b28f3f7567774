"""Compares systems on the same lines with the first of them: paired tests, and the lines that changed most."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t2t_lite.data.problem import Problem
from t2t_lite.evaluation.stored import SplitScores, format_interval, format_p_value, table
from t2t_lite.files import as_json, write_text
from t2t_lite.metric import (
    check_lines,
    check_references,
    compute_score,
    figure_label,
    figure_name,
    make_metric,
    options_for,
    options_taken,
    references_taken,
)
from t2t_lite.registry import METRICS
from t2t_lite.scoring.significance import BOOTSTRAP, EXPLANATIONS, RANDOMISATION, TESTS, SystemScore, compare

# Scores the lines if the metric cannot score single lines. For example, BLEU is 0 without a common 4-gram.
_OF_TEXTS = "chrf"


class Change(NamedTuple):
    """A line on which the outputs of two systems differ."""

    line: int  # counted from 1
    references: tuple[str, ...]
    first: str  # the output of the first system
    other: str  # the output of the other system
    first_score: float
    other_score: float
    metric: str  # the name of the metric for these scores


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Systems that are compared with the first of them."""

    names: list[str]  # the names of the systems
    systems: dict[str, list[SystemScore]]  # the scores of each system, by metric name
    changes: dict[str, list[Change]]  # the lines that changed most, by name of the other system
    inputs: Sequence[str] | None = dataclasses.field(repr=False)  # the source lines, if known

    def changes_json(self) -> dict[str, list[dict[str, Any]]]:
        """Returns the changes as JSON data, with their source lines."""
        return {
            name: [
                {"source": None if self.inputs is None else self.inputs[change.line - 1], **change._asdict()}
                for change in changes
            ]
            for name, changes in self.changes.items()
        }

    def shown(self, change: Change, other: str) -> list[str]:
        """Returns a line with the scores of a change to the system `other`, then a titled line for each text."""
        texts = [] if self.inputs is None else [("source", self.inputs[change.line - 1])]
        texts += [*(("reference", text) for text in change.references), (self.names[0], change.first)]
        texts.append((other, change.other))
        width = max(len(title) for title, _ in texts)
        label = figure_label(figure_name(change.metric))
        scores = f"line {change.line}: {label} {change.first_score:.2f} -> {change.other_score:.2f}"
        return [scores, *(f"{title:{width}}  {text}" for title, text in texts)]

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON data of comparison.json and t2t-lite-eval."""
        metrics = {metric: [each._asdict() for each in systems] for metric, systems in self.systems.items()}
        return {"first": self.names[0], "tests": TESTS, "metrics": metrics, "changes": self.changes_json()}

    def report(self) -> str:
        """Returns the report of t2t-lite-eval in Markdown."""
        first, *others = self.names
        lines = [f"# {', '.join(others)} compared with {first}"]
        titles = ["", "score", "95% interval", "p, bootstrap", "p, randomisation"]
        for metric, systems in self.systems.items():
            rows = [
                [each.name, f"{each.score:.2f}", format_interval((each.low, each.high))]
                + [format_p_value(p_value) for p_value in (each.p_bootstrap, each.p_randomisation)]
                for each in systems
            ]
            lines += ["", f"{figure_label(figure_name(metric))}:", "", *table(titles, rows)]
        lines += [
            "",
            f"p: the probability of a difference this large from {first} by chance. p, randomisation: by "
            f"{EXPLANATIONS[RANDOMISATION]}. p, bootstrap: by {EXPLANATIONS[BOOTSTRAP]}.",
        ]
        for name, changes in self.changes.items():
            lines += ["", f"## Lines that changed most from {first} to {name}", ""]
            if not changes:
                lines.append("No lines differ.")
            for change in changes:
                scores, *texts = self.shown(change, name)
                lines += [scores, "", *(f"    {text}" for text in texts), ""]
        return "\n".join(lines).rstrip() + "\n"


def compare_texts(
    metrics: Sequence[str],
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    inputs: Sequence[str] | None,
    options: Mapping[str, Any],
    tests: Sequence[str] = (BOOTSTRAP, RANDOMISATION),
    count: int = 10,
    changes_by: str | None = None,
) -> Comparison:
    """Compares hypotheses by name with the first of them.

    Args:
      metrics: names of metrics. Those that cannot be resampled have neither intervals nor p-values.
      options: arguments of metrics; each takes those that it knows.
      tests: the paired tests. () without intervals, too.
      count: the number of lines for each other system.
      changes_by: the metric of these lines, see `most_changed`.
    """
    scores = {}
    for metric in metrics:
        of_metric, taken = references_taken(metric, references), options_taken(metric, options)
        scorer = make_metric(metric, **taken)
        if tests and scorer.resampled() is not None:
            scores[metric] = compare(metric, systems, *of_metric, tests=tests, **taken)
        else:
            scores[metric] = [
                SystemScore(name, compute_score(metric, scorer, lines, *of_metric)) for name, lines in systems.items()
            ]
    (_, first), *others = systems.items()
    changes = {
        name: most_changed(changes_by, first, lines, *references, count=count, **options)
        for name, lines in (others if count else ())
    }
    return Comparison(list(systems), scores, changes, inputs)


def compare_runs(scores: Sequence[SplitScores], problem: Problem) -> Comparison:
    """Compares runs or checkpoints with the first of them, whose problem is `problem`; see `make_requests`."""
    first = scores[0]
    names = [one.output_dir.resolve().name for one in scores]
    if len(set(names)) < len(names):
        names = [str(one.output_dir) for one in scores]
    if len(set(names)) < len(names):
        names = [Path(one.content["checkpoint"]["path"]).name for one in scores]
    known = [{figure.metric for figure in one.figures} for one in scores]
    metrics = [each.metric for each in first.figures if each.metric and all(each.metric in other for other in known)]
    several = METRICS.fact(problem.metric, "several_references", False)
    references = first.references
    # Not those of a plug-in that is not loaded.
    registered = [name for name in dict.fromkeys(metrics) if name in METRICS]
    return compare_texts(
        [name for name in registered if make_metric(name, **options_for(name, problem)).resampled()],
        {name: one.hypotheses for name, one in zip(names, scores)},
        references,
        first.inputs,
        {"language": problem.output_language} if problem.output_language else {},
        changes_by=problem.metric if several or len(references) == 1 else None,
    )


def write_comparison(comparison: Comparison, scores: Sequence[SplitScores]) -> list[Path]:
    """Writes the comparison beside the scores of each other run. Returns the paths of the reports."""
    written = []
    for one in scores[1:]:
        write_text(one.path / "comparison.json", as_json(comparison.to_json()) + "\n")
        write_text(one.path / "comparison.md", comparison.report())
        written.append(one.path / "comparison.md")
    return written


def most_changed(
    metric: str | None,
    first: Sequence[str],
    other: Sequence[str],
    *references: Sequence[str],
    count: int = 10,
    **options: object,
) -> list[Change]:
    """Returns the `count` lines whose scores differ most between two systems, with the largest difference first.

    Lines are scored by `metric` or, if it is None or cannot score single lines (see `Metric.line_scores`), by chrF2.
    Options that this metric does not take have no effect. Lines with equal outputs are omitted.
    """
    by, theirs = scores_of_lines(metric, other, *references, **options)
    own, ours = scores_of_lines(by, first, *references, **options)
    if own != by:  # the metric can score only one system's lines
        by, theirs = scores_of_lines(own, other, *references, **options)
    scores = list(zip(ours, theirs, strict=True))
    changes = [
        Change(line, tuple(texts), *outputs, *both, by)
        for line, (outputs, both, texts) in enumerate(zip(zip(first, other), scores, zip(*references)), start=1)
        if outputs[0] != outputs[1]
    ]
    return sorted(changes, key=lambda change: (-abs(change.first_score - change.other_score), change.line))[:count]


def scores_of_lines(
    metric: str | None, hypotheses: Sequence[str], *references: Sequence[str], **options: object
) -> tuple[str, list[float]]:
    """Returns the name of the metric that scores the lines, see `most_changed`, and the score of each line."""
    check_lines(hypotheses, *references)
    for name in (metric or _OF_TEXTS, _OF_TEXTS):
        check_references(name, len(references))
        scores = make_metric(name, **options_taken(name, options)).line_scores(hypotheses, *references)
        if scores is not None:
            return name, scores
    raise AssertionError("chrF scores single lines")
