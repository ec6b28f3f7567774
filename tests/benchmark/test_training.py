"""Random data, and the number of batches in a round of the input pipeline."""

import numpy as np
import pytest

from t2t_lite.benchmark.process import TrainingData, random_data
from t2t_lite.benchmark.training import batches_of, round_of_batches, try_every_graph
from t2t_lite.config import HParams
from t2t_lite.data.manifest import Manifest
from t2t_lite.data.pipeline import WINDOW


def test_random_batches_have_no_padding_and_about_the_requested_number_of_tokens():
    data = random_data(50, source_length=7, target_length=10)
    assert data.vocab_sizes() == (50, 50) and data.mean_lengths() == (7, 10)
    one, again = (
        {side: ids.numpy() for side, ids in next(iter(batches_of(data, HParams(batch_tokens=204), seed))).items()}
        for seed in (1, 1)
    )
    assert one["inputs"].shape == (20, 7) and one["targets"].shape == (20, 10)
    for side, ids in one.items():
        assert (
            ids.dtype == np.int32 and ids.min() >= 1 and ids.max() == 49
        )  # 2% of seeds never draw the last id in 200 draws
        np.testing.assert_array_equal(ids, again[side])


@pytest.mark.parametrize(("pairs", "in_round"), [(100, 100), (WINDOW + 1, WINDOW + 1), (3 * WINDOW + 2, WINDOW + 1)])
def test_a_round_is_an_epoch_or_one_window_of_a_large_epoch(pairs, in_round):
    split = {"examples": pairs, "shards": {}, "lengths": {"inputs": {"5": pairs}, "targets": {"8": pairs}}}
    data = TrainingData(Manifest("many", {"size": 9}, {"train": split}, {}))
    assert round_of_batches(data, 80) == -(-in_round // 10)


def test_every_graph_runs_one_step_before_timing():
    shapes = [(1, 4, 8), (1, 2, 16), (3, 4, 8), (2, 4, 8), (1, 4, 8), (1, 2, 16)]
    batches = [{"inputs": np.zeros(shape), "targets": np.zeros(shape)} for shape in shapes]
    made = []
    try_every_graph(lambda batch: made.append(batch["targets"].shape), batches, is_compiled=True)
    assert made == [(1, 4, 8), (1, 2, 16), (3, 4, 8), (2, 4, 8)]
    made.clear()
    try_every_graph(lambda batch: made.append(batch["targets"].shape), batches, is_compiled=False)
    assert made == [(1, 4, 8), (3, 4, 8)]
