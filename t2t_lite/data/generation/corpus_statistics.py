"""The first pass over a training text: its pairs are counted, a random sample is kept, and own text is looked at."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from t2t_lite.data.generation.text_checks import HASHED_CHARACTERS, TextChecks
from t2t_lite.data.problem import Example, Problem
from t2t_lite.errors import UserError

# More pairs than these make learning pieces slower and the pieces no better.
SAMPLE_PAIRS = 200_000
BEGIN_PAIRS = 100  # by which equal splits are found
# No sample needs a longer text; memory is bounded by this. Equal beginnings have equal hashes.
SAMPLE_CHARACTERS = HASHED_CHARACTERS


@dataclass
class Survey:
    """What a pass has shown.

    Args:
      pairs: how many there were, those that the problem drops included.
      begin: the first BEGIN_PAIRS of them.
      sample: (number from 1, pair) of all that are kept for training, or of SAMPLE_PAIRS at random over the whole.
    """

    pairs: int
    begin: list[Example]
    sample: list[tuple[int, Example]]

    def texts(self, sides: Iterable[str]) -> list[str]:
        """Returns the texts of some sides of the sample."""
        sides = list(sides)
        return [getattr(pair, side) for _, pair in self.sample for side in sides]


def survey(
    problem: Problem,
    pairs: Iterable[Example],
    checks: TextChecks | None,
    tell: Callable[[int], None],
    size: int = SAMPLE_PAIRS,
) -> Survey:
    """Goes through the pairs once. The same pairs give the same sample.

    Args:
      problem: whose they are.
      pairs: its `raw_pairs`.
      checks: looks at each, if given.
      tell: takes the number of pairs so far, after each.
      size: how many pairs the sample has at most.

    Raises:
      UserError: if something is no `Example`.
    """
    generator = random.Random(size)
    sample: list[tuple[int, Example, Example]] = []  # number, pair, what the model sees of it
    begin: list[Example] = []
    count = kept = 0
    for count, pair in enumerate(pairs, start=1):
        tell(count)
        if not isinstance(pair, Example):
            raise UserError(
                f"problem '{problem.data_name}' yields {pair!r:.60} as pair {count}; its examples(split, files) has to "
                f"yield Example(inputs, targets)"
            )
        if count <= BEGIN_PAIRS:
            begin.append(pair)
        flaw = problem.flaw("train", pair)
        if checks is not None:
            checks.add(pair, flaw)
        if flaw:
            continue
        kept += 1
        # An even sample whatever their number (Vitter 1985, algorithm R).
        if kept <= size:
            sample.append((count, *_kept(problem, pair)))
        elif (place := int(generator.random() * kept)) < size:
            sample[place] = (count, *_kept(problem, pair))
    if checks is not None:
        checks.judge_directions([(number, pair) for number, pair, _ in sample])
    return Survey(count, begin, [(number, seen) for number, pair, seen in sample if problem.split_of(pair) == "train"])


def _kept(problem: Problem, pair: Example) -> tuple[Example, Example]:
    """Returns of a pair, and of what the model sees of it, as much as the sample keeps."""
    cut, seen = _cut(pair), problem.for_model(pair)
    if seen is pair:
        return cut, cut
    # Half a symbol at the end would be one more.
    return cut, Example(
        *(side if len(side) < SAMPLE_CHARACTERS else side[:SAMPLE_CHARACTERS].rpartition(" ")[0] for side in seen)
    )


def _cut(pair: Example) -> Example:
    if len(pair.inputs) <= SAMPLE_CHARACTERS and len(pair.targets) <= SAMPLE_CHARACTERS:
        return pair
    return Example(*(side[:SAMPLE_CHARACTERS] for side in pair))
