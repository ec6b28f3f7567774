"""Generates the data of a problem."""

import dataclasses
import inspect
from os import PathLike
from pathlib import Path
from typing import Any

from t2t_lite.data.generation.options import GenerateOptions
from t2t_lite.data.generation.sources import check_obtainable
from t2t_lite.data.generation.text_checks import TextChecks
from t2t_lite.data.manifest import FILENAME, Manifest, read_manifest
from t2t_lite.data.problem import REVERSED_SUFFIX, SIDES, SPLITS, Problem, get_problem
from t2t_lite.display import Display
from t2t_lite.errors import UserError, nearest
from t2t_lite.registry import PROBLEMS
from t2t_lite.system.tensorflow import tensorflow_job


@dataclasses.dataclass(frozen=True)
class GeneratedData:
    """The data of a problem on disk.

    Args:
      problem: the name of the problem. The pairs of paths below are (inputs, targets) in its direction.
      data_dir: the folder.
      pairs: number of pairs in each split.
      dropped: number of dropped pairs in each split, by reason.
      vocabularies: paths of the vocabularies; both are the same if the vocabulary is shared.
      texts: paths of the plain text of dev and test, by split.
      manifest: path of the manifest.
      text_checks: the findings about the user's text; None if this call did not check it.
    """

    problem: str
    data_dir: Path
    pairs: dict[str, int]
    dropped: dict[str, dict[str, int]] = dataclasses.field(repr=False)
    vocabularies: tuple[Path, Path] = dataclasses.field(repr=False)
    texts: dict[str, tuple[Path, Path]] = dataclasses.field(repr=False)
    manifest: Path = dataclasses.field(repr=False)
    text_checks: TextChecks | None = dataclasses.field(repr=False)


def generate_data(
    problem: str | Problem,
    data_dir: str | PathLike,
    *,
    tmp_dir: str | PathLike | None = None,
    display: Display | None = None,
    **options: Any,
) -> GeneratedData:
    """Generates the vocabulary, shards and manifest of a problem, as t2t-lite-datagen does.

    Complete files are kept: repeating an interrupted call resumes it, and repeating a finished one does nothing.

    Args:
      problem: the name of a problem, or a `Problem`.
      data_dir: the folder to write to.
      tmp_dir: the folder of the source files; missing ones are downloaded. None: `downloads` in `data_dir`.
      display: where to show the progress; None: the logger "t2t_lite".
      options: `GenerateOptions`, such as num_workers, max_cases and vocab_size, and the problem's own options, such as
        train_source="my.en", which may also be a list of files.

    Raises:
      UserError: if source files are missing, damaged or changed, or `data_dir` has different data of this problem.
    """
    own = {name: value for name, value in options.items() if name not in GenerateOptions.declared()}
    if isinstance(problem, str):
        texts = {name: _option_text(name, value) for name, value in own.items() if value is not None}
        flags = PROBLEMS[problem if problem in PROBLEMS else problem.removesuffix(REVERSED_SUFFIX)].flags
        known = [*inspect.signature(generate_data).parameters, *GenerateOptions.declared(), *flags]
        for name in texts:
            if name not in flags:
                raise UserError(f"generate_data() has no argument '{name}'{nearest(name, known)}", status=2)
        problem = get_problem(problem, **texts)
    elif own:
        raise UserError(f"pass the options ({', '.join(own)}) to get_problem, and its result to generate_data")
    checked = GenerateOptions(**{name: value for name, value in options.items() if name not in own})
    problem = checked.applied_to(problem)
    display = display or Display()
    seen: list[TextChecks] = []
    data_dir = Path(data_dir)
    tmp_dir = Path(tmp_dir) if tmp_dir else data_dir / "downloads"
    problem.keep_streams(tmp_dir)
    if read_manifest(data_dir, problem) is None:
        check_obtainable(problem, tmp_dir)  # before importing TensorFlow, which takes seconds

    def report(checks: TextChecks) -> None:
        seen.append(checks)
        display.text_checks(checks)

    with tensorflow_job():
        from t2t_lite.data.generation.generate import generate

        manifest = generate(problem, data_dir, tmp_dir, display.say, dataclasses.replace(checked, report=report))
    return generated_data(problem, data_dir, manifest, seen[0] if seen else None)


def generated_data(
    problem: Problem, data_dir: Path, manifest: Manifest, text_checks: TextChecks | None = None
) -> GeneratedData:
    """Returns a description of a problem's data, from its manifest."""
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


def _option_text(name: str, value: object) -> str:
    """Returns the value of a problem's option as command-line text: the items of a list are separated by commas."""
    if isinstance(value, list | tuple):
        return ",".join(_option_text(name, each) for each in value)
    if not isinstance(value, str | PathLike | int | float):
        raise UserError(
            f"`{name}` is of the type {type(value).__name__}; pass a text, a path, a number or a list of these"
        )
    return str(value)
