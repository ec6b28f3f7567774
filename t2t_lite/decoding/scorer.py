"""The log-probability of given outputs, with teacher forcing."""

from collections.abc import Sequence

import tensorflow as tf

from t2t_lite.config import DecodeHParams
from t2t_lite.data.vocab import PAD_ID
from t2t_lite.decoding.batching import by_length, padded
from t2t_lite.decoding.ensemble import Ensemble
from t2t_lite.decoding.pair_graph import PairGraph
from t2t_lite.decoding.search.length_penalty import length_penalty
from t2t_lite.models.base import Seq2SeqModel

# Maximum number of logits in memory at once, about 64 MiB; a single output may exceed it.
_LOGITS = 2**24


class Scorer:
    """Scores pairs of a source and an output.

    Args:
      model: a built `Seq2SeqModel` with its weights, or an `Ensemble`.
    """

    def __init__(self, model: Seq2SeqModel | Ensemble) -> None:
        self._vocab_size = model.vocab_size

        def log_probs(inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
            logits = tf.cast(model(inputs, targets), tf.float32)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)  # [batch, length]
            return -tf.reduce_sum(tf.where(targets != 0, losses, 0.0), 1)

        self._log_probs = PairGraph(log_probs)

    def __call__(
        self, sources: Sequence[list[int]], outputs: Sequence[list[int]], settings: DecodeHParams
    ) -> list[tuple[float, float]]:
        """Scores pairs.

        Args:
          sources, outputs: the token ids of each side, with the end symbol.
          settings: `alpha` and `batch_tokens` are used.

        Returns:
          (log_prob / length penalty, log_prob) of each pair.

        Raises:
          ValueError: if an output contains padding, which would not be scored.
        """
        if any(PAD_ID in output for output in outputs):
            raise ValueError(f"an output to be scored has id {PAD_ID}, which is padding and not a token")
        found = [(0.0, 0.0)] * len(sources)
        positions = max(1, min(settings.batch_tokens, _LOGITS // self._vocab_size))
        lengths = [max(len(source), len(output)) for source, output in zip(sources, outputs, strict=True)]
        for rows in by_length(range(len(lengths)), lengths, lambda length: positions // length):
            inputs, targets = (padded([side[row] for row in rows]) for side in (sources, outputs))
            for row, log_prob in zip(rows, self._log_probs(inputs, targets).tolist()):
                found[row] = (log_prob / length_penalty(len(outputs[row]), settings.alpha), log_prob)
        return found
