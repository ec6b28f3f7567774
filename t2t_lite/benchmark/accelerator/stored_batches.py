"""Stores batches of real data in one .npz file, for machines without TensorFlow."""

import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from t2t_lite.errors import UserError

# Rows and length of each batch, and the number of batches. 200 batches of Multi30k have 2,070 target tokens each.
ROWS, LENGTH, NUMBER = 128, 32, 200


class StoredBatches(NamedTuple):
    """Batches of one shape."""

    inputs: np.ndarray  # int32 [batches, rows, length], padded with 0
    targets: np.ndarray  # like `inputs`
    vocab_size: int  # the larger of the two sides' vocabulary sizes


def write_batches(problem_name: str, data_dir: Path, file: Path, number: int = NUMBER, rows: int = ROWS) -> None:
    """Writes batches of random training pairs that have at most 32 tokens on each side.

    Raises:
      UserError: if the data is missing or has no such pairs.
    """
    from t2t_lite.data.manifest import check_data
    from t2t_lite.data.pipeline import epochs, has_pair, reading_shards
    from t2t_lite.data.problem import get_problem
    from t2t_lite.files import written_whole

    problem = get_problem(problem_name)
    manifest = check_data(data_dir, problem)
    pairs: list[list[np.ndarray]] = []
    with reading_shards(problem.data_name, data_dir):
        if not has_pair(problem, data_dir, LENGTH):
            raise UserError(
                f"no training pair of '{problem_name}' has at most {LENGTH} tokens on both sides, which --accelerator "
                f"requires; pass another --problem"
            )
        batches = epochs(problem, data_dir, batch_tokens=4096, batch_by="targets", max_length=LENGTH, seed=1)
        for batch in batches.as_numpy_iterator():
            pairs += [list(pair) for pair in zip(batch["inputs"], batch["targets"])]
            if len(pairs) >= number * rows:
                break
    order = np.random.default_rng(1).permutation(number * rows)  # mixes lengths, which are similar in each batch
    sides = np.zeros((2, number * rows, LENGTH), np.int32)
    for place, pair in zip(order, pairs):
        for side, ids in enumerate(pair):
            sides[side, place, : len(ids)] = ids
    inputs, targets = sides.reshape(2, number, rows, LENGTH)
    size = max(entry["size"] for entry in manifest.vocabularies)

    with written_whole(file) as path, open(path, "wb") as opened:
        np.savez_compressed(opened, inputs=inputs, targets=targets, vocab_size=size)


def read_batches(file: Path) -> StoredBatches:
    """Returns the batches in a file from `write_batches`.

    Raises:
      UserError: if the file does not exist or has another format.
    """
    try:
        with np.load(file) as arrays:
            return StoredBatches(arrays["inputs"], arrays["targets"], int(arrays["vocab_size"]))
    except FileNotFoundError as error:
        raise UserError(
            f"--batches_file={file}: there is no such file; pass --problem and --data_dir to write it with TensorFlow"
        ) from error
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(
            f"--batches_file={file}: this is not a file of batches; pass --problem and --data_dir to write it again"
        ) from error
