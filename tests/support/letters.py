"""A small problem whose data can be looked through, and what lies in a data directory."""

from pathlib import Path

import tensorflow as tf

from t2t_lite.data.problem import Example, Problem
from t2t_lite.data.vocab import open_vocabulary

COUNTS = {"train": 300, "dev": 7, "test": 5}


class Letters(Problem):
    """Made-up pairs; `visit` is called with the split and the index of each pair that is handed out."""

    vocab_size = 60
    byte_fallback = False
    num_shards = 3

    def visit(self, split, index):
        pass

    def examples(self, split, files):
        for index in range(COUNTS[split]):
            self.visit(split, index)
            word = "".join(chr(97 + (index * 31 + i * i) % 26) for i in range(1 + index % 9))
            yield Example(f"{word} {split} {index}", f"{index} {word[::-1]} {word}")


def silent(line):
    pass


def names_in(directory):
    return sorted(path.name for path in Path(directory).iterdir())


def contents_of(directory):
    return {path.name: path.read_bytes() for path in Path(directory).iterdir()}


def records_of(problem, data_dir, split):
    """The features of every record of a split, in the order of the files, each a dict of lists."""
    paths = [str(data_dir / problem.shard_filename(split, i)) for i in range(problem.shards_of(split))]
    examples = [tf.train.Example.FromString(record.numpy()) for record in tf.data.TFRecordDataset(paths)]
    features = [example.features.feature.items() for example in examples]
    return [{name: list(feature.int64_list.value) for name, feature in each} for each in features]


def texts_of(problem, data_dir, split):
    """The pairs of a split in the order of the files."""
    records, texts = records_of(problem, data_dir, split), []
    for side, name in zip(("inputs", "targets"), problem.vocab_filenames):
        ids = tf.ragged.constant([record[side] for record in records], tf.int32).to_tensor()
        texts.append(open_vocabulary(data_dir / name).decode(ids))
    return list(zip(*texts))
