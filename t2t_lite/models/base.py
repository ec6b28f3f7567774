"""What a sequence-to-sequence model offers to training and to search."""

import keras


class Seq2SeqModel(keras.Model):
    """A model that training and decoding can use without knowing how it works.

    Args:
      hparams: the settings, an `HParams`.
      vocab_size: number of target tokens.
      inputs_vocab_size: number of source tokens; None: one vocabulary serves both sides.
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
        """The longest sequence of either side, in tokens, that the model can take; None: any."""
        return None

    @property
    def alignment_layer(self):
        """The decoder layer whose attention to the source, averaged over its heads, is nearest to a word alignment."""
        raise NotImplementedError("a model defines alignment_layer")

    def call(self, inputs, targets, seeds=None):
        """Gives the logits of every target token from the source and the target tokens before it (teacher forcing).

        Args:
          inputs: int [batch, source length], padded with 0.
          targets: int [batch, target length], padded with 0; the model shifts them right by one itself.
          seeds: the random numbers of a training step, see `Dropout`; None: no dropout, unless Keras' own argument
            `training` is True: then Keras' own generator gives the numbers.

        Returns:
          logits, float [batch, target length, vocab].
        """
        raise NotImplementedError("a model defines call()")

    def freeze(self):
        """Prepares the model for decoding faster. No weight may change afterwards."""

    def start_decoding(self, inputs, beam_size, max_length):
        """Encodes the source and prepares the decoder's state.

        Args:
          inputs: int [batch, source length], padded with 0.
          beam_size: hypotheses of each sentence.
          max_length: target positions that the state has room for.

        Returns:
          (encoded_source, state), nests of tensors whose first dimension is the batch. All hypotheses of a sentence
          share the encoded source, and no step changes it; the state is what the steps so far leave for the next one.
        """
        raise NotImplementedError("a model defines start_decoding()")

    def grow_state(self, state, beam_size, max_length):
        """Returns the state with room for `max_length` target positions, which is more than it had."""
        raise NotImplementedError("a model defines grow_state()")

    def decode_step(self, ids, position, encoded_source, state, ancestry):
        """Returns the logits of the next token of every hypothesis.

        Args:
          ids: int [batch, beam], the previous token (0 at the start).
          position: int scalar, the position of the next token, from 0 to the state's max_length - 1.
          encoded_source: from `start_decoding`.
          state: from `start_decoding` or the previous step.
          ancestry: the `BeamAncestry` of the hypotheses, by which they find their entries in the state.

        Returns:
          (logits, float [batch, beam, vocab]; the new state; cross-attention of `alignment_layer`, averaged over its
          heads, float32 [batch, beam, source length], whose rows sum to 1).
        """
        raise NotImplementedError("a model defines decode_step()")

    def attention(self, inputs, targets, kind, layer):
        """Gives the attention weights of one layer.

        Args:
          inputs, targets: as `call` takes them.
          kind: "encoder" or "decoder" for their self-attention, "cross" for the decoder's attention to the source.
          layer: its number from 0; -1 is the last.

        Returns:
          float32 [batch, heads, queries, keys]; a row, of one query, sums to 1.

        Raises:
          ValueError: if the model has no such layer, or the layer has no attention.
        """
        raise NotImplementedError("a model defines attention()")
