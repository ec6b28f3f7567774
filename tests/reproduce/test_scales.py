"""Rows of the paper's tables at other sizes: every row keeps its ratio to the base model."""

import dataclasses

import pytest

from t2t_lite.registry import HPARAMS
from t2t_lite.reproduce.paper_figures import PAPER_FIGURES
from t2t_lite.reproduce.runs import SCALES, changes_of


@pytest.mark.parametrize("row", PAPER_FIGURES)
def test_at_the_papers_scale_a_row_is_its_set(row):
    changed = HPARAMS["transformer_base"]().replace(**changes_of(row, SCALES["paper"]))
    wanted = HPARAMS[row]()
    assert dataclasses.replace(changed, max_length=wanted.max_length) == wanted


@pytest.mark.parametrize("scale", ["tiny", "small"])
def test_rows_keep_their_ratios(scale):
    scale = SCALES[scale]
    base = HPARAMS[scale.base]()
    rows = {row: base.replace(**changes_of(row, scale)) for row in PAPER_FIGURES}
    assert rows["transformer_base"] == base
    assert rows["transformer_h1"].num_heads == 1 and rows["transformer_h16"].num_heads == 16
    assert rows["transformer_dk16"].attention_key_size * 4 == base.hidden_size // base.num_heads
    assert rows["transformer_l2"].num_decoder_layers * 3 == base.num_decoder_layers
    assert rows["transformer_l8"].num_encoder_layers * 3 == base.num_encoder_layers * 4
    assert rows["transformer_ff4096"].filter_size == 2 * base.filter_size
    assert rows["transformer_hs256"].hidden_size * 2 == base.hidden_size
    assert rows["transformer_big"].train_steps == 3 * base.train_steps
    assert rows["transformer_dr0"].residual_dropout == 0.0
    assert rows["transformer_learned_positions"].position_encoding == "learned"
    assert rows["transformer_parsing"].max_length == 512
    # Every row but the base itself differs from it.
    assert [row for row, hparams in rows.items() if hparams == base] == ["transformer_base"]


def test_parameter_pairs_keep_the_size_of_the_feed_forward_network():
    from t2t_lite.models.parameters import count_parameters

    for scale in ("tiny", "small"):
        base = HPARAMS[SCALES[scale].base]()
        for row in ("transformer_aop1", "transformer_aop2"):
            changed = base.replace(**changes_of(row, SCALES[scale]))
            theirs, ours = (sum(count_parameters(hparams, 1000).values()) for hparams in (changed, base))
            assert abs(theirs / ours - 1) < 0.02, (scale, row, theirs, ours)
