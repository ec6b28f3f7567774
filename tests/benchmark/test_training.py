"""t2t-lite-benchmark --training: its data, its processes, and the command on tiny settings."""

import json
import os
import signal
import statistics
import sys

import numpy as np
import pytest
from support.commands import with_flags

from t2t_lite.benchmark.process import TrainingData, in_a_process, random_data, whole_command
from t2t_lite.benchmark.training import batches_of, round_of_batches, try_every_graph
from t2t_lite.config import HParams
from t2t_lite.cost import cost_of
from t2t_lite.data.manifest import Manifest, read_manifest
from t2t_lite.data.pipeline import WINDOW
from t2t_lite.data.problem import get_problem
from t2t_lite.errors import UserError
from t2t_lite.registry import HPARAMS


def test_random_batches_have_no_padding_and_about_the_requested_number_of_tokens():
    data = random_data(50, source_length=7, target_length=10)
    assert data.vocab_sizes() == (50, 50) and data.mean_lengths() == (7, 10)
    one, again = (
        {side: ids.numpy() for side, ids in next(iter(batches_of(data, HParams(batch_tokens=204), seed))).items()}
        for seed in (1, 1)
    )
    assert one["inputs"].shape == (20, 7) and one["targets"].shape == (20, 10)
    for side, ids in one.items():
        # 2% of seeds never draw the last id in 200 draws.
        assert ids.dtype == np.int32 and ids.min() >= 1 and ids.max() == 49
        np.testing.assert_array_equal(ids, again[side])


@pytest.mark.parametrize(("pairs", "in_round"), [(100, 100), (WINDOW + 1, WINDOW + 1), (3 * WINDOW + 2, WINDOW + 1)])
def test_a_round_is_an_epoch_or_one_window_of_a_large_epoch(pairs, in_round):
    split = {"examples": pairs, "shards": {}, "lengths": {"inputs": {"5": pairs}, "targets": {"8": pairs}}}
    data = TrainingData(Manifest("many", {"size": 9}, {"train": split}, {}))
    assert round_of_batches(data, 80) == -(-in_round // 10)


def test_every_graph_runs_one_step_before_timing():
    shapes = [(1, 4, 8), (1, 2, 16), (3, 4, 8), (2, 4, 8), (1, 4, 8), (1, 2, 16)]
    batches = [{"inputs": np.zeros(shape), "targets": np.zeros(shape)} for shape in shapes]
    for is_compiled, wanted in ((True, [(1, 4, 8), (1, 2, 16), (3, 4, 8), (2, 4, 8)]), (False, [(1, 4, 8), (3, 4, 8)])):
        made = []
        try_every_graph(lambda batch, made=made: made.append(batch["targets"].shape), batches, is_compiled=is_compiled)
        assert made == wanted


def test_a_process_gives_its_result_its_error_or_its_death():
    assert in_a_process(os.getpid) != os.getpid() and in_a_process(divmod, 7, 2) == (3, 1)
    with pytest.raises(ValueError, match="'many'"):
        in_a_process(int, "many")
    with pytest.raises(UserError, match="was killed"):
        in_a_process(signal.raise_signal, signal.SIGKILL)


def test_the_time_memory_outputs_and_last_message_of_a_command_are_its_own(tmp_path):
    held = b"x" * 2**28  # of this process
    program = "import os; print('a\\nb'); print(os.environ['XDG_CACHE_HOME']); x = b'x' * {}"
    small, large = (whole_command([sys.executable, "-c", program.format(size)], tmp_path) for size in (2**10, 2**27))
    assert small.outputs == ["a", "b", str(tmp_path)] and small.seconds > 0
    assert small.peak_bytes < len(held) // 2 < large.peak_bytes < small.peak_bytes + 2**27 + 2**23
    for program, said in (("print('a'); sys.exit('x\\nnot found')", "not found"), ("sys.exit(3)", "exit status 3")):
        with pytest.raises(UserError, match=f"^{said}$"):
            whole_command([sys.executable, "-c", f"import sys; {program}"], tmp_path)


CHANGES = "hidden_size=32,filter_size=64,num_heads=2,num_encoder_layers=1,num_decoder_layers=1"
CHANGES += ",batch_tokens=512,max_length=64"
SET = ("--training", "--hparams_set=transformer_tiny", f"--hparams={CHANGES}")
HPARAMS_OF_SET = HPARAMS["transformer_tiny"]().override(CHANGES)


def measured(command, file, *flags):
    """Runs the command; returns (printed lines, content of its JSON file)."""
    result = command("benchmark", *with_flags(SET, *flags, f"--json_file={file}"))
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.splitlines(), json.loads(file.read_text(encoding="utf-8"))


def check_row(row, content):
    """Relations between figures that hold on every machine."""
    steps = row["timed_steps"]
    assert all(0 <= step["waited"] < step["seconds"] for step in steps)
    assert all(0 < step["target_tokens"] <= step["padded_target_tokens"] for step in steps)
    assert row["step_seconds"] == statistics.median(step["seconds"] for step in steps)
    for kind in ("target_tokens", "padded_target_tokens"):
        rates = [step[kind] / step["seconds"] for step in steps]
        assert row[f"{kind}_per_second"] == pytest.approx(statistics.median(rates))
    sizes = content["vocab_size"], content["source_length"], content["target_length"]
    flops = sum(cost_of(HPARAMS_OF_SET, sizes[0]).training_flops(*sizes[1:]).values()) / HPARAMS_OF_SET.batch_tokens
    done = row["utilisation_by_counted_flops"] * row["peak_flops_per_second"]
    assert done == pytest.approx(flops * row["target_tokens_per_second"])
    assert row["parameters"] == sum(cost_of(HPARAMS_OF_SET, content["vocab_size"]).parameter_parts().values())
    by_6 = row["utilisation_by_6_parameters"] / row["utilisation_by_counted_flops"]
    assert by_6 == pytest.approx(6 * row["parameters"] / flops)
    assert row["peak_memory_bytes"] > 4 * 4 * row["parameters"]  # weights, gradients and two moments at least
    machine = row["machine"]
    assert len(machine["devices"]) == row["devices"]
    assert machine["threads"] >= 1 and machine["matmul_gflops"] > 0
    assert machine["tensorflow"] and machine["keras"]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("batch_by", "padded"),
    [
        # Both sides are padded to 24. 256 positions have room for 10 pairs: the 32 make 4 micro-batches.
        ("both", 24.0 * 10 * 4),
        ("shapes", 512.0),  # all batches have the same shape, so that nothing is padded
    ],
)
def test_a_compiled_step_on_random_ids_is_measured(command, tmp_path, batch_by, padded):
    file = tmp_path / "cost.json"
    sizes = ("--vocab_size=100", "--source_length=20", "--target_length=16")
    flags = ["--xla_compile", *sizes, "--num_steps=3", "--warmup_steps=1"]
    if batch_by == "both":  # the other one is the choice of a compiled training
        flags.append(f"--hparams={CHANGES},batch_by=both")
    lines, content = measured(command, file, *flags)
    assert (content["vocab_size"], content["source_length"], content["target_length"]) == (100, 20, 16)
    assert content["problem"] is None and content["hparams"]["hidden_size"] == 32
    (row,) = content["rows"]
    check_row(row, content)
    assert (row["precision"], row["devices"]) == ("float32", 1)
    assert [step["target_tokens"] for step in row["timed_steps"]] == [512.0] * 3
    assert [step["padded_target_tokens"] for step in row["timed_steps"]] == [padded] * 3
    assert row["xla_compile"] is True and row["input_tokens_per_second"] is None
    printed = next(line.split() for line in lines if line.startswith("float32 "))
    assert printed[1] == f"{row['target_tokens_per_second']:,.0f}"
    assert printed[-1] == f"{row['peak_memory_bytes'] / 2**20:,.0f}"
    assert f"{row['utilisation_by_counted_flops']:.1%}" in printed
    assert "random ids: sentences of 20 and 16 tokens, vocabulary 100" in lines
    assert "tokens/s" in "".join(lines) and "input" not in "".join(lines)


@pytest.mark.heavy
def test_problem_data_is_measured_in_two_precisions_on_two_devices(command, grammar_data, tmp_path):
    flags = ("--problem=grammar_ende_rev", f"--data_dir={grammar_data}", "--precision=mixed_bfloat16,float32")
    devices = ("--virtual_devices=2", "--max_tokens_per_replica=200", "--peak_tflops=0.5")
    lines, content = measured(command, tmp_path / "cost.json", *flags, *devices, "--num_steps=5", "--warmup_steps=0")
    manifest = read_manifest(grammar_data, get_problem("grammar_ende"))
    assert content["problem"] == "grammar_ende_rev" and content["vocab_size"] == manifest.vocabulary["size"]
    assert content["source_length"] == manifest.mean_length("train", "targets")  # reversed
    assert content["target_length"] == manifest.mean_length("train", "inputs")
    assert [row["precision"] for row in content["rows"]] == ["mixed_bfloat16", "float32"]
    for row in content["rows"]:
        check_row(row, content)
        assert row["devices"] == 2 and row["peak_flops_per_second"] == 2 * 0.5e12
        assert all(abs(step["target_tokens"] - 512) < 64 for step in row["timed_steps"])
        assert row["padded_target_tokens_per_second"] > row["target_tokens_per_second"]
        printed = next(line.split() for line in lines if line.startswith(row["precision"]))
        assert f"{row['target_tokens_per_second']:,.0f}" in printed
        assert f"{row['input_tokens_per_second']:,.0f}" in printed
    assert "CPU:0" in lines[-2] and "CPU:1" in lines[-2]


@pytest.mark.heavy
def test_errors_of_the_measuring_process_are_one_line(command):
    result = command("benchmark", *SET, "--num_gpus=999")
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1 and "--num_gpus=999, but TensorFlow finds" in result.stderr
