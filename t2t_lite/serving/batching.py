"""Dynamic batching: texts from several requests share batches, and no request blocks the others.

Texts wait in the order of start-time fair queueing (Goyal et al. 1996). A text's turn is the virtual time at which its
request arrived, plus the tokens in the request's earlier texts. Virtual time is measured in tokens: for each batch, it
advances by the batch's tokens divided by the number of waiting requests. So a short request overtakes the rest of a
long one, and no text waits forever. A batch contains the next text and waiting texts of similar length.
"""

import bisect
import concurrent.futures
import itertools
import math
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

# Short texts count as this many tokens, because their outputs also take time.
MIN_TOKENS = 32
# A batch is chosen from the first texts in the queue, enough for this many batches. With more texts, lengths match no
# better, and some requests wait longer.
_WINDOW = 4
# Fewer texts are not split among idle workers.
_WORTH_SHARING = 8


class QueueFull(Exception):
    """The queue has no room for a request, but will probably have room in `retry_after` seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__()
        self.retry_after = retry_after


class Job:
    """The texts of a request and their results.

    Only texts with equal tasks share a batch. `future` is the list of results, one for each text.
    """

    def __init__(self, task: Hashable, items: Sequence[Any]) -> None:
        self.task, self.items = task, items
        self.future: concurrent.futures.Future[list[Any]] = concurrent.futures.Future()
        self.results: list[Any] = [None] * len(items)
        self.missing = len(items)
        self.num_waiting = len(items)
        self.is_over = False  # answered, failed or cancelled
        self.arrived = time.monotonic()
        self.started: float | None = None
        self.ended: float | None = None

    @property
    def queue_seconds(self) -> float:
        """The time until a worker took the first text."""
        return (self.started or self.ended or time.monotonic()) - self.arrived

    @property
    def model_seconds(self) -> float:
        """The time from then until the job ended, or until now."""
        return 0.0 if self.started is None else (self.ended or time.monotonic()) - self.started


class _Waiting(NamedTuple):
    """A waiting text. Texts with a lower turn come first."""

    turn: float
    number: int  # breaks ties by order of arrival
    tokens: int
    job: Job
    index: int


class Batcher:
    """Runs the texts of jobs in batches, on several threads.

    `run` takes a task and items, and returns a result for each item. `tokens_of` returns an item's number of tokens. A
    batch that is not full waits `batch_delay` seconds for more texts. At most `max_waiting` texts may wait. At most
    `num_parallel` batches run at the same time. `on_batch` receives the number of texts in each batch and its seconds.
    """

    def __init__(
        self,
        run: Callable[[Any, Sequence[Any]], Sequence[Any]],
        tokens_of: Callable[[Any], int],
        batch_tokens: int,
        batch_delay: float,
        max_waiting: int,
        num_parallel: int,
        on_batch: Callable[[int, float], None] = lambda number, seconds: None,
    ) -> None:
        self._run, self._tokens_of, self._on_batch = run, tokens_of, on_batch
        self._batch_tokens, self._batch_delay, self._max_waiting = batch_tokens, batch_delay, max_waiting
        self._num_parallel = num_parallel
        self._window = _WINDOW * max(_WORTH_SHARING, batch_tokens // MIN_TOKENS)
        self._waiting: list[_Waiting] = []  # sorted
        self._numbers = itertools.count()
        self._now = 0.0  # virtual time, in tokens
        self._num_jobs = 0  # jobs with waiting texts
        self._running = 0  # batches that are running
        self._seconds_per_token = 1e-3  # the running average of a worker
        self._closing = False
        self._changed = threading.Condition()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(num_parallel)]
        for thread in self._threads:
            thread.start()

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def submit(self, task: Hashable, items: Sequence[Any]) -> Job:
        """Queues the texts of a request. Raises QueueFull if the queue has no room for them."""
        job = Job(task, items)
        if not items:
            job.future.set_result([])
            return job
        with self._changed:
            if len(self._waiting) + len(items) > self._max_waiting:
                tokens = sum(waiting.tokens for waiting in self._waiting)
                raise QueueFull(max(1, math.ceil(tokens * self._seconds_per_token / self._num_parallel)))
            self._num_jobs += 1
            turn = self._now
            for index, item in enumerate(items):
                tokens = max(self._tokens_of(item), 1)
                bisect.insort(self._waiting, _Waiting(turn, next(self._numbers), tokens, job, index))
                turn += tokens
            self._changed.notify_all()
        return job

    def cancel(self, job: Job) -> None:
        with self._changed:
            self._end(job)
        job.future.cancel()

    def close(self) -> None:
        """Waits until all jobs have their results, then ends the threads. After that, do not submit jobs."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _end(self, job: Job) -> None:
        """Marks a job as over and drops its waiting texts. The caller holds the lock."""
        if not job.is_over:
            job.is_over, job.ended = True, time.monotonic()
            if job.num_waiting:
                self._num_jobs -= 1
                self._waiting = [waiting for waiting in self._waiting if waiting.job is not job]

    def _work(self) -> None:
        while batch := self._next_batch():
            started = time.monotonic()
            self._search(batch)
            seconds = time.monotonic() - started
            self._on_batch(len(batch), seconds)
            with self._changed:
                self._running -= 1
                per_token = seconds / sum(waiting.tokens for waiting in batch)
                self._seconds_per_token += 0.1 * (per_token - self._seconds_per_token)

    def _next_batch(self) -> list[_Waiting]:
        """Waits for a batch and takes it from the queue. Returns [] if the batcher is closed and the queue is empty."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return []
                batch, is_full = self._chosen()
                left = self._waiting[0].job.arrived + self._batch_delay - time.monotonic()
                if is_full or left <= 0 or self._closing:
                    break
                self._changed.wait(left)
            taken = {waiting.number for waiting in batch}
            passed = sum(waiting.tokens for waiting in batch) / self._num_jobs
            self._now = max(self._now + passed, self._waiting[0].turn)
            self._waiting[: self._window] = [
                waiting for waiting in self._waiting[: self._window] if waiting.number not in taken
            ]
            self._running += 1
            started = time.monotonic()
            for waiting in batch:
                waiting.job.started = waiting.job.started or started
                waiting.job.num_waiting -= 1
                self._num_jobs -= not waiting.job.num_waiting
            return batch

    def _chosen(self) -> tuple[list[_Waiting], bool]:
        """Returns the texts of the next batch and whether it is full. The caller holds the lock."""
        first = self._waiting[0]
        same = [waiting for waiting in self._waiting[: self._window] if waiting.job.task == first.job.task]
        same.sort(key=lambda waiting: (waiting.tokens, waiting.number))
        idle = max(1, self._num_parallel - self._running)
        share = max(_WORTH_SHARING, -(-len(same) // idle))
        low = high = same.index(first)  # the batch is same[low : high + 1]
        while True:
            shorter = first.tokens - same[low - 1].tokens if low else math.inf
            longer = same[high + 1].tokens - first.tokens if high + 1 < len(same) else math.inf
            if shorter == longer == math.inf:
                number = high + 1 - low
                has_no_room = (number + 1) * max(same[high].tokens, MIN_TOKENS) > self._batch_tokens
                return same[low : high + 1], has_no_room or (idle > 1 and number >= share)
            next_low, next_high = (low - 1, high) if shorter <= longer else (low, high + 1)
            number = next_high + 1 - next_low
            if number > share or number * max(same[next_high].tokens, MIN_TOKENS) > self._batch_tokens:
                return same[low : high + 1], True
            low, high = next_low, next_high

    def _search(self, batch: Sequence[_Waiting]) -> None:
        batch = [waiting for waiting in batch if not waiting.job.is_over]
        jobs = list(dict.fromkeys(waiting.job for waiting in batch))
        if not batch:
            return
        try:
            results = self._run(jobs[0].task, [waiting.job.items[waiting.index] for waiting in batch])
        except Exception as error:
            if len(jobs) > 1:  # run each job separately, so that only the failing one gets the error
                for job in jobs:
                    self._search([waiting for waiting in batch if waiting.job is job])
            else:
                self._fail(jobs[0], error)
            return
        for waiting, result in zip(batch, results, strict=True):
            job = waiting.job
            with self._changed:
                if job.is_over:
                    continue
                job.results[waiting.index] = result
                job.missing -= 1
                if job.missing:
                    continue
                job.is_over, job.ended = True, time.monotonic()
            if job.future.set_running_or_notify_cancel():
                job.future.set_result(job.results)

    def _fail(self, job: Job, error: Exception) -> None:
        with self._changed:
            if job.is_over:  # it already failed in another batch, or was cancelled
                return
            self._end(job)
        if job.future.set_running_or_notify_cancel():
            job.future.set_exception(error)
