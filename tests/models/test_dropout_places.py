"""The places of dropout, against literal lists."""

import numpy as np
import pytest
import tensorflow as tf
from support.seeds import seeds_of

from t2t_lite.layers.dropout import Dropout
from t2t_lite.models.transformer import Transformer
from t2t_lite.registry import HPARAMS

INPUTS = np.array([[3, 4, 5, 1]], "int32")
TARGETS = np.array([[6, 7, 1]], "int32")

# Section 5.4: on the output of each sub-layer, and on the sums of embeddings and positions of both stacks; no others.
PAPER = [
    "embedding",
    "encoder_0/self_attention_residual",
    "encoder_0/feed_forward_residual",
    "decoder_0/self_attention_residual",
    "decoder_0/cross_attention_residual",
    "decoder_0/feed_forward_residual",
]
TENSOR2TENSOR = [
    *PAPER,
    "encoder_0/self_attention",
    "encoder_0/feed_forward",
    "decoder_0/self_attention",
    "decoder_0/cross_attention",
    "decoder_0/feed_forward",
]


def make(name):
    small = {"hidden_size": 16, "filter_size": 24, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
    model = Transformer(HPARAMS[name]().replace(**small), 13)
    model.build()
    return model


def places(model):
    """The dropout layers with a rate above 0, by the path of their parent layer."""
    found = {"tokens": model.token_dropout, "embedding": model.embedding_dropout}
    for stack in (model.encoder_layers, model.decoder_layers):
        for layer in stack:
            for part in layer._flatten_layers(include_self=False, recursive=False):
                for inner in part._flatten_layers(include_self=False, recursive=False):
                    if isinstance(inner, Dropout):
                        found[f"{layer.name}/{part.name}"] = inner
    every = [layer for layer in model._flatten_layers() if isinstance(layer, Dropout)]
    assert {id(layer) for layer in every} == {id(layer) for layer in found.values()}
    return {place: layer for place, layer in found.items() if layer.rate > 0}


@pytest.mark.parametrize(
    ("name", "expected", "rate"),
    [
        ("transformer_base", PAPER, 0.1),
        ("transformer_big", PAPER, 0.3),
        ("transformer_dr0", [], 0.0),
        ("transformer_dr2", PAPER, 0.2),
        ("t2t_transformer_base_v1", PAPER, 0.1),
        ("t2t_transformer_base", TENSOR2TENSOR, 0.1),
    ],
)
def test_dropout_places_and_their_rate(name, expected, rate):
    model, seeds = make(name), seeds_of()
    found = places(model)
    assert sorted(found) == sorted(expected)
    assert {layer.rate for layer in found.values()} <= {rate}
    drawn, draw = [], seeds.uint16_like
    seeds.uint16_like = lambda x: drawn.append(x.shape) or draw(x)
    model(INPUTS, TARGETS, seeds=seeds)
    assert len(drawn) == len(expected) + ("embedding" in expected)  # the embeddings of the source and of the target


@pytest.mark.parametrize("place", TENSOR2TENSOR)
def test_each_place_acts_only_with_seeds(place):
    model = make("t2t_transformer_base")
    before = np.array(model(INPUTS, TARGETS))
    for other, layer in places(model).items():
        layer.rate = 0.5 if other == place else 0.0
    np.testing.assert_array_equal(model(INPUTS, TARGETS), before)
    seeds = seeds_of()
    assert np.abs(np.array(model(INPUTS, TARGETS, seeds=seeds)) - before).max() > 1e-3


def test_token_dropout_removes_whole_vectors_on_both_sides():
    model = make("transformer_dr0")
    others = INPUTS + 2, TARGETS + 1
    model.token_dropout.rate = 1 - 2**-16  # all of these few tokens
    assert np.abs(np.array(model(*others)) - model(INPUTS, TARGETS)).max() > 1e-3
    logits = model(INPUTS, TARGETS, seeds=seeds_of())
    np.testing.assert_array_equal(model(*others, seeds=seeds_of()), logits)  # only positions are left
    assert np.abs(np.array(logits[0, 0]) - logits[0, 1]).max() > 1e-3


@pytest.mark.slow
def test_training_without_seeds_uses_the_random_generator_of_keras():
    import keras

    model = make("transformer_base")
    before, weights = np.array(model(INPUTS, TARGETS)), [variable.path for variable in model.variables]
    parameters = model.count_params()
    results = []
    for seed in (1, 1, 2):
        keras.utils.set_random_seed(seed)
        results.append([np.array(model(INPUTS, TARGETS, training=True)) for _ in range(2)])
    np.testing.assert_array_equal(results[0], results[1])
    for one, other in ((results[0][0], results[0][1]), (results[0][0], results[2][0]), (results[0][0], before)):
        assert np.abs(one - other).max() > 1e-3
    np.testing.assert_array_equal(model(INPUTS, TARGETS, training=False), before)
    compiled = tf.function(lambda: model(INPUTS, TARGETS, training=True))
    assert np.abs(compiled().numpy() - compiled().numpy()).max() > 1e-3
    # The generator's state belongs to Keras, and is in no parameters and no checkpoint.
    assert [variable.path for variable in model.variables] == weights
    assert model.count_params() == parameters
