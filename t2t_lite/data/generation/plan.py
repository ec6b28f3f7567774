"""The plan of a split: how many shards, buckets and chunks its records go through."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from t2t_lite.data.problem import Problem
from t2t_lite.data.vocab import Vocabulary

# The average number of records that are shuffled together in memory, and the number of pairs encoded together.
BUCKET_RECORDS = 2**16
CHUNK_PAIRS = 2**15


@dataclass(frozen=True)
class Plan:
    """How the records of a split are distributed over shards, buckets and chunks."""

    split: str  # the name of the split
    num_shards: int  # number of files
    buckets_per_shard: int  # number of buckets per shard; each bucket must fit into memory
    chunk_pairs: int  # number of pairs that are encoded together
    made_of: str = ""  # a text that identifies what the records depend on, such as checksums of vocabularies

    @property
    def digest(self) -> str:
        """A hash that identifies the plan."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]

    def buckets_of(self, shard: int) -> range:
        """Returns the indices of a shard's buckets."""
        return range(shard * self.buckets_per_shard, (shard + 1) * self.buckets_per_shard)


def plan_of(
    problem: Problem,
    split: str,
    total: int | None,
    vocabularies: Sequence[Vocabulary],
    sources: Mapping[str, str],
    max_cases: int,
) -> Plan:
    """Returns the plan of one split of a problem.

    Args:
        total: number of pairs, if known.
        vocabularies: those of the inputs and the targets.
        sources: the checksum of each source, by name.
        max_cases: maximum number of pairs of the train split; 0: all.
    """
    num_shards = problem.shards_of(split)
    return Plan(
        split,
        num_shards,
        buckets_per_shard=max(1, round((total or 0) / (num_shards * BUCKET_RECORDS))),
        chunk_pairs=CHUNK_PAIRS,
        made_of=" ".join([*(each.sha256 for each in vocabularies), *sources.values(), str(max_cases)]),
    )
