"""Runs a measurement in a separate process, so that earlier measurements leave no memory or threads behind."""

import concurrent.futures
import multiprocessing
from collections.abc import Callable
from typing import TypeVar

from t2t_lite.errors import UserError
from t2t_lite.quiet import prepare_process

T = TypeVar("T")


def in_a_process(function: Callable[..., T], *arguments: object) -> T:
    """Calls a function in a new process and returns its result.

    Args:
      function: a function that can be imported by its name.
      arguments: its arguments; they and the result are pickled.

    Raises:
      UserError: if the process is killed.
      Exception: any exception of the function.
    """
    # Not "fork": TensorFlow's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context, initializer=prepare_process) as pool:
        try:
            return pool.submit(function, *arguments).result()
        except concurrent.futures.process.BrokenProcessPool as error:
            raise UserError(
                "the measuring process has been killed, probably because memory ran out; measure something smaller"
            ) from error
