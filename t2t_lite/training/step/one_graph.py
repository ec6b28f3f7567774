"""A step as one graph for all devices: micro-batches, gradient exchange, norm and update."""

import tensorflow as tf

from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.training.optimizers.base import Optimizer
from t2t_lite.training.step.gradients import SharedGradients
from t2t_lite.training.step.micro_batching import (
    DistributedBatch,
    ElementSpec,
    OnMicroBatches,
    ReplicaBatch,
    batch_signature,
)
from t2t_lite.training.step.packs import GradientPacks
from t2t_lite.training.step.report import step_figures


class OneGraph:
    """Makes optimizer steps in one graph: one_graph(global batch, requests) -> figures, see `step_figures`.

    The host reads nothing to decide about the update: the graph itself skips an update with non-finite gradients.
    Therefore, devices can receive the next step before they complete this one.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: Seq2SeqModel,
        optimizer: Optimizer,
        element_spec: ElementSpec,
        random_seed: int,
        xla_compile: bool,
        allreduce_precision: str,
    ) -> None:
        self._strategy, self._optimizer = strategy, optimizer
        self._allreduce_precision = allreduce_precision if strategy.num_replicas_in_sync > 1 else "float32"
        self._packs = GradientPacks([variable.shape for variable in optimizer.variables])
        self._of_batch = SharedGradients(model, random_seed, self._packs, xla_compile)
        self.gradients = OnMicroBatches(strategy, self._of_micro_batch, element_spec)
        signature = batch_signature(strategy, element_spec, tf.TensorSpec([None], tf.float32))
        self._graph = tf.function(self._step, input_signature=signature, autograph=False)

    def __call__(self, batch: DistributedBatch, requests: tf.Tensor) -> tf.Tensor:
        """Starts one step on a global batch; within a graph, adds the step to that graph."""
        return self._graph(batch, requests) if tf.executing_eagerly() else self._step(batch, requests)

    def _step(self, batch: DistributedBatch, requests: tf.Tensor) -> tf.Tensor:
        strategy, optimizer = self._strategy, self._optimizer
        figures, gradients = strategy.run(self._on_replica, args=(batch, requests))
        figures = strategy.experimental_local_results(figures)[0]
        norm, is_finite = figures[-2], figures[-1] > 0
        optimizer.apply(strategy, gradients, optimizer.loss_scale_value(), norm, is_finite)
        optimizer.count(is_finite)
        return figures

    def _on_replica(self, batch: ReplicaBatch, requests: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        figures, *packs = self._sums_of_micro_batches(batch)
        figures = tf.concat([figures, requests], 0)
        figures, *packs = self._all_reduce([figures, *packs])
        scale = self._optimizer.loss_scale_value()
        norm = tf.linalg.global_norm(packs) / scale
        is_finite = tf.math.is_finite(norm) & tf.math.is_finite(figures[0])
        packs = [tf.where(is_finite, pack, 0.0) for pack in packs]
        return step_figures(figures, norm, is_finite), self._packs.unpack(packs)

    def _all_reduce(self, tensors: list[tf.Tensor]) -> list[tf.Tensor]:
        figures, *packs = tensors
        packs = [tf.cast(pack, self._allreduce_precision) for pack in packs]
        context = tf.distribute.get_replica_context()
        assert context is not None  # called by strategy.run
        figures, *packs = context.all_reduce(tf.distribute.ReduceOp.SUM, [figures, *packs])
        return [figures, *(tf.cast(pack, tf.float32) for pack in packs)]

    def _sums_of_micro_batches(self, batch: ReplicaBatch) -> list[tf.Tensor]:
        weights, number = self._of_batch.read_weights(), tf.shape(batch["targets"])[0]

        def add(index: tf.Tensor, totals: list[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
            return index + 1, [total + part for total, part in zip(totals, self._of_micro_batch(batch, index, weights))]

        start = (tf.constant(1), self._of_micro_batch(batch, tf.constant(0), weights))
        return tf.while_loop(lambda index, _: index < number, add, start, parallel_iterations=1)[1]

    def _of_micro_batch(
        self, batch: ReplicaBatch, index: tf.Tensor, weights: list[tf.Tensor] | None = None
    ) -> list[tf.Tensor]:
        # Dropout depends only on (seed, step, row), not on devices, micro-batches or restarts.
        inputs, targets = batch["inputs"][index], batch["targets"][index]
        first_row = batch["first_row"] + tf.cast(index * tf.shape(targets)[0], tf.int64)
        scale = self._optimizer.loss_scale_value() / batch["tokens"]
        weights = weights or self._of_batch.read_weights()
        return self._of_batch(weights, inputs, targets, self._optimizer.iterations.read_value(), first_row, scale)
