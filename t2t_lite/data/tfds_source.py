"""Downloads, prepares and reads data sets from tensorflow-datasets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_datasets

from t2t_lite.data.problem import Example, TfdsSource
from t2t_lite.errors import UserError

_SPLITS = {"train": "train", "dev": "validation", "test": "test"}
_READ_BATCH = 1000
_BUFFER_BYTES = 2**20


def prepare(source: TfdsSource, tmp_dir: Path) -> Path:
    """Downloads a data set, prepares it in `tmp_dir` and returns its folder. Does not catch the library's errors."""
    builder = tensorflow_datasets.builder(source.name, data_dir=tmp_dir)
    builder.download_and_prepare()
    return Path(builder.data_dir)


def read_pairs(folder: Path, split: str, inputs: str, targets: str) -> Iterator[Example]:
    """Yields the pairs in a prepared data set, in file order. `folder` contains one version of it.

    `inputs` and `targets` are the feature names of the two sides: "en", "de".
    """
    builder: Any = tensorflow_datasets.builder_from_directory(folder)
    if _SPLITS[split] not in builder.info.splits:
        raise UserError(f"the data set in {folder} has no {_SPLITS[split]} split")
    if missing := {inputs, targets} - set(builder.info.features):
        raise UserError(f"the data set in {folder} has no feature '{sorted(missing)[0]}'")
    stored = builder.info.features.get_serialized_info()
    are_texts = all(stored[name].tf_dtype == tf.string and stored[name].shape == () for name in (inputs, targets))
    if are_texts and builder.info.file_format.value == "tfrecord":
        # The library parses each pair by itself, which takes 30 times as long.
        features = {name: tf.io.FixedLenFeature([], tf.string) for name in (inputs, targets)}
        files = [str(path) for path in builder.info.splits[_SPLITS[split]].filepaths]
        records = tf.data.TFRecordDataset(files, buffer_size=_BUFFER_BYTES).batch(_READ_BATCH)
        pairs = records.map(lambda batch: tf.io.parse_example(batch, features)).prefetch(2)
    else:
        in_order = tensorflow_datasets.ReadConfig(interleave_cycle_length=1)
        pairs = builder.as_dataset(split=_SPLITS[split], shuffle_files=False, read_config=in_order).batch(_READ_BATCH)
    try:
        for batch in pairs.as_numpy_iterator():
            for left, right in zip(batch[inputs].tolist(), batch[targets].tolist()):
                yield Example(left.decode("utf-8", errors="replace"), right.decode("utf-8", errors="replace"))
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError, tf.errors.NotFoundError) as error:
        raise UserError(
            f"the data set in {folder} is damaged ({error.message.splitlines()[0]}); prepare it again"
        ) from error
