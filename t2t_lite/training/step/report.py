"""The figures (sums and norm) of a training step: a graph packs them into one tensor, which is read here."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_lite.training.step.loss import LossSums


class StepReport(NamedTuple):
    """The statistics of a training step, over the global batch and all devices."""

    sums: LossSums[float]
    positions: float  # on the target side, padding included
    gradient_norm: float
    finite: bool  # False: the step was skipped, because its loss or gradients were not finite
    requests: np.ndarray  # the sum of the requests of all replicas


def micro_batch_figures(sums: LossSums[tf.Tensor], targets: tf.Tensor) -> tf.Tensor:
    """Returns the figures of a micro-batch, float32 [4], to be summed over micro-batches and devices."""
    return tf.stack([*sums, tf.cast(tf.size(targets), tf.float32)])


def step_figures(sums: tf.Tensor, norm: tf.Tensor, is_finite: tf.Tensor) -> tf.Tensor:
    """Returns the figures of a step; `sums` contains the sums over all micro-batches and then the requests."""
    return tf.concat([sums, [norm, tf.cast(is_finite, tf.float32)]], 0)


def step_report(figures: np.ndarray) -> StepReport:
    smoothed, plain, tokens, positions, *requests, norm, finite = figures.tolist()
    return StepReport(LossSums(smoothed, plain, tokens), positions, norm, bool(finite), np.array(requests))
