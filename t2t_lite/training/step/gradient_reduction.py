"""Sums the gradients of all replicas."""

from collections.abc import Sequence

import tensorflow as tf


def reduce_gradients(
    strategy: tf.distribute.Strategy, totals: list[tf.Tensor], requests: tf.Tensor, variables: Sequence[tf.Variable]
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Returns the sums over all replicas of (figures and requests, gradients), in the graph of an update.

    `totals` are [figures, *gradients] of each replica, the gradients of `variables`; the requests of each replica are
    appended to its figures.
    """
    # Reduced tensors must be created on their device in this graph. TensorFlow does not know the device of plain
    # arguments, and falls back to one collective per variable.
    figures, *gradients = strategy.run(
        lambda figures, *gradients: [tf.concat([figures, requests], 0), *map(tf.identity, gradients)],
        args=tuple(totals),
    )
    figures = strategy.reduce("SUM", figures, axis=None)
    return figures, strategy.extended.batch_reduce_to("SUM", list(zip(gradients, variables)))
