"""Generates the data of a problem."""

import copy
import dataclasses
import inspect
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite.data.manifest import FILENAME, Manifest, read_manifest
from t2t_lite.data.problem import REVERSED_SUFFIX, SIDES, SPLITS, Problem, get_problem
from t2t_lite.display import Display
from t2t_lite.errors import UserError, nearest
from t2t_lite.registry import PROBLEMS
from t2t_lite.training.options import check_count

if TYPE_CHECKING:
    from t2t_lite.data.generation.text_checks import TextChecks


@dataclasses.dataclass(frozen=True)
class GeneratedData:
    """The data of a problem, on disk.

    Args:
      problem: the name of the problem, whose direction the following pairs of paths have.
      data_dir: the folder.
      pairs: number of pairs in each split.
      dropped: number of pairs of each split that were dropped, by reason.
      vocabularies: paths of the vocabularies of inputs and targets; equal if they share one.
      texts: paths of dev and test as text, by split: (inputs, targets).
      manifest: path of the manifest.
      text_checks: what was found in the user's text; None if the text was not checked in this call.
    """

    problem: str
    data_dir: Path
    pairs: dict[str, int]
    dropped: dict[str, dict[str, int]] = dataclasses.field(repr=False)
    vocabularies: tuple[Path, Path] = dataclasses.field(repr=False)
    texts: dict[str, tuple[Path, Path]] = dataclasses.field(repr=False)
    manifest: Path = dataclasses.field(repr=False)
    text_checks: "TextChecks | None" = dataclasses.field(repr=False)


def generate_data(
    problem: str | Problem,
    data_dir: str | PathLike,
    *,
    tmp_dir: str | PathLike | None = None,
    num_workers: int = 0,
    max_cases: int = 0,
    num_shards: int | None = None,
    vocab_kind: str | None = None,
    vocab_size: int | None = None,
    vocab_file: str | PathLike | None = None,
    runner: str = "",
    beam_options: str = "",
    display: Display | None = None,
    **problem_options: object,
) -> GeneratedData:
    """Generates the vocabulary, shards and manifest of a problem, as t2t-lite-datagen does.

    Complete files are kept: an interrupted call is resumed by the same call, and a finished one does nothing.

    Args:
      problem: the name of a problem, or a `Problem`.
      data_dir: the folder to write to.
      tmp_dir: folder of source files, which are downloaded if missing; None: `downloads` in `data_dir`.
      num_workers: parallel workers; 0: one per core.
      max_cases: maximum number of training pairs; 0: all.
      num_shards: files of the train split; None: the problem's.
      vocab_kind: "bpe", "wordpiece", "characters", "bytes" or "words"; None: the problem's.
      vocab_size: number of tokens; None: the problem's.
      vocab_file: an existing vocabulary to use.
      runner: "" or the name of an Apache Beam runner.
      beam_options: flags for the Beam pipeline.
      display: where to show the progress; None: the logger "t2t_lite".
      problem_options: the problem's own options, such as train_source="my.en"; a list of files is possible, too.

    Raises:
      UserError: if sources are missing, damaged or changed, or `data_dir` has other data of this problem.
    """
    from t2t_lite.data.generation.sources import check_obtainable
    from t2t_lite.quiet import import_tensorflow, settings_restored

    if isinstance(problem, str):
        options = {name: _option_text(value) for name, value in problem_options.items() if value is not None}
        _check_names(problem, options)
        problem = get_problem(problem, **options)
    elif problem_options:
        raise UserError(f"give the options ({', '.join(problem_options)}) to get_problem, which made this problem")
    counts = {"num_workers": 0, "max_cases": 0, "num_shards": 1, "vocab_size": 1}
    for (name, least), value in zip(counts.items(), (num_workers, max_cases, num_shards, vocab_size)):
        check_count(name, value, least)
    vocab_file = None if vocab_file is None else str(vocab_file)
    problem = _with(problem, num_shards=num_shards, vocab_kind=vocab_kind, vocab_size=vocab_size, vocab_file=vocab_file)
    display = display or Display()
    seen: list[TextChecks] = []
    data_dir = Path(data_dir)
    tmp_dir = Path(tmp_dir) if tmp_dir else data_dir / "downloads"
    problem.keep_streams(tmp_dir)
    if read_manifest(data_dir, problem) is None:
        check_obtainable(problem, tmp_dir)  # before TensorFlow is imported, which takes seconds

    def report(checks: "TextChecks") -> None:
        seen.append(checks)
        display.text_checks(checks)

    with settings_restored():
        import_tensorflow()
        from t2t_lite.data.generation.generate import GenerateOptions, generate

        options = GenerateOptions(num_workers, max_cases, runner, beam_options, report)
        manifest = generate(problem, data_dir, tmp_dir, display.say, options)
    return _generated(problem, data_dir, manifest, seen[0] if seen else None)


def _check_names(problem: str, options: Mapping[str, str]) -> None:
    """Refuses arguments that are neither those of `generate_data` nor options of the problem."""
    name = problem if problem in PROBLEMS else problem.removesuffix(REVERSED_SUFFIX)
    flags = PROBLEMS[name].flags
    own = [name for name in inspect.signature(generate_data).parameters if name != "problem_options"]
    for option in options:
        if option not in flags:
            raise UserError(f"generate_data() has no argument '{option}'{nearest(option, [*own, *flags])}", status=2)


def _with(problem: Problem, **settings: int | str | None) -> Problem:
    """Returns a copy of a problem with other settings, except those that are None."""
    problem = copy.copy(problem)
    for name, value in settings.items():
        if value is not None:
            setattr(problem, name, value)
    return problem


def _generated(problem: Problem, data_dir: Path, manifest: Manifest, text_checks: "TextChecks | None") -> GeneratedData:
    sides = problem.in_direction(SIDES)
    inputs, targets = (data_dir / each["file"] for each in problem.in_direction(manifest.vocabularies))
    return GeneratedData(
        problem=problem.name,
        data_dir=data_dir,
        pairs={split: made["examples"] for split, made in manifest.splits.items()},
        dropped={split: dict(made.get("dropped", {})) for split, made in manifest.splits.items()},
        vocabularies=(inputs, targets),
        texts={
            split: (
                data_dir / problem.text_filename(split, sides[0]),
                data_dir / problem.text_filename(split, sides[1]),
            )
            for split in SPLITS[1:]
        },
        manifest=data_dir / FILENAME.format(problem.data_name),
        text_checks=text_checks,
    )


def _option_text(value: object) -> str:
    """Returns an option of a problem as on a command line: lists are separated by commas."""
    if isinstance(value, list | tuple):
        return ",".join(map(_option_text, value))
    if isinstance(value, Mapping):
        raise TypeError(f"a problem's option is a text, a path, a number, True or a list, not {value!r}")
    return str(value)
