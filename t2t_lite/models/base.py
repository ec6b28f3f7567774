"""What a sequence-to-sequence model offers to training and to search."""

import keras


class Seq2SeqModel(keras.Model):
    """A model that training and decoding can use without knowing how it works.

    Args:
      hparams: the settings, an `HParams`.
      vocab_size: number of target pieces.
      inputs_vocab_size: number of source pieces; None: one vocabulary serves both sides.
    """

    def __init__(self, hparams, vocab_size, inputs_vocab_size=None, **kwargs):
        # Variables are stored under their path, so it must not count the models that a process has made.
        kwargs.setdefault("name", type(self).__name__.lower())
        super().__init__(**kwargs)
        self.hparams = hparams
        self.vocab_size = vocab_size
        self.inputs_vocab_size = inputs_vocab_size or vocab_size

    @property
    def max_positions(self):
        """The longest sequence of either side, in pieces, that the model can take; None: any."""
        return None

    def call(self, inputs, targets, seeds=None):
        """Gives the logits of every target piece from the source and the target pieces before it (teacher forcing).

        Args:
          inputs: int [batch, source length], padded with 0.
          targets: int [batch, target length], padded with 0; the model shifts them right by one itself.
          seeds: `CallSeeds` for dropout in training, None otherwise.

        Returns:
          logits, float [batch, target length, vocab].
        """
        raise NotImplementedError("a model defines call()")

    def start_decoding(self, inputs, beam_size, max_length):
        """Encodes the source and prepares empty caches.

        Args:
          inputs: int [batch, source length], padded with 0.
          beam_size: rows of caches for each sentence.
          max_length: target positions that the caches can hold.

        Returns:
          (memory, caches): memory is what all beams of a sentence share; caches is a nest of tensors whose first
          dimension is batch * beam_size, for the search to reorder.
        """
        raise NotImplementedError("a model defines start_decoding()")

    def decode_step(self, ids, position, memory, caches):
        """Gives the logits of the next piece.

        Args:
          ids: int [batch * beam_size], the piece before (0 at the start).
          position: int scalar, the position of the piece to come, from 0 to the caches' max_length - 1.
          memory, caches: from `start_decoding` or the last step.

        Returns:
          (logits, float [batch * beam_size, vocab], caches).
        """
        raise NotImplementedError("a model defines decode_step()")
