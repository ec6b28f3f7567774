"""How fast a trained model translates a text."""

import dataclasses
import statistics
import time
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Speed:
    """The speed of one way to translate.

    Args:
      name: which way.
      lines: how many were translated each time.
      tokens: of their translations, end symbols included.
      first_seconds: the first time, with whatever had to be compiled.
      seconds: each time afterwards.
    """

    name: str
    lines: int
    tokens: int
    first_seconds: float
    seconds: list[float]

    def lines_per_second(self) -> float:
        """Returns the median."""
        return self.lines / statistics.median(self.seconds)

    def tokens_per_second(self) -> float:
        """Returns the median."""
        return self.tokens / statistics.median(self.seconds)


def measure(translator, lines: Sequence[str], name: str, repeats: int, one_by_one: bool = False) -> Speed:
    """Translates lines again and again.

    Args:
      translator: a `Translator`.
      lines: what to translate.
      name: what the result is called.
      repeats: how often, after a first time.
      one_by_one: whether each line is translated in a call of its own.
    """
    calls = [[line] for line in lines] if one_by_one else [lines]
    seconds = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        outputs = [text for call in calls for text in translator.translate(call)]
        seconds.append(time.perf_counter() - start)
    tokens = sum(len(row) for row in translator.vocabulary.encode(outputs).to_list())
    return Speed(name, len(lines), tokens, seconds[0], seconds[1:])
