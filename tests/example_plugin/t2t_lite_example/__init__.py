"""A plug-in: what it registers is there for every command once the package is installed."""

from t2t_lite.registry import MODELS
from t2t_lite_example import problem, sets, texts

__all__ = ["problem", "sets", "texts"]

# By its name, so that --help and listings need not import Keras.
MODELS.register_lazily(
    "backward_transformer",
    "t2t_lite_example.model:BackwardTransformer",
    "The Transformer on a source that is read backwards.",
)
