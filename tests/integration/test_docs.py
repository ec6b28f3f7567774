"""The examples of the documentation run as they stand."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/decoding.md"])
def test_python_examples_run(page, small_run, tmp_path, monkeypatch, capsys):
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "RUN").symlink_to(small_run)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, page, "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) >= 1
