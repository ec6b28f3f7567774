"""Mixtures: problems that combine other problems, by weight or by size."""

import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from t2t_lite.data.problem import SPLITS, AnySource, Example, Problem, get_problem
from t2t_lite.data.text_files import REPEATED, in_split, text_hash, without_tags
from t2t_lite.errors import UserError
from t2t_lite.files import one_line
from t2t_lite.options import parse_switch

_EXAMPLES = 10  # number of dropped pairs to report for each reason
_BLOCK = 1000  # number of pairs within which the parts are interleaved
# Weights that exceed one of these are refused: how often a part is repeated, and the ratio of an epoch's pairs to those
# that there are. Such weights are usually a mistake, and the data would take hours and fill the disk.
_MAX_REPEATS, _MAX_GROWTH = 100, 20


@dataclass(frozen=True)
class Part:
    """One problem in a mixture.

    Args:
      problem: the problem's name; "x_rev" swaps its sides.
      weight: its share of the training pairs, relative to the weights of the other parts; 0: its size decides.
      tag: a token to put before each source sentence, such as "<2de>"; a space follows it.
      splits: the splits that it contributes to; a corpus of back-translations contributes only to "train".
      options: values of the problem's flags, as pairs.
      name: what messages call it; "": the problem's name.
    """

    problem: str
    weight: float = 0.0
    tag: str = ""
    splits: tuple[str, ...] = SPLITS
    options: tuple[tuple[str, str], ...] = ()
    name: str = ""


class Mixture(Problem):
    """A problem with the pairs of several problems. Subclass it, set `parts`, and register it.

    If the mixture has a flag of one of its parts, it passes the value on to that part.

    Either no part has a weight and every pair is used once, or all parts have weights. With weights, every pair is used
    at least once, and parts that are too small for their share are repeated. dev and test contain the pairs of each
    part once, one part after the other. The same call always yields the same pairs in the same order.
    """

    parts: tuple[Part, ...] = ()
    # Whether weights may repeat a part over 100 times, or make an epoch over 20 times as long as all parts together.
    allow_repeats: bool = False
    flags = {
        "allow_repeats": f"allow weights that repeat a part over {_MAX_REPEATS} times or make an epoch over "
        f"{_MAX_GROWTH} times as long as the parts"
    }
    switches = frozenset(flags)

    def __init__(self, is_reversed: bool = False, **options: str) -> None:
        if "allow_repeats" in options:  # not kept, because it does not affect the data
            self.allow_repeats = parse_switch("allow_repeats", options.pop("allow_repeats"))
        super().__init__(is_reversed, **options)
        if is_reversed and any(part.tag for part in self.parts):
            raise UserError(
                f"'{self.data_name}' cannot be reversed, because the tags of its sources would be in the targets"
            )
        weights = [part.weight for part in self.parts]
        if len(set(map(bool, weights))) > 1 or not all(0 <= weight <= sys.float_info.max for weight in weights):
            raise UserError(f"'{self.data_name}': set a weight above 0 for all parts or for none")
        self._drops = parse_switch("drop_duplicates", self.options.get("drop_duplicates", "False"))
        self._sizes: dict[int, int] = {}
        # What was dropped of each part: by reason, the number of pairs and the first of them.
        self.dropped: dict[int, dict[str, tuple[int, list[Example]]]] = {}
        self._seen: set[int] = set()  # hashes of all training pairs
        self._repeated: dict[int, set[int]] = {}  # by part, the places of pairs that `drop_duplicates` drops
        self._held: dict[int, str] = {}  # the hash of each source in dev and test, with the split
        self._problems: dict[Part, Problem] = {}

    @property
    def symbols(self) -> tuple[str, ...]:
        tags = [part.tag for part in self.parts if part.tag]
        return tuple(dict.fromkeys([*tags, *(symbol for part in self.parts for symbol in self._problem(part).symbols)]))

    @property
    def sources(self) -> tuple[AnySource, ...]:
        return tuple(dict.fromkeys(source for part in self.parts for source in self._problem(part).sources))

    def examples(self, split: str, files: Mapping[str, Path]) -> Iterator[Example]:
        parts = [number for number, part in enumerate(self.parts) if split in part.splits]
        if split != "train":
            for number in parts:
                yield from self._pairs(number, split, files)
            return
        sizes, wanted = self._train_counts(parts, files)
        streams = [self._times(number, count, size, files) for number, count, size in zip(parts, wanted, sizes)]
        total, taken = sum(wanted), [0] * len(wanted)
        for done in range(0, total, _BLOCK):
            share = min(1.0, (done + _BLOCK) / total)
            for place, stream in enumerate(streams):
                due = wanted[place] if share == 1.0 else int(wanted[place] * share)
                for _ in range(due - taken[place]):
                    yield next(stream)
                taken[place] = due

    def _train_counts(self, parts: list[int], files: Mapping[str, Path]) -> tuple[list[int], list[int]]:
        """Returns for some parts (the number of train pairs that each has, the number that an epoch has of each)."""
        sizes = [self._size(number, files) for number in parts]
        self._seen.clear()  # some 100 bytes for each pair
        weights = [self.parts[number].weight for number in parts]
        # The part with the largest ratio of size to weight is read once.
        once = max(size / weight for size, weight in zip(sizes, weights)) if any(weights) else 0
        if not math.isfinite(once * max(weights, default=0)):
            raise UserError(f"'{self.data_name}': the weights are too different: {max(weights):g} and {min(weights):g}")
        return sizes, [round(once * weight) for weight in weights] if once else sizes

    def check_corpus(self, files: Mapping[str, Path], say: Callable[[str], None]) -> None:
        """Says how many pairs of each part an epoch has, and refuses too many repeats unless `allow_repeats`."""
        if not (parts := [number for number, part in enumerate(self.parts) if "train" in part.splits]):
            return
        sizes, wanted = self._train_counts(parts, files)
        repeats = [count / size for count, size in zip(wanted, sizes)]
        names = [self._name(number) for number in parts]
        for name, size, count, times in zip(names, sizes, wanted, repeats):
            how = "each once" if count == size else f"each {times:,.1f} times, {count:,} in all"
            say(f"{name}: {size:,} train pairs, {how}")
        for number, dropped in self.dropped.items():
            if counts := ", ".join(f"{count:,} ({why})" for why, (count, _) in dropped.items()):
                say(f"{self._name(number)}: dropped: {counts}")
        total, growth = sum(wanted), sum(wanted) / sum(sizes)
        if any(self.parts[number].weight for number in parts):
            say(f"an epoch has {total:,} pairs, {growth:,.1f} times as many as the parts")
        if self.allow_repeats or (max(repeats) <= _MAX_REPEATS and growth <= _MAX_GROWTH):
            return
        allow = "`allow_repeats`" if "allow_repeats" in self.flags else "allow_repeats = True in its class"
        raise UserError(
            f"'{self.data_name}': the weights would repeat {names[repeats.index(max(repeats))]} {max(repeats):,.1f} "
            f"times, in an epoch of {total:,} pairs, {growth:,.1f} times as many as the parts; use weights that are "
            f"less different (at most {_MAX_REPEATS} and {_MAX_GROWTH} times), or allow it with {allow}"
        )

    def drop_report(self) -> str:
        lines = [f"# {self.data_name}: what was dropped of the training text"]
        for number, dropped in self.dropped.items():
            lines += ["", f"## {self._name(number)}", "", f"{self._sizes.get(number, 0):,} pairs are left."]
            for why, (count, first) in dropped.items():
                lines += ["", f"{count:,}: {why}", "", *("    " + " | ".join(map(one_line, pair)) for pair in first)]
        return "\n".join(lines) + "\n" if any(self.dropped.values()) else ""

    def check_options(self) -> None:
        super().check_options()
        for number, part in enumerate(self.parts):
            if part.tag != " ".join(part.tag.split()):
                raise UserError(
                    f"{self._name(number)}: the tag {part.tag!r} begins or ends with white space, or has more than one "
                    f"blank between words; remove it"
                )

    def notes(self, files: Mapping[str, Path]) -> list[str]:
        notes = []
        for number, part in enumerate(self.parts):
            notes += [f"{self._name(number)}: {note}" for note in self._problem(part).notes(files)]
        return notes

    def keep_streams(self, tmp_dir: Path) -> None:
        for part in self.parts:
            self._problem(part).keep_streams(tmp_dir)

    def _name(self, number: int) -> str:
        return self.parts[number].name or self.parts[number].problem

    def _problem(self, part: Part) -> Problem:
        if part not in self._problems:
            flags = get_problem(part.problem).flags.keys() - {"drop_duplicates"}  # the mixture itself does that
            options = {name: value for name, value in self.options.items() if name in flags} | dict(part.options)
            problem = self._problems[part] = get_problem(part.problem, **options)
            problem.train_only = part.splits == SPLITS[:1]
            if problem.has_inputs != self.has_inputs:
                raise UserError(
                    f"'{self.data_name}': has_inputs is {self.has_inputs}, but differs in its part '{problem.name}'; "
                    f"combine only parts with the same has_inputs"
                )
        self._problems[part].tmp_dir = self.tmp_dir
        return self._problems[part]

    def _size(self, number: int, files: Mapping[str, Path]) -> int:
        """Returns how many training pairs a part has. Notes what is dropped of it."""
        if number not in self._sizes:
            self._note_held(files)
            dropped, size = self.dropped.setdefault(number, {}), 0
            repeated = self._repeated[number] = set[int]()
            for place, (pair, why) in enumerate(self._judged(number, "train", files)):
                if not why and self._drops and (why := self._repeated_before(pair)):
                    repeated.add(place)
                size += not why
                if why:
                    count, first = dropped.get(why, (0, []))
                    dropped[why] = count + 1, [*first, pair] if len(first) < _EXAMPLES else first
            self._sizes[number] = size
            if not size:
                raise UserError(
                    f"'{self.data_name}': the part '{self._name(number)}' has no train examples; check its sources"
                )
        return self._sizes[number]

    def _note_held(self, files: Mapping[str, Path]) -> None:
        for split in SPLITS[1:] if self._drops and not self._held else ():
            for number, part in enumerate(self.parts):
                if split in part.splits:
                    for pair, why in self._judged(number, split, files):
                        if not why:
                            self._held[text_hash(without_tags(pair.inputs, self.symbols))] = split

    def _repeated_before(self, pair: Example) -> str:
        if split := self._held.get(text_hash(without_tags(pair.inputs, self.symbols))):
            return in_split(split)
        number = text_hash(f"{pair.inputs}\x1f{pair.targets}")
        is_repeated = number in self._seen
        self._seen.add(number)
        return REPEATED if is_repeated else ""

    def _judged(self, number: int, split: str, files: Mapping[str, Path]) -> Iterator[tuple[Example, str]]:
        """Yields the pairs of a part, each with the reason why the part drops it, or ""."""
        part = self.parts[number]
        problem = self._problem(part)
        before = f"{part.tag} " if part.tag else ""
        for pair in problem.examples(split, files):
            why = problem.drop_reason(split, pair)
            inputs, targets = problem.in_direction(pair)
            yield Example(before + inputs, targets) if not why else pair, why or ""

    def _pairs(self, number: int, split: str, files: Mapping[str, Path]) -> Iterator[Example]:
        left_out = self._repeated.get(number, ()) if split == "train" else ()
        for place, (pair, why) in enumerate(self._judged(number, split, files)):
            if not why and place not in left_out:
                yield pair

    def _times(self, number: int, wanted: int, size: int, files: Mapping[str, Path]) -> Iterator[Example]:
        """Yields `wanted` pairs of a part: full passes over all pairs, then a random subset for the rest."""
        for _ in range(wanted // size):
            yield from self._pairs(number, "train", files)
        needed, left = wanted % size, size
        generator = random.Random(f"{self.data_name} {number}")
        if not needed:
            return
        for pair in self._pairs(number, "train", files):
            # Selection sampling: takes exactly `needed` pairs (Knuth, volume 2, algorithm S).
            if generator.random() * left < needed:
                needed -= 1
                yield pair
            left -= 1
