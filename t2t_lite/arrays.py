"""Type aliases for arrays, which a type checker cannot check, and static tensor sizes."""

from typing import Any, TypeAlias

# A tensor of the current Keras backend, a NumPy array or, during shape inference, a `keras.KerasTensor`. These types
# have no common base class, and Keras' operations accept all of them, so a type checker accepts anything here.
# Docstrings give the shape and the kind of numbers: "float [batch, length, hidden]".
Array: TypeAlias = Any

# A nested structure of arrays that only its creator reads: the cache of a layer, the state of a model's decoder.
State: TypeAlias = Any

# An argument passed on to another function, whose documentation gives its type.
Forwarded: TypeAlias = Any


def static_size(tensor: Array, axis: int) -> int:
    """Returns the size of a dimension. Raises ValueError if it is known only when the graph runs."""
    size = tensor.shape[axis]
    if size is None:
        raise ValueError(f"dimension {axis} of a tensor of shape {tensor.shape} must be known when the graph is built")
    return size
