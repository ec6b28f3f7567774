"""Writes the shards of one split on this machine: encodes chunks in parallel, then writes shards."""

import concurrent.futures
import dataclasses
import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from t2t_lite.data.generation import shuffle
from t2t_lite.data.generation.corpus_statistics import no_examples
from t2t_lite.data.generation.progress import PairProgress
from t2t_lite.data.generation.records import Statistics, encode_pairs
from t2t_lite.data.generation.shuffle import Plan
from t2t_lite.data.manifest import Manifest
from t2t_lite.data.problem import Example, Problem
from t2t_lite.data.vocab import Vocabulary
from t2t_lite.errors import UserError
from t2t_lite.system.machine import num_cores

WORK = ".work"  # suffix of folders with a split's intermediate files
_T = TypeVar("_T")
_R = TypeVar("_R")


def split_pairs(problem: Problem, split: str, files: dict[str, Path], max_cases: int) -> Iterator[Example]:
    """Yields the pairs to use from a split: for train, the first `max_cases`, or all if that is 0."""
    limit = max_cases if split == "train" and max_cases else None
    return itertools.islice(problem.examples(split, files), limit)


@dataclasses.dataclass(frozen=True)
class SplitJob:
    problem: Problem
    plan: Plan  # how the records are distributed
    files: dict[str, Path]  # the sources by name
    max_cases: int  # maximum number of pairs in the train split; 0: all
    vocabularies: tuple[Vocabulary, Vocabulary]  # the vocabularies of inputs and targets
    data_dir: Path  # the folder for the shards
    manifest: Manifest  # records each shard and, when it is done, the split
    say: Callable[[str], None]  # receives lines about progress
    total: int | None = None  # number of pairs, if known
    held_out: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)  # see `encode_pairs`

    @property
    def name(self) -> str:
        return self.plan.split

    def pairs(self) -> Iterator[Example]:
        return split_pairs(self.problem, self.name, self.files, self.max_cases)

    @property
    def work(self) -> Path:
        return self.data_dir / f"{self.problem.data_name}-{self.name}.{self.plan.digest}{WORK}"

    def shard_path(self, shard: int) -> Path:
        return self.data_dir / self.problem.shard_filename(self.name, shard)

    def missing_shards(self) -> list[int]:
        known = self.manifest.shards_of_plan(self.name, self.plan.digest)
        return [
            shard
            for shard in range(self.plan.num_shards)
            if (path := self.shard_path(shard)).name not in known
            or not path.exists()
            or path.stat().st_size != known[path.name]
        ]

    def shard_is_done(self, shard: int) -> None:
        path = self.shard_path(shard)
        self.manifest.add_shard(self.name, self.plan.digest, path.name, path.stat().st_size)
        self.manifest.write(self.data_dir)

    def is_done(self, statistics: Statistics) -> None:
        """Records in the manifest that the split is complete, and removes intermediate files."""
        self.manifest.finish_split(self.name, self.plan.digest, statistics.examples, statistics.as_json())
        self.manifest.write(self.data_dir)
        shutil.rmtree(self.work, ignore_errors=True)

    def check(self, statistics: Statistics) -> None:
        """Compares the number of pairs with the published number and reports a difference.

        A difference in a test split is an error, because its scores would not be comparable.
        """
        name = self.problem.data_name
        if not statistics.examples:
            raise no_examples(self.problem, self.name)
        published = self.problem.published_counts.get(self.name, statistics.pairs)
        if statistics.pairs == published:
            return
        difference = statistics.pairs - published
        comparison = "more" if difference > 0 else "fewer"
        message = f"has {statistics.pairs:,} pairs, {abs(difference):,} {comparison} than published"
        if self.name == "test":
            raise UserError(
                f"the test split of '{name}' {message}: it is not the published test set; check its sources"
            )
        self.say(f"{name}: {self.name}: {message}")


def write_split(job: SplitJob, num_workers: int) -> None:
    """Writes the missing shards of a split, `num_workers` chunks or shards in parallel; 0: one per core."""
    missing = job.missing_shards()
    if not missing and job.name in job.manifest.splits:
        return
    workers = num_workers or num_cores()
    # Threads are enough, because TensorFlow takes nearly all of the time and releases Python's global lock.
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        chunks = _encode_missing(job, pool, workers)
        statistics = Statistics()
        for number in range(chunks):
            statistics.add(shuffle.statistics_of_chunk(job.work, number))
        job.check(statistics)

        def write(shard: int) -> int:
            shuffle.write_shard(job.plan, job.work, chunks, shard, job.shard_path(shard))
            return shard

        progress = PairProgress(f"{job.problem.data_name}: {job.name}: shuffling", job.say, statistics.examples)
        per_shard = statistics.examples // job.plan.num_shards
        for done, shard in enumerate(_in_turn(pool, write, missing, workers), start=1):
            job.shard_is_done(shard)
            progress(done * per_shard)
    job.is_done(statistics)


def _encode_missing(job: SplitJob, pool: concurrent.futures.Executor, workers: int) -> int:
    job.work.mkdir(parents=True, exist_ok=True)
    progress = PairProgress(f"{job.problem.data_name}: {job.name}: encoding", job.say, job.total)
    chunks = 0

    def missing() -> Iterator[tuple[int, list[Example]]]:
        nonlocal chunks
        pairs = job.pairs()
        while chunk := list(itertools.islice(pairs, job.plan.chunk_pairs)):
            number, chunks = chunks, chunks + 1
            if not shuffle.chunk_path(job.work, number).exists():
                yield number, chunk

    def encode(numbered: tuple[int, list[Example]]) -> tuple[int, int]:
        number, chunk = numbered
        records, statistics = encode_pairs(job.problem, job.name, chunk, job.vocabularies, job.held_out)
        shuffle.write_chunk(job.plan, job.work, number, records, statistics)
        return number, len(chunk)

    for number, size in _in_turn(pool, encode, missing(), workers):
        progress(number * job.plan.chunk_pairs + size)
    return chunks


def _in_turn(
    pool: concurrent.futures.Executor, function: Callable[[_T], _R], arguments: Iterable[_T], workers: int
) -> Iterator[_R]:
    waiting: list[concurrent.futures.Future[_R]] = []
    for argument in arguments:
        waiting.append(pool.submit(function, argument))
        if len(waiting) > workers:
            yield waiting.pop(0).result()
    for future in waiting:
        yield future.result()
