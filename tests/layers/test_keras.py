"""What Keras expects of every layer: building, configs, saving, dtype policies, shapes, training, functional models."""

import doctest
import inspect
import json
import pkgutil
from importlib import import_module

import keras
import numpy as np
import pytest
from keras import ops
from support.layers import random

import t2t_lite.layers
from t2t_lite.errors import UserError
from t2t_lite.layers.attention import MultiHeadAttention
from t2t_lite.layers.base import Layer
from t2t_lite.layers.convolution import Convolution
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.embedding import Embedding
from t2t_lite.layers.feed_forward import FeedForward, GatedFeedForward, ParameterAttention
from t2t_lite.layers.local_attention import LocalSelfAttention
from t2t_lite.layers.norm import LayerNorm, RMSNorm
from t2t_lite.layers.positions import (
    LearnedPositions,
    NoPositions,
    PositionEncoding,
    SinusoidalHalves,
    SinusoidalPositions,
)
from t2t_lite.layers.recurrent import GatedUnits, Recurrent
from t2t_lite.layers.self_attention import RelativeSelfAttention, SelfAttention
from t2t_lite.layers.transformer import DecoderLayer, EncoderLayer, Residual

MODULES = [import_module(f"t2t_lite.layers.{found.name}") for found in pkgutil.iter_modules(t2t_lite.layers.__path__)]
PUBLIC = {
    kind
    for module in MODULES
    for kind in vars(module).values()
    if inspect.isclass(kind)
    and issubclass(kind, keras.layers.Layer)
    and kind.__module__ == module.__name__
    and kind not in (Layer, PositionEncoding)  # base classes
}
BATCH, LENGTH, SOURCE, HIDDEN = 2, 5, 3, 8
X, Y = random(BATCH, LENGTH, HIDDEN), random(BATCH, LENGTH, HIDDEN, seed=1)
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], bool)[:, None, None, :]
HEADS = {"hidden_size": HIDDEN, "num_heads": 2, "key_size": 4, "value_size": 6, "dropout": 0.1}
# By heads: [batch, heads, length, size].
QUERIES, KEYS, VALUES = random(BATCH, 2, LENGTH, 4), random(BATCH, 2, SOURCE, 4), random(BATCH, 2, SOURCE, 6)
SOURCE_MASK = MASK[..., :SOURCE]


def encoder_layer(**kwargs):
    residuals = [Residual(0.1, "pre", "rms", name=f"residual_{i}") for i in range(2)]
    parts = SelfAttention(causal=False, **HEADS, name="attention"), FeedForward(HIDDEN, 12, 0.1, name="feed_forward")
    return EncoderLayer(*parts, residuals, **kwargs)


def decoder_layer(**kwargs):
    residuals = [Residual(0.1, name=f"residual_{i}") for i in range(3)]
    attention = SelfAttention(causal=True, **HEADS, name="self_attention")
    cross_attention = MultiHeadAttention(**HEADS, name="cross_attention")
    return DecoderLayer(attention, cross_attention, GatedFeedForward(HIDDEN, 12, name="gated"), residuals, **kwargs)


# name: (makes the layer, given Keras' own arguments; the positional call arguments)
CASES = {
    "dropout": (lambda **kw: Dropout(0.1, **kw), (X,)),
    "embedding": (lambda **kw: Embedding(11, HIDDEN, **kw), (np.array([[3, 4, 1], [5, 1, 0]], "int32"),)),
    "feed_forward": (lambda **kw: FeedForward(HIDDEN, 12, 0.1, **kw), (X,)),
    "gated_feed_forward": (lambda **kw: GatedFeedForward(HIDDEN, 12, 0.1, **kw), (X,)),
    "norm": (lambda **kw: LayerNorm(1e-5, **kw), (X,)),
    "multi_head": (lambda **kw: MultiHeadAttention(**HEADS, **kw), (QUERIES, (KEYS, VALUES), SOURCE_MASK)),
    "self_attention": (lambda **kw: SelfAttention(causal=True, **HEADS, **kw), (X, MASK)),
    "rotary": (lambda **kw: SelfAttention(HIDDEN, 2, causal=False, rotary=True, **kw), (X, MASK)),
    "relative": (lambda **kw: RelativeSelfAttention(causal=False, max_relative_position=2, **HEADS, **kw), (X, MASK)),
    "local": (lambda **kw: LocalSelfAttention(causal=False, neighborhood_size=2, **HEADS, **kw), (X, MASK)),
    "convolution": (lambda **kw: Convolution(HIDDEN, True, 3, dilation=2, **kw), (X, MASK)),
    "separable": (lambda **kw: Convolution(HIDDEN, False, 3, separable=True, **kw), (X, MASK)),
    "recurrent": (lambda **kw: Recurrent(HIDDEN, False, **kw), (X, MASK)),
    "gated_units": (lambda **kw: GatedUnits(6, backward=True, **kw), (X, MASK[:, 0, 0])),
    "parameter_attention": (lambda **kw: ParameterAttention(HIDDEN, 2, 4, 6, 0.1, **kw), (X,)),
    "rms_norm": (lambda **kw: RMSNorm(**kw), (X,)),
    "sinusoidal_positions": (lambda **kw: SinusoidalPositions(HIDDEN, **kw), (X,)),
    "sinusoidal_halves": (lambda **kw: SinusoidalHalves(HIDDEN, **kw), (X,)),
    "no_positions": (lambda **kw: NoPositions(HIDDEN, **kw), (X,)),
    "learned_positions": (lambda **kw: LearnedPositions(7, HIDDEN, **kw), (X,)),
    "residual": (lambda **kw: Residual(0.1, "post", "rms", **kw), (X, Y)),
    "encoder_layer": (encoder_layer, (X, MASK)),
    "decoder_layer": (decoder_layer, (X, (KEYS, VALUES), SOURCE_MASK)),
}
every_layer = pytest.mark.parametrize("name", CASES)


def output(layer, arguments):
    result = layer(*arguments)
    return result.x if isinstance(layer, DecoderLayer) else result


def input_shape(name):
    """The shape that a layer is built with: the first argument's, or of the sequence that attention projects."""
    return X.shape if name == "multi_head" else CASES[name][1][0].shape


def restored(layer):
    """The layer from its config, by way of JSON, with its weights."""
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(keras.saving.serialize_keras_object(layer))))
    again.set_weights(layer.get_weights())
    return again


def test_every_public_layer_is_tested():
    assert {type(make()) for make, _ in CASES.values()} == PUBLIC


@pytest.mark.parametrize("kind", sorted(PUBLIC, key=lambda kind: kind.__name__))
def test_every_layer_has_an_example_that_runs(kind):
    (example,) = doctest.DocTestFinder(recurse=False).find(kind, kind.__name__)
    assert example.examples, "its docstring has no example"
    example.globs = vars(import_module(kind.__module__)) | {"ops": ops}
    results = doctest.DocTestRunner().run(example)
    assert results.failed == 0
    assert keras.saving.get_registered_name(kind) == f"t2t_lite>{kind.__name__}"


@every_layer
def test_building_directly_and_on_the_first_call_makes_the_same_variables(name):
    make, arguments = CASES[name]
    called, built = make(name="part"), make(name="part")
    result = output(called, arguments)
    built.build(input_shape(name))
    assert [(v.path, v.shape) for v in built.variables] == [(v.path, v.shape) for v in called.variables]
    assert all(variable.path.startswith("part/") for variable in built.variables)
    assert ops.shape(result) == called.compute_output_shape(arguments[0].shape)
    assert called.count_params() == sum(int(np.prod(variable.shape)) for variable in called.variables)


@every_layer
def test_a_layer_from_its_config_has_the_same_config_and_outputs(name):
    make, arguments = CASES[name]
    layer = make(name="part", dtype="mixed_bfloat16")
    expected = output(layer, arguments)
    again = restored(layer)
    assert type(again) is type(layer)
    assert again.get_config() == layer.get_config()
    assert again.dtype_policy.name == "mixed_bfloat16"
    assert [variable.path for variable in again.variables] == [variable.path for variable in layer.variables]
    np.testing.assert_array_equal(output(again, arguments), expected)


@every_layer
def test_the_config_has_every_constructor_argument(name):
    layer = CASES[name][0]()
    kinds = [kind for kind in type(layer).__mro__ if kind.__module__.startswith("t2t_lite.")]
    parameters = [each for kind in kinds for each in inspect.signature(kind.__init__).parameters.values()]
    named = {each.name for each in parameters if each.kind != inspect.Parameter.VAR_KEYWORD} - {"self"}
    assert named | {"name", "trainable", "dtype"} == set(layer.get_config())


@every_layer
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_a_mixed_policy_computes_in_16_bits_with_float32_variables(name, policy):
    make, arguments = CASES[name]
    layer = make(dtype=policy)
    # The sub-layers of these two have policies of their own.
    if not isinstance(layer, EncoderLayer | DecoderLayer):
        assert keras.backend.standardize_dtype(output(layer, arguments).dtype) == policy.removeprefix("mixed_")
    assert {variable.dtype for variable in layer.variables} <= {"float32"}
    assert np.isfinite(np.array(ops.cast(output(layer, arguments), "float32"))).all()


@pytest.mark.slow
@every_layer
def test_a_functional_model_is_trained_saved_and_loaded(name, tmp_path):
    make, arguments = CASES[name]
    layer = make(name="part")

    def symbolic(argument):
        shape = [None if size in (LENGTH, SOURCE) else size for size in argument.shape[1:]]
        return keras.Input(shape, dtype=argument.dtype.name)

    inputs = keras.tree.map_structure(symbolic, arguments)
    if isinstance(layer, DecoderLayer):
        with pytest.raises(UserError, match=r"^DecoderLayer does not accept symbolic tensors.*call it in the call\(\)"):
            layer(*inputs)
        return
    result = layer(*inputs)
    assert (result.shape[0], result.shape[-1]) == (None, ops.shape(output(layer, arguments))[-1])
    model = keras.Model(keras.tree.flatten(inputs), result)
    data = keras.tree.flatten(arguments)
    before = model.get_weights()
    model.compile("sgd", "mse", jit_compile=False)
    target = np.ones(ops.shape(output(layer, arguments)), "float32")
    assert np.isfinite(model.train_on_batch(data, target))
    for variable, old in zip(layer.trainable_variables, before):
        if name == "multi_head" and not variable.path.endswith("output"):
            continue  # queries, keys and values are projected by methods
        assert (np.array(variable) != old).any(), variable.path
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict_on_batch(data), model.predict_on_batch(data))


@every_layer
def test_training_true_turns_dropout_on(name):
    make, arguments = CASES[name]
    layer = make()
    at_rest = np.array(output(layer, arguments))
    np.testing.assert_array_equal(output(layer, arguments), at_rest)
    rate = layer.rate if isinstance(layer, Dropout) else layer.get_config().get("dropout", 0.0)
    if rate or isinstance(layer, EncoderLayer):
        assert (np.array(layer(*arguments, training=True)) != at_rest).any()
