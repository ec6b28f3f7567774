"""Data generation: what is there already, whether the sources can be obtained, and then everything that is missing.

TensorFlow is imported after these checks. The steps: statistics of the text -> vocabulary -> plain text of dev and test
-> shards -> manifest. See `shards.write_data` for all of them but the first.
"""

import contextlib
import dataclasses
import functools
import inspect
import shutil
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from t2t_lite.data.generation.options import GenerateOptions
from t2t_lite.data.generation.sources import check_obtainable, check_unchanged, find_or_fetch
from t2t_lite.data.generation.text_checks import TextChecks
from t2t_lite.data.manifest import FILENAME, IMPORTED, WORK, Manifest, check_data, read_manifest
from t2t_lite.data.problem import REVERSED_SUFFIX, SIDES, SPLITS, Problem, get_problem
from t2t_lite.display import LOG, Display
from t2t_lite.errors import UserError, nearest
from t2t_lite.files import INCOMPLETE, is_same_file, make_folder, split_paths
from t2t_lite.registry import PROBLEMS
from t2t_lite.system.beam import new_pipeline
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

    def report(checks: TextChecks) -> None:
        seen.append(checks)
        display.text_checks(checks)

    manifest = generate(problem, data_dir, tmp_dir, display.say, dataclasses.replace(checked, report=report))
    return generated_data(problem, data_dir, manifest, seen[0] if seen else None)


def generated_data(
    problem: Problem, data_dir: Path, manifest: Manifest, text_checks: TextChecks | None = None
) -> GeneratedData:
    """Returns a description of a problem's data, from its manifest."""
    first, second = problem.in_direction(SIDES)
    inputs, targets = (data_dir / each["file"] for each in problem.in_direction(manifest.vocabularies))
    return GeneratedData(
        problem=problem.name,
        data_dir=data_dir,
        pairs={split: made["examples"] for split, made in manifest.splits.items()},
        dropped={split: dict(made.get("dropped", {})) for split, made in manifest.splits.items()},
        vocabularies=(inputs, targets),
        texts={
            split: (data_dir / problem.text_filename(split, first), data_dir / problem.text_filename(split, second))
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


def generate(
    problem: Problem,
    data_dir: Path,
    tmp_dir: Path,
    say: Callable[[str], None] = LOG.info,
    options: GenerateOptions | None = None,
) -> Manifest:
    """Generates the data of a problem. Complete files are kept, so an interrupted run can be resumed.

    A reversed problem uses the forward problem's data. Of the options, only max_cases affects the data.
    """
    options = options or GenerateOptions()
    data_dir, tmp_dir = Path(data_dir), Path(tmp_dir)
    problem.tmp_dir = tmp_dir.absolute()
    problem.keep_streams(tmp_dir)
    if (manifest := read_manifest(data_dir, problem)) is not None:
        manifest.check_settings(problem, options.max_cases, data_dir)
    recorded = manifest.languages(problem, data_dir) if manifest is not None else ""
    if languages := recorded or problem.options.get("languages") or problem.usual_languages():
        problem.options = {**problem.options, "languages": languages}
        problem.set_languages(problem.options)
        if manifest is not None and manifest.settings and not recorded:  # early versions recorded none
            manifest.settings["languages"] = languages
            manifest.write(data_dir)
    is_complete = manifest is not None and manifest.is_complete(problem, data_dir)
    if manifest is not None and IMPORTED in manifest.settings and not is_complete:
        raise UserError(
            f"imported files of '{problem.data_name}' are missing in {data_dir}; remove "
            f"{FILENAME.format(problem.data_name)} and the remaining files, and import the data again"
        )
    if not is_complete:
        check_obtainable(problem, tmp_dir)
    with tensorflow_job():
        from t2t_lite.data.generation import shards  # imported late, because it needs TensorFlow, which takes seconds

        if manifest is not None and is_complete:
            # The sources of complete data may be missing.
            there = {name: tmp_dir / name for name in manifest.sources if (tmp_dir / name).is_file()}
            check_unchanged(there, {name: manifest.sources[name] for name in there}, data_dir)
            _remove_leftovers(problem, data_dir)
            check_data(data_dir, problem)
            with contextlib.suppress(OSError, UserError):  # a data directory that cannot be written stays as it is
                shards.write_index(data_dir, manifest)  # data from versions up to 0.11 has none
            say(f"{problem.data_name}: already in {data_dir}, nothing to do")
            return manifest
        shards.check_vocab_file(problem)
        files = find_or_fetch(problem, tmp_dir)
        if manifest is not None:
            check_unchanged(files, manifest.sources, data_dir)
        write_split = functools.partial(shards.write_split, num_workers=options.num_workers)
        if options.runner:
            from t2t_lite.data.generation import beam

            new_pipeline(options.runner, options.beam_options)  # a check
            write_split = functools.partial(beam.write_split_with_beam, options=options)
        with _folder(data_dir):
            _check_sources_are_elsewhere(problem, files, data_dir)
            manifest = shards.write_data(problem, files, data_dir, manifest, say, options, write_split)
    _remove_leftovers(problem, data_dir)
    return manifest


@contextlib.contextmanager
def _folder(data_dir: Path) -> Iterator[None]:
    """Creates the data directory, and removes it if the block fails before anything is written to it."""
    is_new = not data_dir.exists()
    make_folder(data_dir, "`data_dir`")
    try:
        yield
    except UserError:
        if is_new:
            with contextlib.suppress(OSError):  # not empty
                data_dir.rmdir()
        raise


def _check_sources_are_elsewhere(problem: Problem, files: dict[str, Path], data_dir: Path) -> None:
    names = [*problem.vocab_filenames, *(problem.text_filename(split, side) for split in SPLITS[1:] for side in SIDES)]
    names += [problem.shard_filename(split, shard) for split in SPLITS for shard in range(problem.shards_of(split))]
    for path in [*files.values(), *(Path(name) for name in split_paths(problem.vocab_file) if name)]:
        if any(is_same_file(data_dir / name, path) for name in names):
            raise UserError(f"{path} would be overwritten by the data made from it; use another `data_dir`")


def _remove_leftovers(problem: Problem, data_dir: Path) -> None:
    for folder in data_dir.glob(f"{problem.data_name}-*{WORK}"):
        shutil.rmtree(folder)
    for start in (f"{problem.data_name}-", f"vocab.{problem.data_name}.", f"manifest.{problem.data_name}.json."):
        for file in data_dir.glob(f"{start}*.{INCOMPLETE}"):
            file.unlink()
