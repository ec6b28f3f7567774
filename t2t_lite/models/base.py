"""The interface of sequence-to-sequence models for training, search and Keras."""

import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, NoReturn, cast

import keras
import numpy as np

from t2t_lite.arrays import Array, Forwarded, State
from t2t_lite.config import AUTO_PRECISION, PRECISIONS, HParams
from t2t_lite.errors import UserError
from t2t_lite.layers.base import Shape
from t2t_lite.layers.beam_ancestry import BeamAncestry
from t2t_lite.layers.dropout import KerasSeeds, Seeds
from t2t_lite.layers.ops import ops


class Seq2SeqModel(keras.Model):
    """The model interface that training and decoding use.

    It is also a Keras model: `compile`, `fit`, `evaluate`, `predict`, `summary`, `save` and `clone_model` work, with
    `SmoothedCrossEntropy` and `InverseSqrt`. Batches for these methods are ((inputs, targets), targets).

    Args:
      hparams: the settings.
      vocab_size: size of the target vocabulary.
      inputs_vocab_size: size of the source vocabulary; None: both sides share one.
      dtype: "float32", "mixed_bfloat16", "mixed_float16" or a policy with such a name; it overrides hparams.precision.

    Call arguments:
      inputs: int [batch, source length], padded with 0; or the pair (inputs, targets).
      targets: int [batch, target length], padded with 0; the model itself shifts them right by one.
      seeds: the random numbers for dropout, see `Dropout`; None: no dropout, unless `training` is True.
      training: whether to apply dropout without `seeds`, using Keras' generator.

    Raises:
      UserError: if the dtype is not supported, or the call arguments are not inputs and targets.
    """

    def __init__(
        self,
        hparams: HParams,
        vocab_size: int,
        inputs_vocab_size: int | None = None,
        dtype: keras.DTypePolicy | str | None = None,
        **kwargs: object,
    ) -> None:
        hparams = _with_precision(hparams, dtype)
        # Variables are stored by path, so the name must not depend on the number of models created in the process.
        name = vars(type(self)).get("_stored_name", type(self).__name__.lower())
        options = {"name": name, "dtype": hparams.precision} | kwargs
        super().__init__(**cast(dict[str, Any], options))
        if hasattr(self, "grow_caches"):
            raise UserError(
                f"model {type(self).__name__}: since version 0.2, the method grow_caches is called grow_state, and "
                f"decode_step takes encoded_source and state; adapt the model to Seq2SeqModel"
            )
        self.hparams = hparams
        self.measured_alignment_layer: int | None = None  # found at the end of training, and stored in the run
        self.vocab_size = vocab_size
        self.inputs_vocab_size = inputs_vocab_size or vocab_size
        jax = keras.backend.backend() == "jax"
        # Batches have many shapes, and TensorFlow's XLA would recompile the model for each; JAX always compiles.
        self.supports_jit = jax
        # The random numbers of `fit`. With JAX, their state must be a variable of the model. With other backends, it is
        # not, so that checkpoints contain only weights.
        self._fit_seeds: KerasSeeds | None = None
        if jax:
            self._generator = keras.random.SeedGenerator()
            self._fit_seeds = KerasSeeds(self._generator)

    def __call__(self, inputs: Array, targets: Array | None = None, *args: Forwarded, **kwargs: Forwarded) -> Array:
        """Returns the logits, see `call`. Takes `inputs` and `targets`, or both as a pair in one argument."""
        # Checked here as well as in `call`, so that Keras does not wrap the error.
        inputs, targets = as_pair(inputs, targets)
        _check_ids("inputs", inputs, self.inputs_vocab_size)
        _check_ids("targets", targets, self.vocab_size)
        rows = [getattr(each, "shape", None) or (None,) for each in (inputs, targets)]
        if None not in (rows[0][0], rows[1][0]) and rows[0][0] != rows[1][0]:
            raise UserError(f"`inputs` has {rows[0][0]} rows but `targets` {rows[1][0]}; pass as many of each")
        return super().__call__(inputs, targets, *args, **kwargs)

    def compute_output_shape(self, inputs_shape: Array, targets_shape: Shape | None = None) -> Shape:
        """Returns the shape of the logits, given the shapes of inputs and targets, or a pair of them."""
        last = inputs_shape[1] if targets_shape is None else targets_shape
        return (*last, self.vocab_size)

    def get_config(self) -> dict[str, object]:
        """Returns the constructor's arguments as plain data; the dtype is hparams.precision."""
        return {
            "name": self.name,
            "trainable": self.trainable,
            "hparams": dataclasses.asdict(self.hparams),
            "vocab_size": self.vocab_size,
            "inputs_vocab_size": self.inputs_vocab_size,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, object], custom_objects: object = None) -> "Seq2SeqModel":
        """Returns a built model with the given config, from `get_config`, and new weights.

        Raises:
          UserError: if the config contains settings unknown to this version.
        """
        hparams = HParams.from_json(json.dumps(config["hparams"]), where="the config of the model")
        arguments: dict[str, Any] = dict(config) | {"hparams": hparams}
        model = cls(**arguments)
        # This needs no inputs. Keras would build a loaded model, but not a clone.
        model.build()
        return model

    @property
    def max_positions(self) -> int | None:
        """The longest sequence that the model accepts on either side, in tokens; None: unlimited."""
        return None

    @property
    def alignment_layer(self) -> int:
        """The decoder layer whose head-averaged cross-attention is closest to a word alignment."""
        raise UserError(f"{type(self).__name__} has no cross-attention, so it has no alignments")

    def build(self, input_shape: object = None) -> None:
        """Creates all weights. They do not depend on `input_shape`."""
        raise NotImplementedError("a model must define build()")

    def call(
        self, inputs: Array, targets: Array | None = None, seeds: Seeds | None = None, training: bool | None = None
    ) -> Array:
        """Returns the logits of every target token, given the source and the previous target tokens (teacher forcing).

        Args:
          inputs, targets, seeds, training: see the class. Implementations first call `as_pair` and `seeds_for`.

        Returns:
          logits, float [batch, target length, vocab].
        """
        raise NotImplementedError("a model must define call()")

    def factors_of_logits(self, inputs: Array, targets: Array, seeds: Seeds | None) -> tuple[Array, Array] | None:
        """Returns the two factors whose product is the logits of `call`, so that a loss can compute logits in chunks.

        Args:
          inputs, targets, seeds: see the class.

        Returns:
          (the decoder's output, float [batch, target length, hidden]; the weight of the projection, [vocab, hidden]);
          None if the logits are not the product of the first and the transposed second: training then uses `call`.
        """
        return None

    @property
    def logits_are_product(self) -> bool:
        """Whether `factors_of_logits` returns the factors."""
        return type(self).factors_of_logits is not Seq2SeqModel.factors_of_logits

    def seeds_for(self, seeds: Seeds | None, training: bool | None) -> Seeds | None:
        """Returns the random numbers for a call: `seeds`, or Keras' generator if `training`, or None."""
        return (self._fit_seeds or KerasSeeds()) if seeds is None and training else seeds

    def is_source_token(self, inputs: Array) -> Array:
        """Returns which ids, int [batch, length], outputs may attend to, bool [batch, length]: all but padding."""
        return ops.not_equal(inputs, 0)

    def freeze(self) -> None:
        """Prepares the model for faster decoding, until `unfreeze`.

        `set_weights`, `load_weights` and `fit` unfreeze the model. Apart from these, do not change weights while it is
        frozen: `variable.assign` has no effect on frozen copies.
        """

    def unfreeze(self) -> None:
        """Undoes `freeze`."""

    def start_decoding(self, inputs: Array, beam_size: int, max_length: int | Array) -> tuple[State, State]:
        """Encodes the source and prepares the decoder's state.

        Args:
          inputs: int [batch, source length], padded with 0.
          beam_size: number of hypotheses per sentence.
          max_length: number of target positions to reserve in the state.

        Returns:
          (encoded_source, state), nested structures of tensors with batch as the first dimension. All hypotheses of a
          sentence share the encoded source, which no step changes. Each step takes the state and returns a new one.
        """
        raise NotImplementedError("a model must define start_decoding()")

    def grow_state(self, state: State, beam_size: int, max_length: int | Array) -> State:
        """Returns the state, enlarged to `max_length` target positions."""
        raise NotImplementedError("a model must define grow_state()")

    @property
    def can_compact(self) -> bool:
        """Whether `compact_state` is available. A search is faster with it, above all with many beams."""
        return False

    def compact_state(self, state: State, kept: Array) -> State:
        """Returns the state with only some cache entries, see `compact_ancestry`.

        Args:
          state: from `start_decoding` or a step.
          kept: int32 [batch, entries], the cache entries to keep, and -1 for those that the next steps write.
        """
        raise NotImplementedError("a model whose can_compact is True must define compact_state()")

    def decode_step(
        self, ids: Array, position: int | Array, encoded_source: State, state: State, ancestry: BeamAncestry
    ) -> tuple[Array, State, Array | None]:
        """Returns the logits of the next token of every hypothesis.

        Args:
          ids: int [batch, beam], the previous token (0 at the start).
          position: int scalar, the position of the next token, from 0 to the state's max_length - 1.
          encoded_source: from `start_decoding`.
          state: from `start_decoding` or the previous step.
          ancestry: the `BeamAncestry` of the hypotheses, which locates their entries in the state.

        Returns:
          (logits, float [batch, beam, vocab]; the new state; the cross-attention weights of `alignment_layer`, averaged
          over its heads, float32 [batch, beam, source length], with rows that sum to 1, or None without
          cross-attention).
        """
        raise NotImplementedError("a model must define decode_step()")

    def attention(self, inputs: Array, targets: Array, kind: str, layer: int) -> Array:
        """Returns the attention weights of one layer.

        Args:
          inputs, targets: see `call`.
          kind: "encoder" or "decoder" for self-attention, "cross" for cross-attention.
          layer: the layer's index, from 0; -1 is the last one.

        Returns:
          float32 [batch, heads, queries, keys]; the weights of each query sum to 1.

        Raises:
          ValueError: if the model has no such layer, or the layer has no attention weights.
        """
        raise ValueError(f"{type(self).__name__} does not return its attention weights")

    def attention_layers(self) -> dict[str, int]:
        """Returns the number of layers with weights for `attention`, by kind; kinds without weights are omitted."""
        return {}

    # Methods of keras.Model that save or change weights. They first build the model if needed, without any inputs.

    def save(self, filepath: str | PathLike, *args: Forwarded, **kwargs: Forwarded) -> None:
        """Saves the model to a .keras file, see `keras.Model.save`.

        Raises:
          UserError: for the old HDF5 format, from which Keras cannot load models of other packages.
        """
        if str(filepath).endswith((".h5", ".hdf5")):
            raise UserError(f"{filepath}: Keras could not load the model from an HDF5 file; save it to a .keras file")
        self._build_once()
        super().save(filepath, *args, **kwargs)

    def set_weights(self, weights: Sequence[Array]) -> None:
        """Sets all weights, in the order of `get_weights`."""
        self._build_once()
        self._unfreeze_graphs()
        super().set_weights(weights)

    def load_weights(self, filepath: str | PathLike, skip_mismatch: bool = False, **kwargs: object) -> None:
        """Loads the weights of `save_weights`, see `keras.Model.load_weights`."""
        self._build_once()
        self._unfreeze_graphs()
        super().load_weights(filepath, skip_mismatch=skip_mismatch, **kwargs)

    def make_train_function(self, force: bool = False) -> Callable[..., object] | None:
        """Prepares `fit` and `train_on_batch`.

        Raises:
          UserError: if `call` has no argument `training`, by which Keras would switch dropout on.
        """
        if "training" not in inspect.signature(self.call).parameters:
            raise UserError(
                f"{type(self).__name__}.call has no argument `training`, so fit() would train without dropout; "
                f"add `training=None` and pass it to the superclass"
            )
        if self._fit_seeds is None:
            # Not the global generator, because a graph could neither create it nor follow keras.utils.set_random_seed.
            self._fit_seeds = KerasSeeds(keras.random.SeedGenerator())
        self._unfreeze_graphs()
        return super().make_train_function(force)

    def _build_once(self) -> None:
        if not self.built:
            self.build()

    def _unfreeze_graphs(self) -> None:
        self.unfreeze()
        # Keras' compiled functions may contain the frozen weights as constants.
        self.test_function = self.predict_function = None

    # Methods of keras.Model that cannot work.

    def export(self, *args: object, **kwargs: object) -> NoReturn:
        """Not supported: outputs need a beam search, which an exported graph of `call` does not contain."""
        raise UserError("export() is not supported; save the model with save() and translate with t2t_lite.decoding")

    def quantize(self, *args: object, **kwargs: object) -> NoReturn:
        """Not supported: Keras can quantize only its own layers."""
        raise UserError("quantize() is not supported; use dtype='mixed_bfloat16' for less memory and time")


def _with_precision(hparams: HParams, dtype: keras.DTypePolicy | str | None) -> HParams:
    """Returns the settings with the precision given by `dtype`, if any."""
    if dtype is None:
        # A standalone model has no device to choose a precision for.
        return hparams.replace(precision=PRECISIONS[0]) if hparams.precision == AUTO_PRECISION else hparams
    name = dtype if isinstance(dtype, str) else dtype.name
    if name not in PRECISIONS:
        raise UserError(f"dtype={name!r} is not supported by the model; use one of {', '.join(PRECISIONS)}")
    return hparams.replace(precision=name)


def _check_ids(name: str, ids: Array, vocab_size: int) -> None:
    """Raises UserError if ids whose values are known are no ids of the vocabulary, so not in graphs."""
    if not (isinstance(ids, np.ndarray) or hasattr(ids, "numpy")):
        return
    try:
        values = np.asarray(ids)
    except NotImplementedError:  # a variable in a graph
        return
    if values.dtype == object or not values.size:  # ragged
        return
    if values.dtype.kind not in "iu" or not 0 <= values.min() <= values.max() < vocab_size:
        raise UserError(
            f"`{name}` takes ids from 0 to {vocab_size - 1} as whole numbers, not {values.dtype} from "
            f"{values.min()} to {values.max()}"
        )


def as_pair(inputs: Array, targets: Array | None) -> tuple[Array, Array]:
    """Returns inputs and targets; without targets, `inputs` is a pair of both, as in Keras' `fit` and `predict`.

    Raises:
      UserError: if `inputs` is not a pair.
    """
    if targets is not None:
        return inputs, targets
    if not isinstance(inputs, tuple | list) or len(inputs) != 2:
        raise UserError(
            f"the model takes inputs and targets, or the pair (inputs, targets), not one {type(inputs).__name__}; "
            f"to translate without targets, use t2t_lite.decoding"
        )
    return inputs[0], inputs[1]
