"""The sets of the paper, from the base model with the values of table 3, and of tensor2tensor with its own values."""

import pytest

from t2t_lite.registry import HPARAMS
from t2t_lite.schedules import learning_rate

BASE = {"N": 6, "d_model": 512, "d_ff": 2048, "h": 8, "d_k": 64, "d_v": 64, "P_drop": 0.1, "epsilon_ls": 0.1}
# The paper's table 3, and the table of its appendix: the differences from the base model.
ROWS = {
    "transformer_base": {},
    "transformer_h1": {"h": 1, "d_k": 512, "d_v": 512},
    "transformer_h4": {"h": 4, "d_k": 128, "d_v": 128},
    "transformer_h16": {"h": 16, "d_k": 32, "d_v": 32},
    "transformer_h32": {"h": 32, "d_k": 16, "d_v": 16},
    "transformer_dk16": {"d_k": 16},
    "transformer_dk32": {"d_k": 32},
    "transformer_l2": {"N": 2},
    "transformer_l4": {"N": 4},
    "transformer_l8": {"N": 8},
    "transformer_hs256": {"d_model": 256, "d_k": 32, "d_v": 32},
    "transformer_hs1024": {"d_model": 1024, "d_k": 128, "d_v": 128},
    "transformer_ff1024": {"d_ff": 1024},
    "transformer_ff4096": {"d_ff": 4096},
    "transformer_dr0": {"P_drop": 0.0},
    "transformer_dr2": {"P_drop": 0.2},
    "transformer_ls0": {"epsilon_ls": 0.0},
    "transformer_ls2": {"epsilon_ls": 0.2},
    "transformer_learned_positions": {},
    "transformer_aop1": {},
    "transformer_aop2": {},
    "transformer_big": {"d_model": 1024, "d_ff": 4096, "h": 16, "P_drop": 0.3},
}


def table_3(hparams):
    assert hparams.num_encoder_layers == hparams.num_decoder_layers
    return {
        "N": hparams.num_encoder_layers,
        "d_model": hparams.hidden_size,
        "d_ff": hparams.filter_size,
        "h": hparams.num_heads,
        "d_k": hparams.key_size,
        "d_v": hparams.value_size,
        "P_drop": hparams.residual_dropout,
        "epsilon_ls": hparams.label_smoothing,
    }


@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_table_3_has_the_printed_values_and_changes_no_other_settings_of_the_base_model(name):
    hparams, base = HPARAMS[name](), HPARAMS["transformer_base"]()
    assert table_3(hparams) == BASE | ROWS[name]
    assert name == "transformer_base" or HPARAMS.parent(name) == "transformer_base"
    named = {
        "num_encoder_layers": "N",
        "num_decoder_layers": "N",
        "hidden_size": "d_model",
        "filter_size": "d_ff",
        "num_heads": "h",
        "attention_key_size": "d_k",
        "residual_dropout": "P_drop",
        "label_smoothing": "epsilon_ls",
    }
    others = {
        "transformer_learned_positions": {"position_encoding"},
        "transformer_aop1": {"feed_forward_type"},
        "transformer_aop2": {"feed_forward_type", "parameter_heads", "parameter_pairs"},
        "transformer_big": {"train_steps", "average_checkpoints"},
    }
    changed = {line.split(":")[0] for line in hparams.difference(base)}
    assert set(changed - named.keys()) == others.get(name, set())
    assert {named[setting] for setting in changed & named.keys()} <= ROWS[name].keys()


def test_table_1_has_a_set_for_each_kind_of_layer():
    kinds = {
        name: HPARAMS[f"transformer_{name}"]().self_attention_type
        for name in ("base", "local", "recurrent", "convolution", "separable_convolution")
    }
    assert kinds == {"base": "full"} | {name: name for name in kinds if name != "base"}


def test_every_set_has_a_one_line_description():
    lines = {name: HPARAMS.summary(name) for name in HPARAMS.names()}
    assert {name: line for name, line in lines.items() if not 20 < len(line) < 120 or not line.endswith(".")} == {}


# tensor2tensor.

# layers, hidden, filter, heads, norm, residual / attention / ReLU dropout, beta2, warm-up, peak rate (2 digits), batch
# per GPU, GPUs, max_length, tied; from tensor2tensor's last public source.
VALUES = {
    "base_v1": (6, 512, 2048, 8, "post", 0.1, 0.0, 0.0, 0.98, 4000, 7.0e-4, 4096, 8, 256, "all"),
    "base_v2": (6, 512, 2048, 8, "pre", 0.1, 0.1, 0.1, 0.98, 8000, 9.9e-4, 4096, 8, 256, "all"),
    "base_v3": (6, 512, 2048, 8, "pre", 0.1, 0.1, 0.1, 0.997, 8000, 9.9e-4, 4096, 8, 256, "all"),
    "base": (6, 512, 2048, 8, "pre", 0.1, 0.1, 0.1, 0.997, 8000, 9.9e-4, 4096, 8, 256, "all"),
    "big": (6, 1024, 4096, 16, "pre", 0.3, 0.1, 0.1, 0.997, 8000, 7.0e-4, 2048, 8, 256, "all"),
    "base_single_gpu": (6, 512, 2048, 8, "pre", 0.1, 0.1, 0.1, 0.997, 16_000, 7.9e-4, 1024, 1, 256, "all"),
    "parsing_base": (6, 1024, 2048, 8, "pre", 0.2, 0.2, 0.1, 0.997, 16_000, 4.9e-4, 4096, 1, 512, "none"),
    "parsing_big": (6, 1024, 4096, 16, "pre", 0.1, 0.1, 0.1, 0.997, 4000, 9.9e-4, 2048, 1, 512, "all"),
    "tiny": (2, 128, 512, 4, "pre", 0.1, 0.1, 0.1, 0.997, 8000, 2.0e-3, 4096, 1, 256, "all"),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_set_has_tensor2tensors_values(name):
    hparams = HPARAMS[f"t2t_transformer_{name}"]()
    *sizes, warmup, peak, batch_of_a_gpu, gpus, max_length, tied = VALUES[name]
    assert sizes == [
        hparams.num_encoder_layers,
        hparams.hidden_size,
        hparams.filter_size,
        hparams.num_heads,
        hparams.norm_position,
        hparams.residual_dropout,
        hparams.attention_dropout,
        hparams.relu_dropout,
        hparams.adam_beta2,
    ]
    assert hparams.num_decoder_layers == hparams.num_encoder_layers
    assert hparams.learning_rate_warmup_steps == warmup
    assert f"{float(learning_rate(warmup, hparams)):.1e}" == f"{peak:.1e}"
    assert hparams.batch_tokens == batch_of_a_gpu * gpus
    assert (hparams.max_length, hparams.tied_embeddings) == (max_length, tied)
    # What all of them share.
    assert hparams.position_encoding == "sinusoidal_halves"
    assert (hparams.adam_beta1, hparams.adam_epsilon, hparams.label_smoothing) == (0.9, 1e-9, 0.1)
    assert (hparams.norm_type, hparams.self_attention_type, hparams.feed_forward_type) == ("layer", "full", "relu")
    assert (hparams.train_steps, hparams.average_checkpoints) == (250_000, 8)
