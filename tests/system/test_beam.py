"""Pipelines of Beam: one that waits forever for a lost worker is ended."""

import subprocess
import threading

import pytest

from t2t_lite.errors import UserError
from t2t_lite.system.beam import run_to_end


class Waits:
    """A pipeline that starts a process, and waits for something else after its end, as Beam sometimes does."""

    def run(self):
        subprocess.run(["sleep", "2"], check=True)
        threading.Event().wait()


class Ends:
    """A pipeline whose process ends shortly before it does."""

    def run(self):
        subprocess.run(["sleep", "2"], check=True)
        return self

    def wait_until_finish(self):
        pass


class Fails:
    def run(self):
        raise ValueError("of the runner")


@pytest.mark.slow
def test_a_pipeline_that_waits_for_a_lost_worker_is_ended():
    with pytest.raises(UserError, match="a worker process ended early"):
        run_to_end(Waits(), seconds_after_a_loss=1)


@pytest.mark.slow
def test_results_and_errors_of_a_pipeline_are_those_of_beam():
    pipeline = Ends()
    assert run_to_end(pipeline) is pipeline
    with pytest.raises(ValueError, match="of the runner"):
        run_to_end(Fails())
