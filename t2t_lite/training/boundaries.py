"""Decides when checkpoints are due, and how many steps each call makes."""

import time

# On GPUs, each call makes several steps, so that the GPUs do not wait for the host. A signal takes effect after the two
# calls that have already begun and one more, or two more with several workers.
STEPS_PER_CALL = 10
SECONDS_PER_CALL = 3.0


class CheckpointSchedule:
    """Decides when a checkpoint is due: at the last step, and at intervals counted in steps or in seconds."""

    def __init__(self, steps: int, seconds: int, last_step: int) -> None:
        """Sets the interval: `steps` if it is not 0, else `seconds` after the previous checkpoint."""
        self._steps, self._seconds, self._last_step = steps, seconds, last_step
        self.restart()

    def is_due_by_steps(self, step: int) -> bool:
        """Returns whether a checkpoint is due after `step`: at the end of an interval in steps, or at the last step."""
        return step >= self._last_step or bool(self._steps and step % self._steps == 0)

    def is_due_by_time(self) -> bool:
        """Returns whether the interval in seconds has passed; False if the interval is in steps."""
        return not self._steps and time.monotonic() - self._since >= self._seconds

    def restart(self) -> None:
        self._since = time.monotonic()


class CallLength:
    """Decides how many steps the next call makes: as many as take about `SECONDS_PER_CALL`, but at most `most`.

    No call goes beyond the last step, or beyond the next multiple of a number in `every`. All workers use the same call
    length: the mean of the lengths that they want.
    """

    def __init__(self, most: int, every: tuple[int, ...], last_step: int) -> None:
        self.most, self._every, self._last_step = most, every, last_step
        self.wanted = 1.0  # the length that this worker wants
        self._agreed = 1

    def steps_after(self, step: int) -> int:
        ends = [self._last_step, *((step // every + 1) * every for every in self._every if every)]
        return max(min(self._agreed, min(ends) - step), 1)

    def measured(self, steps_per_second: float) -> None:
        self.wanted = max(min(SECONDS_PER_CALL * steps_per_second, self.most), 1.0)

    def agree(self, mean: float) -> None:
        self._agreed = int(mean)
