"""Constituency parsing: sentences in, trees out (section 6.3 of the paper), of the Wall Street Journal or any treebank.

The inputs are a sentence's words with blanks between them, the targets its tree; what the model learns to write are
the tree's symbols, see `t2t_lite.trees.linear`. Treebanks are licensed, so none is fetched: they are given as files.
"""

import bisect
import collections
import itertools
import random
from collections.abc import Iterator
from pathlib import Path

from t2t_lite.config import DecodeHParams
from t2t_lite.data.problem import REVERSED_SUFFIX, SPLITS, Example, OwnFile, Problem, Unusable
from t2t_lite.errors import UserError
from t2t_lite.registry import PROBLEMS
from t2t_lite.trees.linear import WORD, linearise
from t2t_lite.trees.tree import parse_brackets, words_of
from t2t_lite.trees.treebank import Malformed, read_trees, section_of, treebank_files

# Sections of the Wall Street Journal, as everyone divides them.
SECTIONS = {"train": range(2, 22), "dev": (22,), "test": (23,)}
# Shares of a treebank that says nothing about its splits.
HELD_OUT_SHARE = {"dev": 0.05, "test": 0.05}
_SEED = 1
_SPLIT_NOTE = ", ".join(f"{share:.0%} of the trees to {split}" for split, share in HELD_OUT_SHARE.items())
_SPLIT_NOTE = f"by lot (seed {_SEED}), {_SPLIT_NOTE}, the others to train"
_MAX_LISTED = 20  # malformed trees that are named one by one


class Parsing(Problem):
    """What parsing problems share."""

    vocab_size = 16_000
    shared_vocabulary = False
    targets_vocab_kind = "words"
    metric = "parseval"
    decode_hparams = DecodeHParams(beam_size=21, alpha=0.3, extra_length=300)

    def __init__(self, is_reversed: bool = False, **options: str):
        if is_reversed:
            raise UserError(f"'{self.data_name}{REVERSED_SUFFIX}': a parsing problem has no other direction", status=2)
        # Whole paths: the data remembers them, and workers on other machines read them.
        super().__init__(**{flag: ",".join(_whole_paths(flag, value)) for flag, value in options.items()})
        self._malformed: dict[str, Malformed] = {}

    @property
    def sources(self):
        """All files of the treebanks."""
        return tuple(OwnFile(file) for flag in self.options for file in self._files(flag))

    def symbols_of(self, side):
        """Returns the leaf for the targets, which so is their first token, as `hard_alignment_token` has it."""
        return (WORD,) if side == "targets" else ()

    def for_model(self, example):
        """Returns the words, and the tree's symbols."""
        return Example(example.inputs, linearise(parse_brackets(example.targets)[0]))

    def notes(self, files):
        """Names the trees that cannot be read, of all splits."""
        if self.options:
            for split in SPLITS[1:]:
                collections.deque(self.examples(split, files), maxlen=0)
        found = [f"malformed tree: {each}" for each in self._malformed.values()]
        if len(found) > _MAX_LISTED:
            found[_MAX_LISTED:] = ["..."]
        return [f"{len(self._malformed)} malformed trees are left out", *found] if found else []

    def _files(self, flag: str) -> list[Path]:
        if flag not in self.options:
            return []
        found = [file for path in self.options[flag].split(",") for file in treebank_files(Path(path))]
        return list(dict.fromkeys(found))

    def _read(self, paths: list[Path]) -> Iterator[Example]:
        """Yields a pair for each tree of some files, and one that says so for each that cannot be read."""
        for path in paths:
            for tree in read_trees(path):
                if isinstance(tree, Malformed):
                    self._malformed[tree.where] = tree
                    yield Example(Unusable("a malformed tree"), Unusable("a malformed tree"))
                else:
                    yield Example(" ".join(words_of(tree)), str(tree))


@PROBLEMS.register
class WsjParsing(Parsing):
    """Penn Treebank, Wall Street Journal: --treebank=FOLDER with wsj_*.mrg; sections 02-21, 22, 23; 16,000 tokens."""

    flags = {"treebank": "folders or files with trees of the Wall Street Journal (wsj_0001.mrg), commas between them"}

    def examples(self, split, files):
        """Yields the trees of a split: by section, or by shares of all trees if sections are missing."""
        paths = self._files("treebank")
        if not paths:
            raise UserError(f"problem '{self.data_name}' needs --treebank=FOLDER, with the files wsj_*.mrg", status=2)
        if self._missing_sections():
            return _share(split, self._read(paths))
        return self._read([path for path in paths if section_of(path) in SECTIONS[split]])

    def notes(self, files):
        """Says how the treebank is divided."""
        missing = self._missing_sections()
        if not missing:
            message = "splits by section: train 02-21, dev 22, test 23"
        else:
            message = f"sections {', '.join(f'{section:02}' for section in missing)} are missing: {_SPLIT_NOTE}"
        return [message, *super().notes(files)]

    def _missing_sections(self) -> list[int]:
        present = {section_of(path) for path in self._files("treebank")}
        return sorted({section for split in SPLITS for section in SECTIONS[split]} - present)


@PROBLEMS.register
class TreebankParsing(Parsing):
    """Any trees: --treebank=F to be divided, or --train_trees=F, --dev_trees=F, --test_trees=F: files or folders."""

    vocab_kind = "words"
    vocab_size = 10_000
    flags = {
        "treebank": "files or folders with trees that are divided into splits, commas between them",
        "train_trees": "files or folders with trees that are trained on, all of them",
        "dev_trees": "the trees of the dev split (default: a share of --treebank)",
        "test_trees": "the trees of the test split (default: a share of --treebank)",
    }

    def __init__(self, is_reversed: bool = False, **options: str):
        super().__init__(is_reversed, **options)
        if self.options and not {"treebank", "train_trees"} & self.options.keys():
            raise UserError(f"problem '{self.data_name}' needs --treebank=PATH or --train_trees=PATH", status=2)
        for split in SPLITS[1:]:
            if self.options and not {"treebank", f"{split}_trees"} & self.options.keys():
                raise UserError(
                    f"there are no trees for the {split} split: give --{split}_trees=PATH, or --treebank=PATH",
                    status=2,
                )

    def examples(self, split, files):
        """Yields the trees of a split: those given for it, and if there are none or it is train, its share."""
        if not self.options:
            raise UserError(f"problem '{self.data_name}' needs --treebank=PATH or --train_trees=PATH", status=2)
        yield from self._read(self._files(f"{split}_trees"))
        if split == "train" or f"{split}_trees" not in self.options:
            yield from _share(split, self._read(self._files("treebank")))

    def notes(self, files):
        """Says how --treebank is divided."""
        message = [f"--treebank is divided: {_SPLIT_NOTE}"] if "treebank" in self.options else []
        for split in HELD_OUT_SHARE if message else ():
            if f"{split}_trees" in self.options:
                message.append(f"--{split}_trees is the {split} split, and what falls to it of --treebank is left out")
        return [*message, *super().notes(files)]


def _share(split: str, pairs: Iterator[Example]) -> Iterator[Example]:
    """Yields those pairs that fall to a split by lot."""
    lots = random.Random(_SEED)
    bounds = list(itertools.accumulate(HELD_OUT_SHARE.values()))
    splits = [*HELD_OUT_SHARE, "train"]
    for pair in pairs:
        if splits[bisect.bisect(bounds, lots.random())] == split:
            yield pair


def _whole_paths(flag: str, value: str) -> list[str]:
    paths = [path.strip() for path in value.split(",")]
    if not all(paths):
        raise UserError(
            f"--{flag}={value}: a path is missing; give files or folders with commas between them", status=2
        )
    return [str(Path(path).expanduser().absolute()) for path in paths]
