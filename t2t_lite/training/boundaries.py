"""Decides between which steps the host acts: for checkpoints, reports and signals."""

import time

# A GPU makes several steps per call, so that it does not wait for the host. A signal takes effect after the two calls
# that have already begun and one more, or two more with several workers.
STEPS_PER_CALL = 10
SECONDS_PER_CALL = 3.0


class CheckpointSchedule:
    """Decides when a checkpoint is due: at the last step, and every n steps or n seconds after the previous one."""

    def __init__(self, steps: int, seconds: int, last_step: int) -> None:
        """Takes the steps between checkpoints, or 0 and the seconds between them."""
        self._steps, self._seconds, self._last_step = steps, seconds, last_step
        self.restart()

    def is_due_by_steps(self, step: int) -> bool:
        """Returns whether a checkpoint is due after a step, whatever the time."""
        return step >= self._last_step or bool(self._steps and step % self._steps == 0)

    def is_due_by_time(self) -> bool:
        """Returns whether a checkpoint is due now."""
        return not self._steps and time.monotonic() - self._since >= self._seconds

    def restart(self) -> None:
        """Restarts the timer."""
        self._since = time.monotonic()


class CallLength:
    """Decides how many steps the next call makes: about `SECONDS_PER_CALL` worth of steps, and at most `most`.

    A call ends at every multiple of each number in `every`, and at the last step. All workers make calls of the same
    length: the mean of the lengths that they want.
    """

    def __init__(self, most: int, every: tuple[int, ...], last_step: int) -> None:
        self.most, self._every, self._last_step = most, every, last_step
        self.wanted = 1.0  # the length that this worker wants
        self._agreed = 1

    def steps_after(self, step: int) -> int:
        """Returns the number of steps of the next call."""
        ends = [self._last_step, *((step // every + 1) * every for every in self._every if every)]
        return max(min(self._agreed, min(ends) - step), 1)

    def measured(self, steps_per_second: float) -> None:
        """Derives the length of later calls from the speed of this worker's last call."""
        self.wanted = max(min(SECONDS_PER_CALL * steps_per_second, self.most), 1.0)

    def agree(self, mean: float) -> None:
        """Takes the mean of the lengths that the workers want."""
        self._agreed = int(mean)
