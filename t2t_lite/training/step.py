"""One optimizer step on a global batch: all devices and micro-batches."""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.models.building import make_model
from t2t_lite.training.devices import (
    is_one_cpu,
)
from t2t_lite.training.loss import DropoutSeeds, LossSums, training_loss
from t2t_lite.training.micro_batching import (
    DistributedBatch,
    ElementSpec,
    OnMicroBatches,
    ReplicaBatch,
    batch_signature,
)
from t2t_lite.training.optimizers import Optimizer, make_optimizer


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


class TrainStep:
    """Makes optimizer steps: step(global batch from `distribute_batches`) -> `StepReport`.

    `random_seed` seeds dropout, see `DropoutSeeds`. With `xla_compile`, XLA compiles a micro-batch's loss and gradients
    once for each shape. One CPU computes `num_parallel` micro-batches at the same time. Several devices exchange
    gradients in `allreduce_precision`. With `in_graph`, `start` can be part of a graph, see `StepCalls`.
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
        allreduce_precision: str = "float32",
        in_graph: bool = False,
    ) -> None:
        self._strategy = strategy
        about = (strategy, model, optimizer, element_spec, random_seed, xla_compile)
        if is_one_cpu(strategy) and not in_graph:
            self._graphs = SeparateGraphs(*about, num_parallel)
        else:
            self._graphs = OneGraph(*about, allreduce_precision)

    def __call__(self, batch: DistributedBatch) -> StepReport:
        return step_report(self.start(batch, tf.zeros([0])).numpy())

    def start(self, batch: DistributedBatch, requests: tf.Tensor) -> tf.Tensor:
        """Starts one step on the devices and returns its `step_figures`, which GPUs may still be computing.

        `requests` are numbers that each replica sends, such as 1.0 for "stop", float32 [requests]; the report has their
        sums over all replicas.
        """
        return self._graphs(batch, requests)

    def check_memory(self, batch: DistributedBatch) -> None:
        for figures, *_ in self._graphs.gradients(batch):
            for figure in self._strategy.experimental_local_results(figures):
                figure.numpy()


# The size is large enough that exchanging a vector takes much longer than starting the exchange.
_PACK_BYTES = 64 * 2**20


class GradientPacks:
    """Packs float32 gradients of given shapes into vectors of about 64 MiB, in order."""

    def __init__(self, shapes: Sequence[Sequence[int]]) -> None:
        self._shapes = [tuple(shape) for shape in shapes]
        self._sizes = [math.prod(shape) for shape in self._shapes]
        self._groups: list[range] = []
        start = size = 0
        for end, more in enumerate(self._sizes, start=1):
            size += 4 * more
            if size >= _PACK_BYTES or end == len(self._sizes):
                self._groups.append(range(start, end))
                start, size = end, 0

    def pack(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        return [tf.concat([tf.reshape(gradients[index], [-1]) for index in group], 0) for group in self._groups]

    def unpack(self, packs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        gradients = []
        for group, pack in zip(self._groups, packs):
            parts = tf.split(pack, [self._sizes[index] for index in group])
            gradients += [tf.reshape(part, self._shapes[index]) for index, part in zip(group, parts)]
        return gradients


def loss_and_gradients(
    model: Seq2SeqModel,
    weights: Sequence[tf.Variable | tf.Tensor],
    random_seed: int,
    inputs: tf.Tensor,
    targets: tf.Tensor,
    step: tf.Tensor,
    first_row: tf.Tensor,
    scale: tf.Tensor,
) -> list[tf.Tensor]:
    """Returns [figures, *dense gradients of the weights] for a micro-batch; see `micro_batch_figures`.

    Args:
      inputs, targets: int32 [rows, length].
      step: int64, counted from 0.
      first_row: int64, index of the first row in the global batch, see `DropoutSeeds`.
      scale: float32, the factor for the summed loss.
    """
    with tf.GradientTape() as tape:
        for weight in weights:
            tape.watch(weight)
        seeds = DropoutSeeds(random_seed, step, first_row, tf.shape(targets)[0])
        sums = training_loss(model, inputs, targets, seeds)
        share = sums.smoothed * scale
    return [micro_batch_figures(sums, targets), *map(tf.convert_to_tensor, tape.gradient(share, list(weights)))]


class SharedGradients:
    """The graph of `loss_and_gradients` with weights as arguments, traced once for all devices and micro-batches.

    shared(`read_weights()`, inputs, targets, step, first_row, scale) -> [figures, *packed gradients]. With
    `xla_compile`, XLA compiles the graph once for each shape and device.
    """

    def __init__(self, model: Seq2SeqModel, random_seed: int, packs: GradientPacks, xla_compile: bool) -> None:
        self._variables = model.variables
        is_trained = [variable.trainable for variable in self._variables]

        def of_weights(values: list[tf.Tensor], *batch: tf.Tensor) -> list[tf.Tensor]:
            trained = [value for value, trained in zip(values, is_trained) if trained]
            with keras.StatelessScope(state_mapping=list(zip(self._variables, values))) as scope:
                figures, *gradients = loss_and_gradients(model, trained, random_seed, *batch)
            for variable, value in zip(self._variables, values):
                if scope.get_current_value(variable) is not value:
                    raise UserError(
                        f"the model assigns its variable {variable.path} during a step; train on one CPU, with "
                        f"`steps_per_call=1`"
                    )
            return [figures, *packs.pack(gradients)]

        graph = tf.function(
            of_weights,
            autograph=False,
            jit_compile=xla_compile or None,
            experimental_attributes=None if xla_compile else {"_noinline": True},
        )
        ids, number = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([], tf.int64)
        weights = [tf.TensorSpec(variable.shape, variable.dtype) for variable in self._variables]
        self._graph = graph.get_concrete_function(weights, ids, ids, number, number, tf.TensorSpec([], tf.float32))

    def read_weights(self) -> list[tf.Tensor]:
        """Returns the model's variables as tensors on the current device."""
        return [variable.value.read_value() for variable in self._variables]

    def __call__(self, weights: list[tf.Tensor], *batch: tf.Tensor) -> list[tf.Tensor]:
        return self._graph(weights, *batch)


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


def build_model(
    hparams: HParams,
    vocab_size: int,
    strategy: tf.distribute.Strategy,
    random_seed: int,
    inputs_vocab_size: int | None = None,
) -> tuple[Seq2SeqModel, Optimizer]:
    """Returns a built model with seeded weights, and its optimizer, on the devices of `strategy`.

    Without `inputs_vocab_size`, both sides share one vocabulary.
    """
    with strategy.scope():
        model = make_model(hparams, vocab_size, inputs_vocab_size, random_seed)
        optimizer = make_optimizer(model.trainable_variables, hparams)
    return model, optimizer
