"""The interface of sequence-to-sequence models for training and search."""

import keras

from t2t_lite.errors import UserError


class Seq2SeqModel(keras.Model):
    """The interface of a model that training and decoding rely on.

    Args:
      hparams: the settings, an `HParams`.
      vocab_size: size of the target vocabulary.
      inputs_vocab_size: size of the source vocabulary; None: both sides share one.
    """

    def __init__(self, hparams, vocab_size, inputs_vocab_size=None, **kwargs):
        # Variables are stored by path, so the name must not depend on how many models the process has created.
        kwargs.setdefault("name", type(self).__name__.lower())
        super().__init__(**kwargs)
        if hasattr(self, "grow_caches"):
            raise UserError(
                f"model {type(self).__name__}: its method grow_caches is called grow_state since version 0.2, and "
                f"decode_step takes encoded_source and state; adapt it to Seq2SeqModel"
            )
        self.hparams = hparams
        self.vocab_size = vocab_size
        self.inputs_vocab_size = inputs_vocab_size or vocab_size

    @property
    def max_positions(self):
        """The longest sequence that the model accepts on either side, in tokens; None: any length."""
        return None

    @property
    def alignment_layer(self):
        """The decoder layer whose cross-attention, averaged over its heads, is closest to a word alignment."""
        raise NotImplementedError("a model defines alignment_layer")

    def call(self, inputs, targets, seeds=None):
        """Returns the logits of every target token, given the source and the previous target tokens (teacher forcing).

        Args:
          inputs: int [batch, source length], padded with 0.
          targets: int [batch, target length], padded with 0; the model shifts them right by one itself.
          seeds: the random numbers of a training step, see `Dropout`; None: no dropout, unless Keras' argument
            `training` is True; then Keras' generator provides the numbers.

        Returns:
          logits, float [batch, target length, vocab].
        """
        raise NotImplementedError("a model defines call()")

    def freeze(self):
        """Prepares the model for faster decoding. Weights must not change afterwards."""

    def start_decoding(self, inputs, beam_size, max_length):
        """Encodes the source and prepares the decoder's state.

        Args:
          inputs: int [batch, source length], padded with 0.
          beam_size: number of hypotheses per sentence.
          max_length: number of target positions to reserve in the state.

        Returns:
          (encoded_source, state), nested structures of tensors whose first dimension is the batch. All hypotheses of a
          sentence share the encoded source, and no step changes it. Each step takes the state and returns a new one.
        """
        raise NotImplementedError("a model defines start_decoding()")

    def grow_state(self, state, beam_size, max_length):
        """Returns the state, enlarged to `max_length` target positions."""
        raise NotImplementedError("a model defines grow_state()")

    def decode_step(self, ids, position, encoded_source, state, ancestry):
        """Returns the logits of the next token of every hypothesis.

        Args:
          ids: int [batch, beam], the previous token (0 at the start).
          position: int scalar, the position of the next token, from 0 to the state's max_length - 1.
          encoded_source: from `start_decoding`.
          state: from `start_decoding` or the previous step.
          ancestry: the `BeamAncestry` of the hypotheses, which locates their entries in the state.

        Returns:
          (logits, float [batch, beam, vocab]; the new state; the cross-attention weights of `alignment_layer`, averaged
          over its heads, float32 [batch, beam, source length], with rows that sum to 1).
        """
        raise NotImplementedError("a model defines decode_step()")

    def attention(self, inputs, targets, kind, layer):
        """Returns the attention weights of one layer.

        Args:
          inputs, targets: see `call`.
          kind: "encoder" or "decoder" for self-attention, "cross" for cross-attention.
          layer: the layer's number, from 0; -1 is the last one.

        Returns:
          float32 [batch, heads, queries, keys]; the weights of each query sum to 1.

        Raises:
          ValueError: if the model has no such layer, or the layer has no attention weights.
        """
        raise NotImplementedError("a model defines attention()")
