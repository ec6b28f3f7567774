"""Pipelines of Beam: one that waits forever for a lost worker is ended, and a failed one stays quiet."""

import logging
import signal
import subprocess
import threading
import time

import pytest

from t2t_lite.errors import UserError
from t2t_lite.system.beam import quiet_beam, run_to_end

# A worker of Beam, as far as its command line shows; it ends after two seconds.
WORKER = ["bash", "-c", "exec -a apache_beam.worker sleep 2"]


class Waits:
    """A pipeline that starts a process, and waits for something else after its end, as Beam sometimes does."""

    def run(self):
        subprocess.run(WORKER, check=True)
        threading.Event().wait()


class Ends:
    """A pipeline whose process ends shortly before it does."""

    def run(self):
        subprocess.run(WORKER, check=True)
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


class FailsBesideOthers:
    """A pipeline that fails when it has a worker and its program another process."""

    def run(self):
        self.worker = subprocess.Popen(["bash", "-c", "exec -a apache_beam.worker sleep 600"])
        self.other = subprocess.Popen(["sleep", "600"])
        time.sleep(1.5)
        raise ValueError("of the runner")


@pytest.mark.slow
def test_only_the_workers_of_a_failed_pipeline_are_killed():
    pipeline = FailsBesideOthers()
    with pytest.raises(ValueError, match="of the runner"):
        run_to_end(pipeline)
    assert pipeline.worker.wait() == -signal.SIGKILL
    assert pipeline.other.poll() is None
    pipeline.other.kill()
    pipeline.other.wait()


@pytest.mark.slow
def test_results_and_errors_of_a_pipeline_are_those_of_beam():
    pipeline = Ends()
    assert run_to_end(pipeline) is pipeline
    with pytest.raises(ValueError, match="of the runner"):
        run_to_end(Fails())


def test_threads_of_a_failed_pipeline_do_not_print_after_its_error(capfd, monkeypatch):
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    loggers = [logging.getLogger(name) for name in ("apache_beam", "grpc", None)]
    levels = [logger.level for logger in loggers]
    names = {}
    exec("def fail(): raise ValueError('of a thread')", names)

    def printed(module):
        logging.getLogger("apache_beam.runners").error("a log line")
        names["__name__"] = module
        thread = threading.Thread(target=names["fail"])
        thread.start()
        thread.join()
        return capfd.readouterr().err

    try:
        with quiet_beam():
            assert printed("apache_beam.runners") == ""
        assert "of a thread" in printed("apache_beam.runners")
        with pytest.raises(ValueError, match="of the pipeline"), quiet_beam():
            raise ValueError("of the pipeline")
        assert printed("apache_beam.runners") == ""
        assert "of a thread" in printed("another")
        assert loggers[-1].level == levels[-1]
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
