"""Arrays: types in signatures that a type checker cannot check, and sizes that are known before a graph runs."""

from typing import Any, TypeAlias

# A tensor of the Keras backend in use, a NumPy array or, while Keras works out shapes, a `keras.KerasTensor`. These
# types have no common base class, and Keras' operations take all of them, so a type checker accepts anything here.
# Docstrings give the shape and the kind of numbers: "float [batch, length, hidden]".
Array: TypeAlias = Any

# A nested structure of arrays that only its maker looks into: the cache of a layer, the state of a model's decoder.
State: TypeAlias = Any

# An argument that is passed on to another function, whose documentation gives its type.
Forwarded: TypeAlias = Any


def static_size(tensor: Array, axis: int) -> int:
    """Returns the size of a dimension. Raises ValueError if it is known only when the graph runs."""
    size = tensor.shape[axis]
    if size is None:
        raise ValueError(f"dimension {axis} of a tensor of shape {tensor.shape} must be known when the graph is made")
    return size
