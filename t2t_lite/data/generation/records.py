"""Pairs of texts as records: a serialised tf.train.Example with int64 lists `inputs` and `targets` for each."""

import collections
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf

from t2t_lite.data.problem import Example, Problem
from t2t_lite.data.vocab import Vocabulary

ENCODE_BATCH = 8192
SIDES = Example._fields
LONGER = "longer"  # of a pair's sides: what training compares with max_length


@dataclass
class Account:
    """What became of some pairs.

    Args:
      dropped: how many were left out, by the reason.
      lengths: of "inputs", "targets" and the "longer" of both, how many records have so many pieces, end symbols
        included.
    """

    dropped: collections.Counter = field(default_factory=collections.Counter)
    lengths: dict[str, collections.Counter] = field(
        default_factory=lambda: {side: collections.Counter() for side in (*SIDES, LONGER)}
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
        for side, lengths in other.lengths.items():
            self.lengths[side].update(lengths)
        return self

    def as_json(self) -> dict:
        """Returns what `from_json` takes."""
        return {
            "dropped": dict(sorted(self.dropped.items())),
            "lengths": {
                side: {str(n): count for n, count in sorted(lengths.items())} for side, lengths in self.lengths.items()
            },
        }

    @classmethod
    def from_json(cls, stored: dict) -> "Account":
        """Returns the account that `as_json` was made of."""
        lengths = stored["lengths"]
        return cls(
            collections.Counter(stored["dropped"]),
            {side: collections.Counter({int(n): count for n, count in of.items()}) for side, of in lengths.items()},
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
    account, kept = Account(), []
    for pair in pairs:
        if flaw := problem.flaw(split, pair):
            account.dropped[flaw] += 1
        else:
            kept.append(problem.for_model(pair))
    records = []
    for first in range(0, len(kept), ENCODE_BATCH):
        texts = zip(*kept[first : first + ENCODE_BATCH])
        encoded = [vocabulary.encode_all(side) for vocabulary, side in zip(vocabularies, texts)]
        of_sides = [ids.row_lengths().numpy() for ids in encoded]
        for side, lengths in zip((*SIDES, LONGER), (*of_sides, np.maximum(*of_sides))):
            values, counts = np.unique(lengths, return_counts=True)
            account.lengths[side].update(dict(zip(values.tolist(), counts.tolist())))
        records += _records(*encoded).numpy().tolist()
    return records, account


# In a graph, and so without Python's lock: with Python's protocol buffers, two workers were hardly faster than one.
@tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32, 1)] * 2, autograph=False)
def _records(inputs, targets):
    """Returns what tf.train.Example.SerializeToString(deterministic=True) would, for each row of ids."""
    one = tf.ones([inputs.nrows(), 1], tf.int32)

    def message(kind, sizes, **fields):
        return tf.io.encode_proto(sizes, list(fields.values()), list(fields), f"tensorflow.{kind}")[:, tf.newaxis]

    entries = []
    for name, ids in zip(SIDES, (inputs, targets)):
        lengths = tf.cast(ids.row_lengths(), tf.int32)[:, tf.newaxis]
        int64_list = message("Int64List", lengths, value=tf.cast(ids.to_tensor(), tf.int64))
        feature = message("Feature", one, int64_list=int64_list)
        key = tf.fill(tf.shape(one), name)
        entries.append(message("Features.FeatureEntry", tf.tile(one, [1, 2]), key=key, value=feature))
    features = message("Features", 2 * one, feature=tf.concat(entries, axis=1))
    return message("Example", one, features=features)[:, 0]
