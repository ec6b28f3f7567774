"""A vocabulary for each side, with the commands as a user runs them."""

import json

import pytest

pytestmark = pytest.mark.slow

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


@pytest.mark.parametrize("end", ["", "_rev"])
def test_a_run_records_both_vocabularies_in_its_direction_and_needs_nothing_else_to_decode(
    data, command, tmp_path, end
):
    run_dir = tmp_path / "run"
    flags = ("--hparams_set=transformer_tiny", f"--hparams={SMALL},tied_embeddings=decoder", "--peak_tflops=1")
    folders = (f"--data_dir={data}", f"--output_dir={run_dir}")
    trained = command("trainer", f"--problem=multi30k_ende_separate{end}", *flags, *folders, "--train_steps=2")
    assert (trained.returncode, trained.stderr) == (0, "")
    sides = ("targets", "inputs") if end else ("inputs", "targets")
    # The names have the real numbers of tokens, which are lower than the problem's.
    inputs, targets = (next(run_dir.glob(f"vocab.multi30k_ende_separate.*.{side}.subwords")).name for side in sides)
    run = json.loads((run_dir / "run.json").read_text())
    assert (run["inputs_vocabulary"]["file"], run["vocabulary"]["file"]) == (inputs, targets)
    for name in (inputs, targets):
        assert (run_dir / name).read_bytes() == (data / name).read_bytes()
    text = "The dog sleeps.\n\nDer Hund schläft.\nI see 世界.\n"
    settings = ("--decode_hparams=extra_length=3", "--xla_compile=False")
    result = command("decoder", f"--output_dir={run_dir}", *settings, stdin=text.encode())
    assert (result.returncode, result.stderr) == (0, f"using {run_dir / 'ckpt-2'}\n")
    assert len(result.stdout.split("\n")) == 5 and result.stdout.split("\n")[1] == ""
