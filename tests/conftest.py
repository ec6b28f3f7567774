"""What several tests share: real corpora, small data, a small trained run, and commands run as a user runs them."""

import collections
import contextlib
import functools
import hashlib
import logging
import time
from pathlib import Path

import pytest
from support.beams import descending_beams as descending_beams_of
from support.commands import run_in_this_process, run_process
from support.paper import PaperInNumpy
from support.shared import SharedFolders
from support.tensorflow_setup import after_import, before_import

from t2t_lite.plugins import load_all

ROOT = Path(__file__).resolve().parent.parent
CORPORA = ROOT.parent / "shared" / "data"

before_import()
# As every command does; here, because tests are also parametrised with the names.
load_all()


def pytest_addoption(parser):
    """Adds --start_until, for machines that end a run after some time."""
    text = "skip the tests that start after this Unix time"
    parser.addoption("--start_until", type=float, default=float("inf"), metavar="SECONDS", help=text)


@pytest.hookimpl(tryfirst=True)  # before the test's fixtures are made
def pytest_runtest_setup(item):
    """Skips the tests that start too late."""
    if time.time() > item.config.getoption("start_until"):
        pytest.skip("no time left (--start_until)")


def pytest_collection_modifyitems(items):
    """Lets the files with the most slow tests start first, so that no worker ends with them alone."""
    is_slow = [item.get_closest_marker("slow") or item.get_closest_marker("heavy") for item in items]
    slow = collections.Counter(item.path for item, slow in zip(items, is_slow) if slow)
    items.sort(key=lambda item: -slow[item.path])


def pytest_collection_finish(session):
    """Sets TensorFlow up when all modules of tests are imported and before the first of them runs."""
    after_import()


# The settings of the small run, and the command line that makes it.
SMALL_HPARAMS = "hidden_size=32,filter_size=64,num_heads=2,num_encoder_layers=1,num_decoder_layers=1,"
SMALL_HPARAMS += "batch_tokens=512,max_length=64"
SMALL_FLAGS = ("--problem=grammar_ende", "--hparams_set=transformer_tiny", f"--hparams={SMALL_HPARAMS}")
# The peak is given, because measuring it takes longer than the six steps.
SMALL_FLAGS += ("--train_steps=6", "--save_checkpoints_steps=2", "--peak_tflops=1")


@pytest.fixture
def registered():
    """A function of (registry, name, entry, facts) that registers something until the end of a test."""
    done = []

    def register(registry, name, entry, **facts):
        registry.register(entry, name=name, **facts)
        done.append((registry, name))

    yield register
    for registry, name in done:
        registry.unregister(name)


def corpus_dir(name: str) -> Path:
    """Returns the folder of a corpus that is not part of the repository; without it, the test is skipped."""
    if not (CORPORA / name).is_dir():
        pytest.skip(f"needs the files of {name} in {CORPORA / name}, which is not there")
    return CORPORA / name


def corpus(name: str):
    """Makes the fixture NAME_dir: the folder of a corpus, which no test may write to."""

    @pytest.fixture(scope="session", name=f"{name.partition('_')[0]}_dir")
    def folder() -> Path:
        return corpus_dir(name)

    return folder


multi30k = corpus("multi30k")
t2t = corpus("t2t")  # what tensor2tensor wrote: a vocabulary, data, two runs and their outputs
evalb = corpus("evalb")  # trees and what EVALB says of them
multibleu = corpus("multibleu")  # translations and what multi-bleu.perl says of them
wsj = corpus("wsj_sample")  # .mrg files of the Penn Treebank's sample
gum = corpus("gum")  # train.ptb.gz and dev.ptb.gz
marian = corpus("marian")  # models of Marian and Hugging Face, with their outputs and log-probabilities
opennmt = corpus("opennmt_tf")  # a model of OpenNMT-tf, with its outputs and log-probabilities


@pytest.fixture(scope="session")
def shared_folders(tmp_path_factory) -> SharedFolders:
    """What is made once for a whole test run, whatever the number of its processes."""
    return SharedFolders.of_run(tmp_path_factory)


@pytest.fixture(scope="session")
def multi30k_data(multi30k_dir, shared_folders) -> Path:
    """A data directory with multi30k_ende, generated once."""

    def make(data_dir):
        from t2t_lite.data.generation.generate import generate
        from t2t_lite.data.problem import get_problem

        generate(get_problem("multi30k_ende"), data_dir, multi30k_dir, say=lambda line: None)

    return shared_folders.get("multi30k_data", make)


@pytest.fixture(scope="session")
def grammar_data(shared_folders) -> Path:
    """A data directory of `grammar_ende` with few pairs; its files look as those of the whole problem do."""

    def make(data_dir):
        from t2t_lite.data.generation.generate import generate
        from t2t_lite.problems import grammar

        class GrammarEnde(grammar.GrammarEnde):
            num_examples = {"train": 1500, "dev": 20, "test": 20}

        generate(GrammarEnde(), data_dir, data_dir / "none", say=lambda line: None)

    return shared_folders.get("grammar_data", make)


@pytest.fixture(scope="session")
def small_run(grammar_data, command, shared_folders) -> Path:
    """The run directory of a small model that the trainer has trained on `grammar_data` for 6 steps."""

    def make(output_dir):
        result = command("trainer", *SMALL_FLAGS, f"--data_dir={grammar_data}", f"--output_dir={output_dir}")
        assert result.returncode == 0, result.stderr

    return shared_folders.get("small_run", make)


@pytest.fixture(scope="session")
def served_exports(shared_folders):
    """The folder with two exports of a frozen run for CTranslate2: "new", and an older checkpoint, "old"."""

    def make(folder):
        import t2t_lite as t2t

        folder.mkdir()
        for name, checkpoint in (("new", "average-300"), ("old", "ckpt-200")):
            run = ROOT / "tests/frozen/0.2/tied/run"
            t2t.export(run, folder / name, format="ctranslate2", checkpoint_path=checkpoint)

    return shared_folders.get("served_exports", make)


@pytest.fixture(scope="session")
def page_exports(shared_folders):
    """The folder with exports of two frozen runs as Keras models: "tied" translates, "trees" parses."""

    def make(folder):
        import t2t_lite as t2t

        folder.mkdir()
        for name, run in (("tied", "tied"), ("trees", "hard_alignment")):
            t2t.export(ROOT / "tests/frozen/0.2" / run / "run", folder / name, format="keras")

    return shared_folders.get("page_exports", make)


@pytest.fixture(scope="session")
def small_flags() -> tuple[str, ...]:
    """The flags, but for the directories, that `small_run` was trained with."""
    return SMALL_FLAGS


@pytest.fixture(scope="session")
def commands_environment(shared_folders) -> dict[str, str]:
    """The environment of commands: they keep what they compile in a folder of the test run, not in the user's."""
    return {"XDG_CACHE_HOME": str(shared_folders.get("cache", Path.mkdir))}


@pytest.fixture(scope="session")
def command(commands_environment):
    """Runs a command in this process: command("decoder", "--output_dir=...", stdin=b"...") -> as a finished process."""
    return functools.partial(run_in_this_process, **commands_environment)


@pytest.fixture(scope="session")
def process(commands_environment):
    """Runs an installed command in a fresh process, otherwise as `command`."""
    return functools.partial(run_process, **commands_environment)


@pytest.fixture(scope="session")
def snapshot():
    """Returns what a directory holds: {relative path: (SHA-256, time of last change)}; of folders only the name."""

    def of(directory: Path) -> dict[str, tuple[str, int]]:
        found = {}
        for path in sorted(Path(directory).rglob("*")):
            with contextlib.suppress(FileNotFoundError):
                is_file = path.is_file()
                about = (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) if is_file else ("", 0)
                found[str(path.relative_to(directory))] = about
        return found

    return of


@pytest.fixture(scope="session")
def paper():
    """The paper's equations in NumPy, see `PaperInNumpy`."""
    return PaperInNumpy


@pytest.fixture(scope="session")
def descending_beams():
    """Hypotheses that descend from one another at random, see `support.beams`."""
    return descending_beams_of


@pytest.fixture
def logged(caplog):
    """A function that returns what the library has logged since it was last called, as lines."""
    caplog.set_level(logging.INFO, logger="t2t_lite")

    def lines() -> list[str]:
        found = [record.getMessage() for record in caplog.records if record.name == "t2t_lite"]
        caplog.clear()
        return "\n".join(found).splitlines()

    return lines
