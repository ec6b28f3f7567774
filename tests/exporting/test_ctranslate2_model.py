"""Models in CTranslate2's format have the log-probabilities of our own, or are refused by name."""

import json
import os
import re
import subprocess
import sys

import ctranslate2
import numpy as np
import pytest
import tensorflow as tf
from support.exported import SMALL, random_model

from t2t_lite.config import HParams
from t2t_lite.errors import UserError
from t2t_lite.exporting import ctranslate2_model
from t2t_lite.models.building import make_model
from t2t_lite.registry import HPARAMS

VOCAB = 30
# The sets whose layers CTranslate2 does not have: the paper's appendix and table 1, and hard alignment.
REFUSED = (
    "aop1",
    "aop2",
    "convolution",
    "local",
    "parsing_small",
    "parsing_tagged",
    "recurrent",
    "separable_convolution",
)
KINDS = [
    {},
    {"norm_position": "pre"},
    {"norm_type": "rms"},
    {"norm_type": "rms", "norm_position": "pre", "feed_forward_type": "swiglu"},
    {"position_encoding": "sinusoidal_halves"},
    {"position_encoding": "learned"},
    {"position_encoding": "rotary"},
    {"position_encoding": "relative", "max_relative_position": 3},
    {"position_encoding": "relative", "attention_key_size": 2, "attention_value_size": 4},
    {"attention_key_size": 4},
    {"num_heads": 1, "num_encoder_layers": 3, "num_decoder_layers": 1},
    {"tied_embeddings": "decoder"},
    {"tied_embeddings": "decoder", "inputs_vocab_size": 45},
    {"tied_embeddings": "none"},
]


def names(ids):
    return [f"t{id}" for id in ids]


def log_probs(model):
    """Those of each target token and the end symbol, by teacher forcing with the Keras model."""
    found = []
    for source, target in random_pairs(model):
        logits = model(tf.constant([source], tf.int32), tf.constant([[*target, 1]], tf.int32))
        normal = tf.nn.log_softmax(tf.cast(logits, tf.float32))[0].numpy()
        found.append([normal[place, id] for place, id in enumerate([*target, 1])])
    return found


def exported_log_probs(model, folder, compute_type="default"):
    pairs = random_pairs(model)
    translator = ctranslate2.Translator(str(folder), intra_threads=1, compute_type=compute_type)
    # CTranslate2 adds the end symbol of targets itself.
    results = translator.score_batch([names(source) for source, _ in pairs], [names(target) for _, target in pairs])
    return [result.log_probs for result in results]


def random_pairs(model):
    random = np.random.default_rng(0)
    return [
        ([*random.integers(3, model.inputs_vocab_size, source), 1], [*random.integers(3, model.vocab_size, target)])
        for source, target in [(3, 5), (7, 1), (20, 30), (40, 12)]
    ]


def written(model, folder, quantization=None):
    vocabularies = names(range(model.vocab_size)), names(range(model.inputs_vocab_size))
    ctranslate2_model.write(model, *vocabularies, folder, quantization)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("settings", KINDS, ids=lambda settings: ",".join(map(str, settings.values())) or "base")
def test_given_pairs_have_the_same_log_probabilities(tmp_path, settings):
    model = random_model(VOCAB, **settings)
    ours, theirs = log_probs(model), exported_log_probs(model, written(model, tmp_path))
    assert list(map(len, ours)) == list(map(len, theirs)) and np.std(np.concatenate(ours)) > 0.3
    np.testing.assert_allclose(np.concatenate(theirs), np.concatenate(ours), atol=2e-5)


@pytest.mark.parametrize("quantization, bytes_each", [("int8", 1), ("int16", 2), ("float16", 2), ("bfloat16", 2)])
def test_a_quantized_model_is_smaller_and_close(tmp_path, quantization, bytes_each):
    model = random_model(VOCAB, hidden_size=64, filter_size=128)
    # Without a backend for int16, CTranslate2 computes with int8, and the result depends on the processor.
    compute_type = "float32" if quantization == "int16" else "default"
    exported = exported_log_probs(model, written(model, tmp_path, quantization), compute_type)
    ours = np.concatenate(log_probs(model))
    error = np.abs(np.concatenate(exported) - ours)
    assert error.max() > 0 and error.mean() < 0.1 * np.std(ours)
    # Positions and scales are float32 or as small as the weights.
    weights, positions = model.count_params(), 2 * ctranslate2_model.POSITIONS * 64
    size = (tmp_path / "model.bin").stat().st_size
    assert weights * bytes_each < size < 1.2 * weights * bytes_each + 4 * positions


# With AVX2 at most, the sum of two products of a weight and an activation of 8 bits has 16 bits.
AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "CT2_FORCE_CPU_ISA": "AVX2"}
SCORE = """
import ctranslate2, json, sys
folder, sources, targets = json.loads(sys.argv[1])
results = ctranslate2.Translator(folder, intra_threads=1).score_batch(sources, targets)
print(json.dumps([result.log_probs for result in results]))
"""


@pytest.mark.slow
def test_int8_is_close_on_processors_that_add_its_products_in_16_bits(tmp_path):
    model = random_model(VOCAB, hidden_size=64, filter_size=128)
    # Weights of one size: each is the largest that int8 has, so that nearly every sum would overflow at 127.
    model.set_weights([np.sign(weight) * 0.1 if weight.ndim > 1 else weight for weight in model.get_weights()])
    sides = ([names(side) for side in each] for each in zip(*random_pairs(model)))
    command = [sys.executable, "-c", SCORE, json.dumps([str(written(model, tmp_path, "int8")), *sides])]
    process = subprocess.run(command, env=os.environ | AVX2, capture_output=True, check=True)
    ours = np.concatenate(log_probs(model))
    error = np.abs(np.concatenate(json.loads(process.stdout)) - ours)
    assert 0 < error.mean() < 0.1 * np.std(ours)


def test_a_word_with_the_name_of_a_symbol_is_refused(tmp_path):
    tokens = ["<pad>", "</s>", "<unk>", "</s>", *names(range(4, VOCAB))]
    with pytest.raises(UserError, match="the word </s>, which is also the name of a symbol"):
        ctranslate2_model.write(random_model(VOCAB), tokens, tokens, tmp_path, None)


@pytest.mark.parametrize(("unknown_id", "token"), [(2, "<unk>"), (4, "w4"), (None, "<unk>")])
def test_the_unknown_token_may_have_any_id(unknown_id, token, tmp_path):
    tokens = ["<pad>", "</s>", "<unk>", *(f"w{id}" for id in range(3, VOCAB))]
    ctranslate2_model.write(random_model(VOCAB), tokens, tokens, tmp_path, None, unknown_id)
    assert json.loads((tmp_path / "config.json").read_text())["unk_token"] == token


@pytest.mark.slow
@pytest.mark.parametrize("name", HPARAMS)
def test_every_set_has_the_same_log_probabilities_or_is_refused_by_name(tmp_path, name):
    hparams = HPARAMS[name]()
    sizes = ("hidden_size", "filter_size", "attention_key_size", "attention_value_size", "parameter_head_size")
    smaller = {size: max(getattr(hparams, size) // 8, 2) for size in sizes if getattr(hparams, size)}
    layers = {side: min(getattr(hparams, side), 2) for side in ("num_encoder_layers", "num_decoder_layers")}
    hparams = hparams.replace(**smaller, **layers, parameter_pairs=16, max_length=64, precision="float32")
    model = make_model(hparams, VOCAB, random_seed=1)
    try:
        written(model, tmp_path)
    except UserError as error:
        kinds = ("self_attention_type", "feed_forward_type", "norm_type", "position_encoding", "model", "attention_")
        assert re.match(rf"CTranslate2 has no equivalent of (the )?({'|'.join(kinds)})", str(error))
        assert list(tmp_path.iterdir()) == []
        assert name.removeprefix("transformer_") in REFUSED
        return
    assert name.removeprefix("transformer_") not in REFUSED
    ours, theirs = (np.concatenate(each) for each in (log_probs(model), exported_log_probs(model, tmp_path)))
    np.testing.assert_allclose(theirs, ours, atol=1e-4)


@pytest.mark.parametrize(
    "settings, named",
    [
        ({"self_attention_type": "local"}, "self_attention_type=local"),
        ({"feed_forward_type": "attention", "parameter_heads": 2, "parameter_pairs": 8}, "feed_forward_type=attention"),
        ({"hard_alignment_token": 5, "model": "transformer"}, "HardAlignmentTransformer"),
        ({"attention_key_size": 32}, "attention_key_size=32"),
    ],
)
def test_what_it_cannot_hold_is_refused_by_name(settings, named):
    with pytest.raises(UserError, match=rf"^CTranslate2 has no equivalent of .*{named}.*--format=saved_model$"):
        ctranslate2_model.check_supported(make_model(HParams(**SMALL | settings), VOCAB))
