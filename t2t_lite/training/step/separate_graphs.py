"""A step on one CPU, as separate graphs for gradients, sums and the update.

A single graph for the step would be larger, start two to four seconds later and need an extra copy of the gradients,
because it cannot add the gradients of two micro-batches one variable at a time.
"""

import functools

import tensorflow as tf

from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.training.optimizers.base import Optimizer
from t2t_lite.training.step.gradients import loss_and_gradients
from t2t_lite.training.step.micro_batching import DistributedBatch, ElementSpec, OnMicroBatches, ReplicaBatch
from t2t_lite.training.step.report import step_figures


class SeparateGraphs:
    """Makes optimizer steps with several graphs: step(global batch, requests) -> figures, see `step_figures`.

    `num_parallel` micro-batches are computed at the same time.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: Seq2SeqModel,
        optimizer: Optimizer,
        element_spec: ElementSpec,
        random_seed: int,
        xla_compile: bool,
        num_parallel: int,
    ) -> None:
        self._strategy, self._optimizer = strategy, optimizer
        gradients = functools.partial(loss_and_gradients, model, optimizer.variables, random_seed)
        self._of_batch = tf.function(gradients, jit_compile=True, autograph=False) if xla_compile else gradients
        # The gradient graph is by far the largest, so it handles one micro-batch and is reused for all of them.
        self.gradients = OnMicroBatches(strategy, self._on_replica, element_spec, num_parallel)
        self._update = tf.function(self._apply, autograph=False)

    def __call__(self, batch: DistributedBatch, requests: tf.Tensor) -> tf.Tensor:
        return self._update(functools.reduce(_add_one_by_one, self.gradients(batch)), requests)

    def _on_replica(self, batch: ReplicaBatch, number: tf.Tensor) -> list[tf.Tensor]:
        # Dropout depends only on (seed, step, row), not on devices, micro-batches or restarts.
        inputs, targets = batch["inputs"][number], batch["targets"][number]
        first_row = batch["first_row"] + tf.cast(number * tf.shape(targets)[0], tf.int64)
        scale = self._optimizer.loss_scale_value() / batch["tokens"]
        return self._of_batch(inputs, targets, self._optimizer.iterations.read_value(), first_row, scale)

    def _apply(self, totals: list[tf.Tensor], requests: tf.Tensor) -> tf.Tensor:
        optimizer, (sums, *gradients) = self._optimizer, totals
        loss_scale = optimizer.loss_scale_value()
        norm = tf.linalg.global_norm(gradients) / loss_scale
        is_finite = tf.math.is_finite(norm) & tf.math.is_finite(sums[0])

        def apply() -> int:
            optimizer.apply(self._strategy, gradients, loss_scale, norm)
            return 0

        tf.cond(is_finite, apply, lambda: 0)  # on a CPU, this skips the pass over the gradients
        optimizer.count(is_finite)
        return step_figures(tf.concat([sums, requests], 0), norm, is_finite)


def _add_one_by_one(totals: list[tf.Tensor], parts: list[tf.Tensor]) -> list[tf.Tensor]:
    """Returns the elementwise sums of two lists of tensors, and empties both lists as it goes.

    This frees the gradients one by one; a graph would hold a third copy of them.
    """
    sums = []
    while totals:
        sums.append(totals.pop() + parts.pop())
    return sums[::-1]
