"""Restores process state after a command, because `main(argv)` is also called in notebooks and programs."""

import contextlib
import gc
import io
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator

# Loggers whose level or handlers TensorFlow and `import_tensorflow` change.
_LOGGERS = ("", "tensorflow", "absl")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def restored_process_state() -> Iterator[None]:
    """Restores environment, signal handlers, logging, warnings and garbage-collection thresholds at the end.

    Imported modules stay imported, and TensorFlow's configuration (devices, threads) cannot be restored.
    """
    environment, thresholds = dict(os.environ), gc.get_threshold()
    is_main_thread = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in _SIGNALS} if is_main_thread else {}
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    logging_before = [(logger.level, logger.handlers[:], logger.propagate) for logger in loggers]
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="(keras|tensorflow|google).*")
            yield
    finally:
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)
        gc.set_threshold(*thresholds)
        for number, handler in handlers.items():
            if handler is not None:  # None: not installed from Python
                signal.signal(number, handler)
        for logger, (level, its_handlers, propagate) in zip(loggers, logging_before):
            logger.setLevel(level)
            logger.handlers[:] = its_handlers
            logger.propagate = propagate


@contextlib.contextmanager
def utf8_output() -> Iterator[None]:
    """Makes standard output UTF-8 inside the block, like the files, regardless of the locale.

    Does nothing in a notebook, whose output accepts any character.
    """
    output = sys.stdout
    if not isinstance(output, io.TextIOWrapper):
        yield
        return
    before = {"encoding": output.encoding, "errors": output.errors}
    output.reconfigure(encoding="utf-8")
    try:
        yield
    finally:
        if not output.closed:
            output.reconfigure(**before)
