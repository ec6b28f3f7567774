"""The base class of the layers: constructor arguments become the config, and the output shape is the input shape."""

import inspect
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import keras

# A shape; None is a dimension of unknown or varying size.
Shape: TypeAlias = tuple[int | None, ...]


class Layer(keras.layers.Layer):
    """A Keras layer that can be saved, cloned and used in functional models.

    Subclasses store every constructor argument in an attribute of the same name. `get_config` collects them; arguments
    may be layers or lists of layers.
    """

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**cast(dict[str, Any], kwargs))  # name, dtype and trainable; Keras checks them

    def get_config(self) -> dict[str, object]:
        """Returns all constructor arguments, with layers and dtype policies as plain data."""
        names = dict.fromkeys(name for kind in type(self).__mro__ for name in _arguments(kind))
        return super().get_config() | {name: _serialized(getattr(self, name)) for name in names}

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> "Layer":
        """Returns a layer with the given config, from `get_config`, and new weights."""
        arguments = {
            # Keras' own method reads the dtype policy.
            name: value if name == "dtype" else keras.saving.deserialize_keras_object(value)
            for name, value in config.items()
        }
        return super().from_config(arguments)

    def build_once(self, input_shape: Shape | None = None) -> None:
        """Builds the layer if it is not built. Methods that may run before the first call start with this."""
        if not self.built:
            self.build(input_shape)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """Returns the output's shape, given that of the first call argument; by default they are equal."""
        return input_shape


def _serialized(argument: object) -> object:
    """Returns a constructor argument as plain data."""
    plain = keras.saving.serialize_keras_object(argument)
    # Otherwise, Keras would build restored inner layers on their own, and their variables would lack the outer layer's
    # name.
    for part in plain if isinstance(plain, list) else [plain]:
        if isinstance(part, dict):
            part.pop("build_config", None)
    return plain


def _arguments(kind: type) -> list[str]:
    """Returns the argument names of a layer class' own constructor, without `self` and `**kwargs`."""
    if not issubclass(kind, Layer) or "__init__" not in vars(kind):
        return []
    _, *parameters = inspect.signature(kind.__init__).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind != inspect.Parameter.VAR_KEYWORD]
