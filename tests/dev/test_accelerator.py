"""dev/accelerator: the script at a small size, and how it reads profiles and writes its page."""

import gzip
import json

import numpy as np
import pytest

import t2t_lite as t2t
from dev.accelerator import kernels
from dev.accelerator.__main__ import main
from dev.accelerator.cases import Case, fitting_tokens, scaled
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.decoding.tensorflow_engine import restored_model
from t2t_lite.models.building import load_model_file
from t2t_lite.runs.run_dir import open_run_dir
from t2t_lite.runs.selection import select

CASE = "transformer_tiny, 300 tokens, bfloat16"

# A compiled program as XLA prints it, shortened.
PROGRAM = """HloModule jit__several

%fused_computation.1 (param_0.1: bf16[32,8]) -> bf16[32,8] {
  %param_0.1 = bf16[32] parameter(0)
  %mul.3 = bf16[32] multiply(%param_0.1, %param_0.1), metadata={op_name="jit(s)/jvp(encoder_0)/ff_residual/dropout/mul"}
  ROOT %add.1 = bf16[32] add(%mul.3, %mul.3), metadata={op_name="jit(s)/jvp(encoder_0)/ff_residual/dropout/add"}
  %max.1 = bf16[32] maximum(%mul.3, %mul.3), metadata={op_name="jit(s)/jvp(encoder_0)/ff_residual/dropout/add"}
}

ENTRY %main.9 (Arg_0.1: bf16[32,8]) -> bf16[32,8] {
  %Arg_0.1 = bf16[32] parameter(0), metadata={op_name="inputs"}
  %loop_fusion.1 = bf16[32] fusion(%Arg_0.1), kind=kLoop, calls=%fused_computation.1
  %custom-call.2 = bf16[32] custom-call(%loop_fusion.1), metadata={op_name="jvp(decoder_1)/cross_attention/dot_general"}
  ROOT %copy.4 = bf16[32] copy(%custom-call.2), metadata={op_name="jit(s)/optimizer/sub"}
}
"""


def kernel(name, instruction, microseconds, pid=1):
    arguments = {"hlo_op": instruction} if instruction else {}
    return {"ph": "X", "pid": pid, "name": name, "dur": microseconds, "args": arguments}


def test_the_time_of_a_profile_is_divided_by_what_the_compiled_program_says(tmp_path):
    events = [
        {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "/device:GPU:0"}},
        {"name": "process_name", "ph": "M", "pid": 2, "args": {"name": "/host:CPU"}},
        kernel("loop_fusion_1", "loop_fusion.1", 100.0),
        kernel("nvjet_sm90_tst_128x160", "custom-call.2", 3000.0),
        kernel("nvjet_sm90_tst_128x160", "custom-call.2", 1000.0),
        kernel("copy_4", "copy.4", 500.0),
        kernel("unknown", "fusion.77", 40.0),
        kernel("while", "while.3", 4000.0),  # a loop with some of the kernels above
        kernel("MemcpyD2H", "", 7.0),  # belongs to no instruction
        kernel("loop_fusion_1", "loop_fusion.1", 9.0, pid=2),  # the host starts the kernel
    ]
    (tmp_path / "plugins").mkdir()
    with gzip.open(tmp_path / "plugins" / "host.trace.json.gz", "wt") as file:
        json.dump({"traceEvents": events}, file)
    found = kernels.kernels_of_trace(str(tmp_path), on_cpu=False)
    names = kernels.op_names(PROGRAM)
    assert names["loop_fusion.1"].endswith("/dropout/add")  # twice inside; /mul is there once
    assert kernels.time_by_kind(found, names, steps=2) == {
        "cross-attention": {"products": 2.0, "other": 0.0},
        "optimizer": {"products": 0.0, "other": 0.25},
        "dropout": {"products": 0.0, "other": 0.05},
        "other": {"products": 0.0, "other": 0.02},
    }
    first = kernels.largest(found, names, steps=2)[0]
    where = "jvp(decoder_N)/cross_attention/dot_general"
    assert first == [2.0, 1.0, "nvjet_sm90_tst_128x160", where]


def test_the_largest_batch_is_found_from_the_memory_of_smaller_ones():
    points = [(100_000, 60 * 10**9), (25_000, 18 * 10**9), (50_000, 32 * 10**9)]
    assert fitting_tokens(points, 116 * 10**9) == 200_000
    assert fitting_tokens(points, 117 * 10**9) == 200_000  # 201,785 would fit
    assert fitting_tokens([(200, 10), (300, 20)], 12) == 220
    assert fitting_tokens([(200, 10), (300, 20)], -1000) == 1


def test_several_devices_are_powers_of_two_and_all():
    case = Case("transformer_big", 25_000)
    assert [each.devices for each in scaled(case, 8)] == [1, 2, 4, 8]
    assert [each.devices for each in scaled(case, 6)] == [1, 2, 4, 6]
    names = [each.name for each in scaled(case, 2)]
    assert names == [f"{case.name}, 1 device", f"{case.name}, 2 devices"]


def logits_of_run(run, inputs, targets):
    run_dir = open_run_dir(run)
    checkpoint = select(run, None, lambda line: None).path
    size = open_vocabulary(run_dir.vocabulary).size
    return restored_model(run_dir.hparams, size, size, checkpoint)(inputs, targets).numpy()


@pytest.mark.heavy
def test_jax_measures_a_cpu_and_trains_the_model_of_a_run(grammar_data, small_run, tmp_path, monkeypatch, capsys):
    pytest.importorskip("jax")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # compiles in half the time
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    export, trained, run = (tmp_path / name for name in ("export", "trained", "run"))
    t2t.export(small_run, export, format="keras")
    flags = ["--problem=grammar_ende", f"--data_dir={grammar_data}", f"--batches_file={tmp_path}/b.npz"]
    flags += ["--backend=jax", f"--export_dir={export}", f"--trained_dir={trained}"]
    assert main(["--minutes=5", f"--json_file={tmp_path}/figures.json", *flags]) == 0
    page = capsys.readouterr().out
    jax = json.loads((tmp_path / "figures.json").read_text())["ours"]
    assert "errors" not in jax
    assert jax["machine"]["devices"] == ["cpu: cpu"] * 2
    assert jax["products"].keys() == {"512, bfloat16", "512, tensorfloat32", "512, highest"}
    step = jax["steps"][CASE]
    assert step["target_tokens_per_second"] == pytest.approx(step["target_tokens"] / step["step_seconds"])
    assert step["rows"] == 22 and step["memory_bytes"] > 3 * 4 * 500 * 128
    for number in (1, 2):
        name = f"{CASE}, {number} device{'s' * (number - 1)}"
        assert jax["steps"][name]["rows"] == 11 * number
    assert jax["all_reduce"]["bytes_per_second"] > 0
    largest = jax["largest_batches"]["transformer_tiny"]
    assert largest["target_tokens"] > 300 and step["memory_bytes"] < largest["memory_bytes"] < largest["limit_bytes"]
    assert jax["shapes"].keys() == {"problem", "batches", "batch_tokens", "shapes"}
    assert jax["shapes"]["shapes"] <= jax["shapes"]["batches"]
    times = jax["profiles"][CASE]["milliseconds_by_kind"]
    kinds = {"optimizer", "norms", "self-attention", "cross-attention", "feed-forward", "dropout", "all-reduce"}
    assert kinds <= times.keys()
    assert times["feed-forward"]["products"] > 0 and times["optimizer"]["products"] == 0
    float32, bfloat16 = jax["curves"]["float32"], jax["curves"]["mixed_bfloat16"]
    assert len(float32) == len(bfloat16) == 5
    assert 0 < max(abs(b / a - 1) for a, b in zip(float32, bfloat16)) < 0.02
    assert jax["search"]["tokens_per_second"] > 0
    assert f"| {CASE} |" in page and "Loss in float32 and bfloat16 over 5 steps" in page

    imported = t2t.import_model(trained, run, kind="keras")
    assert imported.checkpoint == run / "ckpt-11"  # 6 steps with TensorFlow and 5 under JAX
    ids = np.random.default_rng(1).integers(1, 20, (2, 3, 7)).astype(np.int32)
    before, after = (logits_of_run(each, *ids) for each in (small_run, run))
    assert np.abs(after - before).max() > 1e-3
    np.testing.assert_allclose(load_model_file(trained / "model.keras")(*ids).numpy(), after, atol=1e-5)
    assert t2t.Translator.from_export(trained).translate(["a b"]) == t2t.Translator.from_run_dir(run).translate(["a b"])


@pytest.mark.heavy
def test_tensorflow_measures_a_cpu(tmp_path, capsys):
    assert main([f"--json_file={tmp_path}/figures.json", "--backend=tensorflow", "--minutes=10"]) == 0
    page = capsys.readouterr().out
    ours = json.loads((tmp_path / "figures.json").read_text())["ours"]
    assert "errors" not in ours
    assert ours["machine"]["devices"] == ["cpu"] * 2
    assert ours["products"].keys() == {"512, bfloat16", "512, tensorfloat32", "512, highest"}
    names = [CASE, f"{CASE}, 1 device", f"{CASE}, 2 devices", f"{CASE}, 2 processes"]
    tokens = [ours["steps"][name]["target_tokens"] for name in names]
    assert tokens[0] == tokens[2] == tokens[3] > 1.8 * tokens[1]
    times = ours["profiles"][CASE]["milliseconds_by_kind"]
    assert {"norms", "self-attention", "cross-attention", "feed-forward", "dropout", "loss and logits"} <= times.keys()
    assert times["feed-forward"]["products"] > times["feed-forward"]["other"]
    assert ours["search"]["tokens_per_second"] > 0 and ours["all_reduce"]["bytes_per_second"] > 0
    assert ours["equality"].keys() == {"2 devices", "2 processes"}
    assert max(ours["equality"].values()) < 2e-5  # rounding; 1.3e-5 with AVX2
    assert "| 2 in as many processes |" in page
