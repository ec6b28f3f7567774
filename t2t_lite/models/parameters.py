"""Counts a model's parameters by part, without allocating them."""

from concurrent.futures import ThreadPoolExecutor

import keras

from t2t_lite.config import HParams
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.models.building import building, new_model
from t2t_lite.registry import MODELS


def count_parameters(hparams: HParams, vocab_size: int, inputs_vocab_size: int | None = None) -> dict[str, int]:
    """Returns the number of parameters by part, see `Seq2SeqModel.parameter_parts`.

    Args:
      hparams: the settings; hparams.model must be one of `MODELS`.
      vocab_size: size of the target vocabulary.
      inputs_vocab_size: size of the source vocabulary; None: both sides share one.

    Raises:
      UserError: if the model does not exist.
    """
    return symbolic_model(hparams, vocab_size, inputs_vocab_size).parameter_parts()


def symbolic_model(hparams: HParams, vocab_size: int, inputs_vocab_size: int | None = None) -> Seq2SeqModel:
    """Returns a built model whose variables have paths and shapes but no values.

    Arguments and errors: see `count_parameters`.
    """

    def build() -> Seq2SeqModel:
        with keras.StatelessScope(initialize_variables=False):
            model = new_model(MODELS[hparams.model], hparams, vocab_size, inputs_vocab_size)
            model.build()
        return model

    # Keras keeps a thread-local list of uninitialized variables, and would allocate all of them at the end of the next
    # StatelessScope. Running in a separate thread discards the list with the thread.
    with building(), ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(build).result()
