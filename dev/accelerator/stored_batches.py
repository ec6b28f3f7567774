"""Stores batches of real data in one .npz file, for machines without TensorFlow."""

import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from t2t_lite.errors import UserError

if TYPE_CHECKING:  # reading needs no TensorFlow
    from t2t_lite.data.manifest import Manifest
    from t2t_lite.data.problem import Problem

# Rows and length of each batch, and the number of batches. 200 batches of Multi30k have 2,070 target tokens each.
ROWS, LENGTH, NUMBER = 128, 32, 200
# The batch size for which the shapes of an epoch are counted, and the most batches of a long epoch that are read.
_BATCH_TOKENS, _MOST_BATCHES = 25_000, 2_000


class StoredBatches(NamedTuple):
    """Batches of one shape."""

    inputs: np.ndarray  # int32 [batches, rows, length], padded with 0
    targets: np.ndarray  # like `inputs`
    vocab_size: int  # the larger of the two sides' vocabulary sizes
    shapes: dict[str, int | str]  # the problem, and the numbers of batches, target tokens in each, and their shapes


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
                f"no training pair of '{problem_name}' has at most {LENGTH} tokens on both sides; "
                f"pass another --problem"
            )
        shapes = _shapes(problem, data_dir, manifest)
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
        np.savez_compressed(opened, inputs=inputs, targets=targets, vocab_size=size, shapes=json.dumps(shapes))


def _shapes(problem: "Problem", data_dir: Path, manifest: "Manifest") -> dict[str, int | str]:
    """Returns the number of shapes in an epoch, or at the beginning of a long one."""
    from t2t_lite.data.pipeline import epochs

    tokens = manifest.splits["train"]["examples"] * manifest.mean_length("train", "targets")
    number = min(max(round(tokens / _BATCH_TOKENS), 1), _MOST_BATCHES)
    batches = epochs(problem, data_dir, batch_tokens=_BATCH_TOKENS, batch_by="shapes", max_length=256, seed=1)
    shapes = {(*batch["inputs"].shape, batch["targets"].shape[1]) for batch in batches.take(number)}
    return {"problem": problem.name, "batches": number, "batch_tokens": _BATCH_TOKENS, "shapes": len(shapes)}


def read_batches(file: Path) -> StoredBatches:
    """Returns the batches in a file from `write_batches`.

    Raises:
      UserError: if the file does not exist or has another format.
    """
    try:
        with np.load(file) as arrays:
            shapes = json.loads(str(arrays["shapes"]))
            return StoredBatches(arrays["inputs"], arrays["targets"], int(arrays["vocab_size"]), shapes)
    except FileNotFoundError as error:
        raise UserError(
            f"--batches_file={file}: there is no such file; pass --problem and --data_dir to write it with TensorFlow"
        ) from error
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(
            f"--batches_file={file}: this is not a file of batches; pass --problem and --data_dir to write it again"
        ) from error
