"""In a program of the user's: what is public can be imported, prints nothing and finds what is built in."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import user_environment

FROZEN = Path(__file__).parent / "frozen" / "0.1"


def run(program):
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=user_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.heavy
def test_a_program_that_only_translates_prints_nothing_else():
    program = f"""
import sys
before = list(sys.meta_path)
import t2t_lite as t2t
print(sys.meta_path == before)
translator = t2t.Translator.from_run_dir({str(FROZEN / "tied" / "run")!r})
print(len(translator.translate(["a b", "c"])))
import tensorflow
print(type(tensorflow.__loader__).__name__, tensorflow.__spec__.loader is tensorflow.__loader__)
"""
    assert run(program) == ("True\n2\nSourceFileLoader True\n", "")


@pytest.mark.heavy
@pytest.mark.parametrize("debug", [False, True])
def test_in_a_command_tensorflow_is_silent_wherever_it_is_imported_unless_debug_is_given(debug):
    program = f"""
import sys
from t2t_lite.bin import cli
def body(flags):
    import keras
    import tensorflow
    print(type(tensorflow.__loader__).__name__, tensorflow.__spec__.loader is tensorflow.__loader__)
sys.argv[1:] = {["--debug"] if debug else []}
cli.run("x", body, None)
"""
    output, errors = run(program)
    assert output == "SourceFileLoader True\n"
    assert ("CPU instructions" in errors) if debug else not errors


def test_without_tensorflow_python_raises_its_own_error():
    program = "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]\ntry:\n import tensorflow\n"
    assert run("import t2t_lite\n" + program + "except ModuleNotFoundError as error:\n print(error.name)") == (
        "tensorflow\n",
        "",
    )


def test_names_are_found_without_explicit_loading():
    program = """
from t2t_lite.data.problem import get_problem
from t2t_lite.registry import HPARAMS, MODELS, PROBLEMS
import sys
print(get_problem("multi30k_ende_rev").name, HPARAMS["transformer_big"]().num_heads, "transformer" in MODELS)
print("wmt_ende" in PROBLEMS.names(), "tensorflow" in sys.modules)
"""
    assert run(program) == ("multi30k_ende_rev 16 True\nTrue False\n", "")


@pytest.mark.heavy
def test_a_command_leaves_out_packages_that_tensorflow_does_not_need_and_a_program_does_not():
    imports = (
        "import tensorflow, keras, sys\n"
        "print(sorted({'IPython', 'jax', 'matplotlib', 'matplotlib.pyplot'} & set(sys.modules)))\n"
    )
    program = "from t2t_lite.bin import cli\ndef body(flags):\n    exec(%r)\ncli.run('x', body, %s)\nimport matplotlib"
    assert run(program % (imports, None))[0] == "[]\n"
    assert "matplotlib.pyplot" in run(program % (imports, []))[0]
