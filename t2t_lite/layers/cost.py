"""Shared parts of the cost formulas for a training step. Each layer's own formulas are next to its `call`.

Operation counts include only matrix products and convolutions, with two operations per multiply-add. Element-wise
operations (norms, softmax, dropout, positions) are left out. Masked entries count, because they are computed.
"""

import dataclasses

import keras

FLOAT32 = 4
MIB = 2**20
# The backward pass makes two products for each product of the forward pass: one gradient per factor.
FORWARD_PASSES_OF_A_STEP = 3
# The memory of a training step's graph and kernels, except those of the layers, measured on a CPU.
GRAPH_BYTES = 32 * MIB


@dataclasses.dataclass(frozen=True)
class StepBytes:
    """The memory of a training step, except weights and their gradients. `+` combines consecutive layers."""

    kept: float = 0.0  # bytes per position that the forward pass keeps for the gradients
    # numbers per position in the largest tensor, from which the memory of temporary tensors is estimated
    widest: float = 0.0
    shared: float = 0.0  # bytes that do not depend on the number of sentences
    graph: float = 0.0  # bytes of the layers' graphs and kernels

    def __add__(self, other: "StepBytes") -> "StepBytes":
        return StepBytes(
            self.kept + other.kept,
            max(self.widest, other.widest),
            self.shared + other.shared,
            self.graph + other.graph,
        )

    def __radd__(self, other: int) -> "StepBytes":
        return self  # because sum() starts with 0


def compute_bytes(layer: keras.layers.Layer) -> int:
    """Returns the bytes per number in the layer's compute dtype."""
    return FLOAT32 if layer.compute_dtype == "float32" else 2


def bytes_of_weights(layer: keras.layers.Layer, number: float, dropout: float) -> float:
    """Returns the bytes kept for `number` attention weights: the softmax, and the weights after dropout or a cast."""
    compute = compute_bytes(layer)
    mixing = 2 * compute if dropout else (compute if compute != FLOAT32 else 0)
    return number * (FLOAT32 + mixing)


def has_formulas(layer: object, *formulas: str) -> bool:
    """Returns whether a layer's formulas match its computation: no subclass overrides only the computation.

    Args:
      layer: the layer.
      formulas: the required methods, "flops" and "step_bytes".
    """
    for kind in type(layer).__mro__:
        if all(formula in vars(kind) for formula in formulas):
            return True
        if vars(kind).keys() & {"call", "attend", "scores", "build", *formulas}:
            return False
    return False
