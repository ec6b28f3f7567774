"""In a program of the user's: what is public can be imported, prints nothing and finds what is built in."""

import subprocess
import sys
from pathlib import Path

import pytest

FROZEN = Path(__file__).parent / "frozen" / "0.1"
# One that imports TensorFlow, one that does so through Keras, and one with libraries of its own.
PUBLIC = ("t2t_lite.decoding.translator", "t2t_lite.layers.attention", "t2t_lite.data.tfds_source")


def run(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize("module", PUBLIC)
@pytest.mark.slow
def test_importing_a_public_module_prints_nothing(module):
    assert run(f"import {module}") == ("", "")


def test_a_program_that_only_translates_prints_nothing_else():
    program = f"""
from t2t_lite.training.trainer import train  # everything that the library imports
from t2t_lite.decoding.translator import Translator
translator = Translator.from_run_dir({str(FROZEN / "tied" / "run")!r})
print(len(translator.translate(["a b", "c"])))
import tensorflow
print(type(tensorflow.__loader__).__name__, tensorflow.__spec__.loader is tensorflow.__loader__)
"""
    assert run(program) == ("2\nSourceFileLoader True\n", "")


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


def test_a_command_leaves_out_packages_that_tensorflow_does_not_need_and_a_program_does_not():
    imports = (
        "import tensorflow, keras, sys\n"
        "print(sorted({'IPython', 'jax', 'matplotlib', 'matplotlib.pyplot'} & set(sys.modules)))\n"
    )
    program = "from t2t_lite.bin import cli\ndef body(flags):\n    exec(%r)\ncli.run('x', body, %s)\nimport matplotlib"
    assert run(program % (imports, None))[0] == "[]\n"
    assert "matplotlib.pyplot" in run(program % (imports, []))[0]
