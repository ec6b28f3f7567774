"""One optimizer step on a global batch: all devices and micro-batches.

Each micro-batch yields `Sums`: its loss and gradients. They are summed over micro-batches and devices, and the
optimizer makes one update with them, or none if the loss or the gradients are not finite. On one CPU, `SeparateGraphs`
does this with several graphs; on other devices, and for several steps in one call, `OneGraph` does it with one.
"""

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
from t2t_lite.training import micro_batching
from t2t_lite.training.devices import is_one_cpu
from t2t_lite.training.loss import DropoutSeeds, LossSums, training_loss
from t2t_lite.training.micro_batching import DistributedBatch, ElementSpec, OnMicroBatches, ReplicaBatch
from t2t_lite.training.optimizers import Optimizer, make_optimizer


class Sums(NamedTuple):
    """What a step sums over its micro-batches and devices, float32."""

    loss: LossSums[tf.Tensor]
    positions: tf.Tensor  # number of positions on the target side, padding included
    gradients: list[tf.Tensor]  # of the scaled loss: for each weight, or in `GradientPacks`


class StepReport(NamedTuple):
    """The statistics of a training step, over the global batch and all devices."""

    sums: LossSums[float]
    positions: float  # on the target side, padding included
    gradient_norm: float
    finite: bool  # False: the step was skipped, because its loss or gradients were not finite
    requests: np.ndarray  # the sum of the requests of all replicas


def step_report(figures: np.ndarray) -> StepReport:
    """Returns the report in the figures that `TrainStep.start` returns."""
    smoothed, plain, tokens, positions, *requests, norm, finite = figures.tolist()
    return StepReport(LossSums(smoothed, plain, tokens), positions, norm, bool(finite), np.array(requests))


def _figures(sums: Sums, requests: tf.Tensor, norm: tf.Tensor, is_finite: tf.Tensor) -> tf.Tensor:
    """Returns the figures for `step_report` as one tensor, because each transfer to the host takes time."""
    return tf.concat([[*sums.loss, sums.positions], requests, [norm, tf.cast(is_finite, tf.float32)]], 0)


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
        """Starts one step on the devices and returns the figures of its report, which GPUs may still be computing.

        `requests` are numbers that each replica sends, such as 1.0 for "stop", float32 [requests]; the report has their
        sums over all replicas.
        """
        return self._graphs(batch, requests)

    def check_memory(self, batch: DistributedBatch) -> None:
        for sums in self._graphs.micro_batches(batch):
            for tokens in self._strategy.experimental_local_results(sums.loss.tokens):
                tokens.numpy()


class MicroBatch(NamedTuple):
    """The arguments of `loss_and_gradients` that differ between micro-batches."""

    inputs: tf.Tensor  # int32 [rows, length]
    targets: tf.Tensor  # int32 [rows, length]
    step: tf.Tensor  # int64, counted from 0
    first_row: tf.Tensor  # int64, index of the first row in the global batch, see `DropoutSeeds`
    scale: tf.Tensor  # float32, the factor for the summed loss


def _micro_batch(batch: ReplicaBatch, index: tf.Tensor, optimizer: Optimizer) -> MicroBatch:
    inputs, targets = batch["inputs"][index], batch["targets"][index]
    # Dropout depends only on (seed, step, row), not on devices, micro-batches or restarts.
    first_row = batch["first_row"] + tf.cast(index * tf.shape(targets)[0], tf.int64)
    # The sum of the token losses is divided by the number of tokens in the global batch.
    scale = optimizer.loss_scale_value() / batch["tokens"]
    return MicroBatch(inputs, targets, optimizer.iterations.read_value(), first_row, scale)


def loss_and_gradients(
    model: Seq2SeqModel, weights: Sequence[tf.Variable | tf.Tensor], random_seed: int, *micro_batch: tf.Tensor
) -> Sums:
    """Returns the loss of a `MicroBatch`, and its dense gradients with respect to the weights."""
    inputs, targets, step, first_row, scale = MicroBatch(*micro_batch)
    with tf.GradientTape() as tape:
        for weight in weights:
            tape.watch(weight)
        loss = training_loss(model, inputs, targets, DropoutSeeds(random_seed, step, first_row, tf.shape(targets)[0]))
        share = loss.smoothed * scale
    gradients = [tf.convert_to_tensor(gradient) for gradient in tape.gradient(share, list(weights))]
    return Sums(loss, tf.cast(tf.size(targets), tf.float32), gradients)


def _norm(sums: Sums, loss_scale: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns (the global norm of the unscaled gradients, whether it and the loss are finite)."""
    norm = tf.linalg.global_norm(sums.gradients) / loss_scale
    return norm, tf.math.is_finite(norm) & tf.math.is_finite(sums.loss.smoothed)


class SeparateGraphs:
    """Makes optimizer steps on one CPU: step(global batch, requests) -> figures, see `step_report`.

    Gradients and the update have separate graphs. A single graph for the step would be larger, start two to four
    seconds later and need an extra copy of the gradients, because it cannot add the gradients of two micro-batches one
    variable at a time. `num_parallel` micro-batches are computed at the same time.
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
        of_micro_batch = functools.partial(loss_and_gradients, model, optimizer.variables, random_seed)
        if xla_compile:
            of_micro_batch = tf.function(of_micro_batch, jit_compile=True, autograph=False)

        def on_replica(batch: ReplicaBatch, index: tf.Tensor) -> Sums:
            return of_micro_batch(*_micro_batch(batch, index, optimizer))

        # The gradient graph is by far the largest, so it handles one micro-batch and is reused for all of them.
        self.micro_batches = OnMicroBatches(strategy, on_replica, element_spec, num_parallel)
        self._strategy, self._optimizer = strategy, optimizer
        self._update = tf.function(self._apply, autograph=False)

    def __call__(self, batch: DistributedBatch, requests: tf.Tensor) -> tf.Tensor:
        return self._update(functools.reduce(_add_one_by_one, self.micro_batches(batch)), requests)

    def _apply(self, sums: Sums, requests: tf.Tensor) -> tf.Tensor:
        optimizer = self._optimizer
        loss_scale = optimizer.loss_scale_value()
        norm, is_finite = _norm(sums, loss_scale)

        def apply() -> int:
            optimizer.apply(self._strategy, sums.gradients, loss_scale, norm)
            return 0

        tf.cond(is_finite, apply, lambda: 0)  # on a CPU, this skips the pass over the gradients
        optimizer.count(is_finite)
        return _figures(sums, requests, norm, is_finite)


def _add_one_by_one(left: Sums, right: Sums) -> Sums:
    """Returns the elementwise sums, and empties both lists of gradients as it goes.

    This frees the gradients one by one; a graph would hold a third copy of them.
    """
    gradients = []
    while left.gradients:
        gradients.append(left.gradients.pop() + right.gradients.pop())
    loss, positions = tf.nest.map_structure(tf.add, left[:2], right[:2])
    return Sums(loss, positions, gradients[::-1])


class OneGraph:
    """Makes optimizer steps in one graph for all devices: step(global batch, requests) -> figures, see `step_report`.

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
        self._of_micro_batch = SharedGradients(model, random_seed, self._packs, xla_compile)
        self.micro_batches = OnMicroBatches(strategy, self._on_micro_batch, element_spec)
        signature = micro_batching.batch_signature(strategy, element_spec, tf.TensorSpec([None], tf.float32))
        self._graph = tf.function(self._step, input_signature=signature, autograph=False)

    def __call__(self, batch: DistributedBatch, requests: tf.Tensor) -> tf.Tensor:
        """Starts one step on a global batch; within a graph, adds the step to that graph."""
        return self._graph(batch, requests) if tf.executing_eagerly() else self._step(batch, requests)

    def _step(self, batch: DistributedBatch, requests: tf.Tensor) -> tf.Tensor:
        strategy, optimizer = self._strategy, self._optimizer
        of_replicas = strategy.run(self._on_replica, args=(batch, requests))
        figures, norm, is_finite = (strategy.experimental_local_results(each)[0] for each in of_replicas[:3])
        optimizer.apply(strategy, of_replicas[3], optimizer.loss_scale_value(), norm, is_finite)
        optimizer.count(is_finite)
        return figures

    def _on_replica(
        self, batch: ReplicaBatch, requests: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, list[tf.Tensor]]:
        """Returns (figures, gradient norm, whether all is finite, gradients of the global batch)."""
        weights, number = self._of_micro_batch.read_weights(), tf.shape(batch["targets"])[0]

        def add(index: tf.Tensor, total: Sums) -> tuple[tf.Tensor, Sums]:
            return index + 1, tf.nest.map_structure(tf.add, total, self._on_micro_batch(batch, index, weights))

        start = (tf.constant(1), self._on_micro_batch(batch, tf.constant(0), weights))
        _, sums = tf.while_loop(lambda index, _: index < number, add, start, parallel_iterations=1)
        # The sums over all devices. The scalars travel as one vector, because each tensor takes time.
        context = tf.distribute.get_replica_context()
        assert context is not None  # called by strategy.run
        scalars = tf.concat([[*sums.loss, sums.positions], requests], 0)
        packs = [tf.cast(pack, self._allreduce_precision) for pack in sums.gradients]
        scalars, *packs = context.all_reduce(tf.distribute.ReduceOp.SUM, [scalars, *packs])
        smoothed, plain, tokens, positions = tf.unstack(scalars[:4], num=4)
        packs = [tf.cast(pack, tf.float32) for pack in packs]
        sums, requests = Sums(LossSums(smoothed, plain, tokens), positions, packs), scalars[4:]
        norm, is_finite = _norm(sums, self._optimizer.loss_scale_value())
        packs = [tf.where(is_finite, pack, 0.0) for pack in sums.gradients]
        return _figures(sums, requests, norm, is_finite), norm, is_finite, self._packs.unpack(packs)

    def _on_micro_batch(self, batch: ReplicaBatch, index: tf.Tensor, weights: list[tf.Tensor] | None = None) -> Sums:
        weights = weights or self._of_micro_batch.read_weights()
        return self._of_micro_batch(weights, *_micro_batch(batch, index, self._optimizer))


class SharedGradients:
    """The graph of `loss_and_gradients` with weights as arguments, traced once for all devices and micro-batches.

    shared(`read_weights()`, *`MicroBatch`) -> `Sums` with packed gradients. With `xla_compile`, XLA compiles the graph
    once for each shape and device.
    """

    def __init__(self, model: Seq2SeqModel, random_seed: int, packs: "GradientPacks", xla_compile: bool) -> None:
        self._variables = model.variables
        is_trained = [variable.trainable for variable in self._variables]

        def of_weights(values: list[tf.Tensor], *micro_batch: tf.Tensor) -> Sums:
            trained = [value for value, trained in zip(values, is_trained) if trained]
            with keras.StatelessScope(state_mapping=list(zip(self._variables, values))) as scope:
                sums = loss_and_gradients(model, trained, random_seed, *micro_batch)
            for variable, value in zip(self._variables, values):
                if scope.get_current_value(variable) is not value:
                    raise UserError(
                        f"the model assigns its variable {variable.path} during a step; train on one CPU, with "
                        f"`steps_per_call=1`"
                    )
            return sums._replace(gradients=packs.pack(sums.gradients))

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

    def __call__(self, weights: list[tf.Tensor], *micro_batch: tf.Tensor) -> Sums:
        return self._graph(weights, *micro_batch)


# The size is large enough that exchanging a vector takes much longer than starting the exchange.
_PACK_BYTES = 64 * 2**20


class GradientPacks:
    """Packs float32 gradients of given shapes into vectors of about 64 MiB, in order, for sums, norm and exchange."""

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
