"""Builds models one at a time, because initial weights come from random numbers shared by the whole process.

Also loads models saved by `model.save`.
"""

import contextlib
import random
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keras
import numpy as np

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.models.hard_alignment import HardAlignmentTransformer
from t2t_lite.models.transformer import Transformer
from t2t_lite.registry import MODELS

_BUILDING = threading.RLock()


@contextlib.contextmanager
def building(random_seed: int | None = None) -> Iterator[None]:
    """Keeps other threads from building models during the block; then restores Python's and NumPy's random states.

    Args:
      random_seed: fixes the initial weights; None: they do not matter.
    """
    with _BUILDING:
        states = random.getstate(), np.random.get_state()
        try:
            if random_seed is not None:
                keras.utils.set_random_seed(random_seed)
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])


def make_model(
    hparams: HParams, vocab_size: int, inputs_vocab_size: int | None = None, random_seed: int | None = None
) -> Seq2SeqModel:
    """Returns a built model. Thread-safe.

    Args:
      hparams: the settings; hparams.model is one of `MODELS`.
      vocab_size: size of the target vocabulary.
      inputs_vocab_size: size of the source vocabulary; None: both sides share one.
      random_seed: fixes the initial weights; None: they do not matter, because others are loaded.
    """
    with building(random_seed):
        return _new_model(hparams, vocab_size, inputs_vocab_size)


def symbolic_model(hparams: HParams, vocab_size: int, inputs_vocab_size: int | None = None) -> Seq2SeqModel:
    """Returns a built model whose variables have paths and shapes but no values.

    Arguments: see `make_model`.

    Raises:
      UserError: if the model does not exist.
    """

    def build() -> Seq2SeqModel:
        with keras.StatelessScope(initialize_variables=False):
            return _new_model(hparams, vocab_size, inputs_vocab_size)

    # Keras keeps a thread-local list of uninitialized variables, and would allocate all of them at the end of the next
    # StatelessScope. Running in a separate thread discards the list with the thread.
    with building(), ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(build).result()


def _new_model(hparams: HParams, vocab_size: int, inputs_vocab_size: int | None) -> Seq2SeqModel:
    """Returns a built model. Checks it first, because plug-ins may return anything."""
    kind = MODELS[hparams.model]
    if kind is Transformer and hparams.hard_alignment_token:
        kind = HardAlignmentTransformer
    model = kind(hparams, vocab_size, inputs_vocab_size)
    if not isinstance(model, Seq2SeqModel):
        raise UserError(
            f"model '{hparams.model}' returns {type(model).__name__}, which is not derived from Seq2SeqModel"
        )
    model.build()
    return model


def load_model_file(path: Path) -> keras.Model:
    """Returns the model in a `.keras` file.

    Raises:
      UserError: if the file does not exist or cannot be read.
    """
    if not path.is_file():
        raise UserError(f"no such file: {path}")
    try:
        model = keras.models.load_model(path)
    except (ValueError, TypeError, OSError, KeyError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} cannot be loaded as a Keras model: {str(error).splitlines()[0]}") from error
    if not isinstance(model, keras.Model):
        raise UserError(f"{path} is not a Keras model")
    return model
