"""What a command changes in its process, undone at its end: `main(argv)` is also called in notebooks and programs."""

import contextlib
import gc
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator

# Those whose level or handlers TensorFlow and its quiet import set.
_LOGGERS = ("", "tensorflow", "absl")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def restored_process_state() -> Iterator[None]:
    """Gives the process back its environment, signal handlers, logging, warnings and garbage collection at the end.

    What was imported stays imported, and TensorFlow's own configuration (devices, threads) cannot be changed back.
    """
    environment, thresholds = dict(os.environ), gc.get_threshold()
    is_main_thread = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in _SIGNALS} if is_main_thread else {}
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    logging_before = [(logger.level, logger.handlers[:], logger.propagate) for logger in loggers]
    try:
        with warnings.catch_warnings():
            yield
    finally:
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)
        gc.set_threshold(*thresholds)
        for number, handler in handlers.items():
            if handler is not None:  # else it is none of Python's
                signal.signal(number, handler)
        for logger, (level, its_handlers, propagate) in zip(loggers, logging_before):
            logger.setLevel(level)
            logger.handlers[:] = its_handlers
            logger.propagate = propagate


@contextlib.contextmanager
def utf8_output() -> Iterator[None]:
    """Makes standard output UTF-8 inside the block, as the files are, whatever the locale.

    A notebook's output is no text file of Python's and takes any character as it is.
    """
    output = sys.stdout
    if not hasattr(output, "reconfigure"):
        yield
        return
    before = {"encoding": output.encoding, "errors": output.errors}
    output.reconfigure(encoding="utf-8")
    try:
        yield
    finally:
        if not output.closed:
            output.reconfigure(**before)
