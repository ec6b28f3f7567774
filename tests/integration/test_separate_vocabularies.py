"""A vocabulary for each side, and learned positions, with the commands as a user runs them."""

import json

import pytest

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


def test_the_decoder_needs_only_the_run_directory(run_dir, command):
    text = "The dog sleeps.\n\nDer Hund schläft.\nI see 世界.\n"
    result = command(
        "decoder", f"--output_dir={run_dir}", "--decode_hparams=extra_length=3", PLAIN, stdin=text.encode()
    )
    assert (result.returncode, result.stderr) == (0, f"using {run_dir / 'ckpt-2'}\n")
    assert len(result.stdout.split("\n")) == 5 and result.stdout.split("\n")[1] == ""
