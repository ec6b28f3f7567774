"""Measuring in a process of its own, so that what was measured before leaves neither memory nor threads behind."""

import concurrent.futures
import multiprocessing
from collections.abc import Callable
from typing import TypeVar

from t2t_lite.errors import UserError

T = TypeVar("T")


def in_a_process(function: Callable[..., T], *arguments) -> T:
    """Returns what a function of a module returns, called in a fresh process that ends afterwards.

    Args:
      function: one that can be imported by its name.
      arguments: what it is given; they and the result are pickled.

    Raises:
      UserError: if the process is killed.
      Exception: what the function raises.
    """
    # Not a fork: TensorFlow's threads do not survive one.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        try:
            return pool.submit(function, *arguments).result()
        except concurrent.futures.process.BrokenProcessPool as error:
            raise UserError(
                "the process that was measuring has been killed, as happens when memory runs out; "
                "measure something smaller"
            ) from error
