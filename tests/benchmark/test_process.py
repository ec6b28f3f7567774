"""A function called in a separate process: its result, its errors, its death; and a whole command."""

import os
import signal
import sys

import pytest

from t2t_lite.benchmark.process import in_a_process, whole_command
from t2t_lite.errors import UserError


def test_a_result_comes_from_another_process():
    assert in_a_process(os.getpid) != os.getpid()
    assert in_a_process(divmod, 7, 2) == (3, 1)


def test_an_error_in_the_process_is_raised_in_the_caller():
    with pytest.raises(ValueError, match="'many'"):
        in_a_process(int, "many")


def test_a_killed_process_is_reported():
    with pytest.raises(UserError, match="was killed"):
        in_a_process(signal.raise_signal, signal.SIGKILL)


def test_the_time_memory_and_outputs_of_a_command_are_its_own(tmp_path):
    held = b"x" * 2**28  # of this process
    program = "import os; print('a\\nb'); print(os.environ['XDG_CACHE_HOME']); x = b'x' * {}"
    small, large = (whole_command([sys.executable, "-c", program.format(size)], tmp_path) for size in (2**10, 2**27))
    assert small.outputs == ["a", "b", str(tmp_path)] and small.seconds > 0
    assert small.peak_bytes < len(held) // 2 < large.peak_bytes < small.peak_bytes + 2**27 + 2**23


def test_the_last_message_of_a_command_that_fails_is_raised(tmp_path):
    with pytest.raises(UserError, match=r"^no such file$"):
        whole_command([sys.executable, "-c", "import sys; print('a'); sys.exit('x\\nno such file')"], tmp_path)
    with pytest.raises(UserError, match=r"^exit status 3$"):
        whole_command([sys.executable, "-c", "import sys; sys.exit(3)"], tmp_path)
