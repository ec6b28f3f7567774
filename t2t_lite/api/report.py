"""Reports of runs."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path


def write_report(output_dirs: str | PathLike | Sequence[str | PathLike], report_file: str | PathLike) -> Path:
    """Writes an HTML file about one or several runs, as t2t-lite-report does: settings, curves, scores, outputs.

    It reads what trainings and evaluations have stored, needs no TensorFlow, and executes no code that a run names.
    What is missing or damaged is said in the report.

    Args:
      output_dirs: a run directory, or several.
      report_file: the file, which ends in .html; its folder must exist.

    Returns:
      the path of the file.

    Raises:
      UserError: if a folder is no run directory, the file cannot be written, or a package is missing.
    """
    from t2t_lite.report import writing

    given = [output_dirs] if isinstance(output_dirs, str | PathLike) else output_dirs
    writing.write_report([Path(path) for path in given], Path(report_file))
    return Path(report_file)
