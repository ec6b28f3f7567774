"""`import t2t_lite as t2t`: what it gives, what it costs, and that it prints nothing."""

import ast
import importlib.util
from pathlib import Path

import pytest
from support.commands import run_python

import t2t_lite as t2t


def test_the_import_prints_nothing_loads_nothing_heavy_and_finds_what_is_built_in():
    program = """
import sys, t2t_lite as t2t
from t2t_lite.registry import MODELS, PROBLEMS
dir(t2t)
print(t2t.get_problem("multi30k_ende_rev").name, t2t.get_hparams("transformer_big").num_heads)
print("transformer" in MODELS, "wmt_ende" in PROBLEMS.names())
print({"tensorflow", "keras", "numpy", "tensorflow_text", "rich", "nltk"} & set(sys.modules))
"""
    result = run_python(program)
    assert (result.stdout, result.stderr) == ("multi30k_ende_rev 16\nTrue True\nset()\n", "")


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
    source = ast.parse(Path(t2t.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in source.body if isinstance(node, ast.If)]
    names = [(node.module, alias.name) for node in block.body for alias in node.names]
    seen = {name: f"{module}.{name}" if module == "t2t_lite" else module for module, name in names}
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
