"""Maps the variables in a checkpoint of tensor2tensor's `transformer` to ours."""

import contextlib
import re
import weakref
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from t2t_lite.errors import UserError
from t2t_lite.files import without_patterns
from t2t_lite.layers.self_attention import RelativeSelfAttention
from t2t_lite.layers.transformer import Residual
from t2t_lite.models.transformer import Transformer

_MODALITY = re.compile(r"symbol_modality_(\d+)_\d+(_\d+)?")
_BODY = "transformer/body"
_TARGET_SPACES = f"{_BODY}/target_space_embedding/kernel"
# The scopes of the embedding or softmax matrix for each use, in order of preference.
_SCOPES = {"inputs": ("input_emb", "shared"), "targets": ("target_emb", "shared"), "softmax": ("softmax", "shared")}
_PRE_NORM, _POST_NORM = "layer_prepostprocess/layer_norm", "layer_postprocess/layer_norm"
_Layer: TypeAlias = Any
# The errors that TensorFlow raises for a damaged checkpoint.
_UNREADABLE = (tf.errors.OpError, OSError, IndexError, ValueError, RuntimeError)


class T2tWeights:
    """The weights in a tensor2tensor checkpoint, whose path has no suffix."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # The reader opens the file of the values only when it needs them.
            opened = contextlib.ExitStack()
            self._reader = tf.train.load_checkpoint(opened.enter_context(without_patterns(path)))
            weakref.finalize(self, opened.close)
            self.shapes: dict[str, list[int]] = self._reader.get_variable_to_shape_map()
            self._read: set[str] = set()
        except _UNREADABLE as error:
            raise self._damaged(error) from error

    @property
    def model(self) -> str:
        """The name of the model in tensor2tensor; "" if unknown."""
        matches = (re.match(r"(\w+)/body/", name) for name in sorted(self.shapes))
        return next((match[1] for match in matches if match), "")

    @property
    def vocab_sizes(self) -> list[int]:
        """The distinct sizes of the vocabularies, in tokens: one or two."""
        matches = (_MODALITY.search(name) for name in self.shapes)
        return sorted({int(match[1]) for match in matches if match})

    @property
    def has_own_softmax(self) -> bool:
        """Whether the projection to logits has its own matrix. It always does if two vocabularies differ in size."""
        return any("/softmax/weights_" in name for name in self.shapes)

    @property
    def has_target_space(self) -> bool:
        return _TARGET_SPACES in self.shapes

    def array(self, name: str) -> np.ndarray:
        """Returns a variable as float32. Raises a UserError if it does not exist or cannot be read."""
        if name not in self.shapes:
            raise UserError(f"{self.path} has no variable {name}; copy the checkpoint and its hparams.json again")
        self._read.add(name)
        try:
            return np.asarray(self._reader.get_tensor(name)).astype(np.float32)
        except _UNREADABLE as error:
            raise self._damaged(error) from error

    def matrix(self, use: str, vocab_size: int) -> np.ndarray:
        """Returns the matrix of "inputs", "targets" or "softmax", float32 [vocab, hidden], joined from its shards."""
        pattern = re.compile(rf"transformer/{_MODALITY.pattern}/(\w+)/weights_(\d+)")
        matches = [match for name in self.shapes if (match := pattern.fullmatch(name)) and int(match[1]) == vocab_size]
        for scope in _SCOPES[use]:
            if names := sorted((int(match[4]), match[0]) for match in matches if match[3] == scope):
                return np.concatenate([self.array(name) for _, name in names])
        raise UserError(f"{self.path} has no {use} matrix for {vocab_size:,} tokens; check `vocab_file`")

    def unread(self) -> list[str]:
        """Returns the names of the model's weights that nothing has read, sorted.

        Excludes what belongs to the training: the variables of its own scopes, and those that an optimizer keeps below
        the name of a weight.
        """
        left = (name for name in self.shapes if name.startswith(f"{self.model}/") and name not in self._read)
        return sorted(name for name in left if not self.shapes.keys() & {*map(str, PurePosixPath(name).parents)})

    def _damaged(self, error: Exception) -> UserError:
        reason = (getattr(error, "message", "") or str(error)).split("\n")[0]
        return UserError(f"the checkpoint {self.path} cannot be read ({reason}); copy it again")


def weights_of_layers(weights: T2tWeights, model: Transformer) -> Iterator[tuple[Any, np.ndarray]]:
    """Yields (a variable of the model, its value) for everything except embeddings and the projection to logits."""
    for side, layers in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        for number, layer in enumerate(layers):
            yield from _of_layer(weights, layer, f"{_BODY}/{side}/layer_{number}")
        if model.final_norms:
            yield from _of_norm(weights, model.final_norms[side], f"{_BODY}/{side}/{_PRE_NORM}")
    if model.hparams.position_encoding == "learned":
        for side, positions in model.position_encodings.items():
            yield positions.weight, weights.array(f"{_BODY}/{side}_positional_embedding")


def _of_layer(weights: T2tWeights, layer: _Layer, scope: str) -> Iterator[tuple[Any, np.ndarray]]:
    sublayers = {"self_attention": (layer.self_attention, layer.self_attention_residual)}
    if hasattr(layer, "cross_attention"):
        sublayers["encdec_attention"] = (layer.cross_attention, layer.cross_attention_residual)
    for name, (attention, residual) in sublayers.items():
        yield from _of_attention(weights, attention, f"{scope}/{name}/multihead_attention")
        yield from _of_residual(weights, residual, f"{scope}/{name}")
    for name, dense in (("conv1", layer.feed_forward.expand), ("conv2", layer.feed_forward.project)):
        yield dense.kernel, weights.array(f"{scope}/ffn/{name}/kernel")
        yield dense.bias, weights.array(f"{scope}/ffn/{name}/bias")
    yield from _of_residual(weights, layer.feed_forward_residual, f"{scope}/ffn")


def _of_attention(weights: T2tWeights, layer: _Layer, scope: str) -> Iterator[tuple[Any, np.ndarray]]:
    names = {"q": layer.query, "k": layer.key, "v": layer.value, "output_transform": layer.output_projection}
    is_3d = f"{scope}/q" in weights.shapes  # attention_variables_3d: with a dimension for heads; queries are not scaled
    for name, variable in names.items():
        if is_3d:
            array = weights.array(f"{scope}/{name[0]}")
            # [hidden, heads, size], or for the outputs [heads, size, hidden]
            array = array.reshape((-1, array.shape[-1]) if name == "output_transform" else (array.shape[0], -1))
            yield variable, array * np.float32(layer.key_size**0.5) if name == "q" else array
        else:
            yield variable, weights.array(f"{scope}/{name}/kernel")
    if isinstance(layer, RelativeSelfAttention):
        inside = f"{scope}/dot_product_attention_relative/relative_positions"
        yield layer.relative_keys, weights.array(f"{inside}_keys/embeddings")
        yield layer.relative_values, weights.array(f"{inside}_values/embeddings")


def _of_residual(weights: T2tWeights, residual: Residual, scope: str) -> Iterator[tuple[Any, np.ndarray]]:
    of_norm = _PRE_NORM if residual.norm_position == "pre" else _POST_NORM
    yield from _of_norm(weights, residual.norm, f"{scope}/{of_norm}")


def _of_norm(weights: T2tWeights, norm: _Layer, scope: str) -> Iterator[tuple[Any, np.ndarray]]:
    yield norm.gamma, weights.array(f"{scope}/layer_norm_scale")
    yield norm.beta, weights.array(f"{scope}/layer_norm_bias")


def weights_of_embeddings(
    weights: T2tWeights, model: Transformer, target_space_id: int
) -> Iterator[tuple[Any, np.ndarray]]:
    """Yields (a variable of the model, its value) for the embeddings and the projection to logits.

    tensor2tensor adds the vector of the target space `target_space_id` to each input position. Our model has no such
    vectors, so the vector is added to the rows of the source embedding.
    """
    yield model.embedding.weight, weights.matrix("targets", model.vocab_size)
    if model.inputs_embedding is not model.embedding:
        inputs = weights.matrix("inputs", model.inputs_vocab_size)
        if weights.has_target_space:
            vector = weights.array(_TARGET_SPACES)[target_space_id]
            inputs += vector / np.float32(model.inputs_embedding.scale)
        yield model.inputs_embedding.weight, inputs
    if model.projection is not model.embedding:
        yield model.projection.weight, weights.matrix("softmax", model.vocab_size)
