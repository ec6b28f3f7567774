"""A command that is measured in a process of its own."""

import sys

import pytest

from t2t_lite.benchmark.whole_command import whole_command
from t2t_lite.errors import UserError


def test_its_time_memory_and_outputs_are_its_own(tmp_path):
    held = b"x" * 2**28  # of this process
    program = "import os; print('a\\nb'); print(os.environ['XDG_CACHE_HOME']); x = b'x' * {}"
    small, large = (whole_command([sys.executable, "-c", program.format(size)], tmp_path) for size in (2**10, 2**27))
    assert small.outputs == ["a", "b", str(tmp_path)] and small.seconds > 0
    assert small.peak_bytes < len(held) // 2 < large.peak_bytes < small.peak_bytes + 2**27 + 2**23


def test_its_last_message_is_raised_if_it_fails(tmp_path):
    with pytest.raises(UserError, match=r"^no such file$"):
        whole_command([sys.executable, "-c", "import sys; print('a'); sys.exit('x\\nno such file')"], tmp_path)
    with pytest.raises(UserError, match=r"^exit status 3$"):
        whole_command([sys.executable, "-c", "import sys; sys.exit(3)"], tmp_path)
