"""The import hook that lets modules import TensorFlow and Keras at their top, without a word on standard error.

`import t2t_lite` installs it, unless TensorFlow is imported already. It only recognises the two names, so that this
import takes no time; what it does with them is in `tensorflow.py`.
"""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType


class Finder:
    """Finds TensorFlow and Keras as Python would without it, and wraps their loaders."""

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in ("tensorflow", "keras"):
            return None
        from t2t_lite.system.tensorflow import wrapped_spec

        return wrapped_spec(self, name, target)


def install() -> None:
    """Installs the hook, once, unless TensorFlow is imported already."""
    if "tensorflow" not in sys.modules and not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
