"""The paper's estimates to their printed digits; the formulas against the operations of the model's graph."""

import pytest
import tensorflow as tf

from t2t_lite.config import HParams, choices
from t2t_lite.cost.flops import RATES, estimated_flops, training_step_flops
from t2t_lite.models.parameters import symbolic_model
from t2t_lite.models.traced_cost import traced_step_flops
from t2t_lite.models.transformer import Transformer
from t2t_lite.registry import HPARAMS
from t2t_lite.reproduce.paper_figures import PAPER_FIGURES

VOCAB = 23
# All sizes differ, so that none can be confused; lengths are multiples of all blocks of `local`.
SOURCE_LENGTH, TARGET_LENGTH = 12, 8
SMALL = HParams(
    num_encoder_layers=2,
    num_decoder_layers=3,
    hidden_size=16,
    filter_size=22,
    num_heads=2,
    attention_key_size=6,
    attention_value_size=10,
    neighborhood_size=4,
    kernel_size=5,
    parameter_heads=3,
    parameter_head_size=14,
    parameter_pairs=7,
)
CHANGES = [
    *({name: word} for name, words in choices().items() if name != "precision" for word in words),
    {"self_attention_type": "local", "position_encoding": "rotary"},
    {"self_attention_type": "convolution", "dilation_growth": 2},
    {"attention_key_size": 0, "attention_value_size": 0},
]


@pytest.mark.parametrize(("hparams_set", "days", "printed"), [("base", 0.5, "3.3e+18"), ("big", 3.5, "2.3e+19")])
def test_estimates_match_table_2_to_the_printed_digit(hparams_set, days, printed):
    assert f"{estimated_flops(days * 24 * 3600, 8, RATES['P100'].tflops):.1e}" == printed
    figures = PAPER_FIGURES[f"transformer_{hparams_set}"]
    assert (figures.training_hours, f"{figures.training_flops:.1e}") == (days * 24, printed)


def test_the_step_time_is_rounded_in_the_paper_and_gives_another_estimate():
    base, big = (PAPER_FIGURES[f"transformer_{name}"] for name in ("base", "big"))
    for figures in (base, big):
        assert round(figures.training_hours * 3600 / figures.train_steps, 1) == figures.step_seconds
    assert f"{estimated_flops(base.step_seconds * base.train_steps, 8, RATES['P100'].tflops):.1e}" == "3.0e+18"


def step_flops(hparams, source, target):
    return symbolic_model(hparams, VOCAB).step_flops(source, target)


@pytest.mark.slow
@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: ",".join(f"{k}={v}" for k, v in changes.items()))
def test_counted_flops_equal_those_of_the_traced_graph(changes):
    model, lengths = symbolic_model(SMALL.replace(**changes), VOCAB), (SOURCE_LENGTH, TARGET_LENGTH)
    assert sum(model.step_flops(*lengths).values()) == sum(traced_step_flops(model, *lengths).values())


def test_traced_flops_equal_a_count_by_hand():
    hparams = SMALL.replace(num_encoder_layers=1, num_decoder_layers=1)
    projections = SMALL.hidden_size * SMALL.num_heads * (6 + 10)
    forward = {
        "encoder": 12 * (2 * projections + 12 * 2 * (6 + 10) + 2 * 16 * 22),
        "decoder": 8 * (4 * projections - projections + (8 + 12) * 2 * (6 + 10) + 2 * 16 * 22),
        # Outside the layers' calls: keys and values for cross-attention, and the logits.
        "transformer": 12 * projections + 8 * 16 * VOCAB,
    }
    traced = traced_step_flops(symbolic_model(hparams, VOCAB), SOURCE_LENGTH, TARGET_LENGTH)
    assert traced == {part: 3 * 2 * count for part, count in forward.items()}


@pytest.mark.slow
def test_a_traced_einsum_counts_as_its_product():
    class WithEinsum(Transformer):
        def _logits(self, x):
            return tf.einsum("bth,vh->btv", x, tf.convert_to_tensor(self.projection.weight))

    counts = [model(SMALL, VOCAB).step_flops(SOURCE_LENGTH, TARGET_LENGTH) for model in (Transformer, WithEinsum)]
    assert sum(counts[0].values()) == sum(counts[1].values())


@pytest.mark.slow
def test_a_traced_loop_counts_once_per_position():
    hparams = SMALL.replace(self_attention_type="recurrent", num_encoder_layers=1, num_decoder_layers=1)
    once, twice = (
        traced_step_flops(symbolic_model(hparams, VOCAB), length, TARGET_LENGTH)["encoder"] for length in (12, 24)
    )
    assert twice == 2 * once


@pytest.mark.slow
def test_operations_of_sentences_of_fractional_length_are_in_proportion():
    model = symbolic_model(SMALL, VOCAB)
    low, high = (sum(traced_step_flops(model, *lengths).values()) for lengths in ((11.5, 7.5), (12, 8)))
    assert low == pytest.approx(high * 19 / 20)


def test_local_attention_is_counted_in_whole_blocks():
    hparams = SMALL.replace(self_attention_type="local")
    whole, part = (step_flops(hparams, length, length)["decoder self-attention"] for length in (8, 7))
    projections = 3 * hparams.num_decoder_layers * 2 * 2 * SMALL.hidden_size * SMALL.num_heads * (6 + 10)
    assert whole - part == projections  # of one position: its scores are computed for the whole block


def test_local_attention_saves_work_on_long_sequences():
    full, local = (SMALL.replace(self_attention_type=word) for word in ("full", "local"))
    parts = [step_flops(hparams, 800, 800) for hparams in (full, local)]
    for part in ("encoder self-attention", "decoder self-attention"):
        assert parts[1][part] < parts[0][part] / 10
    for part in ("decoder cross-attention", "logits"):
        assert parts[1][part] == parts[0][part]


def test_a_step_has_all_pairs_of_a_batch():
    model = symbolic_model(SMALL.replace(batch_tokens=800), VOCAB)
    pair = model.step_flops(SOURCE_LENGTH, TARGET_LENGTH)
    step = training_step_flops(model, SOURCE_LENGTH, TARGET_LENGTH)
    assert step == {part: 100 * count for part, count in pair.items()}  # 100 pairs of 8 target tokens


def test_the_base_model_needs_about_six_operations_per_parameter_and_token():
    # Every parameter needs one multiply-add forward and two backward per token.
    hparams = HPARAMS["transformer_base"]()
    matrices = 37_000 * 512 + 6 * (12 * 512 * 512 + 4 * 512 * 2048)
    counted = sum(training_step_flops(symbolic_model(hparams, 37_000), 28, 28).values())
    assert 1.0 < counted / (6 * matrices * 25_000) < 1.02
