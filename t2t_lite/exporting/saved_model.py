"""Exports models as SavedModels: strings in, strings out, with tokenization and beam search inside the graph.

TensorFlow and tensorflow-text load them without this package. They have three signatures:

serving_default    inputs: string [batch]                     -> outputs: string [batch, beam], scores, log_probs
with_alpha         the same inputs and outputs, plus the input alpha: float32 []
token_ids          inputs: int32 [batch, length], padded with 0 -> ids: int32 [batch, beam, length], scores, log_probs

Scores and log_probs are float32 [batch, beam]. The beam size and the other search settings are fixed. A beam slot
without a hypothesis has an empty output and the score -1e9; a blank line has one hypothesis, "" with the score 0.
"""

import dataclasses
from pathlib import Path
from typing import Any

import tensorflow as tf

from t2t_lite.config import DecodeHParams
from t2t_lite.data.vocab import EOS_ID, PAD_ID, Vocabulary
from t2t_lite.decoding.search.beam_state import BeamState, SearchInputs, SearchResult
from t2t_lite.decoding.search.constraints import MinLength, NoRepeatNgram
from t2t_lite.decoding.search.searcher import INITIAL_CAPACITY, write_in_place
from t2t_lite.decoding.search_requests import LineConstraint, make_beam_search
from t2t_lite.errors import UserError
from t2t_lite.layers.beam_ancestry import entries_written_by
from t2t_lite.models.base import Seq2SeqModel

# The values that settings must have: the graph contains no random numbers and no plug-in code.
_ONLY = {"sampling_method": "argmax", "constraints": "", "scorers": "", "only_trees": False, "precision": "float32"}


def check(settings: DecodeHParams, has_inputs: bool) -> None:
    """Raises UserError if a SavedModel cannot search with these settings, or the model has no inputs."""
    if not has_inputs:
        raise UserError("a SavedModel needs inputs, but this model has none; export it with --format=keras")
    for name, value in _ONLY.items():
        if (given := getattr(settings, name)) != value:
            raise UserError(f"`decode_hparams`: a SavedModel does not support {name}={given}; use {name}={value}")


def write(
    model: Seq2SeqModel, vocabulary: Vocabulary, inputs_vocabulary: Vocabulary, settings: DecodeHParams, folder: Path
) -> None:
    module: Any = _Translator(model, vocabulary, inputs_vocabulary, settings)
    texts = tf.TensorSpec([None], tf.string, "inputs")
    alpha = tf.TensorSpec([], tf.float32, "alpha")
    signatures = {
        "serving_default": module.translate.get_concrete_function(texts),
        "with_alpha": module.translate_with_alpha.get_concrete_function(texts, alpha),
        "token_ids": module.search_ids.get_concrete_function(tf.TensorSpec([None, None], tf.int32, "inputs")),
    }
    tf.saved_model.save(module, str(folder), signatures)


class _Translator(tf.Module):
    def __init__(
        self, model: Seq2SeqModel, vocabulary: Vocabulary, inputs_vocabulary: Vocabulary, settings: DecodeHParams
    ) -> None:
        super().__init__()
        self._model, self._settings = model, settings
        self._inputs_vocabulary = inputs_vocabulary
        self._vocabulary = vocabulary
        # Stored with the graphs: the weights, and the tables of the vocabularies, which exist only after a first use.
        self._weights = [variable.value for variable in model.variables]
        self._resources = [*inputs_vocabulary.resources(), *vocabulary.resources()]

    @tf.function(autograph=False)
    def translate(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.translate_with_alpha(inputs, tf.constant(self._settings.alpha))

    @tf.function(autograph=False)
    def translate_with_alpha(self, inputs: tf.Tensor, alpha: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translates strings [batch] with `alpha` as the exponent of the length penalty."""
        limit = min(self._settings.max_input_length, self._model.max_positions or self._settings.max_input_length)
        tokens = self._inputs_vocabulary.encode(inputs)
        ids = tokens[:, :limit].to_tensor(PAD_ID)  # inputs that are too long are truncated, and end with the end symbol
        is_last = tf.range(tf.shape(ids)[1]) == limit - 1
        ids = tf.where((tokens.row_lengths() > limit)[:, tf.newaxis] & is_last, EOS_ID, ids)
        blank = tf.strings.regex_full_match(inputs, r"[\s\pZ]*")
        result = self._search(tf.where(blank[:, tf.newaxis], PAD_ID, ids), alpha)
        shape = tf.shape(result.ids)
        outputs = self._vocabulary.decode_in_graph(tf.reshape(result.ids, [-1, shape[2]]))
        # The only output for a blank line is a blank line.
        is_blank_output = blank[:, tf.newaxis] & (tf.range(tf.shape(result.scores)[1]) == 0)
        return {
            "outputs": tf.reshape(outputs, shape[:2]),
            "scores": tf.where(is_blank_output, 0.0, result.scores),
            "log_probs": tf.where(is_blank_output, 0.0, result.log_probs),
        }

    @tf.function(autograph=False)
    def search_ids(self, inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Searches for outputs given ids [batch, length], each row of which includes the end symbol."""
        result = self._search(inputs, tf.constant(self._settings.alpha))
        return {"ids": result.ids, "scores": result.scores, "log_probs": result.log_probs}

    # A separate graph that all signatures share.
    @tf.function(
        autograph=False, input_signature=[tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([], tf.float32)]
    )
    def _search(self, ids: tf.Tensor, alpha: tf.Tensor) -> SearchResult:
        """Returns the hypotheses for int32 [batch, length]; none for rows that are only padding."""
        settings, model = self._settings, self._model
        lengths = tf.reduce_sum(tf.cast(ids != PAD_ID, tf.int32), 1)
        limits = lengths + settings.extra_length
        if model.max_positions is not None:
            limits = tf.minimum(limits, model.max_positions)
        shortest = tf.math.ceil(settings.min_length_ratio * tf.cast(lengths - 1, tf.float32))
        inputs = SearchInputs(
            tf.where(lengths == 0, 0, limits),
            source_mask=model.is_source_token(ids) if settings.coverage_penalty else (),
            constraint_inputs={"min_lengths": tf.cast(shortest, tf.int32) + 1} if settings.min_length_ratio else {},
        )
        constraints = [LineConstraint(MinLength())] if settings.min_length_ratio else []
        if settings.no_repeat_ngram_size:
            constraints.append(LineConstraint(NoRepeatNgram(settings.no_repeat_ngram_size)))
        search = dataclasses.replace(make_beam_search(settings, self._vocabulary, 0, constraints), alpha=alpha)

        model.freeze()  # inside this graph, so that the logits matrix is transposed once for all steps
        try:
            # Not a constant, because shape inference would then fix the capacity at its initial value.
            capacity = tf.compat.v1.placeholder_with_default(INITIAL_CAPACITY, [])
            encoded_source, decoder_state = model.start_decoding(ids, search.beam_size, capacity)
            state = search.start(inputs, decoder_state, capacity)

            def step(*arguments: Any) -> Any:  # noqa: ANN401  see `Step`
                ids, position, decoder_state, ancestry = arguments
                with entries_written_by(write_in_place):  # a TensorFlow without XLA may serve the graph
                    return model.decode_step(ids, position, encoded_source, decoder_state, ancestry)

            def advance(state: BeamState) -> tuple[BeamState]:
                now = tf.shape(state.ids)[2]
                larger = tf.where(state.position == now, 2 * now, now)
                grown = search.grown(state, larger, lambda its: model.grow_state(its, search.beam_size, larger))
                return (search.advance(step, grown, inputs),)

            shapes = tf.nest.map_structure(lambda tensor: tensor.shape, (state,))
            (state,) = tf.while_loop(
                lambda state: tf.logical_not(tf.reduce_all(state.done)), advance, (state,), shape_invariants=shapes
            )
        finally:
            model.unfreeze()
        return search.result(state.finished)
