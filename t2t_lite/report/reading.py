"""Reads the contents of a run directory for a report, with remarks about unreadable parts.

It only reads files and never executes code that the run names; names that are not registered are shown as they are.
"""

import dataclasses
import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from t2t_lite.checkpoints.best_checkpoints import read_evaluations
from t2t_lite.checkpoints.index_file import members_of_average
from t2t_lite.checkpoints.selection import best_by
from t2t_lite.checkpoints.versions import list_checkpoints
from t2t_lite.config import HParams
from t2t_lite.data.manifest import FILENAME, Manifest, manifest_of_file
from t2t_lite.data.problem import REVERSED_SUFFIX
from t2t_lite.errors import UserError
from t2t_lite.files import encodable
from t2t_lite.report.stored_scores import Evaluation, read_stored_scores
from t2t_lite.report.values import is_step, number, text
from t2t_lite.training.monitoring.history import kept_reports, read_log

_FILES = ("hparams.json", "run.json", "log.jsonl", "evaluations.json")


class Remark(NamedTuple):
    """A remark about a missing or damaged part, in one line."""

    text: str
    command: str = ""  # the command that adds the part; "" if there is none


class Sample(NamedTuple):
    """The output for a line of the dev split at a training step."""

    step: int
    source: str
    output: str
    reference: str


class Average(NamedTuple):
    """An average of checkpoints."""

    step: int
    path: Path
    members: list[int]  # the averaged steps; [] if unknown


@dataclasses.dataclass(frozen=True)
class StoredRun:
    """The stored data of a run."""

    path: Path  # the run directory
    name: str  # the name of the run in the report
    about: Mapping[str, Any]  # the content of run.json; {} if it cannot be read
    settings: Mapping[str, Any]  # the content of hparams.json with the current names; {} if it cannot be read
    starts: list[dict[str, Any]]  # the lines of log.jsonl about starts of training
    # The lines about training steps, without lines for steps that a resumed run repeated later.
    reports: list[dict[str, Any]]
    evaluations: Mapping[int, Mapping[str, float]]  # the metrics of each evaluated step
    samples: list[Sample]  # the outputs that evaluations logged
    checkpoints: list[tuple[int, Path]]  # (step, path) of the checkpoints, by step
    averages: list[Average]  # the averages of checkpoints
    best: tuple[str, list[int]] | None  # (the metric, the evaluated steps from best to worst); None: unknown
    scores: list[Evaluation]  # the stored evaluations of splits
    manifest: Manifest | None  # the manifest of the data; None if it cannot be read
    remarks: list[Remark]  # remarks about unreadable parts

    @property
    def problem(self) -> str:
        """The name of its problem; "" if unknown."""
        return text(self.about.get("problem"))

    @property
    def last_step(self) -> int:
        """The last known step."""
        steps = (*(report["step"] for report in self.reports), *(step for step, _ in self.checkpoints))
        return max((*steps, *self.evaluations), default=0)


def check_run(path: Path) -> None:
    """Raises UserError if a path is not a run directory. A run directory may be incomplete or damaged."""
    if path.is_file():
        raise UserError(f"`output_dir={path}` is a file; pass a run directory, the `output_dir` of a training")
    if not path.exists():
        raise UserError(f"`output_dir={path}` does not exist; check the path, or train first with t2t-lite-trainer")
    if not any((path / name).exists() for name in _FILES) and not list_checkpoints(path):
        raise UserError(
            f"`output_dir={path}` is not a run directory: it has none of {', '.join(_FILES)} and no checkpoint; pass "
            f"the `output_dir` of a training"
        )


def read_run(path: Path, name: str) -> StoredRun:
    """Returns the stored data of a run, which gets the given name. Raises a UserError if it is not a run directory."""
    check_run(path)
    remarks: list[Remark] = []
    about, settings = (_read_object(path / file, remarks) for file in ("run.json", "hparams.json"))
    log = _read_log(path, remarks)
    rows = [row for row in log if is_step(row.get("step"))]
    logged, trained = ([row for row in rows if row.get("part") == part] for part in ("eval", "train"))
    return StoredRun(
        path,
        name,
        about,
        {HParams.current_name(name): value for name, value in settings.items()},
        [row for row in rows if row.get("part") == "start"],
        [trained[row] for row in kept_reports([row["step"] for row in trained])],
        _evaluations(path, logged, remarks),
        _samples(logged),
        list_checkpoints(path),
        _averages(path, remarks),
        _best(path, remarks),
        read_stored_scores(path, remarks_of := []),
        _manifest(about, remarks),
        [*remarks, *map(Remark, remarks_of)],
    )


def _read_object(path: Path, remarks: list[Remark]) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("not a JSON object")
        return content
    except FileNotFoundError:
        remarks.append(Remark(f"{path.name} is missing; part of the run directory was removed or not copied."))
    except (OSError, ValueError, RecursionError) as error:
        remarks.append(Remark(f"{path.name} is damaged ({_line(error)}); restore it from a copy."))
    return {}


def _read_log(path: Path, remarks: list[Remark]) -> list[dict[str, Any]]:
    try:
        log = read_log(path)
    except OSError as error:
        remarks.append(Remark(f"log.jsonl cannot be read ({_line(error)})."))
        return []
    if not log.lines:
        remarks.append(Remark("log.jsonl is missing or empty, so there are no training curves."))
    if log.damaged:
        remarks.append(
            Remark(f"log.jsonl: {log.damaged} damaged lines were skipped, which a killed process can leave.")
        )
    return log.lines


def _evaluations(path: Path, logged: list[dict[str, Any]], remarks: list[Remark]) -> dict[int, dict[str, float]]:
    """Returns the evaluations by step, from evaluations.json or, where missing there, from the log."""
    try:
        stored = read_evaluations(path)
    except (UserError, OSError, RecursionError) as error:
        remarks.append(Remark(f"{_line(error)}. The curves come from log.jsonl."))
        stored = {}
    skipped = ("step", "time", "part", "samples")
    from_log = {row["step"]: {key: value for key, value in row.items() if key not in skipped} for row in logged}
    return {
        step: {text(key): number(value) for key, value in figures.items()}
        for step, figures in sorted((from_log | stored).items())
        if is_step(step)
    }


def _samples(logged: list[dict[str, Any]]) -> list[Sample]:
    unique_samples: dict[tuple[int, str], Sample] = {}  # a resumed run may evaluate a step again
    for row in logged:
        samples = row.get("samples")
        for sample in samples if isinstance(samples, list) else []:
            if isinstance(sample, dict):
                texts = [text(sample.get(part)) for part in ("source", "output", "reference")]
                unique_samples[row["step"], texts[0]] = Sample(row["step"], *texts)
    return sorted(unique_samples.values(), key=lambda sample: sample.step)


def _averages(path: Path, remarks: list[Remark]) -> list[Average]:
    averages = []
    for step, average in list_checkpoints(path, "average"):
        try:
            members = members_of_average(average)
        except UserError as error:
            remarks.append(Remark(_line(error)))
            members = []
        averages.append(Average(step, average, members))
    return averages


def _best(path: Path, remarks: list[Remark]) -> tuple[str, list[int]] | None:
    try:
        return best_by(path)
    except (UserError, OSError, ValueError, TypeError, RecursionError) as error:
        if (path / "evaluations.json").exists():
            remarks.append(Remark(f"The best checkpoint is unknown: {_line(error)}."))
        return None


def _manifest(about: Mapping[str, Any], remarks: list[Remark]) -> Manifest | None:
    folder, problem = text(about.get("data_dir")), text(about.get("problem"))
    file = FILENAME.format(problem.removesuffix(REVERSED_SUFFIX))
    if not about or not re.fullmatch(r"[\w.-]+", file):
        return None
    if not folder:
        remarks.append(Remark("The location of the data is not recorded, so its counts are unknown."))
        return None
    path = Path(folder) / file
    if not path.is_file():
        remarks.append(Remark(f"The data is no longer in {folder}, so its counts are unknown."))
        return None
    try:
        return manifest_of_file(path)
    except (UserError, OSError, RecursionError) as error:
        remarks.append(Remark(f"The counts of the data are unknown: {_line(error)}."))
        return None


def _line(error: Exception) -> str:
    """Returns the first line of an error, as part of a remark."""
    return text(str(error).split("\n")[0].rstrip(".")) or type(error).__name__


def command_line(command: str, run: StoredRun, *flags: str) -> str:
    """Returns a command line for a run: command_line("eval", run, "--again")."""
    return encodable(" ".join([f"t2t-lite-{command}", shlex.quote(f"--output_dir={run.path}"), *flags]))
