"""The examples of the documentation run as printed."""

import re
from pathlib import Path

import pytest

from t2t_lite.registry import snake_case

ROOT = Path(__file__).resolve().parents[2]


def examples(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", pytest.param("docs/decoding.md", marks=pytest.mark.slow)])
def test_python_examples_run(page, small_run, tmp_path, monkeypatch, capsys):
    (example,) = [example for example in examples(page) if "RUN" in example]
    (tmp_path / "RUN").symlink_to(small_run)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, page, "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) >= 1


@pytest.mark.parametrize(
    "page, name",
    [
        ("README.md", "digits_in_words"),
        ("docs/data.md", "captions_into_two"),
        ("docs/data.md", "my_pairs"),
        ("CONTRIBUTING.md", "recipes_ende"),
    ],
)
def test_the_problems_in_the_documentation_can_be_registered_verbatim(page, name, tmp_path, process):
    classes = {example: re.findall(r"^class (\w+)", example, re.MULTILINE) for example in examples(page)}
    (example,) = [example for example, found in classes.items() if name in map(snake_case, found)]
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    result = process("trainer", f"--t2t_usr_dir={tmp_path}", f"--registry_help={name}")
    assert result.returncode == 0, result.stderr
    assert f"problem {name} " in result.stdout and f"from the plug-in {tmp_path}" in result.stdout


@pytest.mark.slow
def test_the_plug_in_in_the_readme_trains_and_decodes(tmp_path, process):
    (example,) = [example for example in examples("README.md") if "PROBLEMS.register" in example]
    (tmp_path / "digits.py").write_text(example, encoding="utf-8")
    run = f"--output_dir={tmp_path / 'run'}"
    flags = ("--problem=digits_in_words", "--hparams_set=transformer_tiny", "--train_steps=1", "--generate_data")
    trained = process("trainer", f"--t2t_usr_dir={tmp_path}", *flags, f"--data_dir={tmp_path / 'data'}", run)
    assert trained.returncode == 0, trained.stderr
    decoding = (f"--t2t_usr_dir={tmp_path}", run, "--xla_compile=False")
    assert len(process("decoder", *decoding, stdin=b"1706\n").stdout.splitlines()) == 1
