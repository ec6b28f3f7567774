"""Tells how far a long pass over pairs has come: a line every few seconds with its speed and the time left."""

import time
from collections.abc import Callable

from t2t_lite.formatting import format_duration

SECONDS = 10  # between two lines


class PairProgress:
    """Counts pairs and says so now and then.

    Args:
      what: what is being done: "wmt_ende: train: counting".
      say: takes a line.
      total: how many pairs there will be, if that is known.
    """

    def __init__(self, what: str, say: Callable[[str], None], total: int | None = None):
        self._what, self._say, self._total = what, say, total
        self._begin = self._told = time.monotonic()
        self._first = None  # what had been done before: it does not count for the speed

    def __call__(self, done: int) -> None:
        """Takes how many pairs have been done."""
        if self._first is None:
            self._first = done
        if done % 1000 and done != self._total:
            return  # the clock is not looked at for each pair
        now = time.monotonic()
        if now - self._told < SECONDS:
            return
        self._told = now
        speed = (done - self._first) / (now - self._begin)
        of_all = f" of {self._total:,}" if self._total else ""
        left = f", {format_duration((self._total - done) / speed)} left" if self._total and speed else ""
        self._say(f"{self._what}: {done:,}{of_all} pairs, {speed:,.0f} pairs/s{left}")
