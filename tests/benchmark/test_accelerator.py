"""t2t-lite-benchmark --accelerator: the command at a small size, and how it reads profiles and writes its page."""

import gzip
import json

import numpy as np
import pytest

from t2t_lite.benchmark.accelerator import kernels, stored_batches
from t2t_lite.benchmark.accelerator.batches import MEAN_LENGTH, random_batch
from t2t_lite.benchmark.accelerator.page import as_page
from t2t_lite.bin.benchmark.command import main

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
    return {"jax": jax, "peer": peer | {"search": {"tokens_per_second": 12258.2}}}


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


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--problem=multi30k_ende"], "with --accelerator, pass --problem and --data_dir together"),
        (["--problem=multi30k_ende", "--data_dir=data"], "with --accelerator, --problem also needs --batches_file"),
    ],
)
def test_flags_that_do_not_fit_together_are_an_error_of_usage(flags, message, capsys):
    assert main(["--accelerator", *flags]) == 2
    assert message in capsys.readouterr().err


def test_a_file_without_batches_is_an_error_of_one_line(tmp_path, capsys):
    pytest.importorskip("jax")
    file = tmp_path / "batches.npz"
    for message in ("there is no such file", "this is not a file of batches"):
        assert main(["--accelerator", f"--batches_file={file}"]) == 1
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.startswith(f"t2t-lite-benchmark: error: --batches_file={file}: {message}")
        assert output.err.count("\n") == 1
        file.write_text("no batches")


def test_batches_do_not_replace_data_and_need_a_short_pair(multi30k_data, tmp_path, capsys, monkeypatch):
    pytest.importorskip("jax")
    flags = ["--accelerator", "--problem=multi30k_ende", f"--data_dir={multi30k_data}"]
    manifest = multi30k_data / "manifest.multi30k_ende.json"
    before = manifest.read_bytes()
    assert main([*flags, f"--batches_file={manifest}"]) == 1
    assert f"--batches_file={manifest} is the same file as {manifest};" in capsys.readouterr().err
    assert manifest.read_bytes() == before
    monkeypatch.setattr(stored_batches, "LENGTH", 1)
    assert main([*flags, f"--batches_file={tmp_path}/b.npz"]) == 1
    message = "t2t-lite-benchmark: error: no training pair of 'multi30k_ende' has at most 1 tokens on both sides"
    assert capsys.readouterr().err.startswith(message)
    assert not list(tmp_path.iterdir())


@pytest.mark.heavy
def test_the_command_measures_a_cpu_at_a_small_size(multi30k_data, tmp_path, monkeypatch, capsys):
    pytest.importorskip("jax")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # compiles in half the time
    flags = ["--problem=multi30k_ende", f"--data_dir={multi30k_data}", f"--batches_file={tmp_path}/b.npz"]
    assert main(["--accelerator", "--minutes=5", f"--json_file={tmp_path}/figures.json", *flags]) == 0
    page = capsys.readouterr().out
    figures = json.loads((tmp_path / "figures.json").read_text())
    jax = figures["jax"]
    assert "errors" not in jax
    assert jax["machine"]["devices"] == ["cpu: cpu"]
    assert jax["products"].keys() == {"512, bfloat16", "512, tensorfloat32", "512, highest"}
    step = jax["steps"][CASE]
    assert step["target_tokens_per_second"] == pytest.approx(step["target_tokens"] / step["step_seconds"])
    assert step["rows"] == 11 and step["memory_bytes"] > 3 * 4 * 500 * 128
    times = jax["profiles"][CASE]["milliseconds_by_kind"]
    assert {"optimizer", "norms", "self-attention", "cross-attention", "feed-forward", "dropout"} <= times.keys()
    assert times["feed-forward"]["products"] > 0 and times["optimizer"]["products"] == 0
    float32, bfloat16 = jax["curves"]["float32"], jax["curves"]["mixed_bfloat16"]
    assert len(float32) == len(bfloat16) == 5
    assert 0 < max(abs(b / a - 1) for a, b in zip(float32, bfloat16)) < 0.02
    assert jax["search"]["tokens_per_second"] > 0
    assert f"| {CASE} |" in page and "Loss in float32 and bfloat16 over 5 steps" in page
