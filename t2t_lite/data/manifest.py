"""The manifest of a data directory: what was generated, from what, with which vocabulary."""

import dataclasses
import json
import shlex
from pathlib import Path

from t2t_lite.data.problem import SPLITS, Problem
from t2t_lite.errors import UserError
from t2t_lite.files import sha256_of, write_text

# One data directory may hold several problems, so the file carries the problem's name.
FILENAME = "manifest.{}.json"


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What `manifest.<problem>.json` says. It is written when there is a vocabulary, and again after each split.

    Args:
      problem: the name of the (forward) problem.
      vocabulary: {"file", "sha256", "size"} of both sides, or of the forward targets.
      splits: by split: {"examples", "plan", "shards": {file name: bytes}, "dropped": {reason: pairs}, "lengths":
        {"inputs" | "targets" | "longer": histogram}}; a histogram maps a length in tokens (end symbol included) to the
        number of examples. "longer" is the longer side of each; data made by early versions has none.
      sources: SHA-256 of each source file, by name.
      inputs_vocabulary: the same as `vocabulary` of the forward inputs; None if both sides share one.
      settings: the flags that decide about the records.
      train_pairs: how many pairs the train split was found to have, dropped ones included.
      unfinished: of a split that is being made: {"split", "plan", "shards": those that are whole}.
    """

    problem: str
    vocabulary: dict
    splits: dict
    sources: dict
    inputs_vocabulary: dict | None = None
    settings: dict = dataclasses.field(default_factory=dict)
    train_pairs: int = 0
    unfinished: dict = dataclasses.field(default_factory=dict)

    @property
    def vocabularies(self) -> tuple[dict, dict]:
        """What describes the vocabularies of the forward inputs and targets; the same twice if they share one."""
        return self.inputs_vocabulary or self.vocabulary, self.vocabulary

    def longest(self, split: str, max_length: int) -> int:
        """Returns the length of a split's longest side, in tokens, of those up to `max_length`."""
        histograms = self.splits[split]["lengths"].values()
        return max(int(length) for histogram in histograms for length in histogram if int(length) <= max_length)

    def mean_length(self, split: str, side: str) -> float:
        """Returns the average length of a side, "inputs" or "targets" of the forward problem, in tokens."""
        histogram = self.splits[split]["lengths"][side]
        return sum(int(length) * number for length, number in histogram.items()) / sum(histogram.values())

    def shards_of_plan(self, split: str, plan: str) -> dict[str, int]:
        """Returns the sizes in bytes of a split's shards that were made by a plan, by their names."""
        known = {}
        for made in (self.splits.get(split, {}), self.unfinished):
            if made.get("split", split) == split and made.get("plan") == plan:
                known |= made["shards"]
        return known

    def add_shard(self, split: str, plan: str, name: str, size: int) -> None:
        """Notes that a shard of a plan is whole."""
        if (self.unfinished.get("split"), self.unfinished.get("plan")) != (split, plan):
            self.unfinished.clear()
            self.unfinished.update(split=split, plan=plan, shards=self.shards_of_plan(split, plan))
        self.unfinished["shards"][name] = size

    def finish_split(self, split: str, plan: str, examples: int, statistics: dict) -> None:
        """Notes that all shards of a split are whole."""
        shards = dict(sorted(self.shards_of_plan(split, plan).items()))
        self.unfinished.clear()
        self.splits[split] = {"examples": examples, "plan": plan, "shards": shards, **statistics}

    def write(self, data_dir: Path) -> None:
        """Writes the manifest, whole."""
        text = json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False)
        write_text(data_dir / FILENAME.format(self.problem), text + "\n")


def read_manifest(data_dir: Path, problem: Problem) -> Manifest | None:
    """Returns the manifest of a problem's data, or None if there is none.

    Raises:
      UserError: if the file is damaged.
    """
    path = Path(data_dir) / FILENAME.format(problem.data_name)
    return manifest_of_file(path) if path.exists() else None


def manifest_of_file(path: Path) -> Manifest:
    """Returns the manifest in a file.

    Raises:
      UserError: if there is none, or it is damaged.
    """
    if not path.exists():
        raise UserError(f"no such file: {path}; t2t-lite-datagen writes it beside the data")
    try:
        manifest = Manifest(**json.loads(path.read_text(encoding="utf-8")))
        _require_parts(manifest)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path} is damaged ({error!r}); remove it and run t2t-lite-datagen again") from error
    return manifest


def _require_parts(manifest: Manifest) -> None:
    """Raises one of the usual errors of looking things up if a part that readers rely on is missing."""
    names = [vocabulary[part] for vocabulary in manifest.vocabularies for part in ("file", "sha256")]
    numbers = [vocabulary["size"] for vocabulary in manifest.vocabularies] + [
        number
        for split in manifest.splits.values()
        for number in (split["examples"], *split["shards"].values(), *split["lengths"]["targets"].values())
    ]
    if not all(isinstance(name, str) for name in names) or not all(isinstance(number, int) for number in numbers):
        raise TypeError("a name or a number has another type")


def check_data(data_dir: Path, problem: Problem) -> Manifest:
    """Returns the manifest after checking that the data directory holds what it promises.

    Raises:
      UserError: if there is no such data, a shard is missing or cut short, or the vocabulary is another one.
    """
    data_dir = Path(data_dir)
    command = f"t2t-lite-datagen --problem={problem.data_name} --data_dir={data_dir}"
    if data_dir.is_file():
        raise UserError(f"--data_dir={data_dir} is a file; give the folder that t2t-lite-datagen wrote to")
    if not data_dir.is_dir():
        raise UserError(f"--data_dir={data_dir} does not exist; make it with: {command}")
    manifest = read_manifest(data_dir, problem)
    if manifest is None:
        raise UserError(f"--data_dir={data_dir} holds no data of '{problem.data_name}'; make it with: {command}")
    command += _flags_of(manifest, problem)
    if missing := [split for split in SPLITS if split not in manifest.splits]:
        raise UserError(f"the data in {data_dir} has no {missing[0]} split yet; finish it with: {command}")
    for split in manifest.splits.values():
        for name, size in split["shards"].items():
            path = data_dir / name
            found = path.stat().st_size if path.exists() else None
            if found != size:
                if found is None:
                    raise UserError(f"{path} is missing; make it again with: {command}")
                raise UserError(f"{path} has {found} bytes, not {size}: it is damaged; remove it and run: {command}")
    if (manifest.inputs_vocabulary is None) != problem.shared_vocabulary:
        other = "a vocabulary for each side" if problem.shared_vocabulary else "one vocabulary for both sides"
        raise UserError(f"the data in {data_dir} was made with {other}; remove it and run again: {command}")
    for vocabulary in manifest.vocabularies:
        path = data_dir / vocabulary["file"]
        if not path.exists():
            raise UserError(f"{path} is missing; make it again with: {command}")
        if sha256_of(path) != vocabulary["sha256"]:
            raise UserError(
                f"{path} is not the vocabulary that the data in {data_dir} was made with; "
                f"put that one back, or remove the data and run again: {command}"
            )
    return manifest


def _flags_of(manifest: Manifest, problem: Problem) -> str:
    """Returns the flags that the data was made with, as they stand on a command line: as far as they are not usual."""
    # Of the class: what a command has changed is no default.
    usual = {name: getattr(type(problem), name) for name in ("vocab_kind", "vocab_size", "vocab_file", "num_shards")}
    flags = {name: value for name, value in manifest.settings.items() if name in problem.flags}
    flags |= {name: manifest.settings.get(name, value) for name, value in (usual | {"max_cases": 0}).items()}
    return "".join(
        f" {shlex.quote(f'--{name}={value}')}" for name, value in flags.items() if value and value != usual.get(name)
    )
