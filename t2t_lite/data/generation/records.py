"""Encodes pairs of texts as records, and counts them.

A record is a serialised tf.train.Example, one for each pair, with the int64 lists `inputs` and `targets`.
"""

import collections
import types
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf

from t2t_lite.data.generation.text_checks import without_tags
from t2t_lite.data.manifest import StatisticsEntry
from t2t_lite.data.problem import SIDES, Example, Problem
from t2t_lite.data.vocab import Vocabulary

ENCODE_BATCH = 8192
LONGER = "longer"  # the longer side of a pair, which training compares with max_length


@dataclass
class Statistics:
    # number of dropped pairs by drop reason
    dropped: collections.Counter[str] = field(default_factory=collections.Counter)
    # number of kept pairs whose source is also in another split, by split
    overlap: collections.Counter[str] = field(default_factory=collections.Counter)
    # for "inputs", "targets" and the "longer" of both, a histogram of lengths in tokens, including the end symbol
    lengths: dict[str, collections.Counter[int]] = field(
        default_factory=lambda: {side: collections.Counter() for side in (*SIDES, LONGER)}
    )

    @property
    def examples(self) -> int:
        return sum(self.lengths["inputs"].values())

    @property
    def pairs(self) -> int:
        return self.examples + sum(self.dropped.values())

    def add(self, other: "Statistics") -> "Statistics":
        self.dropped.update(other.dropped)
        self.overlap.update(other.overlap)
        for side, lengths in other.lengths.items():
            self.lengths[side].update(lengths)
        return self

    def as_json(self) -> StatisticsEntry:
        return {
            "dropped": dict(sorted(self.dropped.items())),
            "overlap": dict(sorted(self.overlap.items())),
            "lengths": {
                side: {str(n): count for n, count in sorted(lengths.items())} for side, lengths in self.lengths.items()
            },
        }

    @classmethod
    def from_json(cls, stored: StatisticsEntry) -> "Statistics":
        lengths = stored["lengths"]
        return cls(
            collections.Counter(stored["dropped"]),
            collections.Counter(stored.get("overlap", {})),  # version 0.8 did not count it
            {side: collections.Counter({int(n): count for n, count in of.items()}) for side, of in lengths.items()},
        )


def encode_pairs(
    problem: Problem,
    split: str,
    pairs: Iterable[Example],
    vocabularies: Sequence[Vocabulary],
    held_out: Mapping[str, Collection[str]] = types.MappingProxyType({}),
) -> tuple[list[bytes], Statistics]:
    """Returns (the records of the pairs that the problem keeps, in order; the statistics of all pairs).

    `held_out` has the sources of other splits, as `comparison_texts` returns them; pairs with such a source are
    counted.
    """
    statistics, kept, compared = Statistics(), [], []
    for pair in pairs:
        if drop_reason := problem.drop_reason(split, pair):
            statistics.dropped[drop_reason] += 1
        else:
            kept.append(problem.for_model(pair))
            compared.append(getattr(pair, comparison_side(problem)))
    for source in comparison_texts(problem, compared) if held_out else ():
        statistics.overlap.update(name for name, sources in held_out.items() if source in sources)
    records = []
    for first in range(0, len(kept), ENCODE_BATCH):
        texts = zip(*kept[first : first + ENCODE_BATCH])
        encoded = [vocabulary.encode_all(side) for vocabulary, side in zip(vocabularies, texts)]
        of_sides = [ids.row_lengths().numpy() for ids in encoded]
        for side, lengths in zip((*SIDES, LONGER), (*of_sides, np.maximum(*of_sides))):
            values, counts = np.unique(lengths, return_counts=True)
            statistics.lengths[side].update(dict(zip(values.tolist(), counts.tolist())))
        records += _records(*encoded).numpy().tolist()
    return records, statistics


def comparison_side(problem: Problem) -> str:
    """Returns the side by which pairs in different splits are compared: "inputs", if there are any, else "targets"."""
    return SIDES[0] if problem.has_inputs else SIDES[1]


def comparison_texts(problem: Problem, texts: Iterable[str]) -> Iterator[str]:
    """Yields the texts of the `comparison_side` as they are compared: without tags."""
    symbols = problem.symbols_of(comparison_side(problem))
    return (without_tags(text, symbols) for text in texts)


# A graph runs without Python's global lock. With Python's protocol buffers, two workers were barely faster than one.
@tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32, 1)] * 2, autograph=False)
def _records(inputs: tf.RaggedTensor, targets: tf.RaggedTensor) -> tf.Tensor:
    """Returns the bytes of tf.train.Example.SerializeToString(deterministic=True) for each row of ids."""
    one = tf.ones([inputs.nrows(), 1], tf.int32)

    def message(kind: str, sizes: tf.Tensor, **fields: tf.Tensor) -> tf.Tensor:
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
