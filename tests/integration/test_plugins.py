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


PROBLEM = """
from t2t_lite.data.problem import Example, Problem
from t2t_lite.registry import HPARAMS, PROBLEMS
from .words import SUFFIX


@PROBLEMS.register
class Twice(Problem):
    '''Say it twice.'''

    vocab_kind = "bytes"

    def examples(self, split, files):
        return (Example(f"n{i}", f"n{i}" + SUFFIX) for i in range(300 if split == "train" else 9))


@HPARAMS.derive("transformer_tiny")
def twice_tiny(tiny):
    return tiny.replace(hidden_size=32, filter_size=64, num_heads=2, batch_tokens=512)
"""
WORDS = "SUFFIX = ' again'\n"


def write_usr_dir(folder, files):
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content)
    return folder


@pytest.mark.heavy
def test_a_plug_in_folder_is_recorded_by_the_run_but_not_trusted_by_default(tmp_path, process):
    folder = write_usr_dir(tmp_path / "mine", {"twice.py": PROBLEM, "words.py": WORDS})
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


BROKEN = {"broken.py": "import nothing_of_that_name\n"}
CAUSE = ["mine/broken.py", "line 1", "ModuleNotFoundError: No module named 'nothing_of_that_name'"]
# The files of a folder, and what the error says of it.
UNUSABLE = {
    "missing": (None, ["is not a folder"]),
    "empty": ({}, ["no Python file"]),
    "registers nothing": ({"a.py": "x = 1\n"}, ["registers nothing"]),
    "of tensor2tensor": (
        {"mine.py": "import os\n\nfrom tensor2tensor.utils import registry\n"},
        ["was written for tensor2tensor", "mine.py, line 3", "@PROBLEMS.register", "docs/data.md"],
    ),
    "registered twice": (
        {"twice.py": PROBLEM.replace("Twice", "GrammarEnde"), "words.py": WORDS},
        ["problem 'grammar_ende' is registered twice", "t2t_lite.problems.grammar.GrammarEnde", "mine/twice.py"],
    ),
    "import error": (BROKEN, CAUSE),
    "import of a file beside it": (
        {"regs.py": "", "__init__.py": "x = 1\nimport regs\n"},
        ["__init__.py, line 2, imports regs, a file beside it, as if it were installed; write: from . import regs\n"],
    ),
    "import error of a package": (BROKEN | {"__init__.py": "from . import broken\n"}, CAUSE),
}


@pytest.mark.parametrize(("files", "said"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_folder_that_cannot_be_used_is_an_error_with_its_cause(tmp_path, command, files, said):
    folder = write_usr_dir(tmp_path / "mine", files) if files is not None else tmp_path / "mine"
    result = command("trainer", f"--t2t_usr_dir={folder}", "--registry_help")
    assert (result.returncode, result.stdout) == (1, "") and str(folder) in result.stderr
    assert [part for part in said if part not in result.stderr] == []


def test_an_import_error_in_a_plug_in_package_names_the_package_and_the_cause(example_site, tmp_path, process):
    site = tmp_path / "site"
    shutil.copytree(example_site, site)
    (site / "t2t_lite_example" / "sets.py").write_text("1 / 0\n")
    result = process("trainer", "--registry_help", PYTHONPATH=str(site))
    assert result.returncode == 1
    assert "t2t-lite-example" in result.stderr and "ZeroDivisionError" in result.stderr and "sets.py" in result.stderr


# The body of a problem, and what the error says of it.
OURS, THEIRS = "(self, split, files)", "(self, data_dir, tmp_dir, dataset_split)"
PAIR = "{'inputs': 'a', 'targets': 'b'}"
WITHOUT_TEST = f"examples{OURS}: return () if split == 'test' else [Example('a', 'b')]"
ALL_THE_SAME = f"examples{OURS}: return (Example(str(n), str(n)) for n in range(30))"
REPLACES = "that yields its pairs; it replaces tensor2tensor's generate_sam"
HALF_PORTED = [
    (f"examples{OURS}: yield {PAIR}", f"yields {PAIR} as pair 1; its examples(split, files) must yield Example"),
    (f"generate_samples{THEIRS}: yield {{}}", f"has no method examples{OURS} {REPLACES}"),
    (f"examples{THEIRS}: yield {{}}", f"examples must take {OURS}, not {THEIRS}"),
    (WITHOUT_TEST, "has no test examples, but train, dev and test must not be empty"),
    (ALL_THE_SAME, "test begins with the same 30 pairs as dev: if all pairs are the same"),
]


@pytest.mark.parametrize(("body", "said"), HALF_PORTED)
def test_a_half_ported_problem_is_told_what_is_missing(command, tmp_path, body, said):
    imports = "from t2t_lite.data.problem import Example, Problem\nfrom t2t_lite.registry import PROBLEMS\n"
    settings = "    '''A problem.'''\n    vocab_kind = 'characters'\n    vocab_size = 300\n"
    name = f"half_ported_{abs(hash(body))}"
    content = f"{imports}@PROBLEMS.register('{name}')\nclass Mine(Problem):\n{settings}    def {body}\n"
    folder = write_usr_dir(tmp_path / "mine", {"mine.py": content})
    result = command("datagen", f"--t2t_usr_dir={folder}", f"--problem={name}", f"--data_dir={tmp_path / 'data'}")
    if "same 30 pairs" in said:  # a warning
        assert result.returncode == 0 and said in result.stdout
        assert result.stdout.count("begins with the same 30 pairs as train") == 2
    else:
        assert result.returncode == 1 and len(result.stderr.splitlines()) == 1, result.stderr
        assert said in result.stderr
