"""What several tests share: real corpora, small data, a small trained run, and commands run as a user runs them."""

import contextlib
import hashlib
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from t2t_lite.plugins import load_all

ROOT = Path(__file__).resolve().parent.parent
CORPORA = ROOT.parent / "shared" / "data"

# As every command does; here, because tests are also parametrised with the names.
load_all()

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
    return corpus_dir("multi30k")


@pytest.fixture(scope="session")
def evalb_dir() -> Path:
    """The folder with trees and what EVALB says of them."""
    return corpus_dir("evalb")


@pytest.fixture(scope="session")
def wsj_dir() -> Path:
    """The folder with .mrg files of the Penn Treebank's sample."""
    return corpus_dir("wsj_sample")


@pytest.fixture(scope="session")
def gum_dir() -> Path:
    """The folder with train.ptb.gz and dev.ptb.gz of GUM."""
    return corpus_dir("gum")


def corpus_dir(name: str) -> Path:
    """Returns the folder of a corpus that is not part of the repository; without it, the test is skipped."""
    if not (CORPORA / name).is_dir():
        pytest.skip(f"needs the files of {name} in {CORPORA / name}, which is not there")
    return CORPORA / name


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
def command(tmp_path_factory):
    """Runs an installed command: command("decoder", "--output_dir=...", stdin=b"...") -> its finished process."""

    cache = tmp_path_factory.mktemp("cache")

    def run(name: str, *flags: str, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess:
        program = Path(sys.executable).with_name(f"t2t-lite-{name}")
        assert program.exists(), f"{program} is not there; install the project first: pip install -e ."
        # TensorFlow sets this when a test imports it; a user's shell does not have it.
        inherited = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
        inherited["XDG_CACHE_HOME"] = str(cache)  # not the user's
        # Not a limit on speed: a command that hangs fails its test instead of stopping the suite.
        finished = subprocess.run(
            [program, *flags], input=stdin, capture_output=True, env=inherited | environment, timeout=600, check=False
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


@pytest.fixture(scope="session")
def paper():
    """The paper's equations in NumPy, see `PaperInNumpy`."""
    return PaperInNumpy


@pytest.fixture(scope="session")
def descending_beams():
    """Hypotheses that descend from one another at random, see `_descending_beams`."""
    return _descending_beams


def _descending_beams(batch, beam_size, length, pieces=10, room=0, seed=0):
    """Yields (position, lineage, histories int32 [batch, beam, position + 1]): all pieces so far, 0 the first.

    The lineage has `room` for so many more positions than there will be.
    """
    from t2t_lite.layers.lineage import next_lineage, no_lineage

    random = np.random.default_rng(seed)
    lineage = no_lineage(batch, beam_size, length + room)
    parents = np.broadcast_to(np.arange(beam_size, dtype="int32"), (batch, beam_size))
    histories = np.zeros((batch, beam_size, 1), "int32")
    for position in range(length):
        lineage = next_lineage(lineage, parents, position)
        yield position, lineage, histories
        parents = random.integers(0, beam_size, (batch, beam_size)).astype("int32")
        newest = random.integers(1, pieces, (batch, beam_size, 1)).astype("int32")
        histories = np.concatenate([np.take_along_axis(histories, parents[:, :, None], axis=1), newest], axis=2)


class PaperInNumpy:
    """The paper's equations for one sentence, float64 [length, hidden], head by head, with the weights of our layers.

    A mask `allowed` is bool [queries, keys].
    """

    @staticmethod
    def randomize(layer, seed=0):
        """Gives every weight of a built layer a random value, so that none is 0 or 1 as it starts out."""
        rng = np.random.default_rng(seed)
        for variable in layer.variables:
            spread = variable.shape[0] ** -0.5
            variable.assign(rng.normal(0.0, spread, variable.shape).astype("float32"))

    @staticmethod
    def attention(queries, keys, values, allowed):
        """Equation 1; forbidden scores are minus infinity, and every query may attend to something."""
        scores = np.where(allowed, queries @ keys.T / math.sqrt(keys.shape[1]), -np.inf)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True) @ values

    @classmethod
    def multi_head(cls, layer, x, memory, allowed):
        """Section 3.2.2: every head has its own columns of W^Q, W^K and W^V; W^O mixes them."""
        query, key, value = _float64(layer.query), _float64(layer.key), _float64(layer.value)
        depth = x.shape[1] // layer.num_heads
        heads = []
        for head in range(layer.num_heads):
            mine = slice(head * depth, (head + 1) * depth)
            heads.append(cls.attention(x @ query[:, mine], memory @ key[:, mine], memory @ value[:, mine], allowed))
        return np.concatenate(heads, axis=1) @ _float64(layer.output_projection)

    @staticmethod
    def feed_forward(layer, x):
        """Equation 2."""
        hidden = x @ _float64(layer.expand.kernel) + _float64(layer.expand.bias)
        return np.maximum(0.0, hidden) @ _float64(layer.project.kernel) + _float64(layer.project.bias)

    @staticmethod
    def layer_norm(layer, x):
        """Each position's vector with mean 0 and variance 1, then scale and offset."""
        centered = x - x.mean(axis=1, keepdims=True)
        deviation = np.sqrt((centered**2).mean(axis=1, keepdims=True) + 1e-6)
        return centered / deviation * _float64(layer.norm.gamma) + _float64(layer.norm.beta)

    @classmethod
    def encoder_layer(cls, layer, x, allowed):
        """Section 3.1: LayerNorm(x + Sublayer(x)), twice."""
        x = cls.layer_norm(layer.self_attention_residual, x + cls.multi_head(layer.self_attention, x, x, allowed))
        return cls.layer_norm(layer.feed_forward_residual, x + cls.feed_forward(layer.feed_forward, x))

    @classmethod
    def decoder_layer(cls, layer, x, allowed, encoded, memory_allowed):
        """Section 3.1: LayerNorm(x + Sublayer(x)), three times."""
        x = cls.layer_norm(layer.self_attention_residual, x + cls.multi_head(layer.self_attention, x, x, allowed))
        y = cls.multi_head(layer.memory_attention, x, encoded, memory_allowed)
        x = cls.layer_norm(layer.memory_attention_residual, x + y)
        return cls.layer_norm(layer.feed_forward_residual, x + cls.feed_forward(layer.feed_forward, x))

    @staticmethod
    def position(pos, channel, hidden_size):
        """Section 3.5, one element of the positional encoding."""
        angle = pos / 10000.0 ** (2 * (channel // 2) / hidden_size)
        return math.cos(angle) if channel % 2 else math.sin(angle)

    @classmethod
    def logits(cls, model, inputs, targets, counted=None):
        """The whole model on one unpadded sentence pair: lists of ids -> float64 [target length, vocab].

        With a counted piece, the encoder's output at the place that so many of it have led to is added to the targets.
        """
        matrix = _float64(model.embedding.weight)
        hidden_size = matrix.shape[1]

        def embed(ids):
            positions = [[cls.position(pos, i, hidden_size) for i in range(hidden_size)] for pos in range(len(ids))]
            return matrix[ids] * math.sqrt(hidden_size) + positions

        encoded = embed(inputs)
        for layer in model.encoder_layers:
            encoded = cls.encoder_layer(layer, encoded, np.ones((len(inputs), len(inputs)), bool))
        before = [0, *targets[:-1]]
        x = embed(before)
        if counted is not None:
            counts = [before[: pos + 1].count(counted) for pos in range(len(before))]
            x = x + np.stack([encoded[min(count, len(inputs) - 1)] for count in counts])
        for layer in model.decoder_layers:
            causal = np.tri(len(targets), dtype=bool)
            x = cls.decoder_layer(layer, x, causal, encoded, np.ones((len(targets), len(inputs)), bool))
        return x @ matrix.T


def _float64(variable):
    return np.array(variable).astype(np.float64)
