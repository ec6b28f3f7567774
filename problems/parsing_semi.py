"""Semi-supervised parsing: Wall Street Journal trees plus trees made by other parsers (section 6.3 of the paper).

Vinyals et al. 2015 describe the corpora: the "high-confidence" corpus, about 11 million sentences on which two parsers
agreed, and the "BerkeleyParser" corpus, which consists of other treebanks and about 7 million parsed sentences. Neither
was published, so the user provides files with trees for one or both.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from t2t_lite.data.mixture import Mixture, Part
from t2t_lite.data.problem import Example
from t2t_lite.errors import UserError
from t2t_lite.problems.parsing import Parsing, WsjParsing
from t2t_lite.registry import PROBLEMS

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
