"""t2t-lite-benchmark --training as a user runs it, on tiny settings: random ids, real data, two devices; mistakes."""

import json
import statistics

import pytest
from support.commands import with_flags

from t2t_lite.cost import cost_of
from t2t_lite.data.manifest import read_manifest
from t2t_lite.data.problem import get_problem
from t2t_lite.registry import HPARAMS

CHANGES = (
    "hidden_size=32,filter_size=64,num_heads=2,num_encoder_layers=1,num_decoder_layers=1,batch_tokens=512,max_length=64"
)
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


def row_of(lines, precision):
    """The words of a table row, selected by precision."""
    return next(line.split() for line in lines if line.startswith(precision + " "))


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
    printed = row_of(lines, "float32")
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
        printed = row_of(lines, row["precision"])
        assert f"{row['target_tokens_per_second']:,.0f}" in printed
        assert f"{row['input_tokens_per_second']:,.0f}" in printed
    assert "CPU:0" in lines[-2] and "CPU:1" in lines[-2]


@pytest.mark.heavy
def test_errors_of_the_measuring_process_are_one_line(command):
    result = command("benchmark", *SET, "--num_gpus=999")
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1 and "--num_gpus=999, but TensorFlow finds" in result.stderr
