"""Plug-ins as users have them: an installed package (tests/example_plugin), and a user folder."""

import shutil

import pytest

PLAIN = "--xla_compile=False"


def write_outputs(result):
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 2
    return result.stdout


def test_an_installed_plug_in_is_listed_and_described(example_site, process):
    result = process("trainer", "--registry_help", PYTHONPATH=str(example_site))
    for name in ("numbers_in_words", "length_tiny", "length_transformer", "binary", "word_errors", "no_stutter"):
        assert f"  {name} " in result.stdout
    described = process("trainer", "--registry_help=numbers_in_words", PYTHONPATH=str(example_site)).stdout
    assert "Write the digits of a number in words." in described and "t2t-lite-example" in described
    assert "numbers_in_words" not in process("trainer", "--registry_help").stdout


def write_usr_dir(folder, twice="Twice"):
    folder.mkdir()
    (folder / "twice.py").write_text(
        f"""
from t2t_lite.data.problem import Example, Problem
from t2t_lite.registry import HPARAMS, PROBLEMS
from .words import SUFFIX


@PROBLEMS.register
class {twice}(Problem):
    '''Say it twice.'''

    vocab_kind = "bytes"

    def examples(self, split, files):
        return (Example(f"n{{i}}", f"n{{i}}" + SUFFIX) for i in range(300 if split == "train" else 9))


@HPARAMS.derive("transformer_tiny")
def twice_tiny(tiny):
    return tiny.replace(hidden_size=32, filter_size=64, num_heads=2, batch_tokens=512)
"""
    )
    (folder / "words.py").write_text("SUFFIX = ' again'\n")
    return folder


@pytest.mark.heavy
def test_a_plug_in_folder_is_recorded_by_the_run_but_not_trusted_by_default(tmp_path, process):
    folder = write_usr_dir(tmp_path / "mine")
    run = f"--output_dir={tmp_path / 'run'}"
    config = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    flags = ("--problem=twice", "--hparams_set=twice_tiny", "--train_steps=2", f"--data_dir={tmp_path / 'data'}", run)
    result = process("trainer", f"--t2t_usr_dir={folder}", *flags, "--generate_data")
    assert result.returncode == 0, result.stderr
    refused = process("decoder", run, stdin=b"n1\n", **config)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"t2t-lite-decoder: error: {tmp_path / 'run' / 'run.json'}: the problem 'twice' comes from code in {folder}, "
        f"which runs only with your permission: pass --t2t_usr_dir={folder}, or --trust_plugins to trust that folder "
        f"from now on; in a program, first call t2t_lite.plugins.load_usr_dir('{folder}')\n"
    )
    trusting = process("decoder", run, PLAIN, "--trust_plugins", stdin=b"n1\nn2\n", **config)
    first = write_outputs(trusting)
    assert trusting.stderr.startswith(f"trusted from now on: {folder}\n")
    assert write_outputs(process("decoder", run, PLAIN, stdin=b"n1\nn2\n", **config)) == first
    folder.rename(tmp_path / "elsewhere")
    lost = process("decoder", run, stdin=b"n1\n", **config)
    assert lost.returncode == 1 and "--t2t_usr_dir" in lost.stderr and str(folder) in lost.stderr
    found = process("decoder", run, PLAIN, f"--t2t_usr_dir={tmp_path / 'elsewhere'}", stdin=b"n1\nn2\n")
    assert write_outputs(found) == first


def help_with(process, folder, **environment):
    return process("trainer", f"--t2t_usr_dir={folder}", "--registry_help", **environment)


@pytest.mark.parametrize("has_init", [True, False])
def test_an_import_error_in_a_plug_in_folder_is_shown_with_its_cause(tmp_path, process, has_init):
    folder = write_usr_dir(tmp_path / "mine")
    (folder / "broken.py").write_text("import nothing_of_that_name\n")
    if has_init:
        (folder / "__init__.py").write_text("from . import broken, twice\n")
    result = help_with(process, folder)
    assert result.returncode == 1 and result.stdout == ""
    assert f"{folder / 'broken.py'}" in result.stderr and "line 1" in result.stderr
    assert "ModuleNotFoundError: No module named 'nothing_of_that_name'" in result.stderr


def test_an_import_error_in_a_plug_in_package_names_the_package_and_the_cause(example_site, tmp_path, process):
    site = tmp_path / "site"
    shutil.copytree(example_site, site)
    (site / "t2t_lite_example" / "sets.py").write_text("1 / 0\n")
    result = process("trainer", "--registry_help", PYTHONPATH=str(site))
    assert result.returncode == 1
    assert "t2t-lite-example" in result.stderr and "ZeroDivisionError" in result.stderr and "sets.py" in result.stderr


def test_a_name_registered_twice_is_an_error_that_names_both_places(tmp_path, process):
    folder = write_usr_dir(tmp_path / "mine", twice="GrammarEnde")
    result = help_with(process, folder)
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 1
    assert "problem 'grammar_ende' is registered twice" in result.stderr
    assert "t2t_lite.problems.grammar.GrammarEnde" in result.stderr and str(folder / "twice.py") in result.stderr


def test_a_plug_in_folder_that_is_missing_empty_or_registers_nothing_is_an_error(tmp_path, process):
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.py").write_text("x = 1\n")
    for name, said in (
        ("none", "is not a folder"),
        ("empty", "no Python file"),
        ("other", "registers nothing"),
    ):
        result = help_with(process, tmp_path / name)
        assert result.returncode == 1 and said in result.stderr and str(tmp_path / name) in result.stderr


def test_a_tensor2tensor_plug_in_is_refused_with_porting_advice(command, tmp_path):
    (tmp_path / "mine.py").write_text("import os\n\nfrom tensor2tensor.utils import registry\n")
    result = command("trainer", f"--t2t_usr_dir={tmp_path}", "--registry_help")
    assert (result.returncode, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    for part in (
        "was written for tensor2tensor",
        f"{tmp_path / 'mine.py'}, line 3",
        "@PROBLEMS.register",
        "docs/data.md",
    ):
        assert part in result.stderr


HALF_PORTED = {
    "def examples(self, split, files):\n        yield {'inputs': 'a', 'targets': 'b'}": (
        "yields {'inputs': 'a', 'targets': 'b'} as pair 1; its examples(split, files) must yield Example"
    ),
    "def generate_samples(self, data_dir, tmp_dir, dataset_split):\n        yield {}": (
        "has no method examples(self, split, files) that yields its pairs; it replaces tensor2tensor's generate_samples"
    ),
    "def examples(self, data_dir, tmp_dir, dataset_split):\n        yield {}": (
        "examples must take (self, split, files), not (self, data_dir, tmp_dir, dataset_split)"
    ),
    "def examples(self, split, files):\n        if split != 'test': yield Example('a', 'b')": (
        "has no test examples, but train, dev and test must not be empty"
    ),
}


@pytest.mark.parametrize("body", HALF_PORTED)
def test_a_half_ported_problem_is_a_one_line_error_that_names_what_is_missing(command, tmp_path, body):
    imports = "from t2t_lite.data.problem import Example, Problem\nfrom t2t_lite.registry import PROBLEMS\n"
    settings = "    '''A problem.'''\n    vocab_kind = 'characters'\n    vocab_size = 300\n"
    name = f"half_ported_{abs(hash(body))}"
    (tmp_path / "mine.py").write_text(
        f"{imports}@PROBLEMS.register('{name}')\nclass Mine(Problem):\n{settings}    {body}\n"
    )
    flags = (f"--t2t_usr_dir={tmp_path}", f"--problem={name}", f"--data_dir={tmp_path / 'data'}")
    result = command("datagen", *flags)
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 1, result.stderr
    assert HALF_PORTED[body] in result.stderr


def test_identical_splits_are_reported(command, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from t2t_lite.data.problem import Example, Problem\nfrom t2t_lite.registry import PROBLEMS\n"
        "@PROBLEMS.register\nclass AlwaysTheSame(Problem):\n    '''A problem.'''\n"
        "    vocab_kind = 'characters'\n    vocab_size = 300\n"
        "    def examples(self, split, files):\n        return (Example(str(n), str(n)) for n in range(30))\n"
    )
    data = f"--data_dir={tmp_path / 'data'}"
    result = command("datagen", f"--t2t_usr_dir={tmp_path}", "--problem=always_the_same", data)
    assert result.returncode == 0
    for split, other in (("dev", "train"), ("test", "train"), ("test", "dev")):
        assert f"{split} begins with the same 30 pairs as {other}: if all pairs are the same" in result.stdout
