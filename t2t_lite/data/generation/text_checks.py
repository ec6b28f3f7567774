"""The first pass over the training text: counts pairs, draws a random sample, and checks user text for common defects.

The checks take one pass and bounded memory.
"""

import collections
import math
import random
import re
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.entities import html5
from pathlib import Path
from typing import NamedTuple

from t2t_lite.data.problem import Example, Problem, Unusable, WithMore
from t2t_lite.data.text_files import COMPARED_CHARACTERS, REPEATED, in_split, text_hash, without_tags
from t2t_lite.display import format_duration
from t2t_lite.errors import UserError

_ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});")
# Closing tags, empty tags and tags with attributes, of HTML, XML or SGML: </seg>, <x/>, <seg id="1">.
_NAME, _VALUE = r"[A-Za-z][\w:.-]*", r"\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>]+"
_TAG = re.compile(rf"<((/?{_NAME})(?:\s+[\w:.-]+\s*=\s*(?:{_VALUE}))*\s*/?)>")
# Opening tags without attributes count only if they are HTML's, because <unk> or <de> may be symbols of the user. Names
# of HTML that are also language codes or usual symbols are left out: hr, s, td, th, tr, tt.
_NAMES = """a abbr article b big blockquote body br caption center cite code dd del div dl dt em figcaption figure font
footer form h1 h2 h3 h4 h5 h6 head header html i iframe img input ins label li link nav ol option p pre q ruby script
section select small span strike strong style sub sup table tbody tfoot thead title u ul"""
_HTML = frozenset(_NAMES.split())
# Zero-width space, word joiner and byte-order mark. Thai, Lao, Tibetan, Myanmar and Khmer, which have no spaces between
# words, may have U+200B there. U+200C and U+200D belong to Persian, to Indic scripts and to emoji.
_NO_SPACES = r"\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff"
_INVISIBLE = re.compile(rf"[\u2060\ufeff]|(?<![{_NO_SPACES}])\u200b(?![{_NO_SPACES}])")


def find_entity(text: str) -> str:
    """Returns the first HTML entity in a text, such as "&amp;"; "" if there is none."""
    if "&" not in text:
        return ""
    found = (match[0] for match in _ENTITY.finditer(text))
    return next((entity for entity in found if entity[1] == "#" or entity[1:] in html5), "")


def find_tag(text: str) -> str:
    """Returns the first tag in a text, without its attributes, such as "<br>"; "" if there is none."""
    if "<" not in text:
        return ""
    for match in _TAG.finditer(text):
        content, name = match[1].strip(), match[2]
        if content != name or name.startswith("/") or name.lower() in _HTML:
            return f"<{name}>"
    return ""


def find_invisible(text: str) -> str:
    """Returns the first invisible character in a text, such as "U+200B"; "" if there is none."""
    if not ("\u200b" in text or "\u2060" in text or "\ufeff" in text):  # much faster than the pattern
        return ""
    match = _INVISIBLE.search(text)
    return f"U+{ord(match[0]):04X}" if match else ""


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
MAX_JUDGED = 10_000  # maximum number of pairs whose direction is judged
# The swapped order must be more likely by this margin, in nats per trigram. None of Multi30k's 29,000 pairs reaches
# half of it.
SWAPPED_MARGIN = 0.3
_LINES = 5  # number of example lines to show
ENTITY, TAG = "an HTML entity, such as &amp;", "an HTML or XML tag, such as <br>"
INVISIBLE = "an invisible character (U+200B, U+2060 or U+FEFF)"
NUMBER = "the source is only a number"
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
        self._numbers = Finding(NUMBER, dropped=False)
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
        if inputs.strip().isdecimal():
            self._numbers.note(self.pairs, inputs.strip())
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
            is_estimate=self._distinct.mask > 0,
        )
        findings = [*self._dropped.values()]
        if REPEATED not in self._dropped:  # otherwise duplicates are dropped and already listed
            findings.append(repeated)
        findings += [self._identical, self._swapped]
        findings += [each.overlap for each in self._others.values() if each.overlap.kind not in self._dropped]
        # Rare defects are listed only if they occur.
        rare = [
            self._more_columns,
            *([self._numbers] if self._numbers.count == kept else []),
            *self._markup.values(),
            *(each.swapped for each in self._others.values()),
        ]
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
                self.judged.append((number, Example(*(side[:COMPARED_CHARACTERS] for side in pair))))
        self.overlap = Finding(in_split(name), dropped=False)
        self.swapped = Finding(f"in {name}, the sides seem to be swapped", dropped=False, of=len(self.judged))


class _DistinctCount:
    """Counts distinct pairs. Large numbers are estimated from pairs whose hash ends in zeros (Flajolet 1990)."""

    def __init__(self) -> None:
        self._hashes: set[int] = set()
        self.mask = 0  # the bits that are 0 in the hashes of the pairs that count; 0: all of them count
        self.repeated_lines: list[int] = []

    def add(self, line: int, pair: Example) -> None:
        number = pair_hash(pair)
        if number & self.mask:
            return
        if number in self._hashes:
            if len(self.repeated_lines) < _LINES:
                self.repeated_lines.append(line)
            return
        self._hashes.add(number)
        while len(self._hashes) > MAX_HASHES:
            self.mask = 2 * self.mask + 1
            self._hashes = {each for each in self._hashes if not each & self.mask}

    def estimate(self) -> int:
        return len(self._hashes) * (self.mask + 1)


def pair_hash(pair: Example) -> int:
    """Returns a stable hash of COMPARED_CHARACTERS of each text, because a sample keeps no more."""
    return text_hash(f"{pair.inputs[:COMPARED_CHARACTERS]}\x1f{pair.targets[:COMPARED_CHARACTERS]}")


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
        subtracted = sides if own else [collections.Counter(), collections.Counter()]
        evidence = sum(
            sign * times * _log_odds(trigram, subtracted, usual)
            for sign, side in zip((1, -1), sides)
            for trigram, times in side.items()
        )
        if evidence < -SWAPPED_MARGIN * (sides[0].total() + sides[1].total()):
            swapped_numbers.append(number)
    return swapped_numbers


def _log_odds(trigram: str, sides: Sequence[collections.Counter[str]], usual: Usual) -> float:
    first, second = (
        (count[trigram] - side[trigram] + 0.5) / total for count, side, total in zip(usual.counts, sides, usual.totals)
    )
    return math.log(first / second)


def _trigrams(text: str) -> Iterator[str]:
    text = f" {text.lower()} "
    return (text[place : place + 3] for place in range(len(text) - 2))


PROGRESS_SECONDS = 10  # between two lines


class PairProgress:
    """Reports the number of pairs at intervals. Lines start with `what`, such as "wmt_ende: train: counting"."""

    def __init__(self, what: str, say: Callable[[str], None], total: int | None = None) -> None:
        self._what, self._say, self._total = what, say, total
        self._begin = self._last_report = time.monotonic()
        self._first: int | None = None  # pairs done before the first call, excluded from the speed

    def __call__(self, done: int) -> None:
        if self._first is None:
            self._first = done
        if done % 1000 and done != self._total:
            return  # reading the clock for every pair would be slow
        now = time.monotonic()
        if now - self._last_report < PROGRESS_SECONDS:
            return
        self._last_report = now
        speed = (done - self._first) / (now - self._begin)
        of_all = f" of {self._total:,}" if self._total else ""
        left = f", {format_duration((self._total - done) / speed)} left" if self._total and speed else ""
        self._say(f"{self._what}: {done:,}{of_all} pairs, {speed:,.0f} pairs/s{left}")


# A larger sample slows down learning without improving the tokens.
SAMPLE_PAIRS = 200_000
FIRST_PAIRS = 100  # number of pairs to compare when detecting equal splits


@dataclass
class CorpusStatistics:
    pairs: int  # number of pairs, including those that the problem drops
    first_pairs: list[Example]  # the first FIRST_PAIRS pairs
    # (number from 1, pair) of all pairs kept for training, or of at most SAMPLE_PAIRS random ones
    sample: list[tuple[int, Example]]

    def texts(self, sides: Sequence[str]) -> list[str]:
        return [getattr(pair, side) for _, pair in self.sample for side in sides]


def corpus_statistics(
    problem: Problem, pairs: Iterable[Example], checks: TextChecks | None, count_pair: Callable[[int], None]
) -> CorpusStatistics:
    """Reads `pairs` once and returns their statistics, with a deterministic sample of at most SAMPLE_PAIRS pairs.

    For each pair, `count_pair` receives the number of pairs so far, and `checks` the pair. Raises a UserError if an
    element of `pairs` is not an `Example`.
    """
    generator = random.Random(SAMPLE_PAIRS)
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
        if kept <= SAMPLE_PAIRS:
            sample.append((count, *_kept(problem, pair)))
        elif (place := int(generator.random() * kept)) < SAMPLE_PAIRS:
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
    except UserError as error:
        if checks is not None and checks.pairs:
            report(checks)  # the report may show the cause
            if checks.lines["inputs"] != checks.lines["targets"] and (apart := checks.stretches_apart()):
                # Without the advice to pass `allow_unequal`, which would keep the wrong pairs.
                counts, _, rule = str(error).partition(": ")[0].partition("; ")
                raise UserError(
                    f"{counts}, and the lengths of the two sides are uncorrelated from about line {apart[0].first:,} "
                    f"on: a line may be missing before it; {rule}"
                ) from error
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
    cut, seen = pair, problem.for_model(pair)
    if max(map(len, pair)) > COMPARED_CHARACTERS:
        cut = Example(*(side[:COMPARED_CHARACTERS] for side in pair))
    if seen is pair:
        return cut, cut
    # Cut at a space, because half a symbol at the end would count as another symbol.
    return cut, Example(
        *(side if len(side) < COMPARED_CHARACTERS else side[:COMPARED_CHARACTERS].rpartition(" ")[0] for side in seen)
    )
