"""Writes the report of runs: one HTML file, without TensorFlow."""

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import t2t_lite
from t2t_lite.errors import UserError
from t2t_lite.evaluation.stored_heads import NOTE
from t2t_lite.files import check_output, write_text
from t2t_lite.formatting import encodable
from t2t_lite.installed import check_installed
from t2t_lite.report.charts import curve_charts
from t2t_lite.report.heads import stored_heads
from t2t_lite.report.missing import remarks_on
from t2t_lite.report.outputs import example_groups, sample_tables, score_tables
from t2t_lite.report.overview import checkpoint_table, facts
from t2t_lite.report.reading import StoredRun, check_run, read_run
from t2t_lite.report.settings_table import set_of, settings_rows
from t2t_lite.visualization.html import render

FORMATS = (".html", ".htm")


def check_packages(omit: str = "") -> None:
    """Raises UserError if a package that reports need is missing; `omit`: the argument that can be left out."""
    check_installed("a report", {"jinja2": "Jinja", "matplotlib": "matplotlib"}, "plot", omit)


def write_report(output_dirs: Sequence[Path], file: Path) -> None:
    """Writes the report of one or several runs.

    Args:
      output_dirs: the run directories; one that is given twice counts once.
      file: the report; it appears once it is complete.

    Raises:
      UserError: if a package is missing, the file cannot be written, or a folder is no run directory.
    """
    if not output_dirs:
        raise UserError("give at least one run as `output_dirs`")
    check_packages()
    check_output(file, f"`report_file={file}`")
    if file.suffix.lower() not in FORMATS:
        raise UserError(f"`report_file={file}`: a report is HTML; use a file name that ends in {' or '.join(FORMATS)}")
    for path in output_dirs:
        check_run(path)
    paths = list({path.resolve(): path for path in output_dirs}.values())
    runs = [read_run(path, name) for path, name in zip(paths, names_of(paths), strict=True)]
    write_text(file, render("report.html", **_content(runs)))


def names_of(paths: Sequence[Path]) -> list[str]:
    """Returns a short name for each run: the last parts of its path that differ from those of the others."""
    parts = [path.absolute().parts for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        names = [encodable("/".join(each[-length:])) for each in parts]
        if len(set(names)) == len(names):
            return names
    return [encodable(str(path)) for path in paths]


def _content(runs: Sequence[StoredRun]) -> dict[str, Any]:
    """Returns the values of the template."""
    sets = [set_of(run) for run in runs]
    examples = [group for run in runs for group in example_groups(run)]
    return {
        "version": t2t_lite.__version__,
        "title": f"Report: {', '.join(run.name for run in runs)}",
        "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        "names": [run.name for run in runs],
        "remarks": [(run.name, remarks_on(run)) for run in runs],
        "facts": facts(runs, sets),
        "settings": settings_rows(runs, sets),
        "charts": curve_charts(runs),
        "scores": score_tables(runs),
        "samples": [(run.name, tables) for run in runs if (tables := sample_tables(run))],
        "examples": examples,
        "attentions": [group for group in examples if group.examples.attention is not None],
        "heads": [each for run in runs for each in stored_heads(run.name, run.path)],
        "heads_note": NOTE,
        "checkpoints": [checkpoint_table(run) for run in runs],
    }
