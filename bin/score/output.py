"""The output of t2t-lite-score, as text or as JSON."""

import json
import math
from collections.abc import Iterable

from t2t_lite.bin import cli
from t2t_lite.bin.score.results import Files, Results, Scored
from t2t_lite.registry import METRICS
from t2t_lite.scoring.changes import Change
from t2t_lite.scoring.metric import figure_of, label_of
from t2t_lite.scoring.significance import BOOTSTRAP, EXPLANATIONS, TESTS, Comparison, Interval

_INTERVALS = f"bootstrap, {TESTS[BOOTSTRAP]:,} samples"


def print_reports(reports: Iterable[tuple[str, list[str], Interval | None]], intervals: bool) -> None:
    """Prints what the metrics say of one file, see `reports_of`."""
    for metric, lines, known in reports:
        for line in lines:
            print(line)
        if intervals:
            print(f"{label_of(figure_of(metric))}: {_interval(known)}")


def print_comparison(files: Files, results: Results) -> None:
    """Prints a table for each metric, and the lines that changed most."""
    import rich.table
    from rich.text import Text

    for scored in results.metrics:
        print(f"{scored.label}|{scored.signature}" if scored.signature else scored.label)
        table = rich.table.Table(
            "", *(rich.table.Column(title, justify="right") for title in ("score", "95% interval", "p-value")), box=None
        )
        for system in scored.comparisons:
            table.add_row(Text(system.name), *_cells(system))
        cli.print_table(table)
        if scored.interval is None:
            print(_interval(None))
        print()
    first = next(iter(files.hypotheses))
    print(f"p-value: of the difference from {first}, by {EXPLANATIONS[results.test]}")
    print(f"intervals: {_INTERVALS}")
    for other, changes in results.changes.items():
        print()
        if not changes:
            print(f"no line differs between {first} and {other}")
            continue
        print(f"lines that changed most from {first} to {other}:")
        for change in changes:
            _print_change(files, first, other, change)


def print_json(files: Files, results: Results) -> None:
    """Prints one JSON object; a number that is not known is null."""
    found = {
        "hypotheses": list(files.hypotheses),
        "references": list(files.references),
        "lines": len(next(iter(files.hypotheses.values()))),
        "metrics": [_metric(scored) for scored in results.metrics],
        "test": {"name": results.test, "num_samples": TESTS[results.test]} if results.test else None,
        "changes": {
            other: [_change(files, change) for change in changes] for other, changes in results.changes.items()
        },
    }
    print(json.dumps(found, ensure_ascii=False, indent=1, allow_nan=False))


def _interval(known: Interval | None) -> str:
    if known is None:
        return "no interval and no p-value: the metric has no sums over lines (Metric.resampled)"
    return f"95% interval {known.low:.2f} to {known.high:.2f} ({_INTERVALS})"


def _cells(system: Comparison) -> tuple[str, str, str]:
    low_to_high = "-" if math.isnan(system.low) else f"{system.low:.2f} to {system.high:.2f}"
    return f"{system.score:.2f}", low_to_high, "-" if system.p_value is None else f"{system.p_value:.4f}"


def _print_change(files: Files, first: str, other: str, change: Change) -> None:
    label = label_of(figure_of(change.metric))
    print(f"\nline {change.line}: {label} {change.first_score:.2f} -> {change.other_score:.2f}")
    texts = [*(("source", lines[change.line - 1]) for lines in files.source.values())]
    texts += [("reference", text) for text in change.references]
    texts += [(first, change.first), (other, change.other)]
    width = max(len(name) for name, _ in texts)
    for name, text in texts:
        print(f"  {name:{width}}  {text}")


def _metric(scored: Scored) -> dict[str, object]:
    known = scored.interval
    return {
        "name": scored.metric,
        "label": scored.label,
        "meaning": METRICS.summary(scored.metric),
        "signature": scored.signature,
        "score": _number(scored.score),
        "interval": {"low": _number(known.low), "high": _number(known.high)} if known else None,
        "comparisons": [
            {
                "hypothesis": system.name,
                "score": _number(system.score),
                "low": _number(system.low),
                "high": _number(system.high),
                "p_value": system.p_value,
            }
            for system in scored.comparisons
        ],
    }


def _change(files: Files, change: Change) -> dict[str, object]:
    source = next((lines[change.line - 1] for lines in files.source.values()), None)
    return {"source": source, **change._asdict()}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
