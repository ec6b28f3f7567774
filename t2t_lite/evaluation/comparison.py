"""Compares evaluated runs with the first one: paired tests, and the lines that changed most."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from t2t_lite.data.problem import Problem
from t2t_lite.errors import UserError
from t2t_lite.evaluation.report import format_interval, format_p_value, table
from t2t_lite.evaluation.split_scores import SplitScores
from t2t_lite.files import as_json, write_text
from t2t_lite.metric import figure_label, figure_name, make_metric, options_for, references_taken
from t2t_lite.registry import METRICS
from t2t_lite.scoring.changes import Change, most_changed
from t2t_lite.scoring.significance import (
    BOOTSTRAP,
    EXPLANATIONS,
    RANDOMISATION,
    TESTS,
    ComparisonByBothTests,
    compare_by_both_tests,
)


@dataclasses.dataclass(frozen=True)
class RunComparison:
    names: list[str]  # the names of the runs; the others are compared with the first one
    systems: dict[str, list[ComparisonByBothTests]]  # the comparison of each run, by metric name
    changes: dict[str, list[Change]]  # the lines that changed most, by name of the other run
    inputs: list[str] = dataclasses.field(repr=False)  # the source lines

    def to_json(self) -> dict[str, Any]:
        return {
            "first": self.names[0],
            "tests": TESTS,
            "metrics": {metric: [each._asdict() for each in systems] for metric, systems in self.systems.items()},
            "changes": {
                name: [change.to_json(self.inputs) for change in changes] for name, changes in self.changes.items()
            },
        }

    def report(self) -> str:
        first, *others = self.names
        lines = [f"# {', '.join(others)} compared with {first}"]
        titles = ["", "score", "95% interval", "p, bootstrap", "p, randomisation"]
        for metric, systems in self.systems.items():
            rows = [
                [
                    each.name,
                    f"{each.score:.2f}",
                    format_interval((each.low, each.high)),
                    format_p_value(each.p_bootstrap),
                    format_p_value(each.p_randomisation),
                ]
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
                scores, *texts = change.shown(first, name, self.inputs)
                lines += [scores, "", *(f"    {text}" for text in texts), ""]
        return "\n".join(lines).rstrip() + "\n"


def compare_runs(scores: Sequence[SplitScores], problem: Problem) -> RunComparison:
    """Compares runs that were evaluated on the same split with the first run, whose problem is `problem`."""
    first, *others = scores
    for other in others:
        if other.reference_digests != first.reference_digests:
            raise UserError(
                f"{other.output_dir} and {first.output_dir} have different references for the split '{first.split}'; "
                f"compare runs on the same data, or pass its folder with `data_dir`"
            )
    if not problem.has_inputs:
        raise UserError(f"'{problem.name}' has no outputs to compare; pass one run directory")
    names = [one.output_dir.resolve().name for one in scores]
    if len(set(names)) < len(names):
        names = [str(one.output_dir) for one in scores]
    hypotheses = {name: one.hypotheses for name, one in zip(names, scores)}
    references, inputs = first.references, first.inputs
    known = [{figure.metric for figure in one.figures} for one in scores]
    metrics = [each.metric for each in first.figures if each.metric and all(each.metric in other for other in known)]
    systems = {}
    for metric in dict.fromkeys(metrics):
        options: dict[str, Any] = {**options_for(metric, problem)}
        if make_metric(metric, **options).resampled() is not None:
            of_metric = references_taken(metric, references)
            systems[metric] = compare_by_both_tests(metric, hypotheses, *of_metric, **options)
    main = problem.metric if METRICS.fact(problem.metric, "several_references", False) or len(references) == 1 else None
    options = {**options_for(main, problem)} if main else {}
    changes = {
        name: most_changed(main, hypotheses[names[0]], hypotheses[name], *references, **options) for name in names[1:]
    }
    return RunComparison(names, systems, changes, inputs)


def write_comparison(comparison: RunComparison, scores: Sequence[SplitScores]) -> list[Path]:
    written = []
    for one in scores[1:]:
        write_text(one.path / "comparison.json", as_json(comparison.to_json()) + "\n")
        write_text(one.path / "comparison.md", comparison.report())
        written.append(one.path / "comparison.md")
    return written
