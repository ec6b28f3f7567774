"""dev/accelerator: the script at a small size, and how it reads profiles and writes its page."""

import gzip
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import t2t_lite as t2t
from dev.accelerator import kernels, stored_batches
from dev.accelerator.__main__ import main
from dev.accelerator.batches import MEAN_LENGTH, random_batch
from dev.accelerator.cases import Case, fitting_tokens, scaled
from dev.accelerator.page import as_page
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.decoding.tensorflow_engine import restored_model
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


@pytest.mark.parametrize(
    ("op_name", "kind"),
    [
        ("jit(_several)/while/body/jvp(loss)/while/body/dot_general", "loss and logits"),
        ("jit(_several)/while/body/transpose(jvp(encoder_3))/feed_forward/expand/reduce_sum", "feed-forward"),
        ("jit(_several)/while/body/jvp(decoder_3)/self_attention_residual/norm/mul", "norms"),
        ("jit(_several)/while/body/jvp(decoder_3)/self_attention/div", "self-attention"),
        ("jit(_several)/while/body/transpose(jvp(embedding))/scatter-add", "embeddings and positions"),
        ("jit(_several)/while/body/jvp(embedding_dropout)/mul", "dropout"),
        ("jit(_several)/while/body/psum", "all-reduce"),
        ("jit(_several)/while/body/closed_call", "other"),
    ],
)
def test_an_operation_is_of_the_kind_of_its_layer(op_name, kind):
    assert kernels.kernel_kind(op_name) == kind


def test_a_batch_has_the_lengths_and_frequencies_of_text():
    batch = random_batch(25_000, 37_000, multiple=8)
    for ids in batch.values():
        assert ids.shape[0] % 8 == 0 and ids.shape[1] == 32
        lengths = (ids != 0).sum(axis=1)
        assert lengths.min() == 24 and lengths.max() == 32 and abs(lengths.mean() - MEAN_LENGTH) < 0.3
        assert (ids[np.arange(32) >= lengths[:, None]] == 0).all()
        counts = np.sort(np.bincount(ids[ids > 0]))[::-1] / (ids > 0).sum()
        assert 0.08 < counts[0] < 0.1  # 1 / (1 + 1/2 + ... + 1/36,999) is 9.0%
        assert ids.max() < 37_000


def figures_of_a_gpu():
    step = {"step_seconds": 0.0393, "target_tokens_per_second": 634332.6, "utilisation_by_6_parameters": 0.3058}
    step |= {"utilisation_by_counted_flops": 0.3086, "memory_bytes": 9384332344, "compile_seconds": 46.6}
    kinds = {"feed-forward": {"products": 5.85, "other": 3.55}, "optimizer": {"products": 0.0, "other": 0.69}}
    jax = {
        "machine": {"devices": ["gpu: NVIDIA H200"], "jax": "0.11.2", "keras": "3.15.1", "numpy": "2.5.2"},
        "products": {"8192, bfloat16": 784.58},
        "steps": {"base": step, "big": {"trace_seconds": 5.0}, "late": {"not measured": "no time left"}},
        "search": {"tokens_per_second": 90050.2},
        "profiles": {
            "base": {"milliseconds_by_kind": kinds, "largest": [[1.6, 4.0, "nvjet", "jvp(loss)/dot_general"]]}
        },
        "curves": {"float32": [9.0, 5.0], "mixed_bfloat16": [9.0, 5.05]},
        "errors": {"steps: big": ["RESOURCE_EXHAUSTED: out of memory", "Traceback"]},
    }
    peer = {"versions": {"torch": "2.11.0"}, "base": {"tokens_per_second": 471477.1}}
    return {"ours": jax, "peer": peer | {"search": {"tokens_per_second": 12258.2}}}


def test_the_page_has_every_figure_and_says_what_was_not_measured():
    page = as_page(figures_of_a_gpu())
    assert "gpu: NVIDIA H200; jax 0.11.2, keras 3.15.1, numpy 2.5.2, torch 2.11.0; " in page
    assert "8192, bfloat16: 785 TFLOP/s" in page
    assert "| base | 39.3 | 634,333 | 30.6% | 30.9% | 9.4 | 47 | 471,477 | 1.35 |" in page
    assert "| big | not measured |" in page
    assert "| late | no time left |" in page
    assert "Beam search: 90,050 output tokens/s, `generate` 12,258 (ratio 7.35)." in page
    assert "| feed-forward | 5.85 | 3.55 | 93.2% |" in page
    assert "- 1.60 ms, 4 calls: jvp(loss)/dot_general" in page
    assert (
        "over 2 steps: 9.000 and 9.000 at the start, 5.000 and 5.050 at the end; the largest relative difference is "
        "1.00%." in page
    )
    assert "Not measured, steps: big: RESOURCE_EXHAUSTED: out of memory" in page
    without_peer = figures_of_a_gpu() | {"peer": {"not measured": "it needs the packages torch and transformers"}}
    assert "30.9% | 9.4 | 47 |  |  |" in as_page(without_peer)


def test_the_page_shows_what_several_devices_and_the_largest_batches_give():
    figures = figures_of_a_gpu()
    step, ours = figures["ours"]["steps"]["base"], figures["ours"]
    for number, rate, in_processes in ((1, 100.0, False), (4, 360.0, False), (4, 380.0, True)):
        several = {"devices": number, "target_tokens_per_second": rate, "in_processes": in_processes}
        ours["steps"][f"base, {number} {in_processes}"] = step | several
    ours["all_reduce"] = {"bytes": 852_000_000, "bytes_per_second": 312.4e9}
    ours["largest_batches"] = {"big": {"target_tokens": 200_000, "memory_bytes": 114.6e9, "limit_bytes": 142.6e9}}
    ours["shapes"] = {"problem": "wmt_ende", "batches": 7020, "batch_tokens": 25_000, "shapes": 40}
    ours["equality"] = {"4 devices": 1.5e-6, "4 processes": 2e-7}
    figures["peer"]["errors"] = {"big": ["CUDA out of memory", "Traceback"]}
    page = as_page(figures)
    assert "| 1 | 100 | 100.0% |\n| 4 | 360 | 90.0% |\n| 4 in as many processes | 380 | 95.0% |" in page
    assert "All-reduce of 852 MB: 312 GB/s sent and received by each device." in page
    assert "in bfloat16: big: 200,000 target tokens (115 of 143 GB)." in page
    assert "An epoch of wmt_ende has 7,020 batches of about 25,000 target tokens and 40 shapes" in page
    assert "after 10 steps with dropout: 4 devices: 1.5e-06, 4 processes: 2.0e-07." in page
    assert "Not measured, Marian, big: CUDA out of memory" in page


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


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--problem=multi30k_ende"], "pass --problem and --data_dir together"),
        (["--problem=multi30k_ende", "--data_dir=data"], "--problem also needs --batches_file"),
        (["--export_dir=export", "--batches_file=b.npz"], "--export_dir needs --backend=jax;"),
    ],
)
def test_flags_that_do_not_fit_together_are_an_error_of_usage(flags, message, capsys):
    with pytest.raises(SystemExit):
        main(flags)
    assert message in capsys.readouterr().err


def test_a_file_without_batches_is_an_error_of_one_line(tmp_path, capsys):
    file = tmp_path / "batches.npz"
    for message in ("there is no such file", "this is not a file of batches"):
        assert main([f"--batches_file={file}"]) == 1
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.startswith(f"python -m dev.accelerator: error: --batches_file={file}: {message}")
        assert output.err.count("\n") == 1
        file.write_text("no batches")


def test_batches_need_a_short_pair(grammar_data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(stored_batches, "LENGTH", 1)
    flags = ["--problem=grammar_ende", f"--data_dir={grammar_data}", f"--batches_file={tmp_path}/b.npz"]
    assert main(flags) == 1
    assert "error: no training pair of 'grammar_ende' has at most 1 tokens on both sides" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


# Writes the logits of an export's model under JAX: `python -c LOGITS EXPORT INPUTS.npz LOGITS.npy`.
LOGITS = """
import sys
from pathlib import Path
import numpy as np
from t2t_lite.models.loading import load_model_file
with np.load(sys.argv[2]) as given:
    logits = load_model_file(Path(sys.argv[1]) / "model.keras")(given["inputs"], given["targets"])
np.save(sys.argv[3], np.asarray(logits))
assert "tensorflow" not in sys.modules
"""


def logits_under_jax(export, inputs, file):
    environment = os.environ | {"KERAS_BACKEND": "jax"}
    subprocess.run([sys.executable, "-c", LOGITS, str(export), str(inputs), str(file)], env=environment, check=True)
    return np.load(file)


def logits_with_tensorflow(run, inputs):
    run_dir = open_run_dir(run)
    checkpoint = select(run, None, lambda line: None).path
    size = open_vocabulary(run_dir.vocabulary).size
    with np.load(inputs) as given:
        return restored_model(run_dir.hparams, size, size, checkpoint)(given["inputs"], given["targets"]).numpy()


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
    np.savez(tmp_path / "ids.npz", inputs=ids[0], targets=ids[1])
    before = logits_under_jax(export, tmp_path / "ids.npz", tmp_path / "before.npy")
    after = logits_under_jax(trained, tmp_path / "ids.npz", tmp_path / "after.npy")
    assert np.abs(after - before).max() > 1e-3
    np.testing.assert_allclose(logits_with_tensorflow(small_run, tmp_path / "ids.npz"), before, atol=1e-5)
    np.testing.assert_allclose(logits_with_tensorflow(run, tmp_path / "ids.npz"), after, atol=1e-5)
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
