"""Algorithmic problems, as in tensor2tensor, for quick checks of new models."""

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

from t2t_lite.data.problem import Example, Problem
from t2t_lite.registry import PROBLEMS

LETTERS = "abcdefghijklmnopqrst"
MAX_LENGTH = 20


class Algorithmic(Problem):
    """The base class of algorithmic problems, whose inputs are random words of 1 to MAX_LENGTH letters.

    Each letter is a token. `solve` computes the targets.
    """

    vocab_kind = "characters"
    vocab_size = 300
    num_shards = 1
    num_examples = {"train": 50_000, "dev": 500, "test": 500}

    def solve(self, letters: str) -> str:
        """Returns the target for the input `letters`."""
        raise NotImplementedError

    def examples(self, split: str, files: Mapping[str, Path]) -> Iterator[Example]:
        """Yields the pairs in a split. Short words in dev and test may also occur in train."""
        generator = random.Random(f"{self.data_name} {split}")
        for _ in range(self.num_examples[split]):
            letters = "".join(generator.choices(LETTERS, k=generator.randint(1, MAX_LENGTH)))
            yield Example(letters, self.solve(letters))


@PROBLEMS.register
class AlgorithmicCopy(Algorithmic):
    """Repeat a word of up to 20 letters."""

    def solve(self, letters: str) -> str:
        """Returns the word."""
        return letters


@PROBLEMS.register
class AlgorithmicReverse(Algorithmic):
    """Write a word of up to 20 letters backwards."""

    def solve(self, letters: str) -> str:
        """Returns the word backwards."""
        return letters[::-1]


@PROBLEMS.register
class AlgorithmicSort(Algorithmic):
    """Sort the letters in a word of up to 20 letters."""

    def solve(self, letters: str) -> str:
        """Returns the letters in alphabetical order."""
        return "".join(sorted(letters))
