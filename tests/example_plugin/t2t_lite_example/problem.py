"""A new problem in ten lines."""

from t2t_lite.data.problem import Example, Problem
from t2t_lite.registry import PROBLEMS


@PROBLEMS.register
class NumbersInWords(Problem):
    """Write the digits of a number in words."""

    vocab_kind = "characters"
    vocab_size = 300

    def examples(self, split, files):
        """Yields the pairs of a split: every number up to 2,000 is in one of them."""
        words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
        for number in range(2000):
            if split == ("dev", "test", *["train"] * 18)[number % 20]:
                yield Example(str(number), " ".join(words[int(digit)] for digit in str(number)))
