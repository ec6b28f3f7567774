"""Loss and gradients of a micro-batch, and the graph that computes them on every device."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from t2t_lite.errors import UserError
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.training.step.dropout_seeds import DropoutSeeds
from t2t_lite.training.step.loss import training_loss
from t2t_lite.training.step.packs import GradientPacks
from t2t_lite.training.step.report import micro_batch_figures


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
