"""Counts the words of the training targets."""

import collections
from pathlib import Path

import tensorflow as tf

from t2t_lite.data.manifest import Manifest
from t2t_lite.data.pipeline import reading_shards
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.evaluation.buckets import words_of
from t2t_lite.run_dir import RunDir

MAX_PAIRS = 1_000_000


def count_words(run_dir: RunDir, data_dir: Path, manifest: Manifest) -> collections.Counter[str]:
    """Returns how often the training targets of a run have each word, see `buckets.words_of`.

    The shards have ids, which the vocabulary turns into text. At most the first MAX_PAIRS pairs are read.
    """
    problem, vocabulary = run_dir.problem, open_vocabulary(run_dir.vocabulary)
    _, side = problem.in_direction(("inputs", "targets"))
    shards = [str(data_dir / name) for name in sorted(manifest.splits["train"]["shards"])]
    counts: collections.Counter[str] = collections.Counter()
    with reading_shards(problem.data_name, data_dir):
        for records in tf.data.TFRecordDataset(shards).take(MAX_PAIRS).batch(4096):
            ids = tf.io.parse_example(records, {side: tf.io.RaggedFeature(tf.int64)})[side]
            for text in vocabulary.decode(ids.to_tensor().numpy()):
                counts.update(words_of(text))
    return counts
