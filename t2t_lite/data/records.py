"""Pairs of texts as records: a serialised tf.train.Example with int64 lists `inputs` and `targets` for each."""

import collections
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import tensorflow as tf

from t2t_lite.data.problem import Example, Problem
from t2t_lite.data.vocab import Vocabulary

ENCODE_BATCH = 1000
SIDES = Example._fields


@dataclass
class Account:
    """What became of some pairs.

    Args:
      dropped: how many were left out, by the reason.
      lengths: of "inputs" and "targets", how many records have so many pieces, end symbols included.
    """

    dropped: collections.Counter = field(default_factory=collections.Counter)
    lengths: dict[str, collections.Counter] = field(
        default_factory=lambda: {side: collections.Counter() for side in SIDES}
    )

    @property
    def examples(self) -> int:
        """How many records were made."""
        return sum(self.lengths["inputs"].values())

    @property
    def pairs(self) -> int:
        """How many pairs there were."""
        return self.examples + sum(self.dropped.values())

    def add(self, other: "Account") -> "Account":
        """Takes in another account and returns itself."""
        self.dropped.update(other.dropped)
        for side in SIDES:
            self.lengths[side].update(other.lengths[side])
        return self

    def as_json(self) -> dict:
        """Returns what `from_json` takes."""
        return {
            "dropped": dict(sorted(self.dropped.items())),
            "lengths": {side: {str(n): count for n, count in sorted(self.lengths[side].items())} for side in SIDES},
        }

    @classmethod
    def from_json(cls, stored: dict) -> "Account":
        """Returns the account that `as_json` was made of."""
        lengths = stored["lengths"]
        return cls(
            collections.Counter(stored["dropped"]),
            {side: collections.Counter({int(n): count for n, count in lengths[side].items()}) for side in SIDES},
        )


def encode_pairs(
    problem: Problem, split: str, pairs: Iterable[Example], vocabularies: Sequence[Vocabulary]
) -> tuple[list[bytes], Account]:
    """Returns the records of those pairs that the problem keeps, in order, and an account of all of them.

    Args:
      problem: whose pairs they are.
      split: which split they belong to.
      pairs: the pairs.
      vocabularies: that of the inputs and that of the targets.
    """
    account, records = Account(), []

    def kept():
        for pair in pairs:
            if flaw := problem.flaw(split, pair):
                account.dropped[flaw] += 1
            else:
                yield pair

    remaining = kept()
    while batch := list(itertools.islice(remaining, ENCODE_BATCH)):
        encoded = [vocabulary.encode(tf.constant(texts)) for vocabulary, texts in zip(vocabularies, zip(*batch))]
        for side, ids in zip(SIDES, encoded):
            account.lengths[side].update(ids.row_lengths().numpy().tolist())
        records += map(_record, *(ids.to_list() for ids in encoded))
    return records, account


def _record(inputs: list[int], targets: list[int]) -> bytes:
    feature = {
        "inputs": tf.train.Feature(int64_list=tf.train.Int64List(value=inputs)),
        "targets": tf.train.Feature(int64_list=tf.train.Int64List(value=targets)),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString(deterministic=True)
