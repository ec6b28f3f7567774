"""How a global batch is split: literal rows and indices."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.training.micro_batching import MicroBatches, bucket_length, distribute_batches


def shared(rows, micro, inputs_length=2, targets_length=3):
    """The micro-batches of one batch whose row i has the id i + 1 in the inputs and i + 101 in the targets."""
    ids = np.arange(1, rows + 1, dtype="int32")[:, None]
    batch = {
        "inputs": np.repeat(ids, inputs_length, axis=1)[None],
        "targets": np.repeat(ids + 100, targets_length, axis=1)[None],
        "epoch": np.array([7]),
    }
    dataset = distribute_batches(tf.distribute.get_strategy(), tf.data.Dataset.from_tensor_slices(batch), micro)
    (only,) = list(dataset)
    return {name: np.array(value) for name, value in only.items()}


def rows_of(micro_batches):
    return [[int(row[0]) for row in rows] for rows in micro_batches]


def test_without_a_limit_there_is_one_micro_batch():
    batch = shared(5, MicroBatches())
    assert (batch["inputs"].shape, batch["targets"].shape) == ((1, 5, 2), (1, 5, 3))
    assert rows_of(batch["inputs"]) == [[1, 2, 3, 4, 5]]
    assert (batch["tokens"], batch["epoch"]) == (15.0, 7)
    parallel = MicroBatches(max_tokens=100, num_parallel=2)  # run at once, they share the limit
    assert parallel.largest_shape(9) == (5, 9)


FIVE = [[1, 2], [3, 4], [5, 0]]


@pytest.mark.parametrize(
    ("rows", "micro", "inputs_length", "expected"),
    [
        (5, MicroBatches(max_tokens=6), 2, FIVE),  # filled with empty rows
        (4, MicroBatches(max_tokens=10), 5, [[1, 2], [3, 4]]),  # the longer side decides
        (4, MicroBatches(max_tokens=9), 2, [[1, 2], [3, 4]]),  # three would fit, but rows are spread evenly
        (3, MicroBatches(max_tokens=2), 2, [[1], [2], [3]]),  # a pair longer than the limit is one by itself
        # Those that run at once share the limit, and none is empty.
        (5, MicroBatches(num_parallel=2), 2, [[1, 2, 3], [4, 5, 0]]),
        (6, MicroBatches(max_tokens=12, num_parallel=2), 2, [[1, 2], [3, 4], [5, 6]]),
        (5, MicroBatches(max_tokens=12, num_parallel=2), 2, FIVE),
        (3, MicroBatches(max_tokens=6, num_parallel=2), 2, [[1], [2], [3]]),
        (1, MicroBatches(num_parallel=2), 2, [[1]]),
    ],
)
def test_micro_batches_are_contiguous_rows_within_the_limit(rows, micro, inputs_length, expected):
    batch = shared(rows, micro, inputs_length)
    assert rows_of(batch["inputs"]) == expected
    assert rows_of(batch["targets"]) == [[row and row + 100 for row in part] for part in expected]
    assert (batch["tokens"], batch["first_row"]) == (3.0 * rows, 0)


class Hosts:
    """Imitates a strategy of several hosts with two replicas each, as far as the distribution needs it."""

    num_replicas_in_sync = 4

    def __init__(self, host):
        self._context = tf.distribute.InputContext(2, host, 4)

    def distribute_datasets_from_function(self, make):
        return make(self._context)


@pytest.mark.parametrize("bounds", [(999, 999), (6, 6), (3, 999), (3, 6)])
def test_every_host_gets_its_own_rows_for_any_limit(bounds):
    ids = np.arange(1, 12, dtype="int32")[:, None]  # 11 rows: 3 for each replica, 2 for the last
    batch = {name: np.repeat(ids, 3, axis=1)[None] for name in ("inputs", "targets")}
    found = []
    for host, bound in enumerate(bounds):
        data = tf.data.Dataset.from_tensor_slices(batch)
        for share in distribute_batches(Hosts(host), data, MicroBatches(max_tokens=bound)):
            rows = [row for row in np.array(share["inputs"])[:, :, 0].ravel().tolist() if row]
            found.append((int(share["first_row"]), rows))
    assert found == [(0, [1, 2, 3]), (3, [4, 5, 6]), (6, [7, 8, 9]), (9, [10, 11])]


def test_static_shapes_depend_only_on_the_length():
    micro = MicroBatches(max_tokens=1000, static_tokens=32)
    for rows, number in ((1, 1), (4, 1), (5, 2), (9, 3)):
        batch = shared(rows, micro)
        assert batch["inputs"].shape == batch["targets"].shape == (number, 4, 8)
        assert np.count_nonzero(batch["targets"]) == 3 * rows
    assert shared(5, micro, inputs_length=9)["targets"].shape == (3, 2, 16)
    assert shared(5, MicroBatches(max_tokens=16, static_tokens=32))["inputs"].shape == (3, 2, 8)


def test_lengths_are_padded_to_bucket_lengths():
    expected = {1: 8, 8: 8, 9: 16, 17: 24, 25: 32, 33: 48, 49: 64, 65: 96, 257: 384}
    assert {length: int(bucket_length(tf.constant(length))) for length in expected} == expected


def test_there_is_one_static_shape_per_bucket_length():
    micro = MicroBatches(max_tokens=1000, static_tokens=700)
    rng = np.random.default_rng(0)
    shapes = set()
    for rows, inputs_length, targets_length in rng.integers(1, 257, (300, 3)).tolist():
        number, *shape = (int(size) for size in micro.shape(rows, inputs_length, targets_length))
        assert number * shape[0] >= rows
        shapes.add(tuple(shape))
    assert len(shapes) == len({length for _, length, _ in shapes}) <= 10
