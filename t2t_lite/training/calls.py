"""Calls that run one step on a batch that Python reads, or several steps in a graph that reads their batches."""

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_lite.training.micro_batching import DistributedBatch, first_replica
from t2t_lite.training.step import StepReport, TrainStep, step_report

# On GPUs, each call makes several steps, so that the GPUs do not wait for the host. A signal takes effect after the two
# calls that have already begun and one more, or two more with several workers.
STEPS_PER_CALL = 10
SECONDS_PER_CALL = 3.0


class CallLength:
    """Decides how many steps the next call makes: as many as take about `SECONDS_PER_CALL`, but at most `most`.

    No call goes beyond the last step, or beyond the next multiple of a number in `every`. All workers use the same call
    length: the mean of the lengths that they want.
    """

    def __init__(self, most: int, every: tuple[int, ...], last_step: int) -> None:
        self.most, self._every, self._last_step = most, every, last_step
        self.wanted = 1.0  # the length that this worker wants
        self._agreed = 1

    def steps_after(self, step: int) -> int:
        ends = [self._last_step, *((step // every + 1) * every for every in self._every if every)]
        return max(min(self._agreed, min(ends) - step), 1)

    def measured(self, steps_per_second: float) -> None:
        self.wanted = max(min(SECONDS_PER_CALL * steps_per_second, self.most), 1.0)

    def agree(self, mean: float) -> None:
        self._agreed = int(mean)


class Requests(NamedTuple):
    """What each replica tells the others; it travels with the gradients. A step reports the sums over all replicas."""

    stop: float  # 1: end the run
    save: float  # 1: save a checkpoint
    call_length: float  # the number of steps that the next call should make
    # by worker, the seconds that it waited for a batch; this worker tells only its own; [] without other workers
    waits: Sequence[float] | np.ndarray

    def packed(self) -> list[float]:
        return [self.stop, self.save, self.call_length, *self.waits]

    @classmethod
    def unpacked(cls, numbers: np.ndarray) -> "Requests":
        stop, save, call_length, *waits = numbers.tolist()
        return cls(stop, save, call_length, waits)


class MadeStep(NamedTuple):
    number: int  # counted from 1
    report: StepReport
    requests: Requests  # of all replicas
    epoch: int  # of its batch, counted from 0
    position: int  # of its batch in the epoch, counted from 0
    waited: float  # seconds spent waiting for the batch


class StartedSteps(NamedTuple):
    """Steps that one call gave to the devices."""

    last: int  # the number of the last step
    figures: tf.Tensor  # of each step, for `step_report`: float32 [steps, figures], or [figures] for a single step
    places: tf.Tensor  # epoch and position of each batch: int64 [steps, 2], or [2] for a single step
    waited: tf.Tensor  # seconds spent waiting for all batches
    begun: float  # when the call began, from time.monotonic()

    def read(self) -> list[MadeStep]:
        figures, places = np.atleast_2d(self.figures.numpy()), np.atleast_2d(self.places.numpy())
        first, share = self.last - len(figures) + 1, float(self.waited) / len(figures)
        return [
            MadeStep(first + index, report, Requests.unpacked(report.requests), int(epoch), int(position), share)
            for index, (report, (epoch, position)) in enumerate(zip([step_report(row) for row in figures], places))
        ]


class StepCalls:
    """Runs training steps on a dataset from `distribute_batches` whose batches contain "epoch" and "position".

    With `is_several`, one call can make several steps, because accelerators may have to wait for the host at each call.
    """

    def __init__(self, train_step: TrainStep, data: tf.distribute.DistributedDataset, is_several: bool) -> None:
        self._train_step, self._batches = train_step, iter(data)
        self._several = tf.function(self._loop, autograph=False) if is_several else None

    def start(self, step: int, number: int, requests: Requests) -> StartedSteps:
        """Starts the `number` steps after `step` on the devices; each step sends the same requests."""
        begun, packed = time.monotonic(), requests.packed()
        sent = tf.constant(packed, tf.float32, [len(packed)])
        if self._several:
            figures, places, waited = self._several(self._batches, tf.constant(number), sent)
            return StartedSteps(step + number, figures, places, waited, begun)
        assert number == 1
        batch, waited = _timed_next(self._batches)
        return StartedSteps(step + 1, self._train_step.start(batch, sent), _data_position(batch), waited, begun)

    def _loop(
        self, batches: Iterator[DistributedBatch], number: tf.Tensor, requests: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        def step(
            index: tf.Tensor, waited: tf.Tensor, figures: tf.TensorArray, places: tf.TensorArray
        ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray, tf.TensorArray]:
            batch, seconds = _timed_next(batches)
            figures = figures.write(index, self._train_step.start(batch, requests))
            return index + 1, waited + seconds, figures, places.write(index, _data_position(batch))

        figures = tf.TensorArray(tf.float32, number, infer_shape=False)
        places = tf.TensorArray(tf.int64, number, element_shape=[2])
        start = (tf.constant(0), tf.constant(0.0, tf.float64), figures, places)
        _, waited, figures, places = tf.while_loop(lambda index, *_: index < number, step, start, parallel_iterations=1)
        return figures.stack(), places.stack(), waited


def _timed_next(batches: Iterator[DistributedBatch]) -> tuple[DistributedBatch, tf.Tensor]:
    start = tf.timestamp()
    with tf.control_dependencies([start]):
        batch = next(batches)
    with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
        return batch, tf.maximum(tf.timestamp() - start, 0.0)  # in case the clock is set back


def _data_position(batch: DistributedBatch) -> tf.Tensor:
    return tf.stack([first_replica(batch["epoch"]), first_replica(batch["position"])])
