"""External shuffle: distributes any number of records over random shards in random order, and can be resumed.

The pairs of a split are encoded in chunks. The records of a chunk are assigned to random buckets and stored in a
chunk file until the split is done. A shard consists of several buckets and is written bucket by bucket, each in
random order, so that only one bucket at a time is in memory. All random numbers are seeded with the number of the
chunk or bucket, so the output does not depend on the number of workers or on interruptions.
"""

import contextlib
import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow
import tensorflow as tf

from t2t_lite.data.generation.records import Statistics
from t2t_lite.data.problem import Problem
from t2t_lite.data.vocab import Vocabulary
from t2t_lite.files import written_whole

# The order of records depends only on this seed, the plan and the sources.
SEED = 1706_03762
_COLUMN = "record"
_STATISTICS = "account"  # the metadata key of the statistics in a chunk file
# The average number of records shuffled together in memory, and the number of pairs encoded together.
BUCKET_RECORDS = 2**16
CHUNK_PAIRS = 2**15


@dataclass(frozen=True)
class Plan:
    """How the records of a split are distributed over shards, buckets and chunks."""

    split: str  # the name of the split
    num_shards: int  # number of files
    buckets_per_shard: int  # each bucket must fit into memory
    chunk_pairs: int  # number of pairs encoded together
    made_of: str = ""  # identifies everything that the records depend on, such as checksums of vocabularies

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]

    def buckets_of(self, shard: int) -> range:
        return range(shard * self.buckets_per_shard, (shard + 1) * self.buckets_per_shard)


def make_plan(
    problem: Problem,
    split: str,
    total: int | None,
    vocabularies: Sequence[Vocabulary],
    sources: Mapping[str, str],
    max_cases: int,
) -> Plan:
    num_shards = problem.shards_of(split)
    return Plan(
        split,
        num_shards,
        buckets_per_shard=max(1, round((total or 0) / (num_shards * BUCKET_RECORDS))),
        chunk_pairs=CHUNK_PAIRS,
        made_of=" ".join([*(each.sha256 for each in vocabularies), *sources.values(), str(max_cases)]),
    )


def buckets_of_chunk(plan: Plan, number: int, records: Sequence[bytes]) -> list[list[bytes]]:
    """Assigns the records of a chunk to random buckets; returns each bucket's records in their original order."""
    buckets = [[] for _ in range(plan.num_shards * plan.buckets_per_shard)]
    draws = random.Random(f"{SEED} {plan.split} chunk {number}").choices(range(len(buckets)), k=len(records))
    for bucket, record in zip(draws, records):
        buckets[bucket].append(record)
    return buckets


def in_random_order(plan: Plan, bucket: int, records: list[bytes]) -> list[bytes]:
    random.Random(f"{SEED} {plan.split} bucket {bucket}").shuffle(records)
    return records


def chunk_path(folder: Path, number: int) -> Path:
    return folder / f"chunk-{number:06d}.arrow"


def write_chunk(plan: Plan, folder: Path, number: int, records: Sequence[bytes], statistics: Statistics) -> None:
    """Writes a chunk file: an Arrow file with a batch of records for each bucket, and the statistics as metadata."""
    about = {_STATISTICS: json.dumps(statistics.as_json())}
    schema = pyarrow.schema([(_COLUMN, pyarrow.binary())], metadata=about)
    with (
        written_whole(chunk_path(folder, number)) as partial,
        pyarrow.OSFile(str(partial), "wb") as file,
        pyarrow.ipc.new_file(file, schema) as writer,
    ):
        for bucket in buckets_of_chunk(plan, number, records):
            writer.write_batch(pyarrow.record_batch([pyarrow.array(bucket, pyarrow.binary())], schema=schema))


def statistics_of_chunk(folder: Path, number: int) -> Statistics:
    with _opened(folder, number) as reader:
        return Statistics.from_json(json.loads(reader.schema.metadata[_STATISTICS.encode()]))


def write_shard(plan: Plan, folder: Path, chunks: int, shard: int, path: Path) -> None:
    """Writes one shard from the chunk files; `path` appears when the shard is complete."""
    with written_whole(path) as partial, tf.io.TFRecordWriter(str(partial)) as writer:
        for bucket in plan.buckets_of(shard):
            records = []
            for number in range(chunks):
                with _opened(folder, number) as reader:
                    records += reader.get_batch(bucket).column(0).to_pylist()
            for record in in_random_order(plan, bucket, records):
                writer.write(record)


@contextlib.contextmanager
def _opened(folder: Path, number: int) -> Iterator[pyarrow.ipc.RecordBatchFileReader]:
    # Not memory-mapped, because the pages of the whole file would stay in memory.
    with pyarrow.OSFile(str(chunk_path(folder, number)), "rb") as file, pyarrow.ipc.open_file(file) as reader:
        yield reader
