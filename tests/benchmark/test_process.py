"""A function called in a separate process: its result, its errors, its death."""

import os
import signal

import pytest

from t2t_lite.benchmark.process import in_a_process
from t2t_lite.errors import UserError


def test_a_result_comes_from_another_process():
    assert in_a_process(os.getpid) != os.getpid()
    assert in_a_process(divmod, 7, 2) == (3, 1)


def test_an_error_in_the_process_is_raised_in_the_caller():
    with pytest.raises(ValueError, match="'many'"):
        in_a_process(int, "many")


def test_a_killed_process_is_reported():
    with pytest.raises(UserError, match="has been killed"):
        in_a_process(signal.raise_signal, signal.SIGKILL)
