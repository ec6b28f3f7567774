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
from support.commands import run_python, start_process

from t2t_lite.bin.cli.run import os_error_line
from t2t_lite.data.text_files import read_lines
from t2t_lite.errors import UserError
from t2t_lite.files import make_folder


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


def test_a_missing_shard_is_regenerated_by_the_command_in_the_message(command, tmp_path):
    (tmp_path / "my.tsv").write_text("".join(f"number {i}\tZahl {i}\n" for i in range(300)))
    data = f"--data_dir={tmp_path / 'data'}"
    sizes = ("--vocab_size=300", "--num_shards=2", "--held_out=5", "--max_cases=250")
    generated = command("datagen", "--problem=text_pairs", data, f"--train_tsv={tmp_path / 'my.tsv'}", *sizes)
    assert generated.returncode == 0
    shard = tmp_path / "data" / "text_pairs-train-00001-of-00002"
    before = shard.read_bytes()
    shard.unlink()
    task = ("--problem=text_pairs", "--hparams_set=transformer_tiny", f"--output_dir={tmp_path / 'run'}")
    refused = command("trainer", *task, data)
    message = refused.stderr
    assert refused.returncode == 1 and len(message.splitlines()) == 1
    assert f"{shard} is missing; regenerate it with: t2t-lite-datagen " in message and "remove" not in message
    _, *flags_in_message = message.partition("regenerate it with: ")[2].split()
    assert command("datagen", *flags_in_message).returncode == 0
    assert shard.read_bytes() == before


@pytest.mark.heavy
def test_an_evaluator_waits_for_the_run_directory_and_reports_it(small_run, grammar_data, tmp_path):
    flags = ("--schedule=eval", f"--data_dir={grammar_data}", "--eval_wait_secs=300")
    evaluator = start_process("trainer", *flags, f"--output_dir={tmp_path / 'run'}")
    first = evaluator.stdout.readline()
    assert first == f"waiting for training to start in {tmp_path / 'run'} (at most 300 s, --eval_wait_secs)\n"
    shutil.copytree(small_run, tmp_path / "copy")
    (tmp_path / "copy" / "evaluations.json").unlink()
    (tmp_path / "copy").rename(tmp_path / "run")
    output, _ = evaluator.communicate()
    assert evaluator.returncode == 0 and "step 6: dev loss" in output


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


@pytest.mark.parametrize(
    ("end", "option", "expected"),
    [
        ("raise KeyboardInterrupt", "exit_after_error", (130, "registered\n", 1)),
        ("sys.exit('wrong')", "exit_after_error", (1, "registered\n", 1)),
        ("return 3", "exit_at_once", (3, "registered\n", 0)),
    ],
)
def test_a_command_that_ends_at_once_does_what_was_registered_for_the_exit(end, option, expected):
    code = f"""if True:
        import atexit, sys
        from t2t_lite.bin.cli.run import run
        def body(flags):
            {end}
        atexit.register(print, "registered")
        run("decoder", body, None, {option}=True)
        print("not reached")
    """
    result = run_python(code, status=expected[0])
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == expected
