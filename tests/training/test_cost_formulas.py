"""The formulas from settings alone, against the model: its variables, and the operations that its layers report."""

import subprocess
import sys

import pytest
from training.test_cost import SMALL as SIZES

from t2t_lite.config import choices
from t2t_lite.cost.flops import cost_model
from t2t_lite.cost.formulas import TransformerFormulas, have_formulas
from t2t_lite.layers.feed_forward import FeedForward
from t2t_lite.models.parameters import symbolic_model
from t2t_lite.models.transformer import Transformer
from t2t_lite.registry import FEED_FORWARD_TYPES, HPARAMS, MODELS

# All sizes differ, so that none can be confused; the lengths are not multiples of the blocks of `local`.
SMALL = SIZES.replace(hidden_size=18, max_relative_position=8, max_length=20)
VOCAB, INPUTS_VOCAB, LENGTHS = 23, 29, (12.5, 9)
CHANGES = [
    *({name: word} for name, words in choices().items() if name not in ("model", "precision") for word in words),
    {"self_attention_type": "local", "position_encoding": "rotary"},
    {"self_attention_type": "recurrent", "norm_position": "pre", "norm_type": "rms"},
    {"self_attention_type": "convolution", "dilation_growth": 2},
    {"attention_key_size": 0, "attention_value_size": 0},
    {"hard_alignment_token": 3, "source_word_token": 4, "bracket_labels": 2},
    {"tied_embeddings": "none", "position_encoding": "learned", "feed_forward_type": "swiglu"},
]


def assert_the_same(hparams, *vocab_sizes):
    """Compares formulas and model to the last parameter and operation, with the order of the parts."""
    assert have_formulas(hparams)
    formulas, model = TransformerFormulas(hparams, *vocab_sizes), symbolic_model(hparams, *vocab_sizes)
    assert list(formulas.parameter_parts().items()) == list(model.parameter_parts().items())
    if hparams.feed_forward_type == "swiglu":  # the model counts the operations of its graph, for whole lengths
        formula, counted = (sum(each.step_flops(12, 8).values()) for each in (formulas, model))
        # With pooling, the encoder of the graph has fewer positions than the source has tokens.
        assert counted < formula if hparams.source_word_token else counted == formula
    else:
        assert list(formulas.step_flops(*LENGTHS).items()) == list(model.step_flops(*LENGTHS).items())


@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: ",".join(f"{k}={v}" for k, v in changes.items()))
def test_every_choice_of_layers_has_the_cost_of_its_model(changes):
    hparams = SMALL.replace(**changes)
    assert_the_same(hparams, VOCAB, None if hparams.tied_embeddings == "all" else INPUTS_VOCAB)


@pytest.mark.slow
@pytest.mark.parametrize("name", HPARAMS.names())
def test_every_set_has_the_cost_of_its_model(name):
    assert_the_same(HPARAMS[name](), 37_000)


def test_layers_and_models_of_plug_ins_are_built(registered):
    class Wider(FeedForward):
        def build(self, input_shape):
            super().build(input_shape)
            self.scale = self.add_weight(name="scale", shape=(5,))

    class WithSlots(Transformer):
        costs_like_transformer = True

        def build(self, input_shape=None):
            super().build(input_shape)
            self.slots = self.add_weight(name="slots", shape=(5, 16))

    registered(FEED_FORWARD_TYPES, "wider", lambda hparams, **options: Wider(hparams.hidden_size, 22, **options))
    registered(MODELS, "with_slots", WithSlots)
    usual = cost_model(SMALL, VOCAB)
    wider, slots = (
        cost_model(SMALL.replace(**changes), VOCAB)
        for changes in ({"feed_forward_type": "wider"}, {"model": "with_slots"})
    )
    assert isinstance(usual, TransformerFormulas)
    assert wider.parameter_parts()["encoder feed-forward"] == usual.parameter_parts()["encoder feed-forward"] + 2 * 5
    assert slots.parameter_parts() == usual.parameter_parts() | {"slots": 80}
    assert sum(wider.step_flops(12, 8).values()) == sum(usual.step_flops(12, 8).values())
    assert slots.step_flops(*LENGTHS) == usual.step_flops(*LENGTHS)


@pytest.mark.parametrize("flags", [["benchmark", "--cost"], ["params"]], ids=lambda flags: flags[0])
def test_the_commands_that_only_calculate_import_neither_tensorflow_nor_keras(flags):
    name, *more = flags
    program = f"""
import sys
from t2t_lite.bin.{name} import main
assert main({more}) == 0
print(sorted({{"tensorflow", "keras", "numpy", "matplotlib"}} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "") and "transformer_base" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
