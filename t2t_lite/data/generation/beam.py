"""Data generation on Apache Beam, for clusters. Writes the same shards as `shards`, byte for byte.

Workers read the sources and write the shards themselves, so --tmp_dir and --data_dir must be on a shared file system.
Each worker encodes its own range of the text, after skipping the text before it, which costs little compared to
encoding. Records go through Beam's shuffle. Each shard is sorted in memory, so use enough shards (--num_shards).
"""

import functools
import itertools
import json
import math
import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from t2t_lite.data.generation.options import GenerateOptions
from t2t_lite.data.generation.shards import (
    Plan,
    SplitJob,
    Statistics,
    buckets_of_chunk,
    encode_pairs,
    in_random_order,
    split_pairs,
)
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.files import write_text, written_whole
from t2t_lite.plugins import load_all
from t2t_lite.registry import PROBLEMS
from t2t_lite.system.beam import new_pipeline

RANGES = 16  # default number of ranges into which the text is divided
_STATISTICS = -1  # the key of statistics; records use their shard number as key
_open_vocabulary = functools.cache(open_vocabulary)


@dataclass(frozen=True)
class _Task:
    problem: bytes
    usr_dir: str | None
    plan: Plan
    files: dict[str, Path]
    max_cases: int
    vocabularies: tuple[Path, Path]
    shards: dict[int, Path]
    held_out: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, job: SplitJob) -> "_Task":
        of_inputs, of_targets = job.vocabularies
        origin = PROBLEMS.origin(job.problem.data_name)
        return cls(
            pickle.dumps(job.problem),
            origin.where if origin and origin.kind == "t2t_usr_dir" else None,
            job.plan,
            {name: path.absolute() for name, path in job.files.items()},
            job.max_cases,
            (of_inputs.path.absolute(), of_targets.path.absolute()),
            {shard: job.shard_path(shard).absolute() for shard in job.missing_shards()},
            job.held_out,
        )


def write_split_with_beam(job: SplitJob, options: GenerateOptions) -> None:
    """Writes the missing shards of a split with Beam.

    The text is divided into `num_workers` ranges, or RANGES if that is 0.
    """
    if not job.missing_shards() and job.name in job.manifest.splits:
        return
    beam, pipeline = new_pipeline(options.runner, options.beam_options)
    chunks = max(1, math.ceil((job.total or sum(1 for _ in job.pairs())) / job.plan.chunk_pairs))
    each = math.ceil(chunks / min(chunks, options.num_workers or RANGES))
    # The last range is open, because the number of pairs may be an estimate.
    ranges = [(first, first + each if first + each < chunks else None) for first in range(0, chunks, each)]
    statistics_path = job.work.absolute() / "statistics.json"
    task = _Task.of(job)
    encode, write = functools.partial(_encode, task), functools.partial(_write, task, statistics_path)
    encoded = pipeline | beam.Create(ranges) | beam.Reshuffle() | beam.FlatMapTuple(encode)
    _ = encoded | beam.GroupByKey() | beam.MapTuple(write)
    pipeline.run().wait_until_finish()
    statistics = Statistics.from_json(json.loads(statistics_path.read_text(encoding="utf-8")))
    job.check(statistics)
    for shard, path in task.shards.items():
        if not path.exists():  # no record was assigned to this shard
            _write_shard(task, shard, [])
        job.shard_is_done(shard)
    job.is_done(statistics)


def _encode(task: _Task, first: int, end: int | None) -> Iterator[tuple[int, Any]]:
    """Yields (shard, (chunk, bucket, records)) and (_STATISTICS, statistics as JSON) for each chunk of a range."""
    load_all(task.usr_dir)
    problem, plan = pickle.loads(task.problem), task.plan
    vocabularies = [_open_vocabulary(path) for path in task.vocabularies]
    size = plan.chunk_pairs
    pairs = split_pairs(problem, plan.split, task.files, task.max_cases)
    mine = itertools.islice(pairs, first * size, end and end * size)
    for number in itertools.count(first):
        if not (chunk := list(itertools.islice(mine, size))):
            break
        records, statistics = encode_pairs(problem, plan.split, chunk, vocabularies, task.held_out)
        for bucket, content in enumerate(buckets_of_chunk(plan, number, records)):
            shard = bucket // plan.buckets_per_shard
            if content and shard in task.shards:
                yield shard, (number, bucket, content)
        yield _STATISTICS, statistics.as_json()


def _write(task: _Task, statistics_path: Path, key: int, values: Iterable[Any]) -> None:
    if key != _STATISTICS:
        _write_shard(task, key, values)
        return
    total = Statistics()
    for part in values:
        total.add(Statistics.from_json(part))
    statistics_path.parent.mkdir(parents=True, exist_ok=True)
    write_text(statistics_path, json.dumps(total.as_json()))


def _write_shard(task: _Task, shard: int, parts: Iterable[tuple[int, int, list[bytes]]]) -> None:
    buckets = defaultdict(list)
    for _, bucket, records in sorted(parts, key=lambda part: part[:2]):
        buckets[bucket] += records
    with written_whole(task.shards[shard]) as partial, tf.io.TFRecordWriter(str(partial)) as writer:
        for bucket in task.plan.buckets_of(shard):
            for record in in_random_order(task.plan, bucket, buckets[bucket]):
                writer.write(record)
