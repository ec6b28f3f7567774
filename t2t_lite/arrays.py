"""Types in signatures that a type checker cannot check: arrays, states, and arguments that are passed on."""

from typing import Any, TypeAlias

# A tensor of the Keras backend in use, a NumPy array or, while Keras works out shapes, a `keras.KerasTensor`. These
# types have no common base class, and Keras' operations take all of them, so a type checker accepts anything here.
# Docstrings give the shape and the kind of numbers: "float [batch, length, hidden]".
Array: TypeAlias = Any

# A nested structure of arrays that only its maker looks into: the cache of a layer, the state of a model's decoder.
State: TypeAlias = Any

# An argument that is passed on to another function, whose documentation gives its type.
Forwarded: TypeAlias = Any
