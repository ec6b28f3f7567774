"""tensorflow-text, imported without the lines that its C++ code prints."""

from typing import Any

from t2t_lite.system.quiet import stderr_held_back

with stderr_held_back():
    import tensorflow_text as _tensorflow_text

# It has no type information, and the types that a checker infers do not fit those of TensorFlow.
tensorflow_text: Any = _tensorflow_text
