"""Ensembles: several models that decode as one."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from t2t_lite.arrays import Array
from t2t_lite.layers.beam_ancestry import BeamAncestry
from t2t_lite.models.base import Seq2SeqModel


class Ensemble:
    """Wraps built models with the same vocabulary in the decoding interface of `Seq2SeqModel`.

    The probability of a token is the mean of the models' probabilities.
    """

    def __init__(self, models: Sequence[Seq2SeqModel]) -> None:
        self.models = list(models)
        self.name = " and ".join(model.name for model in self.models)
        self.vocab_size = self.models[0].vocab_size
        positions = [model.max_positions for model in self.models if model.max_positions is not None]
        self.max_positions = min(positions, default=None)

    def start_decoding(self, inputs: Array, beam_size: int, max_length: int | Array) -> tuple[list[Any], list[Any]]:
        """Returns (encoded sources, states), two lists with one entry per model. See `Seq2SeqModel`."""
        encoded_sources, states = zip(*(model.start_decoding(inputs, beam_size, max_length) for model in self.models))
        return list(encoded_sources), list(states)

    def is_source_token(self, inputs: Array) -> Array:
        return self.models[0].is_source_token(inputs)

    def grow_state(self, states: Sequence[Any], beam_size: int, max_length: int | Array) -> list[Any]:
        return [model.grow_state(state, beam_size, max_length) for model, state in zip(self.models, states)]

    @property
    def can_compact(self) -> bool:
        return all(model.can_compact for model in self.models)

    def compact_state(self, states: Sequence[Any], kept: Array) -> list[Any]:
        return [model.compact_state(state, kept) for model, state in zip(self.models, states)]

    def decode_step(
        self, ids: Array, position: Array, encoded_sources: Sequence[Any], states: Sequence[Any], ancestry: BeamAncestry
    ) -> tuple[tf.Tensor, list[Any], tf.Tensor | None]:
        """Returns (logarithms of the mean probabilities, states, mean attention). See `Seq2SeqModel`."""
        logits, states, attention = zip(
            *(
                model.decode_step(ids, position, encoded_source, state, ancestry)
                for model, encoded_source, state in zip(self.models, encoded_sources, states)
            )
        )
        mean = None if attention[0] is None else tf.add_n(list(attention)) / len(self.models)
        return _mean(logits), list(states), mean

    def __call__(self, inputs: Array, targets: Array) -> tf.Tensor:
        """Returns the logarithms of the mean probabilities at all target positions. See `Seq2SeqModel.call`."""
        return _mean([model(inputs, targets) for model in self.models])


def _mean(logits: Sequence[Array]) -> tf.Tensor:
    """Returns the logarithm of the models' mean probabilities from each model's logits [..., vocab]."""
    log_probs = tf.stack([tf.nn.log_softmax(tf.cast(part, tf.float32)) for part in logits])
    return tf.reduce_logsumexp(log_probs, axis=0) - tf.math.log(float(len(logits)))
