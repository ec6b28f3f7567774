"""An unknown name that tensor2tensor, the paper or another toolkit has is answered with our name, which exists."""

import importlib
import re

import pytest

from t2t_lite.bin import benchmark, decoder, trainer
from t2t_lite.config import DecodeHParams, HParams
from t2t_lite.errors import UserError, nearest
from t2t_lite.registry import HPARAMS, PROBLEMS


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
        "force_decode_length=min_length_ratio num_beams=beam_size length_penalty=alpha"
    ),
}
FLAG_NAMES = {
    ("export", "model_dir"): "--output_dir",
    ("export", "export_as_tfhub"): "--format",
    ("serve", "server"): "--host",
    ("serve", "timeout_secs"): "--timeout_seconds",
    ("serve", "rest_api_port"): "--port",
    ("trainer", "worker_gpu"): "--num_gpus",
    ("trainer", "local_eval_frequency"): "--save_checkpoints_steps",
    ("trainer", "model_dir"): "--output_dir",
    ("trainer", "eval_early_stopping_steps"): "--early_stopping_patience",
    ("trainer", "eval_early_stopping_metric"): "--eval_metric",
    ("trainer", "keep_checkpoint_every_n_hours"): "--keep_checkpoint_max",
    ("trainer", "ps_replicas"): "--strategy",
    ("trainer", "eval_steps"): "not needed here: the whole dev split",
    ("decoder", "problem"): "--output_dir",
    ("decoder", "problems"): "not needed here",
    ("decoder", "hparams_set"): "not needed here",
    ("decoder", "model"): "not needed here",
}


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


@pytest.mark.parametrize(("command", "theirs", "ours"), [(*key, ours) for key, ours in FLAG_NAMES.items()])
def test_a_tensor2tensor_flag_is_refused_with_our_name(command, theirs, ours, capsys):
    module = importlib.import_module(f"t2t_lite.bin.{command}")
    message = refusal_of(module, f"--{theirs}=1", capsys)
    assert f"unknown flag --{theirs}; tensor2tensor's {theirs} is " in message and ours in message
    for flag in re.findall(r"--\w+", ours):
        assert flag in module.make_parser().format_help()


@pytest.mark.parametrize(
    ("command", "flag", "message"),
    [
        (trainer, "--batch_tokens=9", "it is a setting: --hparams=batch_tokens=VALUE"),
        (decoder, "--beam_size=9", "it is a setting: --decode_hparams=beam_size=VALUE"),
        (benchmark, "--num_heads=9", "it is a setting: --hparams=num_heads=VALUE"),
        (trainer, "--schedule=continuous_eval", "tensor2tensor's continuous_eval is eval here"),
        (trainer, "--schedule=continuous_train_and_eval", "tensor2tensor's continuous_train_and_eval is train_and_eva"),
    ],
)
def test_a_setting_given_as_a_flag_and_their_schedules_are_refused(command, flag, message, capsys):
    assert message in refusal_of(command, flag, capsys)


def test_without_a_near_name_all_names_are_listed_the_most_similar_first():
    known = [f"name_{number}" for number in range(30)] + ["wmt_ende", "wmt_enfr"]
    listed = nearest("newstest_translation_english_german_wmt", known)
    assert listed.startswith("; known: wmt_ende, wmt_enfr, ") and set(listed[9:].split(", ")) == set(known)


def test_all_unknown_names_are_reported_at_once(capsys):
    with pytest.raises(SystemExit, match="2"):
        trainer.make_parser().parse_args(["--worker_gpu=1", "--problem=x", "--eval_steps=2", "--no_such=3"])
    message = capsys.readouterr().err
    assert message.count("unknown flag --") == 3 and len(message.splitlines()) == 1
    with pytest.raises(UserError, match=r"batch_tokens here.*\. unknown name 'lr'; .* learning_rate \(the peak"):
        HParams().override("batch_size=1,num_heads=4,lr=0.1")
