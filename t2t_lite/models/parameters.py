"""Counts a model's parameters by part, without allocating them."""

import math
import re
from concurrent.futures import ThreadPoolExecutor

import keras

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.models.building import building
from t2t_lite.registry import MODELS

# Patterns of each part's variable paths, without the model's name.
PARTS = {
    "embeddings": r"(inputs_)?embedding/weight|projection/weight",
    "positions": r"(inputs|targets)_positions/weight",
    "encoder self-attention": r"encoder_\d+/self_attention/.*",
    "encoder feed-forward": r"encoder_\d+/feed_forward/.*",
    "decoder self-attention": r"decoder_\d+/self_attention/.*",
    "decoder cross-attention": r"decoder_\d+/cross_attention/.*",
    "decoder feed-forward": r"decoder_\d+/feed_forward/.*",
    "norms": r"(encoder|decoder)_\d+/\w+_residual/norm/\w+|(encoder|decoder)_norm/\w+",
}


def count_parameters(hparams: HParams, vocab_size: int, inputs_vocab_size: int | None = None) -> dict[str, int]:
    """Returns the number of parameters of each of `PARTS`.

    Args:
      hparams: the settings; hparams.model must be one of `MODELS`.
      vocab_size: size of the target vocabulary.
      inputs_vocab_size: size of the source vocabulary; None: both sides share one.

    Raises:
      UserError: if there is no such model, or it has a variable that belongs to no part.
    """
    counts = dict.fromkeys(PARTS, 0)
    for variable in symbolic_model(hparams, vocab_size, inputs_vocab_size).weights:
        counts[_part_of(variable.path)] += math.prod(variable.shape)
    return counts


def symbolic_model(hparams: HParams, vocab_size: int, inputs_vocab_size: int | None = None) -> keras.Model:
    """Returns a built model whose variables have paths and shapes but no values.

    Arguments and errors: see `count_parameters`.
    """

    def build() -> keras.Model:
        with keras.StatelessScope(initialize_variables=False):
            model = MODELS[hparams.model](hparams, vocab_size, inputs_vocab_size)
            model.build()
        return model

    # Keras keeps a thread-local list of uninitialized variables, and would allocate them all at the end of the next
    # StatelessScope. Running in a thread of its own discards that list with the thread.
    with building(), ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(build).result()


def _part_of(path: str) -> str:
    """Returns the part that a variable belongs to."""
    parts = [part for part, pattern in PARTS.items() if re.fullmatch(pattern, path.partition("/")[2])]
    if len(parts) != 1:
        raise UserError(f"variable '{path}' belongs to none of the countable parts: {', '.join(PARTS)}")
    return parts[0]
