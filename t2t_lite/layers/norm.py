"""Layer normalization."""

import keras
from keras import ops


class LayerNorm(keras.layers.Layer):
    """Layer normalization (Ba et al. 2016, arXiv 1607.06450): mean 0 and variance 1, then scale and offset.

    Computes the same as Keras' own layer, in one operation with its own gradient. Automatic differentiation would need
    about a hundred operations, many of them over the whole tensor.

    Args:
      epsilon: added to the variance.

    Call arguments:
      x: float [..., channels].
    """

    def __init__(self, epsilon=1e-6, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape):
        """Creates scale and offset, float32 [channels]."""
        width = (input_shape[-1],)
        self.gamma = self.add_weight(name="gamma", shape=width, initializer="ones", autocast=False)
        self.beta = self.add_weight(name="beta", shape=width, initializer="zeros", autocast=False)

    def call(self, x):
        """Returns float of the shape of x, computed in float32."""
        # A function with a custom gradient takes tensors only, so the variables are converted here.
        gamma, beta = (ops.reshape(variable, (-1,)) for variable in (self.gamma, self.beta))
        return ops.cast(_layer_norm(self.epsilon)(ops.cast(x, "float32"), gamma, beta), self.compute_dtype)


def _layer_norm(epsilon):
    @ops.custom_gradient
    def normalize(x, gamma, beta):
        centered = x - ops.mean(x, axis=-1, keepdims=True)
        scale = ops.rsqrt(ops.mean(ops.square(centered), axis=-1, keepdims=True) + epsilon)
        normal = centered * scale

        def grad(*upstream):
            (dy,) = upstream
            leading = list(range(len(x.shape) - 1))
            weighted = dy * gamma
            along = ops.mean(weighted * normal, axis=-1, keepdims=True)
            dx = scale * (weighted - ops.mean(weighted, axis=-1, keepdims=True) - normal * along)
            return dx, ops.sum(dy * normal, axis=leading), ops.sum(dy, axis=leading)

        return normal * gamma + beta, grad

    return normalize
