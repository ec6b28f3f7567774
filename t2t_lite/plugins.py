"""Loads everything that registers itself: the built-in problems, hparam sets and models.

This is the only place where the library looks at `problems/` and `hparams/`, and it does so when asked.
"""

import importlib
import pkgutil

from t2t_lite.registry import MODELS


def load_builtins() -> None:
    """Imports every module of `t2t_lite.problems` and `t2t_lite.hparams`. Needs no TensorFlow."""
    for package_name in ("t2t_lite.problems", "t2t_lite.hparams"):
        package = importlib.import_module(package_name)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package_name}.{module.name}")
    MODELS.register_lazily(
        "transformer", "t2t_lite.models.transformer:Transformer", "The paper's encoder-decoder (section 3)."
    )
