"""Progress reports for long passes over pairs: every few seconds, a line with speed and remaining time."""

import time
from collections.abc import Callable

from t2t_lite.display import format_duration

SECONDS = 10  # between two lines


class PairProgress:
    """Reports the number of pairs at intervals. Lines start with `what`, such as "wmt_ende: train: counting"."""

    def __init__(self, what: str, say: Callable[[str], None], total: int | None = None) -> None:
        self._what, self._say, self._total = what, say, total
        self._begin = self._last_report = time.monotonic()
        self._first: int | None = None  # pairs done before the first call, excluded from the speed

    def __call__(self, done: int) -> None:
        if self._first is None:
            self._first = done
        if done % 1000 and done != self._total:
            return  # reading the clock for every pair would be slow
        now = time.monotonic()
        if now - self._last_report < SECONDS:
            return
        self._last_report = now
        speed = (done - self._first) / (now - self._begin)
        of_all = f" of {self._total:,}" if self._total else ""
        left = f", {format_duration((self._total - done) / speed)} left" if self._total and speed else ""
        self._say(f"{self._what}: {done:,}{of_all} pairs, {speed:,.0f} pairs/s{left}")
