"""One optimizer step on a global batch: all devices and micro-batches."""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.training.optimizers.base import Optimizer
from t2t_lite.training.step.dropout_seeds import DropoutSeeds
from t2t_lite.training.step.gradient_reduction import reduce_gradients
from t2t_lite.training.step.loss import LossSums, training_loss
from t2t_lite.training.step.micro_batching import (
    DistributedBatch,
    ElementSpec,
    OnMicroBatches,
    ReplicaBatch,
)


class StepReport(NamedTuple):
    """The statistics of a training step, over the global batch and all devices."""

    sums: LossSums[float]
    positions: float  # of the target side, padding included
    gradient_norm: float
    finite: bool  # False: the step was skipped, because its loss or gradients were not finite
    requests: np.ndarray  # the sum of all replicas' requests


class TrainStep:
    """Makes optimizer steps: step(global batch of `distribute_batches`, requests=()) -> `StepReport`.

    Requests are numbers that each replica sends, such as 1.0 for "stop"; the report has their sums over all replicas.
    The seed is that of dropout, see `DropoutSeeds`. With `xla_compile`, loss and gradients of a micro-batch are
    compiled with XLA, once for each shape. `num_parallel` micro-batches are computed at the same time.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: Seq2SeqModel,
        optimizer: Optimizer,
        element_spec: ElementSpec,
        random_seed: int,
        xla_compile: bool = False,
        num_parallel: int = 1,
    ) -> None:
        self._strategy, self._optimizer = strategy, optimizer
        self._micro_batch_gradients = _loss_and_gradients(model, random_seed, xla_compile)
        # Three graphs. The first is by far the largest, so it handles one micro-batch and is reused for all of them.
        self._gradients = OnMicroBatches(strategy, self._on_replica, element_spec, num_parallel)
        self._add = tf.function(self._add_parts, autograph=False)
        self._update = tf.function(self._reduce_and_apply, autograph=False)

    def __call__(self, batch: DistributedBatch, requests: Sequence[float] = ()) -> StepReport:
        """Makes one step on a global batch."""
        add = self._add if self._strategy.num_replicas_in_sync > 1 else _add_one_by_one
        totals = functools.reduce(add, self._gradients(batch))
        figures = self._update(totals, tf.constant(requests, tf.float32, [len(requests)])).numpy().tolist()
        smoothed, plain, tokens, positions, *sent, norm, finite = figures
        return StepReport(LossSums(smoothed, plain, tokens), positions, norm, bool(finite), np.array(sent))

    def check_memory(self, batch: DistributedBatch) -> None:
        """Computes the gradients of a batch's micro-batches and discards them."""
        for figures, *_ in self._gradients(batch):
            for figure in self._strategy.experimental_local_results(figures):
                figure.numpy()

    def _on_replica(self, batch: ReplicaBatch, number: tf.Tensor) -> list[tf.Tensor]:
        # A pure function of (seed, step, rows), independent of devices, micro-batches and restarts.
        inputs, targets = batch["inputs"][number], batch["targets"][number]
        first_row = batch["first_row"] + tf.cast(number * tf.shape(targets)[0], tf.int64)
        scale = self._loss_scale() / batch["tokens"]
        return self._micro_batch_gradients(inputs, targets, self._optimizer.iterations.read_value(), first_row, scale)

    def _add_parts(self, totals: list[tf.Tensor], parts: list[tf.Tensor]) -> list[tf.Tensor]:
        return self._strategy.run(lambda *both: [total + part for total, part in zip(*both)], args=(totals, parts))

    def _reduce_and_apply(self, totals: list[tf.Tensor], requests: tf.Tensor) -> tf.Tensor:
        strategy, optimizer = self._strategy, self._optimizer
        figures, gradients = reduce_gradients(strategy, totals, requests, optimizer.variables)
        loss_scale = self._loss_scale()
        norm = tf.linalg.global_norm([strategy.experimental_local_results(part)[0] for part in gradients]) / loss_scale
        finite = tf.math.is_finite(norm) & tf.math.is_finite(figures[0])

        def apply() -> int:
            optimizer.apply(strategy, gradients, loss_scale, norm)
            return 0

        tf.cond(finite, apply, lambda: 0)
        optimizer.count(finite)
        return tf.concat([figures, [norm, tf.cast(finite, tf.float32)]], 0)

    def _loss_scale(self) -> tf.Tensor:
        scale = self._optimizer.loss_scale
        return tf.constant(1.0) if scale is None else scale.read_value()


def _add_one_by_one(totals: list[tf.Tensor], parts: list[tf.Tensor]) -> list[tf.Tensor]:
    """Returns the sums of two lists of tensors, and empties the lists: a graph would hold a third copy of gradients."""
    sums = []
    while totals:
        sums.append(totals.pop() + parts.pop())
    return sums[::-1]


def _loss_and_gradients(
    model: Seq2SeqModel, random_seed: int, xla_compile: bool
) -> Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], list[tf.Tensor]]:
    """Returns a function that maps (inputs, targets, step, first_row, scale) of a micro-batch to [figures, *gradients].

    `figures` are float32 [4]: the `LossSums` and the number of target positions. All gradients are dense.
    """
    variables = model.trainable_variables

    def gradients_of(
        inputs: tf.Tensor, targets: tf.Tensor, step: tf.Tensor, first_row: tf.Tensor, scale: tf.Tensor
    ) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            seeds = DropoutSeeds(random_seed, step, first_row, tf.shape(targets)[0])
            sums = training_loss(model, inputs, targets, seeds)
            share = sums.smoothed * scale
        figures = tf.stack([*sums, tf.cast(tf.size(targets), tf.float32)])
        return [figures, *map(tf.convert_to_tensor, tape.gradient(share, variables))]

    return tf.function(gradients_of, jit_compile=True, autograph=False) if xla_compile else gradients_of
