"""A problem for the user's own text: one file per side with one sentence per line, or tab-separated files."""

import collections
import contextlib
import functools
import glob
import heapq
import itertools
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from t2t_lite.data.generation.corpora import FILES
from t2t_lite.data.problem import (
    LANGUAGES_OPTION,
    SPLITS,
    Corpus,
    Example,
    OwnFile,
    Problem,
    Unusable,
    joined_languages,
)
from t2t_lite.data.text_files import (
    COMPARED_CHARACTERS,
    REPEATED,
    in_split,
    read_any_parallel,
    read_tsv,
    text_hash,
    without_tags,
)
from t2t_lite.errors import UserError
from t2t_lite.files import absolute_paths, file_sha256, make_folder, partial_path, split_paths
from t2t_lite.options import parse_switch
from t2t_lite.registry import PROBLEMS
from t2t_lite.system.installed import check_installed

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_NUMBERS = {"max_characters": 2000, "max_ratio": 5, "held_out": 0, "split_seed": 1}
_NUMBERS |= dict.fromkeys(("max_words", "min_words", "first", "sample"), 0)
_SWITCHES = ("drop_duplicates", "allow_unequal", "drop_identical", "drop_other_numbers")
_SHARES = ("min_letters", "min_language")
# ISO 639-1
_CODES = """aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee
el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv
ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl
nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta
te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"""
_LANGUAGES = frozenset(_CODES.split())
_SHORT = 40  # the length ratio is checked only if the longer side has more characters than this
_KINDS = ("source", "target", "tsv", "corpus")
_FILES = [*map("_".join, itertools.product(SPLITS, _KINDS))]
_HELD_OUT_SHARE, _MAX_HELD_OUT = 0.05, 2000
_FILE_FLAGS = {}
for _split in SPLITS:
    _default = "" if _split == "train" else " (default: pairs held out from the training text)"
    _FILE_FLAGS |= {
        f"{_split}_source": f"the {_split} sources, one sentence per line, plain or compressed: a file, several files "
        f"separated by commas, or a pattern such as part*.en{_default}",
        f"{_split}_target": f"the translations of the {_split} sources, in the same order and the same number of files",
        f"{_split}_tsv": f"a {_split} file with SOURCE<tab>TRANSLATION on each line, instead of two files; - for "
        f"standard input",
        f"{_split}_corpus": f"a {_split} corpus, instead of files: a folder, .tmx, .tsv, .zip or .argosdata, a path or "
        f"https:// address; opus://CORPUS[/VERSION]; or mtdata:ID",
    }


class _Held(NamedTuple):
    """A pair held out from the training text, and its split. Its source is in no other split."""

    split: str
    pair: Example


@PROBLEMS.register
class TextPairs(Problem):
    """Your own text: --train_source=F --train_target=F, or --train_tsv=F; dev and test likewise, or held out."""

    vocab_size = 8000
    num_shards = 10
    checks_text = True
    flags = {
        **_FILE_FLAGS,
        "max_characters": f"drop training pairs with more characters than this on a side "
        f"(default: {_NUMBERS['max_characters']})",
        "max_ratio": f"drop training pairs with a higher length ratio than this (default: {_NUMBERS['max_ratio']})",
        "max_words": "drop training pairs with more words than this on a side (default: no limit)",
        "min_words": "drop training pairs with fewer words than this on a side",
        "min_letters": "drop training pairs with a smaller share of letters than this on a side, 0 to 1",
        "min_language": "drop training pairs with a side that is in its language with a lower probability than this, 0 "
        "to 1, by py3langid",
        "drop_identical": "drop training pairs whose sides are the same",
        "drop_other_numbers": "drop training pairs whose sides have different numbers",
        "first": "use only this many training pairs, the first ones (default: all)",
        "sample": "use only this many training pairs, chosen at random (default: all)",
        "held_out": "number of training pairs, with different sources, to hold out for each split without files "
        "(default: 5%% of all sources, at most 2000)",
        "split_seed": f"seed that selects the held-out pairs (default: {_NUMBERS['split_seed']})",
        "symbols": "texts that are always one token, separated by commas, such as tags before the sources: <2de>,<2fr>",
        **LANGUAGES_OPTION,
        "drop_duplicates": "drop repeated training pairs, and training pairs whose source is also in dev or test",
        "allow_unequal": "drop the last lines of a file that has more lines than the file of its translations",
    }
    switches = frozenset(_SWITCHES)
    file_lists = frozenset(_FILES)

    def __init__(self, is_reversed: bool = False, **options: str) -> None:
        options = {name: _whole_paths(value) if name in _FILES else value for name, value in options.items()}
        given = {name: parse_switch(name, options.pop(name, "False")) for name in _SWITCHES}
        self._drops, self._allow_unequal, self._drops_identical, self._drops_numbers = given.values()
        super().__init__(is_reversed, **options)
        numbers = {name: options.get(name, default) for name, default in _NUMBERS.items()}
        for name, value in numbers.items():
            if not re.fullmatch("[0-9]{1,9}", str(value)):
                raise UserError(f"`{name}` takes a whole number, not '{value}'", status=2)
        self._numbers = {name: int(value) for name, value in numbers.items()}
        self._shares = {name: _share(name, options[name]) for name in _SHARES if name in options}
        self.options = {
            name: value for name, value in options.items() if self._numbers.get(name) != _NUMBERS.get(name, "")
        }
        self.options |= {name: "True" for name, is_on in given.items() if is_on}
        self._symbols = tuple(filter(None, map(str.strip, options.get("symbols", "").split(","))))
        self._held_out: dict[int, _Held] | None = None
        for split in SPLITS:
            source, target, tsv = (f"{split}_{kind}" in self.options for kind in ("source", "target", "tsv"))
            if source != target:
                has, lacks = ("source", "target") if source else ("target", "source")
                raise UserError(f"`{split}_{has}` needs `{split}_{lacks}`; pass both", status=2)
            if source and tsv:
                raise UserError(f"`{split}_tsv` has both sides; remove `{split}_source` and `{split}_target`", status=2)
            if f"{split}_corpus" in self.options and (source or tsv):
                raise UserError(f"`{split}_corpus` has both sides; remove the other files of {split}", status=2)

    def usual_languages(self) -> str:
        """Returns the languages by the endings of the training files, such as "en-de" for train.en and train.de."""
        of_sides = []
        for side in ("source", "target"):
            names = [Path(path).name for path in split_paths(self.options.get(f"train_{side}", ""))]
            endings = {re.sub(r"\.(gz|bz2|xz)$", "", name).rpartition(".")[2] for name in names}
            ending = endings.pop() if len(endings) == 1 else ""
            is_code = re.fullmatch(r"..([-_]([A-Za-z]{2}|[A-Za-z]{4}|[0-9]{3}))?", ending)  # en, pt_BR, zh-Hans, es-419
            of_sides.append(ending.replace("_", "-") if is_code and ending[:2] in _LANGUAGES else "")
        return joined_languages(*of_sides)

    @property
    def symbols(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The texts given by --symbols, each of which is one token."""
        return self._symbols

    def check_options(self) -> None:
        """Raises UserError if there is no training text."""
        if not {"train_source", "train_tsv", "train_corpus"} & self.options.keys():
            raise _needs_text()

    @property
    def sources(self) -> tuple[OwnFile | Corpus, ...]:
        """The files and corpora given by flags."""
        given = [name for name in _FILES if name in self.options and not name.endswith("_corpus")]
        files = dict.fromkeys(file for name in given for file in self._files(name))
        corpora = (corpus for split in SPLITS for corpus in self._corpora(split))
        return (*map(OwnFile, files), *dict.fromkeys(corpora))

    def _corpora(self, split: str) -> list[Corpus]:
        addresses = split_paths(self.options.get(f"{split}_corpus", ""))
        languages = self.options.get("languages") or joined_languages(self.source_language, self.target_language)
        return [Corpus(address, languages) for address in addresses if address]

    def separate_splits(self) -> tuple[str, ...]:
        """Returns the splits that have their own files."""
        own = {split for split, kind in itertools.product(SPLITS, _KINDS) if f"{split}_{kind}" in self.options}
        return tuple(split for split in SPLITS[1:] if split in own)

    def keep_streams(self, tmp_dir: Path) -> None:
        """Copies standard input and pipes to files in `tmp_dir`."""
        for name in (name for name in _FILES if name in self.options and not name.endswith("_corpus")):
            stream = Path(self.options[name])
            if not os.path.exists(stream) or stream.is_dir():  # the path of a long list is too long
                continue
            if stream.is_file():
                if stream.is_relative_to("/dev"):  # standard input redirected from a file: use the file's path
                    self.options[name] = str(stream.resolve())
                continue
            make_folder(tmp_dir, "`tmp_dir`")
            copied = partial_path(Path(tmp_dir).absolute() / name)
            with open(stream, "rb") as source, open(copied, "wb") as copy:
                shutil.copyfileobj(source, copy)
            # Named after its content, so that a different text does not replace it.
            kept = copied.with_name(f"{name}.{file_sha256(copied)[:12]}")
            copied.replace(kept)
            self.options[name] = str(kept)

    def notes(self, files: Mapping[str, Path]) -> list[str]:
        """Returns notes about the held-out pairs."""
        if not self._split_off():
            return []
        counts = collections.Counter(held.split for held in self._find_held_out().values())
        return [
            f"no {split} files: {counts[split]} pairs of the training text become the {split} split "
            f"(`split_seed={self._numbers['split_seed']}`); other pairs with the same sources are dropped"
            for split in self._split_off()
        ]

    def raw_pairs(self, files: Mapping[str, Path]) -> Iterator[Example]:
        """Yields all pairs in the training text, line by line."""
        return self._noting_held_out() if self._split_off() else self._read("train")

    def split_of(self, example: Example) -> str:
        """Returns the split of a pair of the training text."""
        if not self._split_off():
            return "train"
        held = self._find_held_out().get(self._hash(example))
        return held.split if held else "train"

    def examples(self, split: str, files: Mapping[str, Path]) -> Iterator[Example]:
        """Yields the pairs in a split, including unusable ones, which `drop_reason` rejects."""
        if not self._split_off() or split not in ("train", *self._split_off()):
            return self._read(split)
        if split == "train":
            return self._left_for_training()
        return (held.pair for held in self._find_held_out().values() if held.split == split)

    def _left_for_training(self) -> Iterator[Example]:
        """Yields the pairs that are not held out. Other pairs with the source of a held-out pair are `Unusable`."""
        left = dict(self._find_held_out())
        split_of_source = {number: held.split for number, held in left.items()}
        for pair in self._read("train"):
            number = self._hash(pair)
            if (split := split_of_source.get(number)) is None:
                yield pair
            elif number in left and left[number].pair == pair:
                del left[number]
            else:
                yield Example(Unusable(in_split(split)), Unusable(in_split(split)))

    def drop_reason(self, split: str, example: Example) -> str | None:
        """Returns why a pair is dropped: a side is unusable or, in train, too long or much longer than the other."""
        if (drop_reason := super().drop_reason(split, example)) or split != "train":
            return drop_reason
        shorter, longer = sorted(map(len, example))
        if longer > self._numbers["max_characters"]:
            return f"a side of more than {self._numbers['max_characters']} characters"
        if longer > _SHORT and longer > self._numbers["max_ratio"] * shorter:
            return f"one side more than {self._numbers['max_ratio']} times as long as the other"
        return self._filtered(example)

    def _filtered(self, pair: Example) -> str | None:
        """Returns why a filter drops a training pair, or None."""
        fewest, most = sorted(len(side.split()) for side in pair)
        least_words, most_words = self._numbers["min_words"], self._numbers["max_words"] or most
        letters, language = (self._shares.get(name, 0.0) for name in _SHARES)
        codes = [code.partition("-")[0].lower() for code in (self.source_language, self.target_language)]
        numbers = [sorted(re.findall(r"\d+", side)) for side in pair] if self._drops_numbers else []
        reasons = {
            f"a side of fewer than {least_words} words": fewest < least_words,
            f"a side of more than {most_words} words": most > most_words,
            "both sides are the same": self._drops_identical and pair.inputs.strip() == pair.targets.strip(),
            "different numbers on the two sides": numbers[:1] != numbers[1:],
            f"a side with less than {letters:.0%} letters": letters and min(map(_letters, pair)) < letters,
            f"a side that is less likely than {language:g} to be in its language": language
            and min(dict(_identifier().rank(side)).get(code, 1.0) for side, code in zip(pair, codes)) < language,
        }
        return next((reason for reason, is_so in reasons.items() if is_so), None)

    def _read(self, split: str, is_whole: bool = False) -> Iterator[Example]:
        """Yields the pairs in a split's files; if `is_whole`, also those that `first` and `sample` leave out.

        With --drop_duplicates, repeated training pairs and those with a source in dev or test are `Unusable`.
        """
        if corpora := self._corpora(split):
            folders = [(self.tmp_dir or Path()) / corpus.name for corpus in corpora]
            parts = [read_any_parallel(folder / FILES[0], folder / FILES[1], self._allow_unequal) for folder in folders]
        elif f"{split}_tsv" in self.options:
            parts = [read_tsv(file) for file in self._files(f"{split}_tsv")]
        elif f"{split}_source" not in self.options:
            raise _needs_text()
        else:
            sources, targets = (self._files(f"{split}_{side}") for side in ("source", "target"))
            if len(sources) != len(targets):
                raise UserError(
                    f"`{split}_source` has {len(sources)} files and `{split}_target` {len(targets)}; pass one "
                    f"file of translations for each source file, in the same order"
                )
            parts = [read_any_parallel(*files, self._allow_unequal) for files in zip(sources, targets)]
        pairs = itertools.chain.from_iterable(parts)
        if split == "train" and not is_whole:
            pairs = self._chosen(pairs)
        return self._without_repeated(pairs) if split == "train" and self._drops and not is_whole else pairs

    def _chosen(self, pairs: Iterator[Example]) -> Iterator[Example]:
        """Yields the pairs that `first` and `sample` leave."""
        first, sample = self._numbers["first"] or None, self._numbers["sample"]
        if not sample:
            yield from itertools.islice(pairs, first)
            return
        left = sum(1 for _ in itertools.islice(self._read("train", is_whole=True), first))
        random, wanted = Random(self._numbers["split_seed"]), min(sample, left)
        for pair in itertools.islice(pairs, first):
            # Selection sampling (Knuth, volume 2, algorithm S).
            if random.random() * left < wanted:
                wanted -= 1
                yield pair
            left -= 1

    def _files(self, name: str) -> list[Path]:
        """Returns the files that match the comma-separated paths and patterns of a flag."""
        files = []
        for path in split_paths(self.options[name]):
            # A file name may contain brackets. Keep a pattern without a match as a path, so that the error names it.
            matching = [] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
            files += map(Path, matching or [path])
        for file in files:
            if file.is_file() and not file.stat().st_size:
                raise UserError(f"`{name}`: {file} is empty; pass a file with one sentence per line")
        return files

    def _without_repeated(self, pairs: Iterator[Example]) -> Iterator[Example]:
        others = {
            split: {text_hash(without_tags(pair.inputs, self._symbols)) for pair in self._read(split)}
            for split in reversed(self.separate_splits())
        }
        seen: set[int] = set()
        for pair in pairs:
            why = None
            if not Problem.drop_reason(self, "train", pair):
                number = text_hash(f"{pair.inputs}\x1f{pair.targets}")
                why = REPEATED if number in seen else None
                seen.add(number)
                source = text_hash(without_tags(pair.inputs, self._symbols))
                why = next((in_split(split) for split, hashes in others.items() if source in hashes), why)
            yield Example(Unusable(why), Unusable(why)) if why else pair

    def _split_off(self) -> list[str]:
        """Returns the splits without files, which are held out from the training text."""
        return [] if self.train_only else [split for split in SPLITS[1:] if split not in self.separate_splits()]

    def _hash(self, pair: Example) -> int:
        """Returns a hash of a pair's source, because all pairs with the same source must be in one split."""
        # Multiplying by an odd number permutes the 64-bit numbers. The constant is Knuth's, 2**64 / golden ratio.
        return (
            text_hash(without_tags(pair.inputs[:COMPARED_CHARACTERS], self._symbols))
            * (2 * self._numbers["split_seed"] * 0x9E3779B97F4A7C15 + 1)
            % 2**64
        )

    def _find_held_out(self) -> dict[int, _Held]:
        if self._held_out is None:
            collections.deque(self._noting_held_out(), maxlen=0)
        assert self._held_out is not None  # set at the end of the text
        return self._held_out

    def _noting_held_out(self) -> Iterator[Example]:
        """Yields all training pairs. At the end, holds out the pairs whose sources have the lowest hashes."""
        splits, usable, drop_reasons = self._split_off(), 0, collections.Counter()
        taken = {self._hash(pair) for split in self.separate_splits() for pair in self._read(split)}
        most = (self._numbers["held_out"] or _MAX_HELD_OUT) * len(splits)
        lowest: dict[int, tuple[int, Example]] = {}
        shared: set[int] = set()  # the hashes of sources that are also in a split with files
        highest_first: list[int] = []  # a heap of the negated hashes
        is_complete = True
        for line, pair in enumerate(self._read("train"), start=1):
            yield pair
            if drop_reason := self.drop_reason("train", pair):
                drop_reasons[drop_reason] += 1
                continue
            usable += 1
            if (number := self._hash(pair)) in taken:
                shared.add(number)
                continue
            if number in lowest or (not is_complete and number > -highest_first[0]):
                continue
            lowest[number] = (line, pair)
            heapq.heappush(highest_first, -number)
            if len(lowest) > most:
                is_complete = False
                del lowest[-heapq.heappop(highest_first)]
        # Estimate the number of sources from the highest of the kept hashes (Bar-Yossef et al. 2002).
        sources = len(lowest) if is_complete else min(usable, most * 2**64 // -highest_first[0])
        each = self._numbers["held_out"] or max(1, min(_MAX_HELD_OUT, int(sources * _HELD_OUT_SHARE)))
        if is_complete and len(splits) * each >= sources:
            counts = ", ".join(f"{count:,} ({drop_reason})" for drop_reason, count in drop_reasons.items())
            found = f"the training text has {usable} usable pairs{f' (dropped: {counts})' if counts else ''} with "
            where, way_out = f"for {' and '.join(splits)}", f"pass `{splits[0]}_source` and `{splits[0]}_target`"
            if len(shared) > sources:
                (other,) = self.separate_splits()  # at least one split is held out
                raise UserError(
                    f"{found}{len(shared) + sources} different sources, but {len(shared)} of them are also in {other}, "
                    f"which leaves too few to hold out {each} {where}; use a {other} file with other sentences, "
                    f"or {way_out}"
                )
            raise UserError(
                f"{found}{sources} different sources, too few to hold out {each} each {where}; {way_out}, "
                f"or a smaller `held_out`"
            )
        ranked = sorted(lowest)[: len(splits) * each]
        held_out = [(*lowest[number], splits[rank // each], number) for rank, number in enumerate(ranked)]
        self._held_out = {number: _Held(split, pair) for _, pair, split, number in sorted(held_out)}


def _needs_text() -> UserError:
    return UserError(
        "problem 'text_pairs' needs your text; pass `train_source=FILE` and `train_target=FILE`, `train_tsv=FILE` or "
        "`train_corpus=ADDRESS`",
        status=2,
    )


def _whole_paths(value: str) -> str:
    """Returns comma-separated paths, patterns or addresses, with absolute paths; "-" becomes standard input.

    They must be absolute, because the manifest records them and workers on other machines read them.
    """
    parts = [each if not Corpus(each).is_local else absolute_paths(each) for each in split_paths(value)]
    return "/dev/stdin" if value == "-" else ",".join(parts)


def _share(name: str, text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 <= (share := float(text)) <= 1:
            return share
    raise UserError(f"`{name}` takes a number from 0 to 1, not '{text}'", status=2)


def _letters(text: str) -> float:
    """Returns the share of letters among the characters of a text, without blanks."""
    characters = "".join(text.split())
    return sum(map(str.isalpha, characters)) / max(1, len(characters))


@functools.cache
def _identifier() -> "LanguageIdentifier":
    check_installed("`min_language`", {"py3langid": "py3langid"}, "corpora")
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
