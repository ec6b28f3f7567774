"""Measures how fast a trained model translates a text."""

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from t2t_lite.decoding.translator import Translator


@dataclasses.dataclass(frozen=True)
class Speed:
    """The speed of one decoding configuration.

    Args:
      name: name of the configuration.
      lines: number of lines per repetition.
      tokens: number of output tokens, end symbols included.
      first_seconds: time of the first repetition, which includes compilation.
      seconds: times of the later repetitions.
    """

    name: str
    lines: int
    tokens: int
    first_seconds: float
    seconds: list[float]

    def lines_per_second(self) -> float:
        """Returns lines per second, by the median time."""
        return self.lines / statistics.median(self.seconds)

    def tokens_per_second(self) -> float:
        """Returns output tokens per second, by the median time."""
        return self.tokens / statistics.median(self.seconds)


def measure(
    translator: "Translator",
    lines: Sequence[str],
    name: str,
    repeats: int,
    one_by_one: bool = False,
    options_of: Callable[[Sequence[str]], dict[str, Any]] = lambda lines: {},
) -> Speed:
    """Translates the same lines repeatedly and measures the time.

    Args:
      translator: a `Translator`.
      lines: the lines to translate.
      name: name of the result.
      repeats: number of repetitions after the first one.
      one_by_one: whether to translate each line in a separate call.
      options_of: returns the options of `Translator.translate` for some lines.
    """
    calls = [[line] for line in lines] if one_by_one else [lines]
    seconds: list[float] = []
    outputs: list[str] = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        outputs = [text for call in calls for text in translator.translate(call, **options_of(call))]
        seconds.append(time.perf_counter() - start)
    tokens = sum(len(row) for row in translator.vocabulary.ids_of(outputs))
    return Speed(name, len(lines), tokens, seconds[0], seconds[1:])
