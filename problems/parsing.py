"""Constituency parsing (section 6.3 of the paper) on the Wall Street Journal or any other treebank.

The inputs are the words of a sentence, separated by spaces; the targets are its tree. The model learns to write the
tree as symbols, see `t2t_lite.trees.linear`. Treebanks are licensed, so the user provides the files.

Semi-supervised parsing adds trees made by other parsers. Vinyals et al. 2015 describe the corpora: the
"high-confidence" corpus, about 11 million sentences on which two parsers agreed, and the "BerkeleyParser" corpus, which
consists of other treebanks and about 7 million parsed sentences. Neither was published, so the user provides files with
trees for one or both.
"""

import bisect
import collections
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t_lite.config import DecodeHParams, HParams
from t2t_lite.data.mixture import Mixture, Part
from t2t_lite.data.problem import REVERSED_SUFFIX, SPLITS, Example, OwnFile, Problem, Unusable
from t2t_lite.errors import UserError
from t2t_lite.files import absolute_paths, split_paths
from t2t_lite.registry import PROBLEMS
from t2t_lite.trees.linear import BRACKETS, LEAVES, TAGS, WORD, linearise
from t2t_lite.trees.tree import parse_brackets, tree_words
from t2t_lite.trees.treebank import Malformed, read_trees, treebank_files, wsj_section

# The standard split of the Wall Street Journal by section.
SECTIONS = {"train": range(2, 22), "dev": (22,), "test": (23,)}
# The shares to hold out from a treebank without a standard split.
HELD_OUT_SHARE = {"dev": 0.05, "test": 0.05}
_SEED = 1
_SPLIT_NOTE = (
    f"split at random (seed {_SEED}): {HELD_OUT_SHARE['dev']:.0%} to dev, {HELD_OUT_SHARE['test']:.0%} to test, "
    f"the rest to train"
)
_MAX_LISTED = 20  # maximum number of malformed trees to list


class Parsing(Problem):
    """The base class of parsing problems."""

    vocab_size = 16_000
    shared_vocabulary = False
    normalize_whitespace = False  # a word of a treebank may contain a no-break space
    targets_vocab_kind = "words"
    metric = "parseval"
    file_lists = frozenset({"*"})  # every flag names treebanks
    tags: tuple[str, ...] = ()  # tags that the model writes in place of XX
    decode_hparams = DecodeHParams(beam_size=21, alpha=0.3, extra_length=300, min_length=0)

    def __init__(self, is_reversed: bool = False, **options: str) -> None:
        if is_reversed:
            raise UserError(
                f"'{self.data_name}{REVERSED_SUFFIX}': a parsing problem cannot be reversed; remove the suffix",
                status=2,
            )
        # Paths must be absolute, because the manifest records them and workers on other machines read them.
        super().__init__(False, **{flag: _whole_paths(flag, value) for flag, value in options.items()})
        self._malformed: dict[str, Malformed] = {}

    @property
    def sources(self) -> tuple[OwnFile, ...]:
        """The files of all treebanks."""
        return tuple(OwnFile(file) for flag in self.options for file in self._files(flag))

    def check_data(self, hparams: HParams, settings: Mapping[str, Any], vocabularies: Sequence[Path]) -> None:
        """Raises UserError also if the settings for words and brackets do not fit the target vocabulary."""
        super().check_data(hparams, settings, vocabularies)
        first, count, file = hparams.hard_alignment_token, hparams.hard_alignment_count, vocabularies[1]
        if not first:
            return
        from t2t_lite.data.vocab import open_vocabulary

        tokens = open_vocabulary(file).tokens()
        leaves = [id for id, token in enumerate(tokens) if token in LEAVES]
        if WORD in tokens and leaves != list(range(first, first + count)):
            raise UserError(
                f"hard_alignment_token={first} and hard_alignment_count={count} stand for the words of a tree, but "
                f"these are tokens {leaves[0]} to {leaves[-1]} of {file.name}; set "
                f"`hparams=hard_alignment_token={leaves[0]},hard_alignment_count={len(leaves)}`"
            )
        number, after = hparams.bracket_labels, first + count
        opening, closing = tokens[after : after + number], tokens[after + number : after + 2 * number]
        if len(closing) < number or any(
            (left[0], right[0], left[1:]) != ("(", ")", right[1:]) for left, right in zip(opening, closing)
        ):
            raise UserError(
                f"bracket_labels={number}: tokens {after} to {after + 2 * number - 1} of {file.name} are not {number} "
                f"opening brackets and the closing brackets of the same labels; use data of tagged_treebank_parsing, "
                f"or set `hparams=bracket_labels=0`"
            )

    def symbols_of(self, side: str) -> tuple[str, ...]:
        """Returns the leaf symbol for the targets, and nothing for the inputs.

        The symbol gets id 3, the first free id of the vocabulary; `transformer_parsing_small` sets
        `hard_alignment_token` to this id.
        """
        return (WORD,) if side == "targets" else ()

    def for_model(self, example: Example) -> Example:
        """Returns the words and the symbols of the tree."""
        return Example(example.inputs, linearise(parse_brackets(example.targets)[0], self.tags))

    def notes(self, files: Mapping[str, Path]) -> list[str]:
        """Returns notes about the malformed trees in all splits."""
        if self.options:
            for split in SPLITS[1:]:
                collections.deque(self.examples(split, files), maxlen=0)
        listed = [f"malformed tree: {each}" for each in self._malformed.values()]
        if len(listed) > _MAX_LISTED:
            listed[_MAX_LISTED:] = ["..."]
        return [f"malformed trees dropped: {len(self._malformed)}", *listed] if listed else []

    def _files(self, flag: str) -> list[Path]:
        if flag not in self.options:
            return []
        files = [file for path in split_paths(self.options[flag]) for file in treebank_files(Path(path))]
        return list(dict.fromkeys(files))

    def _read(self, paths: list[Path]) -> Iterator[Example]:
        """Yields a pair for each tree in the files, with `Unusable` sides if the tree is malformed."""
        for path in paths:
            for tree in read_trees(path):
                if isinstance(tree, Malformed):
                    self._malformed[tree.where] = tree
                    yield Example(Unusable("a malformed tree"), Unusable("a malformed tree"))
                else:
                    yield Example(" ".join(tree_words(tree)), str(tree))


@PROBLEMS.register
class WsjParsing(Parsing):
    """Penn Treebank, Wall Street Journal: --treebank=FOLDER with wsj_*.mrg; sections 02-21, 22, 23; 16,000 tokens."""

    flags = {"treebank": "folders or files with trees of the Wall Street Journal (wsj_*.mrg), separated by commas"}

    def examples(self, split: str, files: Mapping[str, Path]) -> Iterator[Example]:
        """Yields the trees in a split: by section, or a random share of all trees if sections are missing."""
        if not (paths := self._files("treebank")):
            raise UserError(f"problem '{self.data_name}' needs `treebank=FOLDER`, with the files wsj_*.mrg", status=2)
        if self._missing_sections():
            return _share(split, self._read(paths))
        return self._read([path for path in paths if wsj_section(path) in SECTIONS[split]])

    def notes(self, files: Mapping[str, Path]) -> list[str]:
        """Returns notes about how the treebank is split."""
        message = "the trees are split by section: train 02-21, dev 22, test 23"
        if missing := ", ".join(f"{section:02}" for section in self._missing_sections()):
            message = f"sections {missing} are missing, so the trees are {_SPLIT_NOTE}"
        return [message, *super().notes(files)]

    def _missing_sections(self) -> list[int]:
        present = {wsj_section(path) for path in self._files("treebank")}
        return sorted({section for split in SPLITS for section in SECTIONS[split]} - present)


@PROBLEMS.register
class TreebankParsing(Parsing):
    """Any trees, as files or folders F: --treebank=F to split, or --train_trees=F, --dev_trees=F, --test_trees=F."""

    vocab_kind = "words"
    vocab_size = 10_000
    flags = {
        "treebank": "files or folders with trees to split into train, dev and test, separated by commas",
        "train_trees": "files or folders with trees that are all used for training",
        "dev_trees": "files or folders with trees for the dev split (default: a share of --treebank)",
        "test_trees": "files or folders with trees for the test split (default: a share of --treebank)",
    }

    def __init__(self, is_reversed: bool = False, **options: str) -> None:
        super().__init__(is_reversed, **options)
        if self.options and not {"treebank", "train_trees"} & self.options.keys():
            raise UserError(f"problem '{self.data_name}' needs `treebank=PATH` or `train_trees=PATH`", status=2)
        for split in SPLITS[1:]:
            if self.options and not {"treebank", f"{split}_trees"} & self.options.keys():
                raise UserError(
                    f"there are no trees for the {split} split; pass `{split}_trees=PATH`, or `treebank=PATH`", status=2
                )

    def symbols_of(self, side: str) -> tuple[str, ...]:
        """Returns the leaf symbol for the targets and, with BPE, the space for the inputs.

        Each word then begins with a token of its own for the space: id 3, see `source_word_token`.
        """
        return (" ",) if side == "inputs" and self.kind_of(side) == "bpe" else super().symbols_of(side)

    def examples(self, split: str, files: Mapping[str, Path]) -> Iterator[Example]:
        """Yields the trees given for a split and, for train or if none are given, the split's share of --treebank."""
        if not self.options:
            raise UserError(f"problem '{self.data_name}' needs `treebank=PATH` or `train_trees=PATH`", status=2)
        yield from self._read(self._files(f"{split}_trees"))
        if split == "train" or f"{split}_trees" not in self.options:
            yield from _share(split, self._read(self._files("treebank")))

    def notes(self, files: Mapping[str, Path]) -> list[str]:
        """Returns notes about how --treebank is split."""
        message = [f"the trees in `treebank` are {_SPLIT_NOTE}"] if "treebank" in self.options else []
        for split in HELD_OUT_SHARE if message else ():
            if f"{split}_trees" in self.options:
                message.append(f"`{split}_trees` is the {split} split; that split's share of `treebank` is not used")
        return [*message, *super().notes(files)]


@PROBLEMS.register
class TaggedTreebankParsing(TreebankParsing):
    """Like treebank_parsing, but the model also writes the part of speech of each word; 4,000 BPE tokens."""

    vocab_kind = "bpe"
    vocab_size = 4000
    tags = TAGS

    def symbols_of(self, side: str) -> tuple[str, ...]:
        """Returns the symbols of words, opening brackets and closing brackets, and the space for the inputs.

        Labels that the Penn Treebank does not have follow in the vocabulary. See `hard_alignment_count` and
        `bracket_labels`.
        """
        return (WORD, *TAGS, *BRACKETS) if side == "targets" else super().symbols_of(side)


def _share(split: str, pairs: Iterator[Example]) -> Iterator[Example]:
    """Yields the pairs that are randomly assigned to a split."""
    lots = random.Random(_SEED)
    bounds = list(itertools.accumulate(HELD_OUT_SHARE.values()))
    splits = [*HELD_OUT_SHARE, "train"]
    for pair in pairs:
        if splits[bisect.bisect(bounds, lots.random())] == split:
            yield pair


def _whole_paths(flag: str, value: str) -> str:
    if not all(split_paths(value)):
        raise UserError(f"`{flag}={value}`: a path is empty; pass files or folders separated by commas", status=2)
    return absolute_paths(value)


_CORPORA = {"high_confidence": "high_confidence_trees", "berkeley_parser": "berkeley_parser_trees"}


class ParsedCorpus(Parsing):
    """The base class of corpora that are used only for training."""

    def examples(self, split: str, files: Mapping[str, Path]) -> Iterator[Example]:
        """Yields all trees for train, and none for other splits."""
        return self._read([file for flag in self.flags for file in self._files(flag)] if split == "train" else [])


@PROBLEMS.register
class HighConfidenceTrees(ParsedCorpus):
    """Part of wsj_parsing_semi: --high_confidence=F, trees on which parsers agree; train only."""

    flags = {"high_confidence": "files or folders with trees that several parsers agreed on, separated by commas"}


@PROBLEMS.register
class BerkeleyParserTrees(ParsedCorpus):
    """Part of wsj_parsing_semi: --berkeley_parser=F, trees from the BerkeleyParser and other treebanks; train only."""

    flags = {"berkeley_parser": "files or folders with trees from the BerkeleyParser or other treebanks"}


@PROBLEMS.register
class WsjParsingSemi(Mixture, Parsing):
    """wsj_parsing plus --high_confidence=F, --berkeley_parser=F, each tree once; WSJ dev and test; 32,000 tokens."""

    vocab_size = 32_000
    num_shards = 100
    flags = {**WsjParsing.flags, **HighConfidenceTrees.flags, **BerkeleyParserTrees.flags}

    def __init__(self, is_reversed: bool = False, **options: str) -> None:
        super().__init__(is_reversed, **options)
        if options and not _CORPORA.keys() & options.keys():
            raise UserError(
                f"problem '{self.data_name}' needs `high_confidence=PATH` or `berkeley_parser=PATH`, or both; "
                f"without parsed text, use wsj_parsing",
                status=2,
            )

    @property
    def parts(self) -> tuple[Part, ...]:
        """The treebank and the corpora given by flags."""
        corpora = [Part(name, splits=("train",)) for flag, name in _CORPORA.items() if flag in self.options]
        return (Part("wsj_parsing"), *corpora)
