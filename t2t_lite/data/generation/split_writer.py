"""Makes the shards of one split on this machine: chunks are encoded side by side, then shards are written."""

import concurrent.futures
import dataclasses
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from t2t_lite.data.generation import shuffle
from t2t_lite.data.generation.corpus_statistics import no_examples
from t2t_lite.data.generation.plan import Plan
from t2t_lite.data.generation.progress import PairProgress
from t2t_lite.data.generation.records import encode_pairs
from t2t_lite.data.generation.statistics import Statistics
from t2t_lite.data.manifest import Manifest
from t2t_lite.data.problem import Example, Problem
from t2t_lite.data.vocab import Vocabulary
from t2t_lite.errors import UserError

WORK = ".work"  # ends the names of folders that are needed until a split is done


def pairs_of(problem: Problem, split: str, files: dict[str, Path], max_cases: int) -> Iterator[Example]:
    """Yields the pairs of a split that data is made of: of train the first `max_cases`, unless that is 0."""
    limit = max_cases if split == "train" and max_cases else None
    return itertools.islice(problem.examples(split, files), limit)


@dataclasses.dataclass(frozen=True)
class SplitJob:
    """What the making of a split needs to know.

    Args:
      problem: whose split it is.
      plan: how its records are spread.
      files: what its pairs are read from, by name.
      max_cases: so many pairs of the train split at most; 0: all.
      vocabularies: of the inputs and of the targets.
      data_dir: where the shards go.
      manifest: is told of each shard, and of the split when it is done.
      say: takes lines about progress.
      total: how many pairs there are, if that is known.
    """

    problem: Problem
    plan: Plan
    files: dict[str, Path]
    max_cases: int
    vocabularies: tuple[Vocabulary, Vocabulary]
    data_dir: Path
    manifest: Manifest
    say: Callable[[str], None]
    total: int | None = None

    @property
    def name(self) -> str:
        """The split's name."""
        return self.plan.split

    def pairs(self) -> Iterator[Example]:
        """Begins to yield all its pairs."""
        return pairs_of(self.problem, self.name, self.files, self.max_cases)

    @property
    def work(self) -> Path:
        """The folder for what is needed until the split is done."""
        return self.data_dir / f"{self.problem.data_name}-{self.name}.{self.plan.digest}{WORK}"

    def shard_path(self, shard: int) -> Path:
        """Returns where a shard goes."""
        return self.data_dir / self.problem.shard_filename(self.name, shard)

    def missing_shards(self) -> list[int]:
        """Returns the numbers of the shards that are not there as this plan has them."""
        known = self.manifest.shards_of_plan(self.name, self.plan.digest)
        return [
            shard
            for shard in range(self.plan.num_shards)
            if (path := self.shard_path(shard)).name not in known
            or not path.exists()
            or path.stat().st_size != known[path.name]
        ]

    def shard_is_done(self, shard: int) -> None:
        """Writes into the manifest that a shard is whole."""
        path = self.shard_path(shard)
        self.manifest.add_shard(self.name, self.plan.digest, path.name, path.stat().st_size)
        self.manifest.write(self.data_dir)

    def is_done(self, statistics: Statistics) -> None:
        """Writes into the manifest that the split is whole, and clears away what is needed no more."""
        self.manifest.finish_split(self.name, self.plan.digest, statistics.examples, statistics.as_json())
        self.manifest.write(self.data_dir)
        shutil.rmtree(self.work, ignore_errors=True)

    def check(self, statistics: Statistics) -> None:
        """Compares the number of pairs with what was published, and says if it differs.

        Raises:
          UserError: if nothing is left, or it is a test split that is not whole: no score on it could be compared.
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
    """Makes those shards of a split that are missing.

    Args:
      job: what to make.
      num_workers: chunks that are encoded side by side, and shards that are written; 0: as many as there are cores.
    """
    missing = job.missing_shards()
    if not missing and job.name in job.manifest.splits:
        return
    workers = num_workers or len(os.sched_getaffinity(0))
    # Threads: nearly all of the time goes into TensorFlow, which lets others run.
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        chunks = _encode_missing(job, pool, workers)
        statistics = Statistics()
        for number in range(chunks):
            statistics.add(shuffle.statistics_of_chunk(job.work, number))
        job.check(statistics)

        def write(shard):
            shuffle.write_shard(job.plan, job.work, chunks, shard, job.shard_path(shard))
            return shard

        progress = PairProgress(f"{job.problem.data_name}: {job.name}: shuffling", job.say, statistics.examples)
        per_shard = statistics.examples // job.plan.num_shards
        for done, shard in enumerate(_in_turn(pool, write, missing, workers), start=1):
            job.shard_is_done(shard)
            progress(done * per_shard)
    job.is_done(statistics)


def _encode_missing(job: SplitJob, pool, workers: int) -> int:
    """Encodes those chunks that are not kept from an earlier run, and returns how many chunks there are."""
    job.work.mkdir(parents=True, exist_ok=True)
    progress = PairProgress(f"{job.problem.data_name}: {job.name}: encoding", job.say, job.total)
    chunks = 0

    def missing():
        nonlocal chunks
        pairs = job.pairs()
        while chunk := list(itertools.islice(pairs, job.plan.chunk_pairs)):
            number, chunks = chunks, chunks + 1
            if not shuffle.chunk_path(job.work, number).exists():
                yield number, chunk

    def encode(numbered):
        number, chunk = numbered
        records, statistics = encode_pairs(job.problem, job.name, chunk, job.vocabularies)
        shuffle.write_chunk(job.plan, job.work, number, records, statistics)
        return number, len(chunk)

    for number, size in _in_turn(pool, encode, missing(), workers):
        progress(number * job.plan.chunk_pairs + size)
    return chunks


def _in_turn(pool, function, arguments, workers: int):
    """Yields the results of a function, a few calls of which are under way at a time, in the order of its arguments."""
    waiting = []
    for argument in arguments:
        waiting.append(pool.submit(function, argument))
        if len(waiting) > workers:
            yield waiting.pop(0).result()
    for future in waiting:
        yield future.result()
