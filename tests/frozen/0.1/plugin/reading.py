"""A plug-in with a problem whose sides have a vocabulary each, and a set."""

from t2t_lite.data.problem import Example, Problem
from t2t_lite.registry import HPARAMS, PROBLEMS


@PROBLEMS.register
class FrozenReading(Problem):
    """Read a number aloud."""

    vocab_size = 40
    shared_vocabulary = False
    num_shards = 1

    def examples(self, split, files):
        """Yields every number up to 300, in one of the splits."""
        words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
        for number in range(300):
            if split == ("dev", "test", *["train"] * 18)[number % 20]:
                yield Example(str(number), " ".join(words[int(digit)] for digit in str(number)))


@HPARAMS.derive("transformer_tiny")
def frozen_tiny(tiny):
    """The sizes of the frozen runs."""
    return tiny.replace(hidden_size=16, filter_size=24, num_heads=2)
