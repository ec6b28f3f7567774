"""Data and run directories that earlier versions wrote: this version opens, decodes, scores, averages and resumes them.

They are as those versions left them, and are never made again (`freeze.py` says how). A test that fails here has found
a change that locks users out of what they have trained: mend the reading, not the files.
"""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from t2t_lite.runs import checkpoint_files, checkpoints
from t2t_lite.runs.checkpoint_files import best_checkpoint
from t2t_lite.runs.run_dir import open_run_dir

HERE = Path(__file__).resolve().parent
RUNS = sorted(path.parent for path in HERE.glob("*/*/expected.json"))
AT = 300  # the step of their last checkpoints
KNOWN = "after_5_more_steps.npz"  # some of them have the parameters


def each_run(slow=()):
    """Tries a test on every frozen run, on some of them when slow tests are asked for."""
    runs = [pytest.param(run, marks=pytest.mark.slow if run in slow else ()) for run in RUNS]
    return pytest.mark.parametrize("frozen", runs, ids=[f"{run.parent.name}-{run.name}" for run in RUNS])


@pytest.fixture
def run_dir(frozen, tmp_path):
    """A copy of the run: nothing may write to the frozen one."""
    return shutil.copytree(frozen / "run", tmp_path / "run")


@pytest.fixture
def flags(frozen):
    """The plug-ins' flag, which only one run needs."""
    return [f"--t2t_usr_dir={frozen.parent / 'plugin'}"] if frozen.name == "with_plugin" else []


@pytest.fixture
def task(frozen, flags, run_dir):
    """The flags by which the trainer goes on, all of them read from the run."""
    hparams = json.loads((run_dir / "hparams.json").read_text())
    changes = ",".join(f"{name}={value}" for name, value in hparams.items() if name != "train_steps")
    problem = json.loads((run_dir / "run.json").read_text())["problem"]
    directories = [f"--data_dir={frozen / 'data'}", f"--output_dir={run_dir}"]
    return [
        *flags,
        f"--problem={problem}",
        "--hparams_set=transformer_base",
        f"--hparams={changes}",
        "--peak_tflops=1",
        *directories,
    ]


@pytest.fixture
def expected(frozen):
    return json.loads((frozen / "expected.json").read_text(encoding="utf-8"))


def successful(result):
    assert result.returncode == 0, result.stderr
    return result.stdout


def tolerance(run_dir, exact):
    """How far figures may differ: rounding differs from processor to processor, that of bfloat16 by far more."""
    is_16_bit = json.loads((run_dir / "hparams.json").read_text())["precision"] != "float32"
    return 0.03 if is_16_bit else exact


@pytest.mark.slow
@each_run()
def test_a_frozen_run_decodes_to_the_same_texts_and_scores(frozen, flags, run_dir, expected, command, tmp_path):
    run = (f"--output_dir={run_dir}", *flags, "--xla_compile=False")
    settings = ",".join(filter(None, (expected["decode_hparams"], "return_beams=True")))
    output = successful(
        command("decoder", *run, f"--decode_hparams={settings}", f"--decode_from_file={frozen / 'inputs.txt'}")
    )
    found = [json.loads(line)[0] for line in output.splitlines()]
    assert len(found) == len(expected["best"]) > 3
    assert [best["text"] for best in found] == [best["text"] for best in expected["best"]]
    near = {"rel": tolerance(run_dir, 1e-3), "abs": tolerance(run_dir, 1e-3)}
    for name in ("score", "log_prob"):
        assert [best[name] for best in found] == pytest.approx([best[name] for best in expected["best"]], **near)
    # Scored as given pairs, the texts have these log-probabilities, or less where the search wrote other tokens.
    inputs = (frozen / "inputs.txt").read_text(encoding="utf-8").splitlines()
    pairs = "".join(f"{line}\t{best['text']}\n" for line, best in zip(inputs, found, strict=True))
    (tmp_path / "pairs.tsv").write_text(pairs, encoding="utf-8")
    scored = successful(command("decoder", *run, f"--score_file={tmp_path / 'pairs.tsv'}")).splitlines()
    differences = [best["log_prob"] - float(line.split("\t")[0]) for best, line in zip(found, scored, strict=True)]
    assert min(differences) > -near["abs"]
    assert sum(difference < near["abs"] for difference in differences) >= 0.8 * len(differences)


@pytest.mark.slow
@each_run()
def test_a_frozen_run_evaluates_to_the_same_dev_figures(task, run_dir, expected, command):
    (run_dir / "evaluations.json").unlink()
    follow = ["--schedule=eval", "--eval_wait_secs=0"]
    successful(command("trainer", *task, *follow))
    figures = json.loads((run_dir / "evaluations.json").read_text())[str(AT)]
    found = {name: figures[name] for name in expected["dev"]}  # later versions have more
    assert found == pytest.approx(expected["dev"], rel=tolerance(run_dir, 1e-4))


@pytest.mark.slow
@each_run(slow=[run for run in RUNS if not (run / KNOWN).exists()])
def test_5_more_steps_of_a_frozen_run_give_the_same_parameters(frozen, task, run_dir, command):
    known = frozen / KNOWN
    output = successful(command("trainer", *task, f"--train_steps={AT + 5}"))
    assert f"resuming from {run_dir / f'ckpt-{AT}'}" in output
    before, after = (checkpoints.read(run_dir / f"ckpt-{step}", "model") for step in (AT, AT + 5))
    before = checkpoints.with_current_names(before, after)
    assert all((after[name] != before[name]).any() for name in before)
    if not known.exists():  # of most runs it is enough to know that they go on
        return
    with np.load(known) as stored:
        arrays = checkpoints.with_current_names(dict(stored), after)
        assert set(arrays) == set(after)
        moved = np.sqrt(sum(np.square(arrays[name] - before[name]).sum() for name in arrays))
        missed = np.sqrt(sum(np.square(arrays[name] - after[name]).sum() for name in arrays))
    assert missed <= tolerance(run_dir, 1e-3) * 5 * moved


@each_run()
def test_a_frozen_run_can_be_averaged_and_its_own_average_is_used(run_dir, command):
    steps = [int(path.stem.removeprefix("ckpt-")) for path in run_dir.glob("ckpt-*.index")]
    had = sorted(run_dir.glob("average-*.index"))
    if had:
        assert best_checkpoint(run_dir) == had[0].with_suffix("")
        known = checkpoints.read(best_checkpoint(run_dir), "model")
        checkpoint_files.remove(best_checkpoint(run_dir))
    successful(command("avg", f"--output_dir={run_dir}", f"--n={len(steps)}"))
    found = checkpoints.read(run_dir / f"average-{AT}", "model")
    if not had:
        assert len(steps) == 1
        known = checkpoints.read(run_dir / f"ckpt-{AT}", "model")
    assert found.keys() == known.keys()
    for name, array in known.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-6, atol=1e-7, err_msg=name)


@each_run()
def test_the_description_of_a_frozen_run_and_its_data_is_read(frozen, flags, run_dir, command):
    about = json.loads((run_dir / "run.json").read_text())
    name = about["problem"]
    shown = successful(command("datagen", *flags, "--inspect", f"--problem={name}", f"--data_dir={frozen / 'data'}"))
    manifest = json.loads((frozen / "data" / f"manifest.{name}.json").read_text())
    assert shown.startswith(f"{name}, train, {name}-train-00000-of-00001: {manifest['splits']['train']['examples']} ex")
    assert len(re.findall(r"^  inputs +\S", shown, re.MULTILINE)) == 3
    run = open_run_dir(run_dir)
    assert (run.problem.name, run.vocabulary) == (name, run_dir / about["vocabulary"]["file"])
    inputs = about.get("inputs_vocabulary", about["vocabulary"])
    assert run.inputs_vocabulary == run_dir / inputs["file"]
