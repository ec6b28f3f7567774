"""Every row of table 3 is a set derived directly from the base model, with the printed values."""

import pytest

from t2t_lite.registry import HPARAMS

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
def test_a_row_of_table_3_has_the_printed_values(name):
    assert table_3(HPARAMS[name]()) == BASE | ROWS[name]


@pytest.mark.parametrize("name", sorted(ROWS.keys() - {"transformer_base"}))
def test_a_row_of_table_3_changes_only_its_own_settings_of_the_base_model(name):
    assert HPARAMS.parent(name) == "transformer_base"
    hparams, base = HPARAMS[name](), HPARAMS["transformer_base"]()
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
    assert {named[name] for name in changed & named.keys()} <= ROWS[name].keys()


def test_attention_over_parameters_has_the_appendix_sizes():
    sizes = {}
    for name in ("transformer_aop1", "transformer_aop2"):
        hparams = HPARAMS[name]()
        sizes[name] = (hparams.parameter_heads, hparams.parameter_head_size, hparams.parameter_pairs)
    assert sizes == {"transformer_aop1": (8, 64, 1536), "transformer_aop2": (16, 64, 512)}


def test_table_1_has_a_set_for_each_kind_of_layer():
    kinds = {
        name: HPARAMS[f"transformer_{name}"]().self_attention_type
        for name in ("base", "local", "recurrent", "convolution", "separable_convolution")
    }
    assert kinds == {"base": "full"} | {name: name for name in kinds if name != "base"}


def test_every_set_has_a_one_line_description():
    lines = {name: HPARAMS.summary(name) for name in HPARAMS.names()}
    assert {name: line for name, line in lines.items() if not 20 < len(line) < 120 or not line.endswith(".")} == {}
