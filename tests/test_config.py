import dataclasses
import json
import typing

import pytest

from t2t_lite.config import DecodeHParams, HParams
from t2t_lite.errors import UserError
from t2t_lite.registry import HPARAMS

# Section 5, section 6.1 and table 3 of the paper.
PAPER_BASE = (
    "num_encoder_layers=6,num_decoder_layers=6,hidden_size=512,filter_size=2048,num_heads=8,residual_dropout=0.1,"
    "label_smoothing=0.1,batch_tokens=25000,train_steps=100000,learning_rate_constant=1.0,"
    "learning_rate_warmup_steps=4000,adam_beta1=0.9,adam_beta2=0.98,adam_epsilon=1e-9,average_checkpoints=5"
)
PAPER_BIG = "hidden_size=1024,filter_size=4096,num_heads=16,train_steps=300000,average_checkpoints=20"
PUBLISHED = {
    "transformer_base": [PAPER_BASE],
    "transformer_big": [PAPER_BASE, PAPER_BIG, "residual_dropout=0.3"],
    "transformer_big_enfr": [PAPER_BASE, PAPER_BIG],
    "transformer_multi30k": [
        "num_encoder_layers=4,num_decoder_layers=4,hidden_size=128,filter_size=256,num_heads=4,residual_dropout=0.3,"
        "learning_rate_warmup_steps=2000"
    ],
}


def values_of(settings, names):
    return {name: getattr(settings, name) for name in names}


@pytest.mark.parametrize("name", PUBLISHED)
def test_sets_and_decoding_settings_have_the_published_values(name):
    published = dict(pair.split("=") for part in PUBLISHED[name] for pair in part.split(","))
    hparams = HPARAMS[name]()
    assert values_of(hparams, published) == {setting: float(value) for setting, value in published.items()}
    if name == "transformer_multi30k":
        peak = hparams.learning_rate_constant * (hparams.hidden_size * hparams.learning_rate_warmup_steps) ** -0.5
        assert peak == pytest.approx(0.005)
    decoding = {"beam_size": 4, "alpha": 0.6, "extra_length": 50}
    assert values_of(DecodeHParams(), decoding) == decoding


@pytest.mark.parametrize("name", HPARAMS.names())
def test_every_set_is_reproducible_and_survives_json(name):
    hparams = HPARAMS[name]()
    assert HPARAMS[name]() == hparams
    assert HParams.from_json(hparams.to_json(), "here") == hparams
    assert list(json.loads(hparams.to_json())) == [field.name for field in dataclasses.fields(HParams)]


def test_overrides_have_the_types_of_their_settings():
    hparams = HParams().override("filter_size=512,label_smoothing=0,adam_epsilon=1e-8,precision=mixed_bfloat16")
    expected = {"filter_size": 512, "label_smoothing": 0.0, "adam_epsilon": 1e-8, "precision": "mixed_bfloat16"}
    found = values_of(hparams, expected)
    assert found == expected and [*map(type, found.values())] == [int, float, float, str]


@pytest.mark.parametrize("text", ["", " ", ",", " filter_size = 512 ,, num_heads=4, "])
def test_blanks_and_empty_parts_are_allowed(text):
    hparams = HParams().override(text)
    assert hparams == (HParams().replace(filter_size=512, num_heads=4) if "=" in text else HParams())
    assert HParams().override("hidden_size=96,num_heads=3").num_heads == 3  # checked together


# What an override is refused with.
OUT = "is out of range: it must be"
AFTER_WARMUP = "above learning_rate_warmup_steps=4000 with learning_rate_schedule=linear"
BAD = [
    ("hiden_size=4", "unknown name 'hiden_size'; did you mean 'hidden_size'"),
    ("FLAG=4", "unknown name 'FLAG'"),
    ("replace=4", "unknown name 'replace'"),
    ("hidden_size", "'hidden_size' is not of the form name=value"),
    ("=4", "unknown name ''"),
    ("hidden_size=", "hidden_size takes a whole number, not ''"),
    ("hidden_size=64.5", "hidden_size takes a whole number, not '64.5'"),
    ("label_smoothing=some", "label_smoothing takes a number, not 'some'"),
    ("num_heads=4,num_heads=8", "num_heads is given twice"),
    ("num_decoder_layers=1001", f"num_decoder_layers=1001 {OUT} at least 1 and at most 1,000"),
    ("hidden_size=33,num_heads=3", f"hidden_size=33 {OUT} even"),
    ("num_heads=7", f"num_heads=7 {OUT} a divisor of hidden_size (512)"),
    ("label_smoothing=1", f"label_smoothing=1.0 {OUT} at least 0 and below 1"),
    ("attention_dropout=1", f"attention_dropout=1.0 {OUT} at least 0 and below 1"),
    ("learning_rate_constant=0", f"learning_rate_constant=0.0 {OUT} above 0"),
    ("precision=float16", f"precision=float16 {OUT} float32 or mixed_bfloat16"),
    ("self_attention_type=lokal", f"self_attention_type=lokal {OUT} convolution or full or"),
    ("position_encoding=relative,self_attention_type=local", "it must be full with position_encoding=relative"),
    ("position_encoding=rotary,self_attention_type=recurrent", "it must be full or local with position_encoding"),
    ("position_encoding=rotary,attention_key_size=5", "used with an even key size per head, not 5"),
    ("position_encoding=learned,max_length=1", "at least 2 with position_encoding=learned"),
    ("optimizer=Adam", "must be adafactor or adam or adamw or lion or sgd; tensor2tensor's Adam is adam here"),
    ("optimizer=adagrad", "tensor2tensor's adagrad is not supported; a plug-in can register it"),
    ("learning_rate_schedule=cosdecay", "or linear; tensor2tensor's cosdecay is cosine here"),
    ("weight_decay=0.1", f"weight_decay=0.1 {OUT} 0 with optimizer=adam; use adamw for weight decay"),
    ("optimizer=adamw,weight_decay=-1", f"weight_decay=-1.0 {OUT} at least 0 and finite"),
    ("learning_rate_schedule=cosine", f"learning_rate_decay_steps=0 {OUT} above"),
    ("learning_rate_schedule=linear,learning_rate_decay_steps=4000", AFTER_WARMUP),
]
OUT_OF_RANGE = {
    "": ("residual_dropout=-0.1", "residual_dropout=nan", "learning_rate_constant=inf", "adam_epsilon=nan"),
    " at least 0": ("hard_alignment_token=-1", "attention_key_size=-1", "learning_rate_decay_steps=-1"),
    " at least 0 and finite": ("clip_norm=nan", "learning_rate=inf"),
    " at least 1": ("hidden_size=0", "dilation_growth=0"),
    " odd": ("kernel_size=4",),
    " even": ("neighborhood_size=5",),
}
BAD += [(text, f"{text} {OUT}{rest}") for rest, texts in OUT_OF_RANGE.items() for text in texts]
BAD_DECODING = [
    *((text, f"{text} {OUT}") for text in ("alpha=inf", "alpha=nan", "beam_size=0", "extra_length=-1")),
    ("alpha=-1", f"alpha=-1.0 {OUT}"),
    ("beam_sise=4", "unknown name 'beam_sise'"),
    ("only_trees=True,min_length_ratio=0.5", f"min_length_ratio=0.5 {OUT} 0 with only_trees=True"),
    ("only_trees=True,no_repeat_ngram_size=2", f"no_repeat_ngram_size=2 {OUT} 0 with only_trees=True"),
]


@pytest.mark.parametrize(
    ("settings", "text", "message"),
    [(HParams(), *row) for row in BAD] + [(DecodeHParams(), *row) for row in BAD_DECODING],
    ids=[text for text, _ in BAD + BAD_DECODING],
)
def test_a_bad_override_is_an_error_with_the_reason(settings, text, message):
    with pytest.raises(UserError) as caught:
        settings.override(text)
    assert str(caught.value).startswith(f"`{settings.FLAG}`: ") and message in str(caught.value)
    assert "\n" not in str(caught.value) and caught.value.status == 2


SETTINGS = ['{"hidden_size": "wide"}', '{"no_such_setting": 1}', '{"hidden_size": 0}', '{"hidden_size": 64.0}']


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "4", "\0\0\0", *SETTINGS])
def test_damaged_json_is_an_error_that_names_the_file(text):
    with pytest.raises(UserError, match=r"run/hparams\.json"):
        HParams.from_json(text, "run/hparams.json")


@pytest.mark.parametrize("settings", [HParams, DecodeHParams])
def test_values_of_another_type_are_refused_like_those_of_a_flag(settings):
    kinds = typing.get_type_hints(settings)
    wrong = {int: [512.0, "8", None, True], float: ["0.1", None, False], str: [4, None], bool: [1, "True", None]}
    words = {int: "a whole number", float: "a number", str: "a string", bool: "True or False"}
    for field in dataclasses.fields(settings):
        kind = kinds[field.name]
        for value in wrong[kind]:
            with pytest.raises(UserError) as caught:
                settings(**{field.name: value})
            assert str(caught.value) == f"`{settings.FLAG}`: {field.name} takes {words[kind]}, not {value!r}"
            assert caught.value.status == 2
    with pytest.raises(UserError, match="num_heads takes a whole number, not '8'"):
        HParams().replace(num_heads="8")


def test_difference_lists_changed_settings_with_both_values():
    mine, theirs = HParams(), HParams(hidden_size=64, label_smoothing=0.0)
    assert mine.difference(theirs) == ["hidden_size: 512, not 64", "label_smoothing: 0.1, not 0.0"]
    assert mine.difference(HParams()) == []


def test_head_sizes_divide_the_width_unless_set_explicitly():
    assert (HParams().key_size, HParams().value_size) == (64, 64)
    assert (HParams(num_heads=1).key_size, HParams(num_heads=32).value_size) == (512, 16)
    hparams = HParams(attention_key_size=16)
    assert (hparams.key_size, hparams.value_size) == (16, 64)
    # With sizes of its own the number of heads need not divide the width.
    assert HParams(num_heads=7, attention_key_size=16, attention_value_size=8).key_size == 16


def test_setting_names_of_earlier_versions_are_accepted():
    renamed = HParams(hard_alignment_token=3)
    assert HParams.from_json('{"counted_piece": 3}', "hparams.json") == renamed
    assert HParams().override("counted_piece=3") == renamed
    assert HParams().replace(counted_piece=3) == renamed
    with pytest.raises(UserError, match="hard_alignment_token is given twice"):
        HParams().override("counted_piece=3,hard_alignment_token=4")
