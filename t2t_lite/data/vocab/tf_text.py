"""tensorflow-text, imported without the output of its C++ code."""

from typing import Any

from t2t_lite.system.tensorflow import stderr_held_back

with stderr_held_back():
    import tensorflow_text as _tensorflow_text

# It has no type information, and the types that a checker infers do not fit TensorFlow's.
tensorflow_text: Any = _tensorflow_text
