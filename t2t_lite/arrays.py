"""Type aliases for arrays, whose types a type checker cannot check."""

from typing import Any, TypeAlias

# A tensor of the current Keras backend, a NumPy array or, during shape inference, a `keras.KerasTensor`. These types
# have no common base class, and Keras' operations accept all of them, so a type checker accepts anything here.
# Docstrings give the dtype and the shape: "float [batch, length, hidden]".
Array: TypeAlias = Any

# A nested structure of arrays that only its creator reads, such as a layer's cache or a decoder's state.
State: TypeAlias = Any

# An argument that is passed on to another function; that function's docstring describes it.
Forwarded: TypeAlias = Any
