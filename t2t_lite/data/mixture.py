"""A problem that is made of others: with weights, or by their sizes."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from t2t_lite.data.problem import SPLITS, Example, Problem, get_problem
from t2t_lite.errors import UserError

_BLOCK = 1000  # so many pairs of the mixture are drawn from the parts together


@dataclass(frozen=True)
class Part:
    """One problem in a mixture.

    Args:
      problem: its name; "x_rev" swaps its sides.
      weight: its share of the training pairs, relative to the other parts'; 0: by its size.
      tag: goes before each source sentence, with a blank: "<2de>".
      splits: those that it gives pairs to; a corpus of back-translations gives only "train".
    """

    problem: str
    weight: float = 0.0
    tag: str = ""
    splits: tuple[str, ...] = SPLITS


class Mixture(Problem):
    """Pairs of several problems in one. Subclass it, give it `parts`, and register it.

    A part that has flags of its own is given the values of those that the mixture has, too.

    Either no part has a weight: then each gives every pair once. Or all have: then no part gives any pair less than
    once, and those whose share is larger than their size are repeated. dev and test have each part's pairs once, part
    after part. Equal calls give equal pairs in the same order.
    """

    parts: tuple[Part, ...] = ()

    def __init__(self, is_reversed: bool = False, **options: str):
        super().__init__(is_reversed, **options)
        if is_reversed and any(part.tag for part in self.parts):
            raise UserError(f"'{self.data_name}' cannot be reversed: the tags of its sources would be translations")
        if len({bool(part.weight) for part in self.parts}) > 1 or any(part.weight < 0 for part in self.parts):
            raise UserError(f"'{self.data_name}': either all parts have a weight above 0, or none has one")
        self._sizes: dict[int, int] = {}
        self._problems: dict[str, Problem] = {}

    @property
    def symbols(self):
        """The tags, each a token of its own."""
        return tuple(dict.fromkeys(part.tag for part in self.parts if part.tag))

    @property
    def sources(self):
        """What the parts read."""
        return tuple(dict.fromkeys(source for part in self.parts for source in self._problem(part).sources))

    def examples(self, split, files):
        """Yields the pairs of a split."""
        parts = [number for number, part in enumerate(self.parts) if split in part.splits]
        if split != "train":
            for number in parts:
                yield from self._pairs(number, split, files)
            return
        sizes = [self._size(number, files) for number in parts]
        weights = [self.parts[number].weight for number in parts]
        # The part that is largest for its weight is read once.
        once = max(size / weight for size, weight in zip(sizes, weights)) if any(weights) else 0
        wanted = [round(once * weight) for weight in weights] if once else sizes
        streams = [self._repeated(number, count, size, files) for number, count, size in zip(parts, wanted, sizes)]
        yield from _interleaved(streams, wanted)

    def notes(self, files):
        """Says how often each part is read, and what its parts have to say."""
        notes = []
        for part in self.parts:
            notes += [f"{part.problem}: {note}" for note in self._problem(part).notes(files)]
        return notes

    def _problem(self, part: Part) -> Problem:
        if part.problem not in self._problems:
            flags = get_problem(part.problem).flags
            options = {name: value for name, value in self.options.items() if name in flags}
            self._problems[part.problem] = get_problem(part.problem, **options)
        return self._problems[part.problem]

    def _size(self, number: int, files: Mapping[str, Path]) -> int:
        if number not in self._sizes:
            self._sizes[number] = sum(1 for _ in self._pairs(number, "train", files))
            if not self._sizes[number]:
                raise UserError(f"'{self.data_name}': its part '{self.parts[number].problem}' has no train examples")
        return self._sizes[number]

    def _pairs(self, number: int, split: str, files: Mapping[str, Path]) -> Iterator[Example]:
        part = self.parts[number]
        problem = self._problem(part)
        before = f"{part.tag} " if part.tag else ""
        for pair in problem.examples(split, files):
            if not problem.drop_reason(split, pair):
                inputs, targets = problem.in_direction(pair)
                yield Example(before + inputs, targets)

    def _repeated(self, number: int, wanted: int, size: int, files: Mapping[str, Path]) -> Iterator[Example]:
        """Yields so many pairs of a part: all of them as often as they fit in, and a random part of them once more."""
        for _ in range(wanted // size):
            yield from self._pairs(number, "train", files)
        needed, left = wanted % size, size
        generator = random.Random(f"{self.data_name} {number}")
        if not needed:
            return
        for pair in self._pairs(number, "train", files):
            # Each pair with the probability that exactly so many are taken (Knuth, volume 2, algorithm S).
            if generator.random() * left < needed:
                needed -= 1
                yield pair
            left -= 1


def _interleaved(streams: list[Iterator[Example]], counts: list[int]) -> Iterator[Example]:
    """Yields all pairs of the streams, each stream at an even pace."""
    total, taken = sum(counts), [0] * len(counts)
    for done in range(0, total, _BLOCK):
        share = min(1.0, (done + _BLOCK) / total)
        for number, stream in enumerate(streams):
            due = counts[number] if share == 1.0 else int(counts[number] * share)
            for _ in range(due - taken[number]):
                yield next(stream)
            taken[number] = due
