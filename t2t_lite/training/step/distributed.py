"""Runs a function on one micro-batch of a distributed batch, on all replicas."""

import tensorflow as tf


def for_micro_batch(strategy, on_replica, element_spec):
    """Returns a graph that runs a function on every replica, for one micro-batch of a distributed batch.

    Args:
      strategy: the devices.
      on_replica: a function of (a replica's batch, number of the micro-batch).
      element_spec: the element spec of the batches of `distribute_batches`.

    Returns:
      a function of (distributed batch, number of the micro-batch).
    """

    def run(batch, number):
        return strategy.run(on_replica, args=(batch, number))

    # A TPU needs static shapes, so it gets one graph for each of the few shapes that `MicroBatches` produces.
    is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    signature = None if is_tpu else [element_spec, tf.TensorSpec([], tf.int32)]
    return tf.function(run, input_signature=signature, autograph=False)


def num_micro_batches(batch) -> int:
    """Returns how many micro-batches a batch of `distribute_batches` has on each replica."""
    targets = batch["targets"]
    local = targets.values[0] if isinstance(targets, tf.distribute.DistributedValues) else targets
    return local.shape[0]
