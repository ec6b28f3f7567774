"""The example plug-in through every command: its problem, set, model, settings, position encoding and metric."""

import json
import re

import pytest
from support.checkpoints import assert_same_content, everything
from support.commands import start_process
from support.memory import peak_memory

from t2t_lite.config import get_hparams, resolve_hparams
from t2t_lite.cost import cost_of, estimate_memory
from t2t_lite.runs.checkpoint_files import list_checkpoints

pytestmark = pytest.mark.heavy

STEPS = 20
SETTINGS = "length_buckets=3,bucket_width=2"


def training(data_dir, output_dir):
    """The flags of a training of STEPS steps, with dropout."""
    task = ("--problem=numbers_in_words", "--hparams_set=length_tiny", f"--hparams={SETTINGS}", "--peak_tflops=1")
    steps = (f"--train_steps={STEPS}", "--save_checkpoints_steps=10")
    return ["trainer", *task, *steps, f"--data_dir={data_dir}", f"--output_dir={output_dir}"]


@pytest.fixture(scope="module")
def data_dir(example, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    example("datagen", "--problem=numbers_in_words", f"--data_dir={folder}")
    return folder


@pytest.fixture(scope="module")
def run_dir(data_dir, example, tmp_path_factory):
    """A run directory, trained and averaged."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    example(*training(data_dir, folder), "--eval_decode", "--decode_hparams=beam_size=1", "--eval_metric=word_errors")
    example("avg", f"--output_dir={folder}", "--n=2")
    return folder


def test_a_killed_training_resumes_bit_equal(example, example_site, data_dir, run_dir, tmp_path):
    flags = training(data_dir, tmp_path)
    killed = start_process(*flags, environment={"PYTHONPATH": str(example_site)})
    while not list_checkpoints(tmp_path):
        assert killed.poll() is None, killed.communicate()[0]
    killed.kill()
    killed.communicate()
    assert list_checkpoints(tmp_path)[-1][0] < STEPS
    assert "resuming from" in example(*flags)
    ours, theirs = (everything(path / f"ckpt-{STEPS}") for path in (tmp_path, run_dir))
    assert any("lengths" in name for name in ours)
    assert_same_content(ours, theirs)


def test_a_run_records_the_settings_and_origins_of_the_plug_in_which_averaging_does_not_need(run_dir, process):
    hparams = json.loads((run_dir / "hparams.json").read_text())
    assert (hparams["length_buckets"], hparams["bucket_width"], hparams["position_encoding"]) == (3, 2, "binary")
    origins = {kind: ["package", "t2t-lite-example"] for kind in ("problem", "model", "position encoding")}
    assert json.loads((run_dir / "run.json").read_text())["plugins"] == origins
    result = process("avg", f"--output_dir={run_dir}", "--n=2")
    assert result.returncode == 0, result.stderr
    assert f"average-{STEPS}" in result.stdout
    refused = process("decoder", f"--output_dir={run_dir}", stdin=b"12\n")
    assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1
    assert "'numbers_in_words' comes from the package t2t-lite-example; install the version" in refused.stderr


def test_outputs_are_decoded_and_scored_by_the_metric(example, run_dir, data_dir, tmp_path):
    outputs, texts = tmp_path / "out.txt", data_dir / "numbers_in_words-test.inputs.txt"
    files = (f"--decode_from_file={texts}", f"--decode_to_file={outputs}")
    example("decoder", f"--output_dir={run_dir}", *files, "--xla_compile=False")
    references = data_dir / "numbers_in_words-test.targets.txt"
    said = example("score", "--metric=word_errors,bleu", f"--hypothesis={outputs}", f"--reference={references}")
    assert re.search(r"^word errors = [1-9][\d.]+$", said, re.MULTILINE) and "BLEU" in said


def test_a_constraint_of_the_plug_in_is_chosen_by_its_name(example, run_dir):
    flags, settings = ("decoder", f"--output_dir={run_dir}", "--xla_compile=False"), "--decode_hparams=beam_size=1"
    free = example(*flags, settings, stdin=b"1234\n17\n")
    constrained = example(*flags, f"{settings},constraints=no_stutter", stdin=b"1234\n17\n")
    repeats = re.compile(r"(.)\1")
    assert repeats.search(free)  # after a few steps, the model repeats letters
    assert not repeats.search(constrained.replace("\n", "")) and constrained.strip()


def test_the_estimate_of_the_memory_is_above_the_measured_peak(example, example_site):
    hparams = get_hparams("length_tiny", hidden_size=128, filter_size=512, num_heads=4)
    rows, length, vocab_size = 64, 48, 4000
    fixed, per_token = estimate_memory(cost_of(hparams, vocab_size), length)
    peak = peak_memory(hparams, vocab_size, rows, length, rows * length, steps=8, PYTHONPATH=str(example_site))["peak"]
    ratio = (fixed + rows * length * per_token) / peak
    print(f"estimate {ratio:.2f} of the measured peak")
    assert 1.0 <= ratio <= 4.0


def test_the_models_settings_are_known_wherever_it_is_chosen(command, example):
    described = example("trainer", "--registry_help=length_transformer")
    assert "  length_buckets = 8  number of learned vectors for lengths of the source\n" in described
    assert "setting length_buckets of model length_transformer" in example("trainer", "--registry_help=length_buckets")
    difference = r"^\* length_buckets +4 +\(transformer_tiny: none\)$"
    assert re.search(difference, example("trainer", "--registry_help=length_tiny"), flags=re.MULTILINE)
    flags = ("params", "--hparams_set=transformer_tiny", "--vocab_size=50")
    assert "lengths" in example(*flags, "--hparams=length_buckets=2,model=length_transformer")
    for changes, message in (
        ("length_buckets=2", "the model length_transformer has this setting: add model=length_transformer"),
        ("model=length_transformer,length_buckets=0", "length_buckets=0 is out of range: it must be at least 1"),
        ("model=length_transformer,length_buckets=x", "length_buckets takes a whole number, not 'x'"),
        ("model=length_transformer,length_bucket=2", "did you mean 'length_buckets'"),
    ):
        refused = command(*flags, f"--hparams={changes}")
        assert refused.returncode == 2 and len(refused.stderr.splitlines()) == 1
        assert message in refused.stderr
    assert resolve_hparams("transformer_tiny", "length_buckets=2", "length_transformer").length_buckets == 2
    back = get_hparams("length_tiny", model="transformer", position_encoding="sinusoidal")
    assert "length_buckets" not in back.names() and back.hidden_size == 32
