"""Pipelines of Apache Beam, for data generation and decoding on clusters."""

import contextlib
import logging
import threading
import traceback
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from t2t_lite.errors import UserError
from t2t_lite.system.installed import check_installed

# The options of worker processes that Beam starts on this machine.
_QUIET = {"beam:option:default_sdk_harness_log_level:v1": "CRITICAL"}


@contextlib.contextmanager
def quiet_beam() -> Iterator[None]:
    """Keeps Beam from logging each step inside the block and, when a worker is lost, several pages of it.

    Errors of Beam's threads are not printed: the pipeline raises its own, and the others report closed connections and
    lost workers. That stays so if the block ends with an error, because the threads go on.
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

    `runner` is "direct" for this machine, or the name of a Beam runner, such as "FlinkRunner"; `options` are flags for
    the pipeline, separated by spaces.
    """
    check_installed(f"`runner={runner}`", {"apache_beam": "Apache Beam"}, "beam")
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    try:
        made: Any = runner
        if runner.lower() in ("direct", "directrunner"):  # not Beam's default, which tries to download a program
            from apache_beam.portability.api import beam_provision_api_pb2
            from apache_beam.runners.portability.fn_api_runner.fn_runner import ExtendedProvisionInfo, FnApiRunner
            from google.protobuf.struct_pb2 import Struct

            quiet = Struct()
            quiet.update(_QUIET)
            info = beam_provision_api_pb2.ProvisionInfo(pipeline_options=quiet)
            made = FnApiRunner(provision_info=ExtendedProvisionInfo(info))
        return beam, beam.Pipeline(runner=made, options=PipelineOptions(options.split()))
    except ValueError as error:
        raise UserError(f"`runner={runner}`: {str(error).splitlines()[0]}", status=2) from error
