"""What tests of data share."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def wmt_lengths():
    """Lengths of inputs and targets like those of a window of WMT, int64 [2, pairs].

    Both have a log-normal distribution with a mean of about 30; most pairs have similar lengths, one in twelve has not.
    """
    rng = np.random.default_rng(0)
    inputs = np.exp(rng.normal(np.log(25), 0.65, 2**17))
    ratios = np.exp(rng.normal(0.03, np.where(rng.random(2**17) < 0.08, 0.5, 0.2)))
    sides = np.stack([inputs, inputs * ratios]).round().astype("int64") + 2
    return sides[:, sides.max(axis=0) <= 256]
