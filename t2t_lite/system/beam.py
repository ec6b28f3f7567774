"""Pipelines of Apache Beam, for data generation and decoding on clusters."""

import concurrent.futures
import contextlib
import logging
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from t2t_lite.errors import UserError
from t2t_lite.system.installed import check_installed

# The options of worker processes that Beam starts on this machine.
_QUIET = {"beam:option:default_sdk_harness_log_level:v1": "CRITICAL"}


@contextlib.contextmanager
def quiet_beam() -> Iterator[None]:
    """Keeps Beam from logging each step inside the block and, when a worker is lost, several pages of it.

    Errors of Beam's threads are not printed: `run_to_end` raises the pipeline's own, and the others report closed
    connections and lost workers. That stays so if the block ends with an error, because the threads go on.
    """
    root = logging.getLogger()
    loggers = [logging.getLogger(name) for name in ("apache_beam", "grpc")]
    levels, level, hook = [logger.level for logger in loggers], root.level, threading.excepthook

    def print_error(arguments: threading.ExceptHookArgs) -> None:
        modules = [frame.f_globals["__name__"] for frame, _ in traceback.walk_tb(arguments.exc_traceback)]
        if not any(module.startswith("apache_beam.") for module in modules):
            hook(arguments)

    root.setLevel(logging.ERROR)
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    threading.excepthook = print_error
    try:
        yield
    finally:
        root.setLevel(level)
    threading.excepthook = hook
    for logger, before in zip(loggers, levels, strict=True):
        logger.setLevel(before)


def new_pipeline(runner: str, options: str) -> tuple[ModuleType, Any]:
    """Returns the module `apache_beam` and a new `Pipeline`.

    Args:
      runner: "direct" for this machine, or the name of a Beam runner, such as "FlinkRunner".
      options: flags for the pipeline, separated by spaces.

    Raises:
      UserError: if Beam is not installed or does not know the runner.
    """
    check_installed(f"`runner={runner}`", {"apache_beam": "Apache Beam"}, "beam")
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    try:
        # Avoids Beam's default for "direct", which tries to download a program.
        made = _local_runner() if runner.lower() in ("direct", "directrunner") else runner
        return beam, beam.Pipeline(runner=made, options=PipelineOptions(options.split()))
    except ValueError as error:
        raise UserError(f"`runner={runner}`: {str(error).splitlines()[0]}", status=2) from error


def run_to_end(pipeline: Any, seconds_after_a_loss: float = 20) -> Any:  # noqa: ANN401  of Beam
    """Runs a `Pipeline` and returns its result.

    If the pipeline fails, its worker processes on this machine are killed: each would print a traceback when this
    process ends.

    Args:
      pipeline: the pipeline.
      seconds_after_a_loss: how long it may run on after a worker process on this machine has ended.

    Raises:
      UserError: if a worker process on this machine has ended and the pipeline has not: Beam may then wait forever.
      Exception: whatever the runner raises.
    """
    ended: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def run() -> None:
        try:
            result = pipeline.run()
            result.wait_until_finish()
            ended.set_result(result)
        except BaseException as error:  # raised in the caller's thread
            ended.set_exception(error)

    before = _workers_of(os.getpid())
    threading.Thread(target=run, daemon=True).start()
    workers, last = set[int](), 0.0
    try:
        while not concurrent.futures.wait([ended], timeout=1).done:
            running = _workers_of(os.getpid()) - before
            if not workers <= running:
                last = last or time.monotonic()
                if time.monotonic() - last > seconds_after_a_loss:
                    raise UserError("a worker process ended early")
            workers |= running
        return ended.result()
    except BaseException:
        running = _workers_of(os.getpid()) - before
        for worker in running.union(*map(_workers_of, running)):  # Beam starts each through a shell
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        raise


def _workers_of(process: int) -> set[int]:
    """Returns the ids of Beam's workers among the child processes of a process; a program may have others."""
    found = set[int]()
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            found |= set(map(int, file.read_text().split()))
    return set(filter(_is_worker, found))


def _is_worker(process: int) -> bool:
    with contextlib.suppress(OSError):  # it has ended
        return b"apache_beam" in Path(f"/proc/{process}/cmdline").read_bytes()
    return False


def _local_runner() -> Any:  # noqa: ANN401
    from apache_beam.portability.api import beam_provision_api_pb2
    from apache_beam.runners.portability.fn_api_runner.fn_runner import ExtendedProvisionInfo, FnApiRunner
    from google.protobuf.struct_pb2 import Struct

    options = Struct()
    options.update(_QUIET)
    info = beam_provision_api_pb2.ProvisionInfo(pipeline_options=options)
    return FnApiRunner(provision_info=ExtendedProvisionInfo(info))
