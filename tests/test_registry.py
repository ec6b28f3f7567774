"""Names in registries, and what is said to an unknown name that tensor2tensor, the paper or another toolkit has."""

import importlib
import re
import sys

import pytest

from t2t_lite import registry as registry_module
from t2t_lite.bin import benchmark, decoder, trainer
from t2t_lite.config import DecodeHParams, HParams
from t2t_lite.errors import UserError, nearest
from t2t_lite.registry import CONSTRAINTS, HPARAMS, METRICS, MODELS, PROBLEMS, Origin, Registry, registering, snake_case


@pytest.fixture
def registry():
    registry = Registry("problem", "problem")

    @registry.register
    class TranslateEnde:
        """Text in, text out.

        More of it.
        """

    @registry.register(name="parsing")
    class Parsing:
        pass

    return registry


def test_a_class_is_found_under_its_name_in_snake_case_or_the_name_that_is_given(registry):
    @registry.register("by_this_name")  # as in tensor2tensor
    def thing():
        pass

    assert registry.names() == list(registry) == ["by_this_name", "parsing", "translate_ende"] and len(registry) == 3
    assert [registry[name].__name__ for name in registry] == ["thing", "Parsing", "TranslateEnde"]
    assert "parsing" in registry and "Parsing" not in registry
    for name, expected in (("Multi30kEnde", "multi30k_ende"), ("Copy", "copy"), ("already_so", "already_so")):
        assert snake_case(name) == expected
    with pytest.raises(UserError, match="known: by_this_name, parsing, translate_ende"):
        registry["zzz"]


def test_a_name_registered_twice_is_an_error_that_names_both_places(registry):
    def clash():
        pass

    with pytest.raises(UserError) as caught:
        registry.register(clash, name="parsing")
    for said in ("'parsing' is registered twice", ".Parsing", ".clash"):
        assert said in str(caught.value)
    assert registry["parsing"].__name__ == "Parsing"


def test_loading_the_same_definition_again_replaces_it(registry):
    def define():
        @registry.register
        class Again:
            pass

        return Again

    first, second = define(), define()
    assert registry["again"] is second is not first


def test_a_lazy_entry_is_imported_on_first_use(tmp_path, monkeypatch):
    (tmp_path / "lazy_module_of_this_test.py").write_text("class Thing:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry("model", "model")
    registry.register_lazily("thing", "lazy_module_of_this_test:Thing", "A thing.")
    assert registry.names() == ["thing"] and registry.summary("thing") == "A thing."
    registry.check("thing")
    assert "lazy_module_of_this_test" not in sys.modules
    assert registry["thing"].__name__ == "Thing"
    assert registry["thing"] is sys.modules["lazy_module_of_this_test"].Thing


def test_every_built_in_name_has_a_summary():
    for registry in (PROBLEMS, HPARAMS, MODELS, METRICS, CONSTRAINTS):
        built_in = [name for name in registry.names() if registry.source(name) is None]
        assert built_in
        assert [name for name in built_in if not registry.summary(name)] == []


def test_names_of_a_plug_in_have_its_origin_and_built_in_names_have_none():
    registry = Registry("thing", "thing")
    registry.register_lazily("built_in", "somewhere:it", "")
    with registering(Origin("package", "outer")):
        registry.register_lazily("first", "a:first", "")
        with registering(Origin("t2t_usr_dir", "/home/me/mine")):
            registry.register_lazily("second", "b:second", "")
        registry.register_lazily("third", "a:third", "")
    with pytest.raises(ZeroDivisionError), registering(Origin("package", "broken")):
        raise ZeroDivisionError
    registry.register_lazily("later", "a:later", "")
    origins = [registry.origin(name) for name in ("built_in", "first", "second", "third", "later", "unknown")]
    assert origins == [None, ("package", "outer"), ("t2t_usr_dir", "/home/me/mine"), ("package", "outer"), None, None]


def test_tensor2tensor_registry_functions_are_refused_with_our_name():
    for name in ("register_problem", "register_hparams", "register_model"):
        with pytest.raises(AttributeError, match=rf"tensor2tensor's {name} is [A-Z]+\.register here: from t2t_"):
            getattr(registry_module, name)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_thing'"):
        registry_module.no_such_thing  # noqa: B018


def names(text):
    """Pairs of a name of theirs and ours, from "theirs=ours ..."."""
    return dict(pair.split("=") for pair in text.split())


PROBLEM_NAMES = names(
    "translate_ende_wmt32k=wmt_ende translate_ende_wmt32k_rev=wmt_ende_rev translate_ende_wmt32k_packed=wmt_ende "
    "translate_ende_wmt_bpe32k=wmt_ende translate_enfr_wmt32k=wmt_enfr translate_enfr_wmt_small8k_rev=wmt_enfr_rev "
    "translate_enzh_wmt32k=text_pairs parsing_english_ptb16k=wsj_parsing parsing_icelandic16k=treebank_parsing "
    "algorithmic_identity_binary40=algorithmic_copy algorithmic_reverse_nlplike8k=algorithmic_reverse "
    "algorithmic_sort_problem=algorithmic_sort text2text_tmpdir=text_pairs languagemodel_lm1b32k=text_pairs"
)
SAME = ("base_v1", "base_v3", "base_single_gpu", "parsing_base", "parsing_big")
SET_NAMES = {f"transformer_{name}": f"t2t_transformer_{name}" for name in SAME} | names(
    "transformer_big_single_gpu=t2t_transformer_big transformer_base_multistep8=transformer_base "
    "transformer_tpu=transformer_base"
)
# Names of tensor2tensor's settings, and then those of the paper and other toolkits.
SETTING_NAMES = {
    "hparams": names(
        "batch_size=batch_tokens clip_grad_norm=clip_norm learning_rate_cosine_cycle_steps=learning_rate_decay_steps "
        "num_hidden_layers=num_encoder_layers layer_prepostprocess_dropout=residual_dropout "
        "optimizer_adam_beta2=adam_beta2 optimizer_adam_epsilon=adam_epsilon attention_key_channels=attention_key_size "
        "shared_embedding_and_softmax_weights=tied_embeddings layer_preprocess_sequence=norm_position "
        "d_model=hidden_size d_ff=filter_size h=num_heads N=num_encoder_layers P_drop=residual_dropout "
        "epsilon_ls=label_smoothing epochs=train_steps lr=learning_rate max_grad_norm=clip_norm "
        "lr_scheduler=learning_rate_schedule"
    ),
    "decode_hparams": names(
        "batch_size=batch_tokens max_input_size=max_input_length write_beam_scores=return_beams "
        "force_decode_length=min_length_ratio num_beams=beam_size lenpen=alpha"
    ),
}
FLAG_NAMES = {
    "export": names("model_dir=--output_dir export_as_tfhub=--format"),
    "serve": names("server=--host timeout_secs=--timeout_seconds rest_api_port=--port"),
    "trainer": {"eval_steps": "not needed here: the whole dev split"}
    | names(
        "worker_gpu=--num_gpus local_eval_frequency=--save_checkpoints_steps model_dir=--output_dir "
        "eval_early_stopping_steps=--early_stopping_patience eval_early_stopping_metric=--eval_metric "
        "keep_checkpoint_every_n_hours=--keep_checkpoint_max ps_replicas=--strategy"
    ),
    "decoder": dict.fromkeys(("problems", "hparams_set", "model"), "not needed here") | {"problem": "--output_dir"},
}
FLAGS = [(command, *pair) for command, pairs in FLAG_NAMES.items() for pair in pairs.items()]


def refusal_of(command, flag, capsys):
    with pytest.raises(SystemExit, match="2"):
        command.make_parser().parse_args([flag])
    message = capsys.readouterr().err
    assert len(message.splitlines()) == 1
    return message


def test_a_tensor2tensor_problem_or_set_is_refused_with_our_name():
    for theirs, ours in PROBLEM_NAMES.items():
        with pytest.raises(UserError, match=rf"^unknown problem '{theirs}' .*; tensor2tensor's .*\b{ours}\b"):
            PROBLEMS[theirs]
        assert ours in PROBLEMS or ours.removesuffix("_rev") in PROBLEMS
    for theirs, ours in SET_NAMES.items():
        with pytest.raises(UserError, match=rf"tensor2tensor's {theirs} is {ours} here"):
            HPARAMS[theirs]
        assert ours in HPARAMS


@pytest.mark.parametrize("where", SETTING_NAMES)
def test_another_name_of_a_setting_is_refused_with_our_name(where, capsys):
    settings, command = {"hparams": (HParams(), trainer), "decode_hparams": (DecodeHParams(), decoder)}[where]
    for theirs, ours in SETTING_NAMES[where].items():
        with pytest.raises(UserError, match=rf"unknown name '{theirs}'; .*{theirs} is .*\b{ours}\b"):
            settings.override(f"{theirs}=1")
        with pytest.raises(UserError, match=rf"unknown setting '{theirs}'; .*{theirs} is .*\b{ours}\b"):
            settings.replace(**{theirs: 1})
        assert hasattr(settings, ours)
    theirs, ours = list(SETTING_NAMES[where].items())[-1]
    assert f"it is a setting of --{where}; {theirs} is {ours}" in refusal_of(command, f"--{theirs}=1", capsys)


@pytest.mark.parametrize(("command", "theirs", "ours"), FLAGS)
def test_a_tensor2tensor_flag_is_refused_with_our_name(command, theirs, ours, capsys):
    module = importlib.import_module(f"t2t_lite.bin.{command}")
    message = refusal_of(module, f"--{theirs}=1", capsys)
    assert f"unknown flag --{theirs}; tensor2tensor's {theirs} is " in message and ours in message
    for flag in re.findall(r"--\w+", ours):
        assert flag in module.make_parser().format_help()


@pytest.mark.parametrize(
    ("command", "flag", "message"),
    [
        (trainer, "--steps=9", "steps is --train_steps here"),
        (trainer, "--batch_tokens=9", "it is a setting: --hparams=batch_tokens=VALUE"),
        (decoder, "--beam_size=9", "it is a setting: --decode_hparams=beam_size=VALUE"),
        (benchmark, "--num_heads=9", "it is a setting: --hparams=num_heads=VALUE"),
        (trainer, "--schedule=continuous_eval", "tensor2tensor's continuous_eval is eval here"),
        (trainer, "--schedule=continuous_train_and_eval", "tensor2tensor's continuous_train_and_eval is train_and_eva"),
    ],
)
def test_a_setting_given_as_a_flag_and_their_schedules_are_refused(command, flag, message, capsys):
    assert message in refusal_of(command, flag, capsys)


def test_without_a_near_name_the_most_similar_ones_are_listed_first():
    known = [f"name_{number}" for number in range(30)] + ["wmt_ende", "wmt_enfr"]
    name, listing = "newstest_translation_english_german_wmt", "`registry_help` lists all"
    assert nearest(name, known) == "; the nearest are 'wmt_ende', 'wmt_enfr', 'name_0'"
    plugin = ". If a plug-in registers it, pass `t2t_usr_dir`"
    assert nearest(name, known, is_registered=True) == f"{nearest(name, known)}; {listing}{plugin}"
    assert nearest("wmt_end", known, is_registered=True) == f"; did you mean 'wmt_ende' or 'wmt_enfr'? {listing}"
    assert nearest(name, known[-3:]) == "; known: wmt_ende, wmt_enfr, name_29"
    assert nearest("--stpes", ["--steps"]) == "; did you mean '--steps'?"


def test_all_unknown_names_are_reported_at_once(capsys):
    with pytest.raises(SystemExit, match="2"):
        trainer.make_parser().parse_args(["--worker_gpu=1", "--problem=x", "--eval_steps=2", "--no_such=3"])
    message = capsys.readouterr().err
    assert message.count("unknown flag --") == 3 and len(message.splitlines()) == 1
    with pytest.raises(UserError, match=r"batch_tokens here.*\. unknown name 'lr'; .* learning_rate \(the peak"):
        HParams().override("batch_size=1,num_heads=4,lr=0.1")
