"""Reads the contents of a run directory for a report. A damaged file is left out, with a remark.

It only reads files and never executes code that the run names; names that are not registered are shown as they are.
"""

import dataclasses
import json
import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from t2t_lite.config import HParams
from t2t_lite.data.manifest import FILENAME, Manifest, manifest_of_file
from t2t_lite.data.problem import REVERSED_SUFFIX
from t2t_lite.errors import UserError
from t2t_lite.evaluation.examples import read_examples
from t2t_lite.evaluation.options import SPLITS
from t2t_lite.evaluation.stored import FOLDER, Figure, SplitScores, read_scores
from t2t_lite.files import encodable
from t2t_lite.runs.checkpoint_files import list_checkpoints, recorded_members
from t2t_lite.runs.evaluations import kept_reports, read_evaluations, read_log
from t2t_lite.runs.selection import best_by

T = TypeVar("T")
_FILES = ("hparams.json", "run.json", "log.jsonl", "evaluations.json")
# What reading a file with wrong content can raise.
_DAMAGE = (UserError, OSError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
_MOST_CHARACTERS = 1500  # maximum length of a text before it is truncated
_LINK = re.compile(r"(\d{1,6})-(\d{1,6})")  # of a source word and an output word
_MOST_ATTENTION = 1_500_000  # bytes
_MOST_WORDS = 300  # maximum number of words in an output that is shown with its alignment


class Remark(NamedTuple):
    """A remark about a missing or damaged part, in one line."""

    text: str
    command: str = ""  # the command that adds the part; "" if there is none


class Sample(NamedTuple):
    """An output that an evaluation during training logged."""

    step: int
    source: str
    output: str
    reference: str


class Evaluation(NamedTuple):
    """A stored evaluation of a split."""

    split: str  # the name of the split
    problem: str  # the problem, with the run's direction
    texts: str  # the digests of its texts; scores are comparable only for the same texts
    date: str  # the date of the evaluation
    about: list[str]  # what was evaluated, in lines: the checkpoint, the search settings ...
    figures: list[Figure]  # the scores
    by_length: list[tuple[str, float, float]]  # (number of source words, lines, score); [] if none
    # The worst and best lines: "label", the name of the metric that scored them; "worst" and "best", with the worst
    # (best) one first; "attention", that of a few lines, in the format of static/attention.js, or None. {}: not stored.
    examples: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class StoredRun:
    """The contents of a run directory."""

    path: Path  # the run directory
    name: str  # the name of the run in the report
    about: Mapping[str, Any]  # the content of run.json; {} if it cannot be read
    settings: Mapping[str, Any]  # the content of hparams.json with the current names; {} if it cannot be read
    starts: list[dict[str, Any]]  # the lines of log.jsonl about starts of training
    # The lines about training steps, without lines for steps that a resumed run repeated later.
    reports: list[dict[str, float]]
    evaluations: Mapping[int, Mapping[str, float]]  # the metrics of each evaluated step
    samples: list[Sample]
    checkpoints: list[tuple[int, Path]]  # (step, path) of the checkpoints, by step
    averages: dict[Path, list[int]]  # the averaged steps of each average; [] if unknown
    best: tuple[str, list[int]] | None  # (the metric, the evaluated steps from best to worst); None: unknown
    scores: list[Evaluation]
    manifest: Manifest | None  # the manifest of the data; None if it cannot be read
    remarks: list[Remark]  # remarks about unreadable parts

    @property
    def problem(self) -> str:
        """The name of its problem; "" if unknown."""
        return text(self.about.get("problem"))

    @property
    def train_steps(self) -> float:
        """The number of steps that the training shall have; NaN if unknown."""
        return number(self.settings.get("train_steps"))

    @property
    def last_step(self) -> int:
        """The last step with a report, a checkpoint or an evaluation."""
        steps = (*(report["step"] for report in self.reports), *(step for step, _ in self.checkpoints))
        return int(max((*steps, *self.evaluations), default=0))


def number(value: Any) -> float:  # noqa: ANN401
    """Returns a stored number; NaN for None. Raises ValueError, TypeError or OverflowError if it is no number."""
    return math.nan if value is None else float(value)


def text(value: object) -> str:
    """Returns a stored value as a text that can be encoded as UTF-8. Truncates very long texts."""
    whole = encodable(value if isinstance(value, str) else "" if value is None else str(value))
    return whole if len(whole) <= _MOST_CHARACTERS else f"{whole[:_MOST_CHARACTERS]} ..."


def command_line(command: str, run: StoredRun, *flags: str) -> str:
    """Returns a command line for a run: command_line("eval", run, "--again")."""
    return encodable(" ".join([f"t2t-lite-{command}", shlex.quote(f"--output_dir={run.path}"), *flags]))


def _check_run(path: Path) -> None:
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
    _check_run(path)
    remarks: list[Remark] = []

    def read(read_part: Callable[[], T], otherwise: T, before: str, after: str = ".") -> T:
        """Returns what `read_part` reads. If it is damaged, adds a remark, and returns `otherwise`."""
        try:
            return read_part()
        except _DAMAGE as error:
            reason = text(str(error).split("\n")[0].rstrip(".")) or type(error).__name__
            remarks.append(Remark(f"{before}{reason}{after}"))
            return otherwise

    def about() -> dict[str, Any]:
        content = _object(path / "run.json")
        return content | {"plugins": dict(content.get("plugins") or {})}

    def settings() -> dict[str, Any]:
        content = {HParams.current_name(name): value for name, value in _object(path / "hparams.json").items()}
        number(content.get("train_steps"))
        return content

    content = read(about, {}, "run.json is damaged (", "); restore it from a copy.")
    values = read(settings, {}, "hparams.json is damaged (", "); restore it from a copy.")
    for file in ("run.json", "hparams.json"):
        if not (path / file).exists():
            remarks.append(Remark(f"{file} is missing; part of the run directory was removed or not copied."))
    nothing: _Log = ([], [], {}, [])
    starts, reports, logged, samples = read(lambda: _log(path, remarks), nothing, "log.jsonl is damaged (", ").")
    stored = read(
        lambda: {_step(step): _numbers(figures) for step, figures in read_evaluations(path).items()},
        {},
        "The evaluations cannot be read: ",
    )
    scores: list[Evaluation | None] = []
    for folder in sorted(path.glob(f"{FOLDER}/*")):
        if folder.is_dir() and folder.name.startswith(tuple(f"{split}." for split in SPLITS)):
            before, after = f"{FOLDER}/{text(folder.name)} cannot be read (", "); remove it and evaluate again."
            scores.append(read(lambda folder=folder: _evaluation(folder, path), None, before, after))
    return StoredRun(
        path,
        name,
        content,
        values,
        starts,
        reports,
        dict(sorted((logged | stored).items())),
        samples,
        list_checkpoints(path),
        {
            average: read(lambda average=average: recorded_members(average), [], "")
            for _, average in list_checkpoints(path, "average")
        },
        read(lambda: best_by(path), None, "The best checkpoint is unknown: ") if stored else None,
        sorted((each for each in scores if each), key=lambda each: (each.split, each.date)),
        read(lambda: _manifest(content, remarks), None, "The counts of the data are unknown: ") if content else None,
        remarks,
    )


def _object(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    return content


_Log = tuple[list[dict[str, Any]], list[dict[str, float]], dict[int, dict[str, float]], list[Sample]]


def _log(path: Path, remarks: list[Remark]) -> _Log:
    """Returns the lines of log.jsonl: starts, training reports, evaluations by step, and samples of outputs."""
    log = read_log(path)
    if not log.lines:
        remarks.append(Remark("log.jsonl is missing or empty, so there are no training curves."))
    if log.damaged:
        remarks.append(
            Remark(f"log.jsonl: {log.damaged} damaged lines were skipped, which a killed process can leave.")
        )
    starts, trained, evaluations = [], [], {}
    samples: dict[tuple[int, str], Sample] = {}  # a resumed run may evaluate a step again
    for row in log.lines:
        part, step = row.pop("part"), _step(row["step"])
        if part == "train":
            trained.append(_numbers(row) | {"step": step})
        elif part == "start":
            numbers = {key: number(row.get(key)) for key in ("time", "parameters", "replicas", "workers")}
            starts.append(row | numbers | {"devices": list(map(text, row.get("devices") or []))})
        elif part == "eval":
            for sample in row.pop("samples", None) or []:
                texts = [text(sample.get(key)) for key in ("source", "output", "reference")]
                samples[step, texts[0]] = Sample(step, *texts)
            evaluations[step] = _numbers({key: row[key] for key in row if key not in ("step", "time")})
    reports = [trained[row] for row in kept_reports([row["step"] for row in trained])]
    return starts, reports, evaluations, sorted(samples.values(), key=lambda sample: sample.step)


def _step(value: Any) -> int:  # noqa: ANN401
    if not 0 <= (step := int(value)) < 2**53:
        raise ValueError(f"{step} is not a step")
    return step


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    return {text(key): number(value) for key, value in row.items()}


def _manifest(about: Mapping[str, Any], remarks: list[Remark]) -> Manifest | None:
    folder, problem = text(about.get("data_dir")), text(about.get("problem"))
    file = FILENAME.format(problem.removesuffix(REVERSED_SUFFIX))
    if not re.fullmatch(r"[\w.-]+", file):
        return None
    if folder and (Path(folder) / file).is_file():
        return manifest_of_file(Path(folder) / file)
    reason = f"data is no longer in {folder}" if folder else "location of the data is not recorded"
    remarks.append(Remark(f"The {reason}, so its counts are unknown."))
    return None


def _evaluation(folder: Path, path: Path) -> Evaluation:
    if (scores := read_scores(folder, path, folder)) is None:
        raise ValueError("scores.json or a text file is missing, damaged, changed or from another version")
    content, settings, checkpoint = scores.content, scores.decode_hparams, scores.content["checkpoint"]
    chosen = f" ({text(checkpoint['chosen'])})" if checkpoint.get("chosen") else ""
    about = [Path(text(checkpoint.get("path"))).name + chosen]
    searched = f"beam_size={text(settings.get('beam_size'))}, alpha={text(settings.get('alpha'))}"
    about.append(searched if content.get("decoded", True) else "only losses")
    if not math.isnan(lines := number(content.get("lines"))):
        speed = number(content.get("lines_per_second"))
        about.append(f"{lines:,.0f} lines" + ("" if math.isnan(speed) else f", {shown(speed, 3)} per second"))
    date = text(content.get("date"))[:16].replace("T", " ")
    figures = []
    for figure in scores.figures:
        low, high = (None, None) if figure.interval is None else map(number, figure.interval)
        texts = {name: text(getattr(figure, name)) for name in ("name", "label", "meaning", "signature", "metric")}
        figures.append(dataclasses.replace(figure, **texts, score=number(figure.score), low=low, high=high))
    decoded_by = content["decoded_by"]
    return Evaluation(
        text(scores.split),
        text(decoded_by.get("problem")),
        text([decoded_by.get("inputs"), *(each["sha256"] for each in content["references"])]),
        date,
        [*about, date],
        figures,
        [(text(row["words"]), number(row["lines"]), number(row["score"])) for row in content.get("by_length") or []],
        _examples(scores),
    )


def _examples(scores: SplitScores) -> dict[str, Any]:
    if (stored := read_examples(scores.path)) is None:
        return {}
    texts = (scores.inputs, scores.hypotheses, scores.references[0])
    attention = stored.get("attention") or {}
    size = len(json.dumps(attention, allow_nan=False, ensure_ascii=False).encode())  # raises ValueError for surrogates
    return {
        "label": text(stored.get("label")),
        **{name: [_example(line, texts) for line in stored[name]] for name in ("worst", "best")},
        "attention": attention if attention.get("sentences") and size <= _MOST_ATTENTION else None,
    }


def _example(stored: Mapping[str, Any], texts: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Returns a line with its texts, and with the words of the output, each with its source word, if it is aligned."""
    source, output, reference = (str(lines[stored["line"] - 1]) for lines in texts)
    sources, outputs = source.split(), output.split()
    links = {int(target): int(place) for place, target in _LINK.findall(stored.get("alignment") or "")}
    # A tokenizer that normalizes texts may find words where `split` finds none.
    is_shown = links and len(outputs) <= _MOST_WORDS and max(links) < len(outputs)
    words = []
    if is_shown and max(links.values()) < len(sources):
        words = [(word, sources[links[place]] if place in links else "") for place, word in enumerate(outputs)]
    shown = {"source": text(source), "output": text(output), "reference": text(reference), "words": words}
    return {"line": stored["line"], "score": number(stored["score"]), **shown}


def shown(value: float, digits: int = 4) -> str:
    """Formats a number with `digits` significant digits; large numbers have separators. Returns "" for NaN."""
    if not math.isfinite(value):
        return "" if math.isnan(value) else str(value)
    if abs(value) >= 1e7 or 0 < abs(value) < 1e-4:
        return f"{value:.{digits - 1}g}"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    rounded = f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}" if value else "0"
    return rounded.rstrip("0").rstrip(".") if "." in rounded else rounded
