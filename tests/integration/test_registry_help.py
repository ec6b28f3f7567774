"""--registry_help=NAME: one problem, set or model in detail, without TensorFlow."""

import dataclasses
import re

import pytest

from t2t_lite.registry import HPARAMS, MODELS, REGISTRIES


def shown(command, name):
    result = command("trainer", f"--registry_help={name}")
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def test_the_list_has_every_name_once_with_aligned_descriptions(process):
    result = process("trainer", "--registry_help")
    assert (result.returncode, result.stderr) == (0, "")
    entries = re.findall(r"^  (\S+)( +)(\S.*)$", result.stdout, flags=re.MULTILINE)
    # Other tests of this process may have registered further problems and sets.
    known = [(registry, name) for registry in REGISTRIES for name in registry.names()]
    ours = [name for registry, name in known if registry[name].__module__.startswith("t2t_lite.")]
    assert [name for name, _, _ in entries] == ours
    assert len({len(name + gap) for name, gap, _ in entries}) == 1
    assert process("trainer", "--registry_help=").stdout == result.stdout


def test_a_set_is_shown_with_all_settings_and_differences_from_its_parent(command):
    text = shown(command, "transformer_big")
    assert "The paper's big model" in text and "parent: transformer_base;" in text
    lines = dict(re.findall(r"^[* ] (\w+)  +(\S+)", text, flags=re.MULTILINE))
    assert lines == {name: str(value) for name, value in dataclasses.asdict(HPARAMS["transformer_big"]()).items()}
    changes = {"hidden_size": (1024, 512), "filter_size": (4096, 2048), "num_heads": (16, 8)}
    changes |= {"residual_dropout": (0.3, 0.1), "train_steps": (300_000, 100_000), "average_checkpoints": (20, 5)}
    starred = set(re.findall(r"^\* (.*)$", re.sub(" +", " ", text), flags=re.MULTILINE))
    assert starred == {f"{name} {big} (transformer_base: {base})" for name, (big, base) in changes.items()}


@pytest.mark.parametrize("ending", ["", "_rev"])
def test_a_problem_is_shown_with_its_settings_and_sources(command, ending):
    text = shown(command, "multi30k_ende" + ending)
    patterns = [f"^problem multi30k_ende{ending} ", "^English to German image captions", r"^  train\.en\.gz +https://"]
    patterns += ["^  vocab_size +6000$", "^  num_shards +4$", "^  metric +bleu$"]
    for pattern in [*patterns, r"^  decode_hparams +beam_size=4,alpha=0\.6,"]:
        assert re.search(pattern, text, flags=re.MULTILINE), pattern
    assert ("with its sides swapped" in text) == bool(ending)


def test_a_model_is_shown_by_every_command_without_its_required_flags(command):
    for name in ("trainer", "avg", "benchmark", "datagen", "decoder", "params", "score"):
        result = command(name, "--registry_help=transformer")
        assert (result.returncode, result.stderr) == (0, "")
        lines = ["model transformer (--model=transformer)", MODELS.summary("transformer")]
        assert result.stdout.splitlines() == lines


def test_an_unknown_name_is_a_one_line_error_with_the_nearest_name_of_any_kind(command):
    for name, nearest in (("transformer_bg", "'transformer_big'"), ("multi30k_enda", "'multi30k_ende'")):
        result = command("trainer", f"--registry_help={name}")
        assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        assert f"'{name}'" in result.stderr and nearest in result.stderr
