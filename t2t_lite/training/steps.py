"""One training step and one evaluation step, over all devices and all micro-batches."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_lite.layers.dropout import CallSeeds
from t2t_lite.training.loss import LossSums, smoothed_cross_entropy


class StepReport(NamedTuple):
    """What a training step says about itself, all numbers: of the global batch, over all devices."""

    sums: LossSums
    positions: float  # of the target side, padding included
    gradient_norm: float
    finite: bool  # False: the step was skipped, for its loss or gradients were not finite
    requests: np.ndarray  # the sum of all replicas' requests


def make_train_step(strategy, model, optimizer, element_spec, random_seed: int, xla_compile: bool = False):
    """Returns a function that makes one optimizer step on one global batch.

    Args:
      strategy: the devices.
      model: a built `Seq2SeqModel`.
      optimizer: an `Adam`.
      element_spec: of the batches of `share_out`.
      random_seed: with the step's number and the micro-batch's place, determines dropout.
      xla_compile: whether loss and gradients of a micro-batch are compiled, once for each shape.

    Returns:
      function of (batch of `share_out`, requests=(), rehearsal=False) -> `StepReport`. Requests are numbers that each
      worker gives and of which every worker gets the sum. A rehearsal computes everything and changes nothing.
    """
    of_micro_batch = _loss_and_gradients(model, xla_compile)

    def on_replica(batch, requests, loss_scale, is_one):
        # A pure function of (seed, step, place in the batch): a run that was stopped goes on with the same masks, and
        # n devices draw what n micro-batches of one device do.
        seed = tf.cast(tf.stack([tf.constant(random_seed, tf.int64), optimizer.iterations]), tf.int32)
        scale = loss_scale / batch["tokens"]

        def at(place):
            folded = tf.bitcast(tf.random.experimental.stateless_fold_in(seed, place), tf.uint32)
            return of_micro_batch(*_micro_batch(batch, place), folded, scale)

        figures, *gradients = _sum_of_micro_batches(at, batch, is_one, [(4,), *(v.shape for v in optimizer.variables)])
        return tf.concat([figures, requests], 0), gradients

    def step(batch, requests, rehearsal, is_one):
        loss_scale = tf.constant(1.0) if optimizer.loss_scale is None else optimizer.loss_scale.read_value()
        figures, gradients = strategy.run(on_replica, args=(batch, requests, loss_scale, is_one))
        figures = strategy.reduce("SUM", figures, axis=None)
        gradients = strategy.extended.batch_reduce_to("SUM", list(zip(gradients, optimizer.variables)))
        norm = tf.linalg.global_norm([strategy.experimental_local_results(part)[0] for part in gradients]) / loss_scale
        finite = tf.math.is_finite(norm) & tf.math.is_finite(figures[0])

        def learn():
            optimizer.apply(strategy, gradients, loss_scale)
            return 0

        tf.cond(finite & ~rehearsal, learn, lambda: 0)
        optimizer.count(made=~rehearsal, good=finite)
        return tf.concat([figures, [norm, tf.cast(finite, tf.float32)]], 0)

    signature = [tf.TensorSpec([None], tf.float32), tf.TensorSpec([], tf.bool)]
    run = _traced(strategy, step, [element_spec, *signature])

    def call(batch, requests=(), rehearsal=False):
        figures = run(batch, tf.constant(requests, tf.float32, [len(requests)]), tf.constant(rehearsal)).numpy()
        sums = LossSums(*figures[:3].tolist())
        return StepReport(sums, float(figures[3]), float(figures[-2]), bool(figures[-1]), figures[4:-2])

    return call


def make_eval_step(strategy, model, element_spec):
    """Returns a function of a batch of `share_out` -> `LossSums` over the global batch, without dropout."""
    smoothing = model.hparams.label_smoothing

    def on_replica(batch, is_one):
        def at(place):
            inputs, targets = _micro_batch(batch, place)
            return [_figures(smoothed_cross_entropy(model(inputs, targets), targets, smoothing), targets)]

        return _sum_of_micro_batches(at, batch, is_one, [(4,)])[0]

    def step(batch, is_one):
        return strategy.reduce("SUM", strategy.run(on_replica, args=(batch, is_one)), axis=None)

    run = _traced(strategy, step, [element_spec])
    return lambda batch: LossSums(*run(batch).numpy()[:3].tolist())


def _loss_and_gradients(model, xla_compile):
    """Returns a function of (inputs, targets, seed, scale) of a micro-batch -> [figures, gradients...], all dense."""
    variables = model.trainable_variables

    def of_micro_batch(inputs, targets, seed, scale):
        with tf.GradientTape() as tape:
            logits = model(inputs, targets, seeds=CallSeeds(seed))
            sums = smoothed_cross_entropy(logits, targets, model.hparams.label_smoothing)
            share = sums.smoothed * scale
        return [_figures(sums, targets), *map(tf.convert_to_tensor, tape.gradient(share, variables))]

    return tf.function(of_micro_batch, jit_compile=True, autograph=False) if xla_compile else of_micro_batch


def _figures(sums, targets):
    """Returns float32 [4]: the sums and the number of target positions."""
    return tf.stack([*sums, tf.cast(tf.size(targets), tf.float32)])


def _first_place(batch):
    """Returns (place of this replica's first micro-batch among those of all replicas, how many it has)."""
    number = tf.shape(batch["targets"])[0]
    return tf.distribute.get_replica_context().replica_id_in_sync_group * number, number


def _micro_batch(batch, place):
    number = place - _first_place(batch)[0]
    return batch["inputs"][number], batch["targets"][number]


def _sum_of_micro_batches(at, batch, is_one, shapes):
    """Returns the sums of what `at(place)` gives, float32 tensors of these shapes, over a replica's micro-batches."""
    first, number = _first_place(batch)
    if is_one:
        return at(first)

    def add(place, totals):
        return place + 1, [total + part for total, part in zip(totals, at(place))]

    zeros = [tf.zeros(shape) for shape in shapes]
    # One after the other: that a device never holds two micro-batches at once is what they are for.
    return tf.while_loop(lambda place, _: place < first + number, add, (first, zeros), parallel_iterations=1)[1]


def _traced(strategy, step, signature):
    """Compiles `step(batch, ..., is_one)` to a function of (batch, ...), one graph for each of the two cases.

    Sums over several micro-batches need room for totals and zeros to begin with, which a single one is spared.
    """
    # A TPU must know all shapes beforehand: there is a graph for each of the few that `MicroBatches` makes.
    input_signature = None if isinstance(strategy, tf.distribute.TPUStrategy) else signature
    graphs = {
        is_one: tf.function(
            lambda *arguments, is_one=is_one: step(*arguments, is_one), input_signature=input_signature, autograph=False
        )
        for is_one in (True, False)
    }

    def call(batch, *others):
        targets = batch["targets"]
        local = targets.values[0] if isinstance(targets, tf.distribute.DistributedValues) else targets
        return graphs[local.shape[0] == 1](batch, *others)

    return call
