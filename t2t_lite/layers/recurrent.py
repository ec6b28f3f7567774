"""A recurrent layer, a replacement for self-attention (table 1 of the paper)."""

import keras

from t2t_lite.arrays import Array
from t2t_lite.layers.base import Layer, Shape
from t2t_lite.layers.beam_ancestry import BeamAncestry, gather_parents
from t2t_lite.layers.dropout import Seeds
from t2t_lite.layers.ops import ops


@keras.saving.register_keras_serializable(package="t2t_lite")
class Recurrent(Layer):
    """Gated recurrent units (Cho et al. 2014): one direction if causal, otherwise two of half the width, concatenated.

    Args:
      hidden_size: width of input and output.
      causal: whether a position sees only itself and earlier ones.

    Call arguments and methods: see `SelfAttention`.

    Example:

    >>> recurrent = Recurrent(hidden_size=8, causal=True)
    >>> ops.shape(recurrent(ops.ones((2, 5, 8))))
    (2, 5, 8)
    """

    def __init__(self, hidden_size: int, causal: bool, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.causal = causal
        forward = hidden_size if causal else hidden_size // 2
        self.directions = [GatedUnits(forward, name="forward", dtype=self.dtype_policy)]
        if not causal:
            backward = hidden_size - forward
            self.directions.append(GatedUnits(backward, backward=True, name="backward", dtype=self.dtype_policy))

    def build(self, input_shape: Shape) -> None:
        """Creates the weights."""
        for direction in self.directions:
            direction.build(input_shape)

    def call(self, x: Array, padding_mask: Array | None = None, seeds: Seeds | None = None) -> Array:
        """Returns float [batch, length, hidden]."""
        valid = ops.ones(ops.shape(x)[:2], "bool") if padding_mask is None else padding_mask[:, 0, 0, :]
        return ops.concatenate([direction(x, valid) for direction in self.directions], axis=-1)

    def start_cache(self, batch: int | Array, beam_size: int, max_length: int | Array) -> Array:
        """Returns the state before the first position, float [batch, beam, hidden]."""
        return ops.zeros((batch, beam_size, self.hidden_size), self.compute_dtype)

    def grow_cache(self, cache: Array, beam_size: int, max_length: int | Array) -> Array:
        """Returns the state unchanged, because its size does not depend on the length."""
        return cache

    def step(self, x: Array, position: int | Array, cache: Array, ancestry: BeamAncestry) -> tuple[Array, Array]:
        """Returns (float [batch, beam, hidden], the new state), see `SelfAttention`."""
        (units,) = self.directions
        before = ops.reshape(gather_parents(cache, ancestry), (-1, self.hidden_size))
        state = units.advance(before, ops.reshape(units.project(x), (-1, 3 * self.hidden_size)))
        state = ops.reshape(state, ops.shape(cache))
        return state, state


@keras.saving.register_keras_serializable(package="t2t_lite")
class GatedUnits(Layer):
    """Gated recurrent units: h_t = z_t * h_{t-1} + (1 - z_t) * candidate, with the reset applied after the product.

    Keras' GRU is not used for two reasons: it creates an unused random state, which every checkpoint would store, and
    it multiplies the inputs one position at a time instead of in one product.

    Args:
      units: width of the state.
      backward: whether to run from the last position to the first.

    Call arguments:
      x: float [batch, length, hidden].
      valid: bool [batch, length]; False leaves the state unchanged at that position.

    Example:

    >>> units = GatedUnits(4)
    >>> ops.shape(units(ops.ones((2, 5, 8)), valid=ops.ones((2, 5), "bool")))
    (2, 5, 4)
    """

    def __init__(self, units: int, backward: bool = False, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.backward = backward

    def build(self, input_shape: Shape) -> None:
        """Creates the input matrix [hidden, 3 * units], its bias, and the state matrix [units, 3 * units]."""
        self.kernel = self.add_weight(name="kernel", shape=(input_shape[-1], 3 * self.units))
        self.bias = self.add_weight(name="bias", shape=(3 * self.units,), initializer="zeros")
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel", shape=(self.units, 3 * self.units), initializer="orthogonal"
        )

    def call(self, x: Array, valid: Array) -> Array:
        """Returns the states, float [batch, length, units]."""

        def advance(state: Array, inputs: Array) -> tuple[Array, Array]:
            is_valid = inputs[:, -1:] > 0
            state = ops.where(is_valid, self.advance(state, inputs[:, :-1]), state)
            return state, state

        start = ops.zeros((ops.shape(x)[0], self.units), self.compute_dtype)
        # A single tensor, because with several, Keras' scan needs a static length.
        inputs = ops.concatenate([self.project(x), ops.cast(valid, self.compute_dtype)[:, :, None]], axis=-1)
        _, states = ops.scan(advance, start, ops.transpose(inputs, (1, 0, 2)), reverse=self.backward)
        return ops.transpose(states, (1, 0, 2))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """Returns [batch, length, units]."""
        return (*input_shape[:-1], self.units)

    def project(self, x: Array) -> Array:
        """Projects inputs [batch, length, hidden] to gates and candidate, [batch, length, 3 * units]."""
        kernel, bias = (ops.cast(weight, self.compute_dtype) for weight in (self.kernel, self.bias))
        flat = ops.matmul(ops.reshape(ops.cast(x, self.compute_dtype), (-1, x.shape[-1])), kernel) + bias
        return ops.reshape(flat, (*ops.shape(x)[:-1], 3 * self.units))

    def advance(self, state: Array, projected: Array) -> Array:
        """Returns the next state, [batch, units], from the current one and the projected input [batch, 3 * units]."""
        recurrent = ops.matmul(state, ops.cast(self.recurrent_kernel, self.compute_dtype))
        gates = ops.sigmoid(projected[:, : 2 * self.units] + recurrent[:, : 2 * self.units])
        update, reset = gates[:, : self.units], gates[:, self.units :]
        candidate = ops.tanh(projected[:, 2 * self.units :] + reset * recurrent[:, 2 * self.units :])
        return update * state + (1 - update) * candidate
