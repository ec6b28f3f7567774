"""What several tests share: real corpora, small data, a small trained run, and commands run as a user runs them."""

import contextlib
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from t2t_lite.plugins import load_builtins

ROOT = Path(__file__).resolve().parent.parent
MULTI30K = ROOT.parent / "shared" / "data" / "multi30k"

# As every command does; here, because tests are also parametrised with the names.
load_builtins()

# The settings of the small run, and the command line that makes it.
SMALL_HPARAMS = (
    "hidden_size=32,filter_size=64,num_heads=2,num_encoder_layers=1,num_decoder_layers=1,batch_tokens=512,max_length=64"
)
SMALL_FLAGS = (
    "--problem=grammar_ende",
    "--hparams_set=transformer_tiny",
    f"--hparams={SMALL_HPARAMS}",
    "--train_steps=6",
    "--save_checkpoints_steps=2",
)


@pytest.fixture(scope="session")
def multi30k_dir() -> Path:
    """The folder with the Multi30k files, which no test may write to."""
    if not MULTI30K.is_dir():
        pytest.skip(f"needs the Multi30k files in {MULTI30K}, which is not there")
    return MULTI30K


@pytest.fixture(scope="session")
def multi30k_data(multi30k_dir, tmp_path_factory) -> Path:
    """A data directory with multi30k_ende, generated once."""
    from t2t_lite.data.generate import generate
    from t2t_lite.data.problem import get_problem

    data_dir = tmp_path_factory.mktemp("multi30k_data")
    generate(get_problem("multi30k_ende"), data_dir, multi30k_dir, say=lambda line: None)
    return data_dir


@pytest.fixture(scope="session")
def grammar_data(tmp_path_factory) -> Path:
    """A data directory of `grammar_ende` with few pairs; its files look as those of the whole problem do."""
    from t2t_lite.data.generate import generate
    from t2t_lite.problems import grammar

    class GrammarEnde(grammar.GrammarEnde):
        num_examples = {"train": 1500, "dev": 20, "test": 20}

    data_dir = tmp_path_factory.mktemp("grammar_data")
    generate(GrammarEnde(), data_dir, data_dir / "none", say=lambda line: None)
    return data_dir


@pytest.fixture(scope="session")
def small_run(grammar_data, command, tmp_path_factory) -> Path:
    """The run directory of a small model that the trainer has trained on `grammar_data` for 6 steps."""
    output_dir = tmp_path_factory.mktemp("runs") / "small"
    result = command("trainer", *SMALL_FLAGS, f"--data_dir={grammar_data}", f"--output_dir={output_dir}")
    assert result.returncode == 0, result.stderr
    return output_dir


@pytest.fixture(scope="session")
def small_flags() -> tuple[str, ...]:
    """The flags, but for the directories, that `small_run` was trained with."""
    return SMALL_FLAGS


@pytest.fixture(scope="session")
def command():
    """Runs an installed command: command("decoder", "--output_dir=...", stdin=b"...") -> its finished process."""

    def run(name: str, *flags: str, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess:
        program = Path(sys.executable).with_name(f"t2t-lite-{name}")
        assert program.exists(), f"{program} is not there; install the project first: pip install -e ."
        # Not a limit on speed: a command that hangs fails its test instead of stopping the suite.
        finished = subprocess.run(
            [program, *flags], input=stdin, capture_output=True, env=os.environ | environment, timeout=300, check=False
        )
        finished.stdout, finished.stderr = finished.stdout.decode(), finished.stderr.decode()
        return finished

    return run


@pytest.fixture(scope="session")
def snapshot():
    """Returns what a directory holds: {relative path: (SHA-256, time of last change)}; folders have no checksum."""

    def of(directory: Path) -> dict[str, tuple[str, int]]:
        found = {}
        for path in sorted(Path(directory).rglob("*")):
            with contextlib.suppress(FileNotFoundError):
                digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
                found[str(path.relative_to(directory))] = (digest, path.stat().st_mtime_ns)
        return found

    return of
