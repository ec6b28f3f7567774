"""A vocabulary for each side, and learned positions, with the commands as a user runs them."""

import json

import pytest

from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.runs import checkpoints

pytestmark = pytest.mark.slow

PLAIN = "--xla_compile=False"
SMALL = "hidden_size=16,filter_size=16,num_heads=2,num_encoder_layers=1,num_decoder_layers=1,batch_tokens=256"


@pytest.fixture(scope="module")
def data(shared_folders):
    """A data directory of `multi30k_ende_separate` with a few pairs of the grammar instead of the captions."""
    from t2t_lite.data.generation.generate import generate
    from t2t_lite.problems import grammar, multi30k

    class Multi30kEndeSeparate(multi30k.Multi30kEndeSeparate):
        sources = ()

        def examples(self, split, files):
            pairs = grammar.GrammarEnde()
            pairs.num_examples = {"train": 300, "dev": 10, "test": 10}
            return pairs.examples(split, files)

    def make(data_dir):
        generate(Multi30kEndeSeparate(), data_dir, data_dir / "none", say=lambda line: None)

    return shared_folders.get("separate_data", make)


@pytest.fixture(scope="module")
def without_tensorflow(tmp_path_factory):
    """An environment in which a command that imports TensorFlow fails."""
    folder = tmp_path_factory.mktemp("no_tensorflow")
    (folder / "tensorflow.py").write_text("raise RuntimeError('TensorFlow was imported')\n")
    return {"PYTHONPATH": str(folder)}


@pytest.fixture(scope="module")
def train(data, command, process):
    """Runs the trainer for two steps in a fresh process with the given environment."""

    def run(output_dir, problem, changes, **environment):
        return (process if environment else command)(
            "trainer",
            f"--problem={problem}",
            "--hparams_set=transformer_tiny",
            f"--hparams={SMALL},{changes}",
            "--train_steps=2",
            "--peak_tflops=1",
            f"--data_dir={data}",
            f"--output_dir={output_dir}",
            **environment,
        )

    return run


@pytest.fixture(scope="module", params=["multi30k_ende_separate", "multi30k_ende_separate_rev"])
def run_dir(request, train, tmp_path_factory):
    """The run directory of a small model for either direction."""
    output_dir = tmp_path_factory.mktemp("separate") / "run"
    result = train(output_dir, request.param, "tied_embeddings=decoder")
    assert (result.returncode, result.stderr) == (0, "")
    return output_dir


def sides_of(run_dir):
    """(name of the run's inputs vocabulary, name of its targets vocabulary)."""
    is_reversed = json.loads((run_dir / "run.json").read_text())["problem"].endswith("_rev")
    sides = ("targets", "inputs") if is_reversed else ("inputs", "targets")
    # The names have the real numbers of tokens, which are lower than the problem's.
    return tuple(next(run_dir.glob(f"vocab.multi30k_ende_separate.*.{side}.subwords")).name for side in sides)


def test_the_run_records_both_vocabularies_in_its_direction(run_dir, data):
    inputs, targets = sides_of(run_dir)
    run = json.loads((run_dir / "run.json").read_text())
    assert (run["inputs_vocabulary"]["file"], run["vocabulary"]["file"]) == (inputs, targets)
    for name in (inputs, targets):
        assert (run_dir / name).read_bytes() == (data / name).read_bytes()


def test_each_embedding_matrix_has_one_row_per_token_of_its_side(run_dir):
    sizes = [open_vocabulary(run_dir / name).size for name in sides_of(run_dir)]
    assert sizes[0] != sizes[1]  # otherwise the test would show nothing
    arrays = checkpoints.read(run_dir / "ckpt-2", "model")
    rows = {name: array.shape[0] for name, array in arrays.items() if "embedding" in name}
    assert sorted(rows.values()) == sorted(sizes)
    assert [number for name, number in rows.items() if "inputs_embedding" in name] == sizes[:1]


def test_the_decoder_needs_only_the_run_directory(run_dir, command):
    text = "The dog sleeps.\n\nDer Hund schläft.\nI see 世界.\n"
    result = command(
        "decoder", f"--output_dir={run_dir}", "--decode_hparams=extra_length=3", PLAIN, stdin=text.encode()
    )
    assert (result.returncode, result.stderr) == (0, f"using {run_dir / 'ckpt-2'}\n")
    assert len(result.stdout.split("\n")) == 5 and result.stdout.split("\n")[1] == ""


def test_repeating_the_command_resumes_the_run(run_dir, train):
    problem = json.loads((run_dir / "run.json").read_text())["problem"]
    result = train(run_dir, problem, "tied_embeddings=decoder")
    assert (result.returncode, result.stderr) == (0, "")
    assert "already trained for 2 steps" in result.stdout


def refused(result, output_dir):
    """The one line of a command that failed before it wrote a file or imported TensorFlow."""
    assert result.returncode == 1, result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith("t2t-lite-trainer: error: ")
    assert not output_dir.exists()
    return line


def test_tied_embeddings_of_both_sides_are_refused(train, tmp_path, without_tensorflow):
    run, problem = tmp_path / "run", "multi30k_ende_separate_rev"
    line = refused(train(run, problem, "tied_embeddings=all", **without_tensorflow), run)
    assert f"'{problem}'" in line and "--hparams=tied_embeddings=decoder" in line


@pytest.fixture(scope="module")
def longest_dev(data):
    lengths = json.loads((data / "manifest.multi30k_ende_separate.json").read_text())["splits"]["dev"]["lengths"]
    return max(int(length) for histogram in lengths.values() for length in histogram)


def test_learned_positions_that_do_not_cover_the_dev_split_are_refused(
    train, tmp_path, without_tensorflow, longest_dev
):
    changes = f"tied_embeddings=none,position_encoding=learned,max_length={longest_dev - 1}"
    result = train(tmp_path / "run", "multi30k_ende_separate", changes, **without_tensorflow)
    line = refused(result, tmp_path / "run")
    assert f"has {longest_dev} tokens" in line and f"--hparams=max_length={longest_dev} or more" in line


@pytest.mark.heavy
def test_learned_positions_that_just_cover_the_dev_split_train_and_decode(train, tmp_path, longest_dev, command):
    run_dir = tmp_path / "run"
    changes = f"tied_embeddings=none,position_encoding=learned,max_length={longest_dev}"
    result = train(run_dir, "multi30k_ende_separate_rev", changes)
    assert (result.returncode, result.stderr) == (0, "")
    assert "dev loss" in result.stdout
    result = command("decoder", f"--output_dir={run_dir}", PLAIN, stdin=("Hund " * 200 + "\n").encode())
    assert result.returncode == 0 and len(result.stdout.splitlines()) == 1
    assert f"and was cut to {longest_dev}, which is the limit of the learned positions" in result.stderr
