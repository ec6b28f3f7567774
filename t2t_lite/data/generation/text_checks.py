"""Checks parallel text for common defects, in one pass and in bounded memory."""

import collections
import functools
import hashlib
import math
import random
import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from t2t_lite.data.generation.markup import find_entity, find_invisible, find_tag
from t2t_lite.data.problem import Example, Unusable, WithMore

BLOCK = 200  # number of pairs per correlation of lengths
# Of Multi30k's 145 blocks, the least correlated has 0.82; with one side shuffled, the most correlated has 0.19.
ALIGNED, APART = 0.5, 0.2
# Of blocks of unrelated lengths, at most this share reaches APART: the standard deviation of a correlation is
# 1 / sqrt(BLOCK), so 0.2% are expected, and more if neighboring lines are alike.
BY_CHANCE = 0.05


class Stretch(NamedTuple):
    """A range of lines whose two sides do not seem to correspond."""

    first: int
    last: int


class LineAlignment:
    """Correlates the lengths of both sides in blocks. Call add(line, inputs, targets) for each pair, in order."""

    def __init__(self) -> None:
        self._blocks: list[tuple[int, int, float]] = []  # first line, last line, correlation
        self._lengths: tuple[list[int], list[int]] = ([], [])  # of the current block
        self._first = 0

    def add(self, line: int, inputs: str, targets: str) -> None:
        """Adds the next pair; `line` counts from 1."""
        self._first = self._first or line
        of_inputs, of_targets = self._lengths
        of_inputs.append(len(inputs))
        of_targets.append(len(targets))
        if len(of_inputs) == BLOCK:
            import statistics  # 10 ms, which listings and --help do not need

            if min(map(statistics.pstdev, self._lengths)) > 2:  # otherwise the correlation is meaningless
                self._blocks.append((self._first, line, statistics.correlation(of_inputs, of_targets)))
            self._lengths, self._first = ([], []), 0

    def stretches(self) -> list[Stretch]:
        """Returns the stretches whose sides do not seem to correspond; [] if there is too little text to judge."""
        if len(self._blocks) < 2:
            return []
        import statistics

        together = [correlation for _, _, correlation in self._blocks if correlation >= APART]
        if len(together) <= BY_CHANCE * len(self._blocks):
            together = []
        elif statistics.median(together) < ALIGNED:
            return []
        apart: list[Stretch] = []
        for first, last, correlation in self._blocks:
            if together and correlation >= APART:
                continue
            if apart and first - apart[-1].last <= BLOCK:  # the next block, possibly after dropped lines
                apart[-1] = Stretch(apart[-1].first, last)
            else:
                apart.append(Stretch(first, last))
        return apart


# Up to this number, distinct pairs are counted exactly; above it, the number is estimated from a random subset.
MAX_HASHES = 2**18
HASHED_CHARACTERS = 2000
MAX_JUDGED = 10_000  # maximum number of pairs whose direction is judged
# The swapped order must be more likely by this margin, in nats per trigram. None of Multi30k's 29,000 pairs reaches
# half of it.
SWAPPED_MARGIN = 0.3
_LINES = 5  # number of example lines to show
REPEATED = "a repeated pair"
ENTITY, TAG = "an HTML entity, such as &amp;", "an HTML or XML tag, such as <br>"
INVISIBLE = "an invisible character (U+200B, U+2060 or U+FEFF)"
# What is left of web pages: for each kind, the function that returns the first in a text.
_MARKUP = {ENTITY: find_entity, TAG: find_tag, INVISIBLE: find_invisible}


@dataclass
class Finding:
    kind: str  # a description of the defect
    dropped: bool  # whether pairs with the defect are dropped
    count: int = 0  # number of pairs with the defect
    lines: list[int] = field(default_factory=list)  # the line numbers of the first such pairs, from 1
    is_estimate: bool = False  # whether the count is estimated from a sample
    of: int | None = None  # number of pairs checked, if not all pairs in the training text
    example: str = ""  # what the first of these pairs has, if the description does not say it

    def note(self, line: int, example: str = "") -> None:
        self.count += 1
        self.example = self.example or example
        if len(self.lines) < _LINES:
            self.lines.append(line)


class TextChecks:
    """Checks the pairs of a training text one by one, and compares them with dev and test.

    `splits` maps "dev" and "test" to their pairs, if they have their own files. `symbols` are those of the sources, see
    `without_tags`. `words` has for each side a histogram of the number of words per usable text. `reversed_splits` are
    the splits in which most pairs seem to have the opposite direction.
    """

    def __init__(
        self, splits: Mapping[str, Iterable[Example]] = types.MappingProxyType({}), symbols: tuple[str, ...] = ()
    ) -> None:
        self.pairs = 0
        self._symbols = symbols
        self.lines = dict.fromkeys(Example._fields, 0)
        self.words: dict[str, collections.Counter[int]] = {side: collections.Counter() for side in Example._fields}
        self._dropped: dict[str, Finding] = {}
        self._identical = Finding("both sides are the same", dropped=False)
        self._distinct = _DistinctCount()
        self._swapped = Finding("the sides seem to be swapped", dropped=False)
        self._more_columns = Finding("more than two columns: the first two are used", dropped=False)
        self._markup = {kind: Finding(kind, dropped=False) for kind in _MARKUP}
        self._alignment = LineAlignment()
        self._others = {split: _Split(split, pairs, symbols) for split, pairs in splits.items()}
        self.reversed_splits: list[str] = []

    def add(self, pair: Example, drop_reason: str | None) -> None:
        self.pairs += 1
        if isinstance(pair.targets, WithMore):
            self._more_columns.note(self.pairs)
        if drop_reason:
            for side, text in zip(Example._fields, pair):
                self.lines[side] += not isinstance(text, Unusable) or "not have" not in text
            self._dropped.setdefault(drop_reason, Finding(drop_reason, dropped=True)).note(self.pairs)
            return
        inputs, targets = pair
        self.lines["inputs"] += 1
        self.lines["targets"] += 1
        self.words["inputs"][len(inputs.split())] += 1
        self.words["targets"][len(targets.split())] += 1
        if inputs.strip() == targets.strip():
            self._identical.note(self.pairs)
        for kind, find in _MARKUP.items():
            if found := find(inputs) or find(targets):
                self._markup[kind].note(self.pairs, found)
        self._alignment.add(self.pairs, inputs, targets)
        self._distinct.add(self.pairs, pair)
        source = text_hash(without_tags(inputs, self._symbols)) if self._others else 0
        for other in self._others.values():
            if source in other.sources:
                other.overlap.note(self.pairs)

    def judge_directions(self, numbered: Sequence[tuple[int, Example]]) -> None:
        """Looks for swapped sides in a random sample of the training pairs, given as (number from 1, pair)."""
        # Drawn at random, because the sample may be in text order.
        judged = sorted(random.Random(MAX_JUDGED).sample(list(numbered), min(len(numbered), MAX_JUDGED)))
        usual = Usual(pair for _, pair in judged)
        for number in swapped(judged, usual):
            self._swapped.note(number)
        for split, other in self._others.items() if judged else ():
            for number in swapped(other.judged, usual, own=False):
                other.swapped.note(number)
            if 2 * other.swapped.count > len(other.judged):
                self.reversed_splits.append(split)
        kept = sum(self.words["inputs"].values())
        if judged and len(judged) < kept:
            self._swapped.count = round(self._swapped.count * kept / len(judged))
            self._swapped.is_estimate = True

    def findings(self) -> list[Finding]:
        """Returns one finding of each kind, drop reasons first, including kinds without pairs."""
        kept = sum(self.words["inputs"].values())
        repeated = Finding(
            REPEATED,
            dropped=False,
            count=max(0, kept - self._distinct.estimate()),
            lines=self._distinct.repeated_lines,
            is_estimate=not self._distinct.is_exact,
        )
        findings = [*self._dropped.values()]
        if REPEATED not in self._dropped:  # otherwise duplicates are dropped and already listed
            findings.append(repeated)
        findings += [self._identical, self._swapped]
        findings += [each.overlap for each in self._others.values() if each.overlap.kind not in self._dropped]
        # Rare defects are listed only if they occur.
        rare = [self._more_columns, *self._markup.values(), *(each.swapped for each in self._others.values())]
        return findings + [each for each in rare if each.count]

    def stretches_apart(self) -> list[Stretch]:
        return self._alignment.stretches()

    @property
    def dropped(self) -> int:
        return sum(each.count for each in self._dropped.values())

    def drop_reasons(self) -> str:
        """Returns the drop reasons with their counts: "3 (a line without a tab)"."""
        return ", ".join(f"{each.count:,} ({each.kind})" for each in self._dropped.values())


class _Split:
    """The part of a dev or test split to compare with the training text."""

    def __init__(self, name: str, pairs: Iterable[Example], symbols: tuple[str, ...]) -> None:
        self.sources: set[int] = set()
        self.judged: list[tuple[int, Example]] = []
        for number, pair in enumerate(pairs, start=1):
            if any(isinstance(side, Unusable) for side in pair):
                continue
            self.sources.add(text_hash(without_tags(pair.inputs, symbols)))
            if len(self.judged) < MAX_JUDGED:
                self.judged.append((number, Example(*(side[:HASHED_CHARACTERS] for side in pair))))
        self.overlap = Finding(in_split(name), dropped=False)
        self.swapped = Finding(f"in {name}, the sides seem to be swapped", dropped=False, of=len(self.judged))


def in_split(split: str) -> str:
    return f"its source is also in {split}"


def without_tags(text: str, symbols: tuple[str, ...]) -> str:
    """Returns a source without the tags before it, which are symbols of its vocabulary.

    Sources are compared in this form, because the same sentence with another tag is still the same source. A text that
    has only tags stays as it is.
    """
    pattern = _tags(symbols)
    return pattern.sub("", text, count=1) if pattern else text


@functools.lru_cache
def _tags(symbols: tuple[str, ...]) -> re.Pattern[str] | None:
    longest_first = sorted(filter(str.strip, symbols), key=len, reverse=True)
    # A symbol that is a word is not the start of a longer word.
    tag = rf"(?:{'|'.join(map(re.escape, longest_first))})(?:\s+|(?<=\W))"
    return re.compile(rf"\A(?:{tag})+(?=\S)") if longest_first else None


class _DistinctCount:
    """Counts distinct pairs. Large numbers are estimated from pairs whose hash ends in zeros (Flajolet 1990)."""

    def __init__(self) -> None:
        self._hashes: set[int] = set()
        self._mask = 0
        self.repeated_lines: list[int] = []

    @property
    def is_exact(self) -> bool:
        return self._mask == 0

    def add(self, line: int, pair: Example) -> None:
        number = pair_hash(pair)
        if number & self._mask:
            return
        if number in self._hashes:
            if len(self.repeated_lines) < _LINES:
                self.repeated_lines.append(line)
            return
        self._hashes.add(number)
        while len(self._hashes) > MAX_HASHES:
            self._mask = 2 * self._mask + 1
            self._hashes = {each for each in self._hashes if not each & self._mask}

    def estimate(self) -> int:
        return len(self._hashes) * (self._mask + 1)


@functools.lru_cache(maxsize=1)  # the same pair is often hashed twice in a row
def pair_hash(pair: Example) -> int:
    """Returns a stable hash of HASHED_CHARACTERS of each text, because a sample keeps no more."""
    return text_hash(f"{pair.inputs[:HASHED_CHARACTERS]}\x1f{pair.targets[:HASHED_CHARACTERS]}")


def text_hash(text: str) -> int:
    """Returns a 64-bit hash of a text that is stable across processes."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


class Usual:
    """The trigram counts of each side in a set of pairs."""

    def __init__(self, pairs: Iterable[Example]) -> None:
        self.counts: list[collections.Counter[str]] = [collections.Counter(), collections.Counter()]
        for pair in pairs:
            for count, text in zip(self.counts, pair):
                count.update(_trigrams(text))
        self.totals = [count.total() + 1 for count in self.counts]


def swapped(numbered: Sequence[tuple[int, Example]], usual: Usual | None = None, own: bool = True) -> list[int]:
    """Returns the numbers of the pairs whose sides seem to be swapped, judged by character trigrams.

    `numbered` contains (number, pair). `usual` has the trigram counts of each side; None: they are counted in the given
    pairs. If the counts include the given pairs (`own`), a pair's trigrams are subtracted before it is judged, so that
    it is not evidence for itself.
    """
    usual, swapped_numbers = usual or Usual(pair for _, pair in numbered), []
    for number, pair in numbered:
        sides = [collections.Counter(_trigrams(text)) for text in pair]  # recomputed to save memory
        evidence = sum(
            sign * times * _log_odds(trigram, sides if own else _NOTHING, usual)
            for sign, side in zip((1, -1), sides)
            for trigram, times in side.items()
        )
        if evidence < -SWAPPED_MARGIN * (sides[0].total() + sides[1].total()):
            swapped_numbers.append(number)
    return swapped_numbers


_NOTHING: tuple[collections.Counter[str], ...] = (collections.Counter(), collections.Counter())


def _log_odds(trigram: str, sides: Sequence[collections.Counter[str]], usual: Usual) -> float:
    first, second = (
        (count[trigram] - side[trigram] + 0.5) / total for count, side, total in zip(usual.counts, sides, usual.totals)
    )
    return math.log(first / second)


def _trigrams(text: str) -> Iterator[str]:
    text = f" {text.lower()} "
    return (text[place : place + 3] for place in range(len(text) - 2))
