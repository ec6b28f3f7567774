"""Corpus statistics: a first pass over the training text counts pairs, draws a random sample and checks user text."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from t2t_lite.data.generation.progress import PairProgress
from t2t_lite.data.generation.text_checks import HASHED_CHARACTERS, TextChecks
from t2t_lite.data.problem import Example, Problem
from t2t_lite.errors import UserError

# A larger sample slows down learning without improving the tokens.
SAMPLE_PAIRS = 200_000
FIRST_PAIRS = 100  # number of pairs to compare when detecting equal splits
# The sample keeps only this many characters of a text, to limit memory. Hashes use no more, so they do not change.
SAMPLE_CHARACTERS = HASHED_CHARACTERS


@dataclass
class CorpusStatistics:
    pairs: int  # number of pairs, including those that the problem drops
    first_pairs: list[Example]  # the first FIRST_PAIRS pairs
    # (number from 1, pair) of all pairs kept for training, or of at most SAMPLE_PAIRS random ones
    sample: list[tuple[int, Example]]

    def texts(self, sides: Iterable[str]) -> list[str]:
        sides = list(sides)
        return [getattr(pair, side) for _, pair in self.sample for side in sides]


def corpus_statistics(
    problem: Problem,
    pairs: Iterable[Example],
    checks: TextChecks | None,
    count_pair: Callable[[int], None],
    size: int = SAMPLE_PAIRS,
) -> CorpusStatistics:
    """Reads `pairs` once and returns their statistics, with a deterministic sample of at most `size` pairs.

    For each pair, `count_pair` receives the number of pairs so far, and `checks` the pair. Raises a UserError if an
    element of `pairs` is not an `Example`.
    """
    generator = random.Random(size)
    sample: list[tuple[int, Example, Example]] = []  # number, pair, the pair as the model sees it
    first_pairs: list[Example] = []
    count = kept = 0
    for count, pair in enumerate(pairs, start=1):
        count_pair(count)
        if not isinstance(pair, Example):
            raise UserError(
                f"problem '{problem.data_name}' yields {pair!r:.60} as pair {count}; its examples(split, files) must "
                f"yield Example(inputs, targets)"
            )
        if pair.inputs and not problem.has_inputs:
            raise UserError(
                f"problem '{problem.data_name}' has no inputs (has_inputs=False), but pair {count} is {pair!r:.60}; "
                f"leave its inputs empty"
            )
        if count <= FIRST_PAIRS:
            first_pairs.append(pair)
        drop_reason = problem.drop_reason("train", pair)
        if checks is not None:
            checks.add(pair, drop_reason)
        if drop_reason:
            continue
        kept += 1
        # Reservoir sampling: a uniform sample without knowing the number of pairs (Vitter 1985, algorithm R).
        if kept <= size:
            sample.append((count, *_kept(problem, pair)))
        elif (place := int(generator.random() * kept)) < size:
            sample[place] = (count, *_kept(problem, pair))
    if checks is not None:
        checks.judge_directions([(number, pair) for number, pair, _ in sample])
    return CorpusStatistics(
        count, first_pairs, [(number, seen) for number, pair, seen in sample if problem.split_of(pair) == "train"]
    )


def examine_corpus(
    problem: Problem, files: dict[str, Path], say: Callable[[str], None], report: Callable[[TextChecks], None]
) -> CorpusStatistics:
    """Computes the statistics of a problem's training text and, if it requests checks, reports its defects."""
    problem.check_corpus(files, lambda line: say(f"{problem.data_name}: {line}"))
    checks = None
    if problem.checks_text:
        others = {split: problem.examples(split, files) for split in problem.separate_splits()}
        checks = TextChecks(others, problem.symbols_of("inputs"))
    progress = PairProgress(f"{problem.data_name}: counting", say)
    try:
        statistics = corpus_statistics(problem, problem.raw_pairs(files), checks, progress)
    except UserError:
        if checks is not None and checks.pairs:
            report(checks)  # the report may show the cause
        raise
    if not statistics.pairs:
        raise no_examples(problem, "train")
    if checks is not None:
        report(checks)
    for note in problem.notes(files):
        say(f"{problem.data_name}: {note}")
    if not statistics.sample:
        why = f": {checks.drop_reasons()}" if checks is not None else ""
        raise UserError(
            f"problem '{problem.data_name}' has no usable train examples: all {statistics.pairs} are dropped{why}"
        )
    return statistics


def no_examples(problem: Problem, split: str) -> UserError:
    return UserError(
        f"problem '{problem.data_name}' has no {split} examples, but train, dev and test must not be empty; check its "
        f"sources and its examples(split, files)"
    )


def _kept(problem: Problem, pair: Example) -> tuple[Example, Example]:
    """Returns a pair and its `for_model` version, both cut to the maximum length in the sample."""
    cut, seen = _cut(pair), problem.for_model(pair)
    if seen is pair:
        return cut, cut
    # Cut at a space, because half a symbol at the end would count as another symbol.
    return cut, Example(
        *(side if len(side) < SAMPLE_CHARACTERS else side[:SAMPLE_CHARACTERS].rpartition(" ")[0] for side in seen)
    )


def _cut(pair: Example) -> Example:
    if len(pair.inputs) <= SAMPLE_CHARACTERS and len(pair.targets) <= SAMPLE_CHARACTERS:
        return pair
    return Example(*(side[:SAMPLE_CHARACTERS] for side in pair))
