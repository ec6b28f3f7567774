"""What the trainer says and checks first: devices, GPUs that are not used, the precision, what is wrong."""

import json
import re
from pathlib import Path

import pytest
from support.commands import with_flags

from t2t_lite.runs import checkpoints


@pytest.fixture
def flags(small_flags, grammar_data, tmp_path):
    """The flags of a training of one step; further ones may follow."""
    (hparams,) = (flag for flag in small_flags if flag.startswith("--hparams="))

    def of(output_dir="run", changes="", steps=1):
        folders = (f"--data_dir={grammar_data}", f"--output_dir={tmp_path / output_dir}")
        settings = ",".join(filter(None, (hparams, changes)))
        return with_flags(small_flags, *folders, settings, f"--train_steps={steps}", "--schedule=train")

    return of


@pytest.fixture
def driver(tmp_path):
    """A folder for PATH with an nvidia-smi, as on a machine with a GPU."""
    (tmp_path / "driver").mkdir()
    program = tmp_path / "driver" / "nvidia-smi"
    program.write_text("#!/bin/sh\necho GPU 0\n")
    program.chmod(0o755)
    return f"{program.parent}:/usr/bin:/bin"


def test_the_first_line_names_the_devices(process, flags):
    result = process("trainer", *flags())
    assert result.returncode == 0 and result.stderr == ""
    run = next(flag for flag in result.args[1:] if flag.startswith("--output_dir="))
    last = f"done: {run.partition('=')[2]}, step 1 (last step)\nNext: t2t-lite-eval {run}\n"
    assert result.stdout.endswith(last)
    assert re.match(r"grammar_ende: 1,500 training pairs, [\d,]+ parameters, 1 CPU, float32\n", result.stdout)


@pytest.mark.heavy
def test_a_gpu_that_tensorflow_cannot_use_is_reported_with_what_it_says(process, flags, driver):
    result = process("trainer", *flags(), PATH=driver)
    assert result.returncode == 0 and "1 CPU, float32" in result.stdout
    (line,) = result.stderr.splitlines()
    assert line.startswith("this machine has a GPU, but TensorFlow uses the CPU. TensorFlow says: Could not find cuda")
    assert "failed call to cuInit" in line
    assert re.search(r"\. To install CUDA's libraries, run \S+ (-m pip )?install -e '\S+\[cuda\]'$", line)
    # Who hides the GPU knows.
    hidden = process("trainer", *flags("other"), PATH=driver, CUDA_VISIBLE_DEVICES="")
    assert hidden.returncode == 0 and hidden.stderr == ""


@pytest.mark.heavy
def test_a_gpu_that_was_asked_for_and_is_not_found_is_an_error_with_what_tensorflow_says(process, flags):
    result = process("trainer", *flags(), "--num_gpus=2")
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert "--num_gpus=2, but TensorFlow finds 0 GPUs here. TensorFlow says: Could not find cuda drivers" in line


def stored(path):
    return json.loads((path / "hparams.json").read_text())["precision"]


@pytest.mark.heavy
def test_precision_auto_is_measured_once_and_stays_with_the_run(process, command, flags, tmp_path):
    # Where oneDNN may not use AVX512, bfloat16 is slow on every processor, or cannot be computed at all.
    begun = process("trainer", *flags("run", "precision=auto", 2), ONEDNN_MAX_CPU_ISA="AVX2")
    assert begun.returncode == 0, begun.stderr
    chosen = r"precision=auto: float32, because matrix products run at [\d,]+ GFLOP/s in float32 and [\d,]+ in bf"
    assert re.match(f"--hparams={chosen}", begun.stdout)
    assert stored(tmp_path / "run") == "float32"
    start = json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[0])
    figures = start["matmul_gflops"]
    assert figures["float32"] > figures["mixed_bfloat16"] >= 0
    # On another processor, the run keeps its precision, whatever that one would choose, and so the same weights.
    for name, precision in (("whole", "float32"), ("run", "auto")):
        resumed = command("trainer", *flags(name, f"precision={precision}", 4))
        assert resumed.returncode == 0, resumed.stderr
    assert "--hparams=precision=auto: float32, as at the start of the run" in resumed.stdout
    assert stored(tmp_path / "run") == "float32"


@pytest.mark.heavy
def test_a_run_in_bfloat16_goes_on_in_it_with_auto_exactly(command, flags, tmp_path):
    for name, precision, steps in (("two", "mixed_bfloat16", 2), ("two", "auto", 4), ("four", "mixed_bfloat16", 4)):
        result = command("trainer", *flags(name, f"precision={precision}", steps), "--max_tokens_per_replica=400")
        assert result.returncode == 0, result.stderr
    assert stored(tmp_path / "two") == "mixed_bfloat16"
    two, four = (checkpoints.read(tmp_path / name / "ckpt-4", "model") for name in ("two", "four"))
    assert all((two[name] == four[name]).all() for name in four)


@pytest.mark.heavy
def test_a_precision_that_would_end_the_process_is_refused(process, flags):
    result = process("trainer", *flags("run", "precision=mixed_bfloat16"), ONEDNN_MAX_CPU_ISA="AVX2")
    # Without AVX512, TensorFlow computes it by itself.
    is_refused = "avx512f" in Path("/proc/cpuinfo").read_text()
    assert result.returncode == is_refused and result.stderr.count("\n") == is_refused
    assert not is_refused or "oneDNN does not compute in bfloat16 with ONEDNN_MAX_CPU_ISA=AVX2" in result.stderr


def test_a_wrong_warm_start_is_refused_before_data_is_generated(command, tmp_path):
    flags = ("--problem=algorithmic_copy", "--hparams_set=transformer_tiny", f"--warm_start_from={tmp_path}/nowhere")
    folders = (f"--data_dir={tmp_path / 'data'}", f"--output_dir={tmp_path / 'run'}")
    result = command("trainer", *flags, *folders, "--generate_data")
    assert result.returncode == 1 and "--warm_start_from=" in result.stderr
    assert "neither a run directory nor a checkpoint" in result.stderr and result.stdout == ""
    assert not (tmp_path / "data").exists()
