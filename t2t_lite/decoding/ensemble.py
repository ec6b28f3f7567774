"""Several models that search together."""

from collections.abc import Sequence

import tensorflow as tf


class Ensemble:
    """Models of one vocabulary that offer to a search what a `Seq2SeqModel` does.

    A piece's probability is the mean of the models' probabilities.

    Args:
      models: built models with their weights.
    """

    def __init__(self, models: Sequence):
        self.models = list(models)
        self.vocab_size = self.models[0].vocab_size
        positions = [model.max_positions for model in self.models if model.max_positions is not None]
        self.max_positions = min(positions, default=None)

    def start_decoding(self, inputs, beam_size, max_length):
        """Returns (memories, caches), a list of each, see `Seq2SeqModel`."""
        memories, caches = zip(*(model.start_decoding(inputs, beam_size, max_length) for model in self.models))
        return list(memories), list(caches)

    def grow_caches(self, caches, beam_size, max_length):
        """Returns larger caches, see `Seq2SeqModel`."""
        return [model.grow_caches(part, beam_size, max_length) for model, part in zip(self.models, caches)]

    def decode_step(self, ids, position, memories, caches, lineage):
        """Returns (logarithms of mean probabilities, caches, mean attention), see `Seq2SeqModel`."""
        logits, caches, attention = zip(
            *(
                model.decode_step(ids, position, memory, part, lineage)
                for model, memory, part in zip(self.models, memories, caches)
            )
        )
        return _mean(logits), list(caches), tf.add_n(list(attention)) / len(self.models)

    def __call__(self, inputs, targets):
        """Returns the logarithms of mean probabilities of all target pieces, see `Seq2SeqModel.call`."""
        return _mean([model(inputs, targets) for model in self.models])


def _mean(logits):
    """Returns the logarithm of the mean of the probabilities that each of several logits [..., vocab] stand for."""
    log_probs = tf.stack([tf.nn.log_softmax(tf.cast(part, tf.float32)) for part in logits])
    return tf.reduce_logsumexp(log_probs, axis=0) - tf.math.log(float(len(logits)))
