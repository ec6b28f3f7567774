"""Layer normalization."""

from collections.abc import Callable
from typing import Any, cast

import keras

from t2t_lite.arrays import Array
from t2t_lite.errors import UserError
from t2t_lite.layers.base import Layer, Shape
from t2t_lite.layers.ops import ops
from t2t_lite.registry import NORM_TYPES

EPSILON = 1e-6  # added to the variance


@keras.saving.register_keras_serializable(package="t2t_lite")
class LayerNorm(Layer):
    """Layer normalization (Ba et al. 2016, arXiv 1607.06450): mean 0 and variance 1, then scale and offset.

    The result is the same as from Keras' own layer, but the gradient is custom: automatic differentiation would need
    about a hundred operations, many of them over the whole tensor.

    Args:
      epsilon: added to the variance.

    Call arguments:
      x: float [..., channels].

    Example:

    >>> norm = LayerNorm()
    >>> y = norm(ops.array([[1.0, 2.0, 3.0, 4.0]]))
    >>> print(ops.convert_to_numpy(y).round(2))
    [[-1.34 -0.45  0.45  1.34]]
    """

    def __init__(self, epsilon: float = EPSILON, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape: Shape) -> None:
        """Creates scale and offset, float32 [channels]."""
        width = (input_shape[-1],)
        self.gamma = self.add_weight(name="gamma", shape=width, initializer="ones", autocast=False)
        self.beta = self.add_weight(name="beta", shape=width, initializer="zeros", autocast=False)

    def call(self, x: Array) -> Array:
        """Returns the normalized x, computed in float32."""
        # A function with a custom gradient accepts only tensors, so the variables are converted here.
        gamma, beta = (ops.cast(variable, "float32") for variable in (self.gamma, self.beta))
        return ops.cast(_layer_norm(self.epsilon)(ops.cast(x, "float32"), gamma, beta), self.compute_dtype)


@keras.saving.register_keras_serializable(package="t2t_lite")
class RMSNorm(keras.layers.RMSNormalization):
    """Root mean square normalization, without mean and offset (Zhang and Sennrich 2019, arXiv 1910.07467).

    Args:
      axis: the axis of the channels.
      epsilon: added to the mean square.

    Call arguments:
      x: float [..., channels].

    Example:

    >>> y = RMSNorm()(ops.array([[3.0, 4.0]]))
    >>> print(ops.convert_to_numpy(y).round(2))
    [[0.85 1.13]]
    """

    def __init__(self, axis: int = -1, epsilon: float = EPSILON, **kwargs: object) -> None:
        super().__init__(axis, epsilon, **cast(dict[str, Any], kwargs))


def make_norm(norm_type: str, epsilon: float = EPSILON, **kwargs: object) -> keras.layers.Layer:
    """Returns a norm over the channels, one of `NORM_TYPES`.

    The entries of `NORM_TYPES` take name and dtype. Plug-ins' need not take `epsilon`, unless it is set.
    """
    norm = NORM_TYPES[norm_type](**kwargs | ({} if epsilon == EPSILON else {"epsilon": epsilon}))
    if not isinstance(norm, keras.layers.Layer) or norm.name != kwargs.get("name", norm.name):
        raise UserError(f"norm type '{norm_type}' must return a Keras layer with the name and dtype in **options")
    return norm


def _layer_norm(epsilon: float) -> Callable[[Array, Array, Array], Array]:
    """Returns a function (x, gamma, beta) -> normalized x, in float32."""

    @ops.custom_gradient
    def normalize(x: Array, gamma: Array, beta: Array) -> tuple[Array, Callable[..., tuple[Array, Array, Array]]]:
        centered = x - ops.mean(x, axis=-1, keepdims=True)
        scale = ops.rsqrt(ops.mean(ops.square(centered), axis=-1, keepdims=True) + epsilon)
        normal = centered * scale

        def grad(*upstream: Array) -> tuple[Array, Array, Array]:
            (dy,) = upstream
            leading = list(range(len(x.shape) - 1))
            weighted = dy * gamma
            along = ops.mean(weighted * normal, axis=-1, keepdims=True)
            dx = scale * (weighted - ops.mean(weighted, axis=-1, keepdims=True) - normal * along)
            return dx, ops.sum(dy * normal, axis=leading), ops.sum(dy, axis=leading)

        return normal * gamma + beta, grad

    return normalize
