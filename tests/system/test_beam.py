"""Pipelines of Beam: a failed one stays quiet."""

import logging
import threading

import pytest

from t2t_lite.system.beam import quiet_beam


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
