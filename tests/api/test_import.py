"""`import t2t_lite as t2t`: what it gives, what it costs, and that it prints nothing."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import user_environment

import t2t_lite as t2t

SOURCE = ast.parse(Path(t2t.__file__).read_text(encoding="utf-8"))


def run_python(program):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=user_environment(), check=True
    )


def test_the_import_prints_nothing_and_loads_nothing_heavy():
    program = (
        "import sys, t2t_lite as t2t; dir(t2t); t2t.get_hparams('transformer_base'); t2t.get_problem('wmt_ende'); "
    )
    heavy = "print(sorted({'tensorflow', 'keras', 'numpy', 'rich', 'nltk'} & set(sys.modules)), file=sys.stdout)"
    result = run_python(program + heavy)
    assert (result.stdout, result.stderr) == ("[]\n", "")


def test_no_name_is_taken_by_a_module():
    # Python sets a module as an attribute of its package when it is imported, in place of a function of that name.
    for name in t2t.__all__:
        is_module = importlib.util.find_spec(f"t2t_lite.{name}") is not None
        assert is_module == (t2t._MODULES[name] == name), f"after t2t_lite.{name} is imported, t2t.{name} is a module"


def test_everything_listed_is_there_and_nothing_else_is():
    assert list(t2t.__all__) == sorted(t2t.__all__, key=lambda name: (not name.isupper(), name.lower() == name, name))
    assert set(dir(t2t)) == {*t2t.__all__, "__version__"}
    for name in t2t.__all__:
        value = getattr(t2t, name)
        assert value.__doc__ or name.isupper(), name
    with pytest.raises(AttributeError, match="no attribute 'translate'"):
        t2t.translate  # noqa: B018
    with pytest.raises(ImportError):
        exec("from t2t_lite import Transformator")


def test_type_checkers_see_what_programs_get():
    (block,) = [node for node in SOURCE.body if isinstance(node, ast.If)]
    seen = {
        alias.name: f"{node.module}.{alias.name}" if node.module == "t2t_lite" else node.module
        for node in block.body
        for alias in node.names
    }
    assert set(seen) == set(t2t.__all__)
    assert seen == {name: f"t2t_lite.{module}" for name, module in t2t._MODULES.items()}


@pytest.mark.slow
def test_keras_with_another_backend_is_refused_with_one_line():
    run = Path(__file__).parents[1] / "frozen" / "0.1" / "tied" / "run"
    program = (
        "import os; os.environ['KERAS_BACKEND'] = 'jax'\nimport keras, t2t_lite as t2t\n"
        f"try: t2t.Translator.from_run_dir({str(run)!r})\nexcept t2t.UserError as error: print(error)"
    )
    (line,) = run_python(program).stdout.splitlines()
    assert line.startswith("Keras uses jax in this process") and "KERAS_BACKEND=tensorflow" in line
