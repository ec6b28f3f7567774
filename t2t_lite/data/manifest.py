"""The manifest of a data directory: its splits and shards, their sources and their vocabularies."""

import dataclasses
import hashlib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from t2t_lite.config import HParams
from t2t_lite.data.problem import LANGUAGES, SIDES, SPLITS, Problem, joined_languages, language_pair
from t2t_lite.errors import UserError
from t2t_lite.files import file_sha256, write_text

# One data directory may hold several problems, so the file name includes the problem's name.
FILENAME = "manifest.{}.json"
WORK = ".work"  # suffix of folders with the intermediate files of data that is being made
# The setting that names the toolkit whose shards were imported.
IMPORTED = "from"
# The settings of vocabularies, with their values in data that does not record them.
_BEFORE = {"byte_fallback": False, "character_coverage": 1.0, "normalize_whitespace": False}


class VocabularyEntry(TypedDict):
    file: str
    sha256: str
    size: int  # number of tokens


class StatisticsEntry(TypedDict):
    dropped: dict[str, int]  # number of dropped pairs by drop reason
    overlap: NotRequired[dict[str, int]]  # number of pairs whose source is also in another split, by split; since 0.9
    # For "inputs", "targets" and "longer", a histogram: length in tokens (with the end symbol) -> number of examples.
    # "longer" is the longer side of each example; data from early versions lacks it.
    lengths: dict[str, dict[str, int]]


class SplitEntry(StatisticsEntry):
    examples: int
    plan: str  # the digest of the plan
    shards: dict[str, int]  # file name -> bytes


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The content of `manifest.<problem>.json`, written once the vocabulary exists and again after each shard."""

    problem: str  # the name of the (forward) problem
    vocabulary: VocabularyEntry  # the shared vocabulary, or the vocabulary of the forward targets
    splits: dict[str, SplitEntry]  # the complete splits, by name
    sources: dict[str, str]  # SHA-256 of each source file, by name
    # the vocabulary of the forward inputs; None if both sides share one
    inputs_vocabulary: VocabularyEntry | None = None
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)  # the flags that affect the records
    train_pairs: int = 0  # number of pairs in the train split, dropped ones included
    # the split that is being generated, or {}: its name "split", its "plan" digest, its complete "shards"
    unfinished: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def vocabularies(self) -> tuple[VocabularyEntry, VocabularyEntry]:
        """The vocabulary entries for the forward inputs and targets; equal if both sides share a vocabulary."""
        return self.inputs_vocabulary or self.vocabulary, self.vocabulary

    def digest(self) -> str:
        """Returns a checksum of the data, which covers sources, vocabularies and shard plans."""
        names = ("examples", "plan", "shards")
        made = {split: {name: content[name] for name in names} for split, content in self.splits.items()}
        content = [made, self.sources, *(vocabulary["sha256"] for vocabulary in self.vocabularies)]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def check_split(self, data_dir: Path, split: str) -> None:
        """Raises UserError if a split has no pairs, for example a test split that was not imported."""
        if not self.splits[split]["examples"]:
            raise UserError(f"the data in {data_dir} was imported without a {split} split; use another split")

    def is_complete(self, problem: Problem, data_dir: Path) -> bool:
        """Returns whether all files of the data are there."""
        if any(split not in self.splits for split in SPLITS):
            return False
        names = [vocabulary["file"] for vocabulary in self.vocabularies]
        for split in SPLITS:
            names += self.splits[split]["shards"]
        names += [problem.text_filename(split, side) for split in SPLITS[1:] for side in SIDES]
        return all((data_dir / name).exists() for name in names)

    def check_settings(self, problem: Problem, max_cases: int, data_dir: Path) -> None:
        """Raises UserError if the data was made with other settings."""
        if not self.settings:
            return
        if IMPORTED in self.settings:
            for name, value in ({"vocab_file": problem.vocab_file, "max_cases": max_cases} | problem.options).items():
                if value:
                    raise UserError(
                        f"the data in {data_dir} was imported, but this run sets `{name}={value}`; "
                        f"use another `data_dir`"
                    )
            return
        # An existing vocabulary is used unchanged, unless this run asks for another one.
        as_it_is = vocabulary_settings(problem, self)
        made_with, asked = self.settings | as_it_is, generation_settings(problem, max_cases) | as_it_is
        asked |= {name: value for name, value in vars(problem).items() if name in as_it_is}
        for name in sorted((made_with.keys() | asked.keys()) - {*LANGUAGES, "languages"}):  # these change no record
            if made_with.get(name) != asked.get(name):
                then, now = (
                    f"`{name}={each[name]}`" if each.get(name) or each.get(name) is False else f"no `{name}`"
                    for each in (made_with, asked)
                )
                raise UserError(
                    f"the data in {data_dir} was made with {then}, but this run has {now}; "
                    f"use another `data_dir`, or the same settings as before"
                )

    def languages(self, problem: Problem, data_dir: Path) -> str:
        """Returns the recorded languages as `language_pair` reads them, or "". Raises UserError if others are given."""
        recorded = self.settings.get("languages") or joined_languages(*map(self.settings.get, LANGUAGES))
        given = problem.options.get("languages", recorded)
        if recorded and language_pair(given) != language_pair(recorded):
            raise UserError(
                f"the data in {data_dir} was made with `languages={recorded}`, but this run has `languages={given}`; "
                f"omit it, or use another `data_dir`"
            )
        return recorded

    def vocab_sizes(self, problem: Problem) -> tuple[int, int]:
        """Returns the vocabulary sizes of inputs and targets, in the direction of the problem."""
        inputs, targets = problem.in_direction(self.vocabularies)
        return inputs["size"], targets["size"]

    def longest(self, split: str, max_length: int) -> int:
        """Returns the greatest length of a side in a split, in tokens, that does not exceed `max_length`."""
        histograms = self.splits[split]["lengths"].values()
        return max(int(length) for histogram in histograms for length in histogram if int(length) <= max_length)

    def check_lengths(self, hparams: HParams) -> None:
        """Raises UserError unless some training pair has at most `max_length` tokens on both sides.

        If positions are learned, so must all dev pairs, because all of them are evaluated.
        """
        limit = hparams.max_length
        # Exact if the manifest has a histogram of the longer side; otherwise a lower bound for the shortest pair.
        shortest = max(min(map(int, histogram)) for histogram in self.splits["train"]["lengths"].values())
        if shortest > limit:
            raise UserError(
                f"all training pairs of '{self.problem}' are longer than max_length={limit} tokens (the shortest has "
                f"at least {shortest}); set `hparams=max_length={shortest}` or more"
            )
        longest = max(max(map(int, histogram)) for histogram in self.splits["dev"]["lengths"].values())
        if hparams.max_positions and longest > hparams.max_positions:
            raise UserError(
                f"the longest dev pair of '{self.problem}' has {longest} tokens, but learned positions cover only "
                f"max_length={hparams.max_positions}; set `hparams=max_length={longest}` or more"
            )

    def mean_length(self, split: str, side: str) -> float:
        """Returns the average length of a side, "inputs" or "targets" of the forward problem, in tokens."""
        histogram = self.splits[split]["lengths"][side]
        return sum(int(length) * number for length, number in histogram.items()) / sum(histogram.values())

    def shards_of_plan(self, split: str, plan: str) -> dict[str, int]:
        """Returns {file name: bytes} for a split's shards that were written with the given plan."""
        known = {}
        for made in (self.splits.get(split, {}), self.unfinished):
            if made.get("split", split) == split and made.get("plan") == plan:
                known |= made["shards"]
        return known

    def add_shard(self, split: str, plan: str, name: str, size: int) -> None:
        if (self.unfinished.get("split"), self.unfinished.get("plan")) != (split, plan):
            self.unfinished.clear()
            self.unfinished.update(split=split, plan=plan, shards=self.shards_of_plan(split, plan))
        self.unfinished["shards"][name] = size

    def finish_split(self, split: str, plan: str, examples: int, statistics: StatisticsEntry) -> None:
        shards = dict(sorted(self.shards_of_plan(split, plan).items()))
        self.unfinished.clear()
        self.splits[split] = {"examples": examples, "plan": plan, "shards": shards, **statistics}

    def write(self, data_dir: Path) -> None:
        text = json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False)
        write_text(data_dir / FILENAME.format(self.problem), text + "\n")


def read_manifest(data_dir: Path, problem: Problem) -> Manifest | None:
    """Returns the manifest of a problem's data, or None if it is missing. Raises a UserError if it is damaged."""
    path = Path(data_dir) / FILENAME.format(problem.data_name)
    return manifest_of_file(path) if path.exists() else None


def manifest_of_file(path: Path) -> Manifest:
    if not path.exists():
        raise UserError(f"no such file: {path}; generate the data with t2t-lite-datagen")
    try:
        manifest = Manifest(**json.loads(path.read_text(encoding="utf-8")))
        names = [vocabulary[part] for vocabulary in manifest.vocabularies for part in ("file", "sha256")]
        numbers = [vocabulary["size"] for vocabulary in manifest.vocabularies] + [
            number
            for split in manifest.splits.values()
            for number in (split["examples"], *split["shards"].values(), *split["lengths"]["targets"].values())
        ]
        if not all(isinstance(name, str) for name in names) or not all(isinstance(number, int) for number in numbers):
            raise TypeError("a name or a number has the wrong type")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path} is damaged ({error!r}); remove it and run t2t-lite-datagen again") from error
    return manifest


def vocabulary_settings(problem: Problem, manifest: Manifest | None) -> dict:
    """Returns the manifest's settings, or the problem's without one; older data has the values fixed then."""
    if manifest is None:
        return {name: getattr(problem, name) for name in _BEFORE}
    return {name: manifest.settings.get(name, value) for name, value in _BEFORE.items()}


def generation_settings(problem: Problem, max_cases: int) -> dict:
    own = {name: getattr(problem, name) for name in ("vocab_kind", "vocab_size", "vocab_file", "num_shards")}
    return {**own, **vocabulary_settings(problem, None), "max_cases": max_cases, **problem.options}


def check_data(data_dir: Path, problem: Problem, split: str = "train") -> Manifest:
    """Returns the manifest, after checking that the data directory matches it and that the split has pairs."""
    data_dir = Path(data_dir)
    command = f"t2t-lite-datagen --problem={problem.data_name} --data_dir={data_dir}"
    own_text = "".join(f" --{name}=FILE" for name in ("train_source", "train_target") if name in problem.flags)
    generate = f"generate it with: {command}{own_text}"
    if data_dir.is_file():
        raise UserError(f"`data_dir={data_dir}` is a file; pass the folder in which the data was generated")
    if not data_dir.is_dir():
        raise UserError(f"`data_dir={data_dir}` does not exist; {generate}")
    if (manifest := read_manifest(data_dir, problem)) is None:
        raise UserError(f"`data_dir={data_dir}` has no data for '{problem.data_name}'; {generate}")
    # The command gets the flags used to make the data, except those with default values. Defaults come from the class,
    # because a command may have changed the instance.
    usual = {name: getattr(type(problem), name) for name in ("vocab_kind", "vocab_size", "vocab_file", "num_shards")}
    flags = {name: value for name, value in manifest.settings.items() if name in problem.flags}
    flags |= {name: manifest.settings.get(name, value) for name, value in (usual | {"max_cases": 0}).items()}
    command += "".join(
        f" {shlex.quote(f'--{name}={value}')}" for name, value in flags.items() if value and value != usual.get(name)
    )
    if IMPORTED in manifest.settings:
        command = f"t2t-lite-datagen --problem={problem.data_name} --from=t2t --tmp_dir=T2T_DATA --data_dir=NEW"
    if missing := [split for split in SPLITS if split not in manifest.splits]:
        raise UserError(f"the data in {data_dir} has no {missing[0]} split yet; finish it with: {command}")
    for each in manifest.splits.values():
        for name, size in each["shards"].items():
            path = data_dir / name
            if not path.exists():
                raise UserError(f"{path} is missing; regenerate it with: {command}")
            if (found := path.stat().st_size) != size:
                raise UserError(f"{path} is damaged: it has {found} bytes, not {size}; remove it and run: {command}")
    _check_vocabularies(data_dir, manifest, problem, command)
    manifest.check_split(data_dir, split)
    return manifest


def _check_vocabularies(data_dir: Path, manifest: Manifest, problem: Problem, command: str) -> None:
    problem.share_vocabulary_as(manifest.settings.get("vocab_file", ""))
    if (manifest.inputs_vocabulary is None) != problem.shared_vocabulary:
        other = "a vocabulary for each side" if problem.shared_vocabulary else "one vocabulary for both sides"
        raise UserError(f"the data in {data_dir} was made with {other}; remove it and run: {command}")
    for vocabulary in manifest.vocabularies:
        path = data_dir / vocabulary["file"]
        if not path.exists():
            raise UserError(f"{path} is missing; regenerate it with: {command}")
        if file_sha256(path) != vocabulary["sha256"]:
            raise UserError(
                f"{path} is not the vocabulary that the data in {data_dir} was made with; "
                f"restore the original, or remove the data and run: {command}"
            )


def mean(counter: Mapping[int, int]) -> float:
    """Returns the mean of a histogram; 0 if it is empty."""
    return sum(value * count for value, count in counter.items()) / max(1, sum(counter.values()))


def quantile(counter: Mapping[int, int], share: float) -> int:
    """Returns the smallest value of a histogram such that at least this share of the values does not exceed it."""
    total, seen = sum(counter.values()), 0
    for value in sorted(counter):
        seen += counter[value]
        if seen >= share * total:
            return value
    return 0
