"""In a program of the user's: what is public can be imported, prints nothing and finds what is built in."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import user_environment

FROZEN = Path(__file__).parents[1] / "frozen" / "0.1"


def run(program, **settings):
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=user_environment() | settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


# What in the process of a user's program is the user's. Keras itself sets TF_CPP_MIN_LOG_LEVEL if it is imported first.
STATE = """
import gc, logging, os, sys
def state():
    return (os.environ.get("KERAS_BACKEND"), gc.get_threshold(), logging.getLogger("tensorflow").level,
            logging.getLogger().handlers[:])
before = state()
"""
TRANSLATES = f"""
import t2t_lite as t2t
translator = t2t.Translator.from_run_dir({str(FROZEN / "tied" / "run")!r})
print(len(translator.translate(["a b", "c"])))
"""
AVERAGES = f"""
import shutil, tempfile
import t2t_lite as t2t
with tempfile.TemporaryDirectory() as folder:
    shutil.copytree({str(FROZEN / "tied" / "run")!r}, folder, dirs_exist_ok=True)
    print(t2t.average_checkpoints(folder, 1).steps)
import logging
logging.getLogger().handlers.clear()  # TensorFlow's writer of checkpoints adds one
"""


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("program", "settings", "output"),
    [
        (
            TRANSLATES + "import tensorflow, keras\nfor each in (tensorflow, keras):\n"
            "    print(type(each.__loader__).__name__, each.__spec__.loader is each.__loader__)",
            {},
            "2\nSourceFileLoader True\nSourceFileLoader True\n",
        ),
        # Packages that our commands hide can be imported.
        (TRANSLATES + "import matplotlib.pyplot, IPython, jax", {}, "2\n"),
        (
            TRANSLATES + "print(os.environ['TF_CPP_MIN_LOG_LEVEL'])",
            {"TF_CPP_MIN_LOG_LEVEL": "2", "KERAS_BACKEND": "tensorflow"},
            "2\n2\n",
        ),
        ("import t2t_lite\nimport keras\nprint(keras.config.backend())", {"KERAS_BACKEND": "jax"}, "jax\n"),
        ("import t2t_lite as t2t\nprint(t2t.models.__name__)", {}, "t2t_lite.models\n"),
        (AVERAGES, {"KERAS_BACKEND": "jax"}, "[300]\n"),
        # Two threads, whose jobs overlap.
        (
            "import threading\nthreads = [threading.Thread(target=exec, args=(each,)) for each in "
            + repr([AVERAGES, TRANSLATES])
            + "]\nfor thread in threads: thread.start()\nfor thread in threads: thread.join()",
            {},
            None,
        ),
    ],
    ids=["loaders", "packages", "own log level", "own backend", "models", "a job", "threads"],
)
def test_tensorflow_is_imported_silently_and_the_process_stays_the_users(program, settings, output):
    found, errors = run(STATE + program + "\nprint(state() == before)", **settings)
    assert (found.removesuffix("True\n") == output or output is None) and found.endswith("True\n")
    assert errors == ""


@pytest.mark.heavy
def test_several_threads_may_be_the_first_to_import_tensorflow_or_keras():
    program = """
import threading
import t2t_lite
def load(name):
    __import__(name)
    done.append(name)
done = []
threads = [threading.Thread(target=load, args=(name,)) for name in ("keras", "tensorflow", "keras", "tensorflow")]
for thread in threads: thread.start()
for thread in threads: thread.join()
import sys
print(len(done), file=sys.stderr)
"""
    assert run(program) == ("", "4\n")


def test_nothing_is_held_back_if_tensorflow_was_imported_first_or_cannot_be_imported(tmp_path):
    # A package in the place of TensorFlow, to see what the hook does.
    content = "import os, sys\nos.write(2, b'log\\n')\nif os.environ.get('FAILS'):\n    raise RuntimeError('broken')\n"
    (tmp_path / "tensorflow.py").write_text(content)
    place = {"PYTHONPATH": str(tmp_path)}
    assert run("import t2t_lite, tensorflow", **place) == ("", "")
    assert run("import tensorflow, t2t_lite, sys\nprint(sys.meta_path[0])", **place)[1] == "log\n"
    program = "import t2t_lite\ntry:\n    import tensorflow\nexcept RuntimeError as error:\n    print(error)"
    assert run(program, **place, FAILS="1") == ("broken\n", "log\n")
    nested = "from t2t_lite.system.tensorflow import stderr_held_back\nwith stderr_held_back():\n    " + program[
        16:
    ].replace("\n", "\n    ")
    assert run("import t2t_lite\n" + nested, **place, FAILS="1") == ("broken\n", "log\n")
    interrupted = (
        "import t2t_lite, sys\ntry:\n    import tensorflow\nexcept KeyboardInterrupt:\n    sys.stderr.write('end')"
    )
    (tmp_path / "keras.py").write_text(content.replace("RuntimeError('broken')", "KeyboardInterrupt"))
    assert run(interrupted.replace("tensorflow", "keras"), **place, FAILS="1", KERAS_BACKEND="jax") == ("", "end")
    closed = "import t2t_lite, sys\nsys.stderr.close()\nimport tensorflow\nprint(1)"
    assert run(closed, **place) == ("1\n", "")
    # A process that is forked meanwhile has its standard error.
    forked = """
import os, sys, t2t_lite
from t2t_lite.system.tensorflow import stderr_held_back
with stderr_held_back():
    child = os.fork()
    os.write(2, b"child" if not child else b"parent")
if not child:
    with stderr_held_back():
        os.write(2, b"held")
    os.write(2, b" again")
    os._exit(0)
os.wait()
"""
    assert run(forked) == ("", "child again")
    # Who only looks for it neither runs it nor sees another loader's facts.
    program = """
import t2t_lite, importlib.util, sys
spec = importlib.util.find_spec("tensorflow")
print("tensorflow" in sys.modules, spec.loader.get_filename("tensorflow") == spec.origin)
"""
    assert run(program, **place) == ("False True\n", "")


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
