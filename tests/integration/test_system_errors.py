"""Errors of the operating system are reported with advice."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support.commands import start_process

from t2t_lite.bin.cli.run import os_error_line
from t2t_lite.data.text_files import read_lines
from t2t_lite.errors import UserError
from t2t_lite.files import make_folder


@pytest.fixture
def refused(command):
    def run(name, *flags, status=1):
        result = command(name, *flags)
        assert result.returncode == status and len(result.stderr.splitlines()) == 1, result.stderr
        return result.stderr

    return run


@pytest.fixture
def train(refused, small_flags, grammar_data):
    return lambda output_dir: refused(
        "trainer", *small_flags, f"--data_dir={grammar_data}", f"--output_dir={output_dir}"
    )


def test_an_output_dir_that_is_a_file_or_inside_one_is_an_error(train, tmp_path):
    (tmp_path / "file").write_text("mine")
    assert f"--output_dir={tmp_path / 'file'}: {tmp_path / 'file'} is a file; pass a folder" in train(tmp_path / "file")
    assert f"{tmp_path / 'file'} is a file; pass a folder" in train(tmp_path / "file" / "run")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_name_that_is_too_long_is_an_error(train, refused, small_run, tmp_path):
    assert "the name is too long; use a shorter one" in train(tmp_path / ("x" * 300))
    for flag in ("--decode_to_file", "--decode_from_file"):
        message = refused("decoder", f"--output_dir={small_run}", f"{flag}={tmp_path / ('x' * 300)}")
        assert "the name is too long" in message and len(message) < 200


@pytest.fixture
def without_rights():
    """A folder without write permission and a file without read permission; tests of root run as user nobody."""
    folder = Path(tempfile.mkdtemp())
    (folder / "secret.txt").write_text("a")
    (folder / "secret.txt").chmod(0)
    folder.chmod(0o555)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    yield folder
    os.seteuid(user)
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_missing_permissions_are_errors(without_rights):
    with pytest.raises(UserError, match=r"--output_dir=.*/run: this folder cannot be created \(Permission denied\)"):
        make_folder(without_rights / "run", "--output_dir")
    with pytest.raises(UserError, match=r"no permission to read .*secret\.txt; change its permissions"):
        list(read_lines(without_rights / "secret.txt"))


@pytest.mark.parametrize(
    "number", [errno.EACCES, errno.EROFS, errno.ENAMETOOLONG, errno.ENOSPC, errno.EMFILE, errno.EIO]
)
def test_every_known_system_error_is_shown_with_advice(number):
    line = os_error_line(OSError(number, os.strerror(number), "some/file"))
    assert line.startswith("some/file: ") and ";" in line and os.strerror(number) not in line


@pytest.mark.parametrize("name", ["decoder", "avg"])
def test_a_folder_that_is_not_a_run_directory_is_an_error_with_the_reason(refused, tmp_path, name):
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    for place, why in {
        "file": "is a file; pass the run directory",
        "empty": "is empty, not a run directory; check the path, or train first with t2t-lite-trainer",
        "none": "is not a run directory: it does not exist; check the path, or train first",
        "other": "is not a run directory: it has no hparams.json; pass the --output_dir of a training run",
    }.items():
        assert f"--output_dir={tmp_path / place} {why}" in refused(name, f"--output_dir={tmp_path / place}")


def test_a_missing_shard_is_regenerated_by_the_command_in_the_message(command, refused, tmp_path):
    (tmp_path / "my.tsv").write_text("".join(f"number {i}\tZahl {i}\n" for i in range(300)))
    data = f"--data_dir={tmp_path / 'data'}"
    flags = (
        f"--train_tsv={tmp_path / 'my.tsv'}",
        "--vocab_size=300",
        "--num_shards=2",
        "--held_out=5",
        "--max_cases=250",
    )
    assert command("datagen", "--problem=text_pairs", data, *flags).returncode == 0
    shard = tmp_path / "data" / "text_pairs-train-00001-of-00002"
    before = shard.read_bytes()
    shard.unlink()
    task = ("--problem=text_pairs", "--hparams_set=transformer_tiny", f"--output_dir={tmp_path / 'run'}")
    message = refused("trainer", *task, data)
    assert f"{shard} is missing; regenerate it with: t2t-lite-datagen " in message and "remove" not in message
    _, *flags_in_message = message.partition("regenerate it with: ")[2].split()
    assert command("datagen", *flags_in_message).returncode == 0
    assert shard.read_bytes() == before


@pytest.mark.heavy
def test_an_evaluator_waits_for_the_run_directory_and_reports_it(small_run, grammar_data, tmp_path):
    flags = (
        "--schedule=eval",
        f"--data_dir={grammar_data}",
        f"--output_dir={tmp_path / 'run'}",
        "--eval_wait_secs=300",
    )
    evaluator = start_process("trainer", *flags)
    first = evaluator.stdout.readline()
    assert first == f"waiting for training to start in {tmp_path / 'run'} (at most 300 s, --eval_wait_secs)\n"
    shutil.copytree(small_run, tmp_path / "copy")
    (tmp_path / "copy" / "evaluations.json").unlink()
    (tmp_path / "copy").rename(tmp_path / "run")
    output, _ = evaluator.communicate()
    assert evaluator.returncode == 0 and "step 6: dev loss" in output


def test_an_evaluator_that_waits_in_vain_is_an_error_with_a_remedy(refused, grammar_data, tmp_path):
    flags = ("--schedule=eval", f"--data_dir={grammar_data}", f"--output_dir={tmp_path / 'run'}", "--eval_wait_secs=0")
    assert "no training has started there; start it, or check the path" in refused("trainer", *flags)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_a_process_in_the_middle_of_a_long_call(number):
    code = """if True:
        import hashlib, signal
        from t2t_lite.bin import cli
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, frame: None)
        cli.end_at_second_signal()
        print("ready", flush=True)
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)  # runs no signal handlers
    """
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    process.send_signal(number)
    assert process.communicate()[1] == "stopped immediately by a second signal\n"
    assert process.returncode == 128 + number


@pytest.mark.parametrize("end, status", [("raise KeyboardInterrupt", 130), ("sys.exit('wrong')", 1)])
def test_a_command_may_end_at_once_after_an_error(end, status):
    code = f"""if True:
        import sys
        from t2t_lite.bin.cli.run import run
        def body(flags):
            {end}
        run("decoder", body, None, exit_after_error=True)
        print("not reached")
    """
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (status, "", 1)


def test_a_command_that_ends_at_once_does_what_was_registered_for_the_exit():
    code = """if True:
        import atexit
        from t2t_lite.bin.cli.run import run
        atexit.register(print, "registered")
        run("decoder", lambda flags: 3, None, exit_at_once=True)
        print("not reached")
    """
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (3, "registered\n", "")
