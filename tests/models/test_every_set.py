"""Every registered hparams set trains, decodes with caches, and can be saved and loaded.

For training, decoding and saving, a set gets small sizes but keeps its string settings; equal small sets are tried
once. The tests run over the registry, so new sets are covered automatically.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.models.building import make_model
from t2t_lite.registry import HPARAMS
from t2t_lite.runs import checkpoints
from t2t_lite.training.devices import make_strategy
from t2t_lite.training.micro_batching import distribute_batches
from t2t_lite.training.optimizers import make_optimizer
from t2t_lite.training.step import TrainStep

VOCAB, INPUTS_VOCAB = 13, 11
INPUTS = np.array([[3, 4, 5, 6, 1], [7, 8, 1, 0, 0]], "int32")
TARGETS = np.array([[9, 2, 12, 7, 6, 5, 3, 1], [5, 5, 1, 0, 0, 0, 0, 0]], "int32")


def shrunk(hparams):
    """The set with small sizes; string settings keep their values, and rates stay zero or nonzero."""
    rates = ("residual_dropout", "attention_dropout", "relu_dropout", "label_smoothing")
    schedule = ("learning_rate_constant", "learning_rate_warmup_steps", "adam_beta1", "adam_beta2", "adam_epsilon")
    default = HPARAMS["transformer_base"]()
    return hparams.replace(
        **{name: 0.1 if getattr(hparams, name) else 0.0 for name in rates},
        **{name: getattr(default, name) for name in schedule},
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_size=16,
        filter_size=24,
        num_heads=min(hparams.num_heads, 4),
        attention_key_size=min(hparams.attention_key_size, 2),
        attention_value_size=min(hparams.attention_value_size, 2),
        neighborhood_size=4,
        parameter_heads=2,
        parameter_head_size=4,
        parameter_pairs=min(hparams.parameter_pairs, 6),
        max_relative_position=3,
        max_length=12,
        batch_tokens=64,
        train_steps=10,
        average_checkpoints=5,
    )


SMALL = {name: shrunk(HPARAMS[name]()) for name in HPARAMS.names()}
# One name for each group of sets that are equal when small.
DIFFERENT = sorted({hparams: name for name, hparams in sorted(SMALL.items(), reverse=True)}.values())


def inputs_vocab_of(hparams):
    return VOCAB if hparams.tied_embeddings == "all" else INPUTS_VOCAB


def make(hparams):
    return make_model(hparams, VOCAB, inputs_vocab_of(hparams))


@functools.cache
def after_one_step(name):
    """A small model of the set before and after one step of training: (model, values before, loss sums)."""
    hparams = SMALL[name].replace(learning_rate_warmup_steps=1, precision="float32")
    strategy = make_strategy()
    model = make(hparams)
    optimizer = make_optimizer(model.trainable_variables, hparams)
    before = [np.array(variable) for variable in model.variables]
    batch = {"inputs": INPUTS[None], "targets": TARGETS[None]}
    batches = distribute_batches(strategy, tf.data.Dataset.from_tensor_slices(batch))
    step = TrainStep(strategy, model, optimizer, batches.element_spec, random_seed=1)
    return model, before, step(next(iter(batches))).sums


def test_every_set_is_tested():
    assert {SMALL[name] for name in DIFFERENT} == set(SMALL.values())
    assert len(DIFFERENT) > 14


@pytest.mark.slow
@pytest.mark.parametrize("name", DIFFERENT)
def test_one_training_step_changes_every_weight_to_a_finite_value(name):
    model, before, sums = after_one_step(name)
    assert float(sums.tokens) == np.count_nonzero(TARGETS)
    # The loss of an untrained model is about log(vocab) per token.
    assert 0.5 < float(sums.plain) / float(sums.tokens) / np.log(VOCAB) < 3.0
    for variable, old in zip(model.variables, before):
        assert np.isfinite(np.array(variable)).all(), variable.path
        assert (np.array(variable) != old).any(), variable.path


@pytest.mark.slow
@pytest.mark.parametrize("name", DIFFERENT)
def test_decoding_with_caches_equals_one_full_pass(name, descending_beams):
    model, _, _ = after_one_step(name)
    beam_size = 2
    rows, length = len(INPUTS) * beam_size, 10  # more than two neighborhoods
    encoded_source, state = model.start_decoding(INPUTS, beam_size, length)
    assert all(tensor.shape[0] == len(INPUTS) for tensor in tf.nest.flatten((encoded_source, state)))
    for position, ancestry, histories in descending_beams(len(INPUTS), beam_size, length, VOCAB):
        logits, state, attention = model.decode_step(histories[:, :, -1], position, encoded_source, state, ancestry)
        targets = np.concatenate([histories[:, :, 1:], histories[:, :, :1]], axis=2)
        full = model(INPUTS.repeat(beam_size, axis=0), targets.reshape(rows, position + 1))[:, -1]
        assert logits.shape == (len(INPUTS), beam_size, VOCAB)
        np.testing.assert_allclose(logits, np.array(full).reshape(logits.shape), atol=1e-4)
        np.testing.assert_allclose(np.array(attention).sum(-1), 1.0, atol=1e-5)
        assert not np.array(attention)[np.broadcast_to(INPUTS[:, None] == 0, attention.shape)].any()


@pytest.mark.parametrize("name", DIFFERENT)
def test_saving_and_loading_keeps_the_outputs(name, tmp_path):
    model, _, _ = after_one_step(name)
    checkpoints.write(tmp_path / "ckpt-1", model=checkpoints.by_name(model.variables))
    loaded = make(SMALL[name].replace(precision="float32"))
    assert np.abs(np.array(loaded(INPUTS, TARGETS)) - np.array(model(INPUTS, TARGETS))).max() > 1e-3
    checkpoints.restore(tmp_path / "ckpt-1", "model", checkpoints.by_name(loaded.variables))
    np.testing.assert_array_equal(loaded(INPUTS, TARGETS), model(INPUTS, TARGETS))
