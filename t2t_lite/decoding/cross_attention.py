"""Cross-attention weights of given outputs."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from t2t_lite.decoding.batching import by_length, padded
from t2t_lite.decoding.pair_graph import PairGraph
from t2t_lite.models.base import Seq2SeqModel


class CrossAttentionWeights:
    """Computes the cross-attention weights of given outputs, with teacher forcing.

    Args:
      model: a built `Seq2SeqModel` with its weights.
    """

    def __init__(self, model: Seq2SeqModel) -> None:
        self._model = model
        self._graphs: dict[int, PairGraph] = {}  # by layer

    def __call__(
        self, sources: Sequence[list[int]], outputs: Sequence[list[int]], layer: int, batch_tokens: int
    ) -> list[np.ndarray]:
        """Returns the attention of each pair, averaged over the heads of one layer.

        Args:
          sources, outputs: the token ids of each side, with the end symbol.
          layer: the index of the decoder layer.
          batch_tokens: maximum number of tokens per batch, padding included.

        Returns:
          float32 [output tokens, source tokens] for each pair.
        """
        if layer not in self._graphs:

            def attention(inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
                return tf.reduce_mean(self._model.attention(inputs, targets, "cross", layer), 1)

            self._graphs.setdefault(layer, PairGraph(attention))
        found = [np.zeros([0, 0])] * len(sources)
        lengths = [max(len(source), len(output)) for source, output in zip(sources, outputs, strict=True)]
        for rows in by_length(range(len(lengths)), lengths, lambda length: batch_tokens // length):
            inputs, targets = (padded([side[row] for row in rows]) for side in (sources, outputs))
            for row, weights in zip(rows, self._graphs[layer](inputs, targets)):
                found[row] = weights[: len(outputs[row]), : len(sources[row])]
        return found
