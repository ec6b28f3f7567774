"""Data generation in one pass: statistics -> vocabulary -> plan -> shards -> manifest."""

import contextlib
import dataclasses
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from t2t_lite.data.generation.beam import check_runner, write_split_with_beam
from t2t_lite.data.generation.options import GenerateOptions
from t2t_lite.data.generation.shards import (
    WORK,
    SplitJob,
    check_same_vocabularies,
    check_vocab_file,
    equal_splits,
    held_out_sources,
    make_plan,
    make_vocabularies,
    text_exists,
    write_split,
    write_split_text,
)
from t2t_lite.data.generation.sources import check_unchanged, find_or_fetch, source_digests
from t2t_lite.data.generation.text_checks import examine_corpus
from t2t_lite.data.manifest import (
    FILENAME,
    IMPORTED,
    Manifest,
    SplitEntry,
    VocabularyEntry,
    check_data,
    read_manifest,
    vocabulary_settings,
)
from t2t_lite.data.pipeline import write_index
from t2t_lite.data.problem import LANGUAGES, SIDES, SPLITS, Example, Problem
from t2t_lite.data.vocab import Vocabulary, open_vocabulary
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.files import INCOMPLETE, is_same_file, make_folder, split_paths

MANY_DROPPED = 0.1  # share of dropped pairs in a dev or test split above which a warning is shown


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
    manifest = read_manifest(data_dir, problem)
    if manifest is not None:
        check_settings(manifest, problem, options.max_cases, data_dir)
        languages = {name: value for name, value in problem.options.items() if name in LANGUAGES}
        if manifest.settings and not languages.items() <= manifest.settings.items():  # early versions recorded none
            manifest.settings.update(languages)
            manifest.write(data_dir)
        if is_complete(manifest, problem, data_dir):
            check_sources_in_place(manifest, tmp_dir, data_dir)
            remove_leftovers(problem, data_dir)
            check_data(data_dir, problem)
            with contextlib.suppress(OSError, UserError):  # a data directory that cannot be written stays as it is
                write_index(data_dir, manifest)  # data from versions up to 0.11 has none
            say(f"{problem.data_name}: already in {data_dir}, nothing to do")
            return manifest
        if IMPORTED in manifest.settings:
            raise UserError(
                f"imported files of '{problem.data_name}' are missing in {data_dir}; remove "
                f"{FILENAME.format(problem.data_name)} and the remaining files, and import the data again"
            )
    check_vocab_file(problem)
    files = find_or_fetch(problem, tmp_dir)
    if manifest is not None:
        check_unchanged(files, manifest.sources, data_dir)
    if options.runner:
        check_runner(options.runner, options.beam_options)
    with _folder(data_dir):
        check_sources_are_elsewhere(problem, files, data_dir)
        manifest = _Pass(problem, files, data_dir, say, options).run(manifest)
        write_index(data_dir, manifest)
    remove_leftovers(problem, data_dir)
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


@dataclasses.dataclass
class _Pass:
    problem: Problem
    files: dict[str, Path]
    data_dir: Path
    say: Callable[[str], None]
    options: GenerateOptions
    # The first pairs of each split that this run has read, to detect equal splits.
    first_pairs: dict[str, list[Example]] = dataclasses.field(default_factory=dict)

    def run(self, manifest: Manifest | None) -> Manifest:
        """Generates everything that is missing. `manifest` is from an interrupted run, or None."""
        vocabularies, manifest = self._vocabularies(manifest)
        for split in SPLITS[1:]:
            self._text(split)
        for split in SPLITS:
            self._split(split, manifest, vocabularies)
        return manifest

    def _vocabularies(self, manifest: Manifest | None) -> tuple[tuple[Vocabulary, Vocabulary], Manifest]:
        """Learns the vocabularies of inputs and targets unless they exist, and writes the first manifest."""
        names = [each["file"] for each in manifest.vocabularies] if manifest else []
        statistics = None
        if not names or not all((self.data_dir / name).exists() for name in names):
            statistics = examine_corpus(self.problem, self.files, self.say, self.options.report)
            self.first_pairs["train"] = statistics.first_pairs
            names = make_vocabularies(self.problem, statistics, self.data_dir, self.say, manifest)
        by_name = {name: open_vocabulary(self.data_dir / name) for name in dict.fromkeys(names)}
        inputs, targets = (by_name[name] for name in names)
        if manifest is None:
            assert statistics is not None  # without a manifest there are no vocabularies, so the corpus was examined
            entries = [
                VocabularyEntry(file=each.path.name, sha256=each.sha256, size=each.size) for each in (inputs, targets)
            ]
            manifest = Manifest(
                problem=self.problem.data_name,
                vocabulary=entries[1],
                splits={},
                sources=source_digests(self.files),
                inputs_vocabulary=None if self.problem.shared_vocabulary else entries[0],
                settings=generation_settings(self.problem, self.options.max_cases),
                train_pairs=min(statistics.pairs, self.options.max_cases or statistics.pairs),
            )
            manifest.write(self.data_dir)
        check_same_vocabularies((inputs, targets), manifest, self.data_dir)
        return (inputs, targets), manifest

    def _text(self, split: str) -> None:
        if not text_exists(self.problem, split, self.data_dir):
            self.first_pairs[split] = write_split_text(self.problem, split, self.files, self.data_dir)
            for note in equal_splits(self.first_pairs, split):
                self.say(f"{self.problem.data_name}: {note}")

    def _split(self, split: str, manifest: Manifest, vocabularies: tuple[Vocabulary, Vocabulary]) -> None:
        problem, options = self.problem, self.options
        total = manifest.train_pairs if split == "train" else None
        plan = make_plan(problem, split, total, vocabularies, manifest.sources, options.max_cases)
        job = SplitJob(
            problem,
            plan,
            self.files,
            options.max_cases,
            vocabularies,
            self.data_dir,
            manifest,
            self.say,
            total,
            held_out_sources(problem, split, self.data_dir),
        )
        if options.runner:
            write_split_with_beam(job, options.runner, options.beam_options, options.num_workers)
        else:
            write_split(job, options.num_workers)
        self._report(split, manifest.splits[split])

    def _report(self, split: str, made: SplitEntry) -> None:
        name, examples, dropped = self.problem.data_name, made["examples"], made.get("dropped", {})
        reasons = ", ".join(f"{count} ({reason})" for reason, count in dropped.items())
        self.say(f"{name}: {split}: {examples} pairs{f'; dropped: {reasons}' if reasons else ''}")
        for other, count in made.get("overlap", {}).items():
            self.say(f"{name}: {split}: the sources of {count} pairs are also in {other}")
        share = sum(dropped.values()) / (examples + sum(dropped.values()) or 1)
        if split != "train" and share > MANY_DROPPED:
            self.say(f"{name}: {split}: {share:.0%} of the pairs are dropped; check the files")


def is_complete(manifest: Manifest, problem: Problem, data_dir: Path) -> bool:
    if any(split not in manifest.splits for split in SPLITS):
        return False
    names = [vocabulary["file"] for vocabulary in manifest.vocabularies]
    for split in SPLITS:
        names += manifest.splits[split]["shards"]
    names += [problem.text_filename(split, side) for split in SPLITS[1:] for side in SIDES]
    return all((data_dir / name).exists() for name in names)


def generation_settings(problem: Problem, max_cases: int) -> dict:
    own = {name: getattr(problem, name) for name in ("vocab_kind", "vocab_size", "vocab_file", "num_shards")}
    return {**own, **vocabulary_settings(problem, None), "max_cases": max_cases, **problem.options}


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
    names = [*problem.vocab_filenames, *(problem.text_filename(split, side) for split in SPLITS[1:] for side in SIDES)]
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
