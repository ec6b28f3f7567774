"""In a program of the user's: what is public can be imported, prints nothing and finds what is built in."""

import logging
import threading
from pathlib import Path

import pytest
from support.commands import run_python

from t2t_lite.system.beam import quiet_beam

FROZEN = Path(__file__).parents[1] / "frozen" / "0.1"


def run(program, **settings):
    done = run_python(program, **settings)
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
# Packages that our commands hide can be imported.
LOADERS = """
import tensorflow, keras, matplotlib.pyplot, IPython, jax
for each in (tensorflow, keras): print(type(each.__loader__).__name__, each.__spec__.loader is each.__loader__)
"""
OWN = {"TF_CPP_MIN_LOG_LEVEL": "2", "KERAS_BACKEND": "tensorflow"}
AVERAGES = f"""
import shutil, tempfile
import t2t_lite as t2t
with tempfile.TemporaryDirectory() as folder:
    shutil.copytree({str(FROZEN / "tied" / "run")!r}, folder, dirs_exist_ok=True)
    print(t2t.average_checkpoints(folder, 1).steps)
import logging
logging.getLogger().handlers.clear()  # TensorFlow's writer of checkpoints adds one
"""
THREADS = """
import threading, t2t_lite
threads = [threading.Thread(target={}, args=(each,)) for each in {}]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("program", "settings", "output"),
    [
        (TRANSLATES + LOADERS, {}, "2\nSourceFileLoader True\nSourceFileLoader True\n"),
        (TRANSLATES + "print(os.environ['TF_CPP_MIN_LOG_LEVEL'])", OWN, "2\n2\n"),
        ("import t2t_lite\nimport keras\nprint(keras.config.backend())", {"KERAS_BACKEND": "jax"}, "jax\n"),
        ("import t2t_lite as t2t\nprint(t2t.models.__name__)", {}, "t2t_lite.models\n"),
        (AVERAGES, {"KERAS_BACKEND": "jax"}, "[300]\n"),
        # Two threads whose jobs overlap, and four that are the first to import.
        (THREADS.format("exec", [AVERAGES, TRANSLATES]), {}, None),
        (THREADS.format("__import__", ["keras", "tensorflow", "keras", "tensorflow"]), {}, ""),
    ],
    ids=["loaders", "own log level", "own backend", "models", "a job", "threads", "imports"],
)
def test_tensorflow_is_imported_silently_and_the_process_stays_the_users(program, settings, output):
    found, errors = run(STATE + program + "\nprint(state() == before)", **settings)
    assert (found.removesuffix("True\n") == output or output is None) and found.endswith("True\n")
    assert errors == ""


# A package in the place of TensorFlow, to see what the hook does.
FAKE = "import os\nos.write(2, b'log\\n')\nif os.environ.get('FAILS'): raise RuntimeError('broken')\n"
BROKEN = "try: import tensorflow\nexcept RuntimeError as error: print(error)"
HELD = "from t2t_lite.system.tensorflow import stderr_held_back\nwith stderr_held_back(): "
INTERRUPTED = "import t2t_lite, sys\ntry: import keras\nexcept KeyboardInterrupt: sys.stderr.write('end')"
# A process that is forked meanwhile has its standard error.
FORKED = """
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
# Who only looks for it neither runs it nor sees another loader's facts.
LOOKS = """
import t2t_lite, importlib.util, sys
spec = importlib.util.find_spec("tensorflow")
print("tensorflow" in sys.modules, spec.loader.get_filename("tensorflow") == spec.origin)
"""


@pytest.mark.parametrize(
    ("program", "expected", "settings"),
    [
        ("import t2t_lite, tensorflow", ("", ""), {}),
        ("import tensorflow, t2t_lite", ("", "log\n"), {}),
        (f"import t2t_lite\n{BROKEN}", ("broken\n", "log\n"), {"FAILS": "1"}),
        (f"{HELD}exec({BROKEN!r})", ("broken\n", "log\n"), {"FAILS": "1"}),
        (INTERRUPTED, ("", "end"), {"FAILS": "1", "KERAS_BACKEND": "jax"}),
        ("import t2t_lite, sys\nsys.stderr.close()\nimport tensorflow\nprint(1)", ("1\n", ""), {}),
        (FORKED, ("", "child again"), {}),
        (LOOKS, ("False True\n", ""), {}),
    ],
)
def test_what_a_package_writes_is_held_back_while_it_is_imported(tmp_path, program, expected, settings):
    (tmp_path / "tensorflow.py").write_text(FAKE)
    (tmp_path / "keras.py").write_text(FAKE.replace("RuntimeError('broken')", "KeyboardInterrupt"))
    assert run(program, PYTHONPATH=str(tmp_path), **settings) == expected


# The loader, and which packages that TensorFlow does not need were imported.
BODY = """
def body(flags):
    import keras, sys, tensorflow
    print(type(tensorflow.__loader__).__name__, tensorflow.__spec__.loader is tensorflow.__loader__)
    print(sorted({"IPython", "jax", "matplotlib", "matplotlib.pyplot"} & set(sys.modules)))
"""


@pytest.mark.heavy
@pytest.mark.parametrize("where", ["command", "debugged command", "program"])
def test_a_command_imports_tensorflow_silently_and_leaves_out_what_it_does_not_need(where):
    call = f"cli.run('x', body, {[] if where == 'program' else None})\nimport matplotlib"
    flags = "import sys; sys.argv[1:] = " + str(["--debug"] if "debugged" in where else [])
    output, errors = run(f"from t2t_lite.bin import cli\n{flags}\n{BODY}\n{call}")
    loader, packages = output.splitlines()
    assert loader == "SourceFileLoader True"
    assert ("matplotlib.pyplot" in packages) if where == "program" else packages == "[]"
    assert ("CPU instructions" in errors) == ("debugged" in where)


def test_without_tensorflow_python_raises_its_own_error():
    program = "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]\ntry:\n import tensorflow\n"
    found = run("import t2t_lite\n" + program + "except ModuleNotFoundError as error:\n print(error.name)")
    assert found == ("tensorflow\n", "")


def test_threads_of_a_failed_pipeline_do_not_print_after_its_error(capfd, monkeypatch):
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    loggers = [logging.getLogger(name) for name in ("apache_beam", "grpc", None)]
    levels = [logger.level for logger in loggers]
    names = {}
    exec("def fail(): raise ValueError('of a thread')", names)

    def printed(module):
        logging.getLogger("apache_beam.runners").error("a log line")
        names["__name__"] = module
        thread = threading.Thread(target=names["fail"])
        thread.start()
        thread.join()
        return capfd.readouterr().err

    try:
        with quiet_beam():
            assert printed("apache_beam.runners") == ""
        assert "of a thread" in printed("apache_beam.runners")
        with pytest.raises(ValueError, match="of the pipeline"), quiet_beam():
            raise ValueError("of the pipeline")
        assert printed("apache_beam.runners") == ""
        assert "of a thread" in printed("another")
        assert loggers[-1].level == levels[-1]
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
