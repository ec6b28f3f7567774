"""Stopped and killed training runs resume with bitwise equal results."""

import re
import resource
import signal
import socket
import time

import pytest
from support.checkpoints import assert_same_content, everything
from support.commands import start_process, with_flags

from t2t_lite.runs.checkpoint_files import list_checkpoints

STEPS = 24
SAVE_EVERY = 3


def flags_of(small_flags, data_dir, output_dir):
    """The trainer flags for the small model, with dropout, for STEPS steps."""
    steps = (f"--train_steps={STEPS}", f"--save_checkpoints_steps={SAVE_EVERY}", "--keep_checkpoint_max=100")
    return ["trainer", *with_flags(small_flags, *steps), f"--data_dir={data_dir}", f"--output_dir={output_dir}"]


def trainer(*arguments, **options):
    """Starts the trainer in a process that can be killed."""
    return start_process(*flags_of(*arguments), **options)


def wait_until(condition, process):
    """Waits for a condition while a process runs; the process must not end before."""
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.0002)


def steps_saved(output_dir):
    return [step for step, _ in list_checkpoints(output_dir)]


@pytest.fixture(scope="module")
def undisturbed(small_flags, grammar_data, command, shared_folders):
    """The run directory of an uninterrupted training."""

    def make(output_dir):
        result = command(*flags_of(small_flags, grammar_data, output_dir))
        assert result.returncode == 0, result.stderr

    return shared_folders.get("undisturbed", make)


def copy_until(last, run, folder):
    """Copies the files of a run as they were after some step."""
    for path in run.iterdir():
        step = path.name.split(".")[0].removeprefix("ckpt-")
        if path.is_file() and (not step.isdigit() or int(step) <= last):
            (folder / path.name).write_bytes(path.read_bytes())


def assert_same_end(mine, theirs):
    """Checks that two runs have the same last checkpoint and the same evaluations."""
    assert_same_content(mine / f"ckpt-{STEPS}", theirs / f"ckpt-{STEPS}")
    records = [(path / "evaluations.json").read_text() for path in (mine, theirs)]
    assert records[0] == records[1]


@pytest.fixture
def go_on(small_flags, grammar_data, undisturbed, command, process):
    """Runs the command again, which must end like the uninterrupted run; returns its output."""

    def run(output_dir, fresh=False):
        result = (process if fresh else command)(*flags_of(small_flags, grammar_data, output_dir))
        output = result.stdout + result.stderr
        assert result.returncode == 0, output
        assert_same_end(output_dir, undisturbed)
        return output

    return run


@pytest.mark.heavy
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_saves_a_checkpoint_and_reports_how_to_resume(small_flags, grammar_data, go_on, tmp_path, number):
    process = trainer(small_flags, grammar_data, tmp_path)
    wait_until(lambda: steps_saved(tmp_path), process)
    process.send_signal(number)
    output = process.communicate(timeout=600)[0]
    assert process.returncode == 128 + number, output
    last = steps_saved(tmp_path)[-1]
    assert last < STEPS
    what = f"(after|during the evaluation of) step {last}, which is saved; start the run again to (evaluate|resume)"
    assert re.search(f"stopped by {number.name} {what}", output), output
    assert "Traceback" not in output
    assert f"resuming from {tmp_path / f'ckpt-{last}'}" in go_on(tmp_path, fresh=number == signal.SIGTERM)


@pytest.mark.heavy
@pytest.mark.parametrize("processes", [1, 2])
def test_a_second_ctrl_c_ends_a_run_in_the_middle_of_a_step(small_flags, grammar_data, tmp_path, processes):
    sizes = "hidden_size=128,filter_size=512,num_heads=2,num_encoder_layers=4,num_decoder_layers=4,batch_tokens=8192"
    changes = (f"--hparams={sizes}", f"--processes_per_host={processes}")
    process = trainer(with_flags(small_flags, *changes), grammar_data, tmp_path)
    for line in process.stdout:
        if line.startswith("step 1/"):
            break
    for _ in range(2):
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=600)[0]
    assert process.returncode == 130, output
    assert "stopped immediately by a second signal" in output and "Traceback" not in output
    assert steps_saved(tmp_path) == []


@pytest.mark.slow
def test_a_kill_loses_only_the_steps_since_the_last_checkpoint(small_flags, grammar_data, go_on, command, tmp_path):
    process = trainer(small_flags, grammar_data, tmp_path)
    wait_until(lambda: len(steps_saved(tmp_path)) >= 2, process)
    second = command(*flags_of(small_flags, grammar_data, tmp_path))
    assert second.returncode == 1 and second.stdout == ""
    (line,) = second.stderr.splitlines()
    assert f"--output_dir={tmp_path}: process {process.pid} on {socket.gethostname()}, since 20" in line
    assert process.poll() is None
    process.kill()
    process.communicate()
    last = steps_saved(tmp_path)[-1]
    assert last < STEPS
    assert f"resuming from {tmp_path / f'ckpt-{last}'}" in go_on(tmp_path)


@pytest.mark.heavy
def test_a_kill_while_a_checkpoint_is_written_loses_only_that_checkpoint(small_flags, grammar_data, go_on, tmp_path):
    for _ in range(STEPS // SAVE_EVERY):
        process = trainer(small_flags, grammar_data, tmp_path)
        wait_until(lambda: steps_saved(tmp_path) and list(tmp_path.glob("incomplete-*")), process)
        process.kill()
        process.communicate()
        if half_written := [path.name for path in tmp_path.glob("incomplete-*")]:
            break  # otherwise the checkpoint was complete just before the signal
    assert half_written
    output = go_on(tmp_path)
    assert "resuming from" in output and "skipped an incomplete checkpoint" in output
    assert not list(tmp_path.glob("incomplete-*"))


@pytest.mark.heavy
def test_a_damaged_checkpoint_is_skipped_with_a_warning(small_flags, grammar_data, undisturbed, go_on, tmp_path):
    copy_until(2 * SAVE_EVERY, undisturbed, tmp_path)
    last = tmp_path / f"ckpt-{2 * SAVE_EVERY}.data-00000-of-00001"
    last.write_bytes(last.read_bytes()[: last.stat().st_size // 2])
    output = go_on(tmp_path)
    assert f"skipped: checkpoint {tmp_path / f'ckpt-{2 * SAVE_EVERY}'} is damaged" in output
    assert f"resuming from {tmp_path / f'ckpt-{SAVE_EVERY}'}" in output


@pytest.mark.heavy
def test_a_full_disk_is_an_error_and_leaves_earlier_checkpoints_intact(
    small_flags, grammar_data, undisturbed, tmp_path
):
    copy_until(SAVE_EVERY, undisturbed, tmp_path)
    before = everything(tmp_path / f"ckpt-{SAVE_EVERY}")
    # For the process, a limit on file sizes acts like a full disk: a write fails.
    limit = (tmp_path / f"ckpt-{SAVE_EVERY}.data-00000-of-00001").stat().st_size // 2
    bound = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))  # noqa: E731
    process = trainer(small_flags, grammar_data, tmp_path, preexec_fn=bound)
    output = process.communicate(timeout=600)[0]
    assert process.returncode == 1, output
    assert f"error: cannot write checkpoint {tmp_path / f'ckpt-{2 * SAVE_EVERY}'}" in output
    assert "Traceback" not in output
    assert steps_saved(tmp_path) == [SAVE_EVERY] and not list(tmp_path.glob("incomplete-*"))
    assert_same_content(tmp_path / f"ckpt-{SAVE_EVERY}", before)
