"""The variables of a checkpoint of tensor2tensor's `transformer`, and where they belong in ours."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from t2t_lite.errors import UserError
from t2t_lite.layers.transformer import Residual
from t2t_lite.models.transformer import Transformer

_MODALITY = re.compile(r"symbol_modality_(\d+)_\d+(_\d+)?")
_BODY = "transformer/body"
_PRE_NORM, _POST_NORM = "layer_prepostprocess/layer_norm", "layer_postprocess/layer_norm"
_Layer: TypeAlias = Any
# What TensorFlow raises for a damaged checkpoint.
_UNREADABLE = (tf.errors.OpError, OSError, IndexError, ValueError, RuntimeError)


class T2tWeights:
    """The weights in a checkpoint.

    Args:
      path: the checkpoint, without suffix.

    Raises:
      UserError: if it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._reader = tf.train.load_checkpoint(str(path))
            self.shapes: dict[str, list[int]] = self._reader.get_variable_to_shape_map()
        except _UNREADABLE as error:
            raise self._damaged(error) from error

    @property
    def model(self) -> str:
        """The name of tensor2tensor's model."""
        found = (re.match(r"(\w+)/body/", name) for name in sorted(self.shapes))
        return next((match[1] for match in found if match), "")

    @property
    def vocab_sizes(self) -> list[int]:
        """The sizes of the vocabularies, one or two."""
        found = (_MODALITY.search(name) for name in self.shapes)
        return sorted({int(match[1]) for match in found if match})

    def array(self, name: str) -> np.ndarray:
        """Returns a variable as float32. Raises a UserError if there is none or it cannot be read."""
        if name not in self.shapes:
            raise UserError(f"{self.path} has no variable {name}; is it the checkpoint of these hparams?")
        try:
            return np.asarray(self._reader.get_tensor(name)).astype(np.float32)
        except _UNREADABLE as error:
            raise self._damaged(error) from error

    def embedding(self, vocab_size: int) -> np.ndarray:
        """Returns the shared matrix of embeddings and softmax, float32 [vocab, hidden], of all its shards."""
        pattern = re.compile(rf"transformer/{_MODALITY.pattern}/shared/weights_(\d+)")
        found = (pattern.fullmatch(name) for name in self.shapes)
        names = sorted((int(match[3]), match[0]) for match in found if match and int(match[1]) == vocab_size)
        if not names:
            raise UserError(f"{self.path} has no shared matrix for a vocabulary of {vocab_size:,} tokens")
        return np.concatenate([self.array(name) for _, name in names])

    def _damaged(self, error: Exception) -> UserError:
        reason = (getattr(error, "message", "") or str(error)).split("\n")[0]
        return UserError(f"the checkpoint {self.path} cannot be read ({reason}); copy it again")


def weights_of_layers(weights: T2tWeights, model: Transformer) -> Iterator[tuple[Any, np.ndarray]]:
    """Yields (a variable of the model, its value) for everything but the embeddings."""
    for side, layers in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        for number, layer in enumerate(layers):
            yield from _of_layer(weights, layer, f"{_BODY}/{side}/layer_{number}")
        if model.final_norms:
            yield from _of_norm(weights, model.final_norms[side], f"{_BODY}/{side}/{_PRE_NORM}")


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
    for name, variable in names.items():
        yield variable, weights.array(f"{scope}/{name}/kernel")


def _of_residual(weights: T2tWeights, residual: Residual, scope: str) -> Iterator[tuple[Any, np.ndarray]]:
    of_norm = _PRE_NORM if residual.norm_position == "pre" else _POST_NORM
    yield from _of_norm(weights, residual.norm, f"{scope}/{of_norm}")


def _of_norm(weights: T2tWeights, norm: _Layer, scope: str) -> Iterator[tuple[Any, np.ndarray]]:
    yield norm.gamma, weights.array(f"{scope}/layer_norm_scale")
    yield norm.beta, weights.array(f"{scope}/layer_norm_bias")


def weights_of_embeddings(
    weights: T2tWeights, model: Transformer, target_space_id: int
) -> Iterator[tuple[Any, np.ndarray]]:
    """Yields (a variable of the model, its value) for the embeddings.

    tensor2tensor adds the vector of a target space, here the one with this number, to each position of the input. Our
    model has no such vectors: it is added to the rows of the source's embedding.
    """
    matrix = weights.embedding(model.vocab_size)
    vector = weights.array(f"{_BODY}/target_space_embedding/kernel")[target_space_id]
    yield model.embedding.weight, matrix
    yield model.inputs_embedding.weight, matrix + vector / np.float32(model.hparams.hidden_size**0.5)
