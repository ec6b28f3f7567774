"""The type of arrays in signatures."""

from typing import Any, TypeAlias

# A tensor of the Keras backend in use, a NumPy array or, while Keras works out shapes, a `keras.KerasTensor`. These
# types have no common base class, and Keras' operations take all of them, so a type checker accepts anything here.
# Docstrings give the shape and the kind of numbers: "float [batch, length, hidden]".
Array: TypeAlias = Any

# A nested structure of arrays that only its maker looks into: the cache of a layer, the state of a model's decoder.
State: TypeAlias = Any
