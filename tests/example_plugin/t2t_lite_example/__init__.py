"""A plug-in: what it registers is there for every command once the package is installed."""

from t2t_lite.registry import CONSTRAINTS, MODELS, POSITION_ENCODINGS
from t2t_lite_example import metric, problem, sets, texts
from t2t_lite_example.settings import LengthHParams

__all__ = ["metric", "problem", "sets", "texts"]

# By their names, so that --help and listings need not import Keras.
MODELS.register_lazily(
    "length_transformer",
    "t2t_lite_example.length_transformer:LengthTransformer",
    "The Transformer, told how long the source is.",
    hparams_class=LengthHParams,
)
POSITION_ENCODINGS.register_lazily(
    "binary", "t2t_lite_example.positions:binary_positions", "The binary digits of the position."
)
CONSTRAINTS.register_lazily("no_stutter", "t2t_lite_example.constraint:no_stutter", "No token twice in a row.")
