"""Checks that data from an earlier run is complete and was made with the same settings and sources."""

import shutil
from pathlib import Path

from t2t_lite.data.generation.sources import check_unchanged
from t2t_lite.data.generation.split_text import text_filenames
from t2t_lite.data.generation.split_writer import WORK
from t2t_lite.data.manifest import Manifest
from t2t_lite.data.problem import LANGUAGES, SPLITS, Problem
from t2t_lite.errors import UserError
from t2t_lite.files import INCOMPLETE, is_same_file, split_paths

# The setting that names the toolkit whose shards were imported.
IMPORTED = "from"
# The settings of vocabularies, with their values in data that does not record them.
_BEFORE = {"byte_fallback": False, "character_coverage": 1.0, "normalize_whitespace": False}


def is_complete(manifest: Manifest, problem: Problem, data_dir: Path) -> bool:
    if any(split not in manifest.splits for split in SPLITS):
        return False
    names = [vocabulary["file"] for vocabulary in manifest.vocabularies]
    for split in SPLITS:
        names += [*manifest.splits[split]["shards"], *text_filenames(problem, split)]
    return all((data_dir / name).exists() for name in names)


def generation_settings(problem: Problem, max_cases: int) -> dict:
    own = {name: getattr(problem, name) for name in ("vocab_kind", "vocab_size", "vocab_file", "num_shards")}
    return {**own, **vocabulary_settings(problem, None), "max_cases": max_cases, **problem.options}


def vocabulary_settings(problem: Problem, manifest: Manifest | None) -> dict:
    """Returns the manifest's settings, or the problem's without one; older data has the values fixed then."""
    if manifest is None:
        return {name: getattr(problem, name) for name in _BEFORE}
    return {name: manifest.settings.get(name, value) for name, value in _BEFORE.items()}


def check_settings(manifest: Manifest, problem: Problem, max_cases: int, data_dir: Path) -> None:
    if not manifest.settings:
        return
    if IMPORTED in manifest.settings:
        for name, value in ({"vocab_file": problem.vocab_file, "max_cases": max_cases} | problem.options).items():
            if value:
                raise UserError(
                    f"the data in {data_dir} was imported, but this run sets `{name}={value}`; use another `data_dir`"
                )
        return
    # An existing vocabulary is used unchanged, unless this run asks for another one.
    as_it_is = vocabulary_settings(problem, manifest)
    made_with, asked = manifest.settings | as_it_is, generation_settings(problem, max_cases) | as_it_is
    asked |= {name: value for name, value in vars(problem).items() if name in as_it_is}
    for name in sorted((made_with.keys() | asked.keys()) - LANGUAGES.keys()):  # records do not depend on these
        if made_with.get(name) != asked.get(name):
            then, now = (
                f"`{name}={each[name]}`" if each.get(name) or each.get(name) is False else f"no `{name}`"
                for each in (made_with, asked)
            )
            raise UserError(
                f"the data in {data_dir} was made with {then}, but this run has {now}; "
                f"use another `data_dir`, or the same settings as before"
            )


def check_sources_in_place(manifest: Manifest, tmp_dir: Path, data_dir: Path) -> None:
    """Raises UserError if a source in `tmp_dir` has changed. The sources of complete data may be missing."""
    files = {name: tmp_dir / name for name in manifest.sources if (tmp_dir / name).is_file()}
    check_unchanged(files, {name: manifest.sources[name] for name in files}, data_dir)


def check_sources_are_elsewhere(problem: Problem, files: dict[str, Path], data_dir: Path) -> None:
    names = [*problem.vocab_filenames, *(name for split in SPLITS for name in text_filenames(problem, split))]
    names += [problem.shard_filename(split, shard) for split in SPLITS for shard in range(problem.shards_of(split))]
    sources = [*files.values(), *(Path(name) for name in split_paths(problem.vocab_file) if name)]
    for path in sources:
        if any(is_same_file(data_dir / name, path) for name in names):
            raise UserError(f"{path} would be overwritten by the data made from it; use another `data_dir`")


def remove_leftovers(problem: Problem, data_dir: Path) -> None:
    for folder in data_dir.glob(f"{problem.data_name}-*{WORK}"):
        shutil.rmtree(folder)
    for start in (f"{problem.data_name}-", f"vocab.{problem.data_name}.", f"manifest.{problem.data_name}.json."):
        for file in data_dir.glob(f"{start}*.{INCOMPLETE}"):
            file.unlink()
