"""Evaluates a model on pairs of a source and a given output, with teacher forcing."""

import threading
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite.config import DecodeHParams
from t2t_lite.decoding.batching import by_length, output_scores, padded
from t2t_lite.decoding.engine import Pairs
from t2t_lite.decoding.ensemble import Ensemble
from t2t_lite.models.base import Seq2SeqModel

# Maximum number of logits in a batch (64 MiB); a single long output may exceed it.
_LOGITS = 2**24


class GivenPairs:
    """Computes the scores and attention weights of pairs. Thread-safe.

    The model must be built and have its weights; an `Ensemble` supports only scores.
    """

    def __init__(self, model: Seq2SeqModel | Ensemble) -> None:
        self._model: Any = model
        self._graphs: dict[Hashable, Callable[..., tf.Tensor]] = {}
        self._lock = threading.Lock()

    def score(self, pairs: Pairs, settings: DecodeHParams) -> list[tuple[float, float]]:
        """Returns (log_prob / length penalty, log_prob) for each pair.

        Raises ValueError if an output contains padding, which cannot be scored.
        """

        def log_probs(inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
            logits = tf.cast(self._model(inputs, targets), tf.float32)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)  # [batch, length]
            return -tf.reduce_sum(tf.where(targets != 0, losses, 0.0), 1)

        positions = max(1, min(settings.batch_tokens, _LOGITS // self._model.vocab_size))
        graph = self._graph("score", log_probs)
        return output_scores(pairs.outputs, lambda: map(float, _by_pair(graph, pairs, positions)), settings.alpha)

    def cross_attention(self, pairs: Pairs, layer: int, batch_tokens: int) -> list[np.ndarray]:
        """Returns each pair's mean cross-attention over a layer's heads: float32 [output tokens, source tokens]."""

        def mean(inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
            return tf.reduce_mean(self._model.attention(inputs, targets, "cross", layer), 1)

        attentions = _by_pair(self._graph(layer, mean), pairs, batch_tokens)
        return [weights[: len(output), : len(source)] for weights, source, output in zip(attentions, *pairs)]

    def attention(self, pairs: Pairs, kind: str, layer: int, batch_tokens: int) -> list[np.ndarray]:
        def weights(inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
            return np.asarray(self._model.attention(inputs, targets, kind, layer))

        attentions = _by_pair(weights, pairs, batch_tokens)
        sources, outputs = pairs
        queries, keys = sources if kind == "encoder" else outputs, outputs if kind == "decoder" else sources
        return [each[:, : len(query), : len(key)] for each, query, key in zip(attentions, queries, keys)]

    def _graph(
        self, name: Hashable, function: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    ) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Returns a function that runs `function` on inputs and targets, int32 [batch, length], as one graph."""
        ids = tf.TensorSpec([None, None], tf.int32)
        with self._lock:
            if name not in self._graphs:
                # Traced explicitly, because TensorFlow warns if calls trace many graphs, as with several models.
                traced = tf.function(function, input_signature=[ids, ids], autograph=False)
                self._graphs[name] = traced.get_concrete_function()
            graph = self._graphs[name]
        return lambda inputs, targets: graph(tf.constant(inputs, tf.int32), tf.constant(targets, tf.int32)).numpy()


def _by_pair(
    function: Callable[[np.ndarray, np.ndarray], np.ndarray], pairs: Pairs, batch_tokens: int
) -> list[np.ndarray]:
    """Returns the result of `function` for each pair, computed in batches of at most `batch_tokens` positions."""
    results = [np.zeros(0)] * len(pairs.sources)
    lengths = [max(len(source), len(output)) for source, output in zip(*pairs, strict=True)]
    for rows in by_length(range(len(lengths)), lengths, lambda length: batch_tokens // length):
        for row, result in zip(rows, function(*(padded([side[row] for row in rows]) for side in pairs))):
            results[row] = result
    return results
