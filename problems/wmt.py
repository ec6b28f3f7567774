"""WMT 2014 translation, the paper's data (section 5.1), from tensorflow-datasets or text files."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from t2t_lite.data.generation.sources import read_pairs
from t2t_lite.data.problem import Example, Problem, TfdsSource
from t2t_lite.data.text_files import read_parallel
from t2t_lite.registry import PROBLEMS

_TEXT_FILES = {"train": "train", "dev": "newstest2013", "test": "newstest2014"}


class Wmt(Problem):
    """The base class of the language pairs, whose source language is English.

    The dev split is newstest2013, the test split newstest2014. Text files that the user provides must have names such
    as `train.de-en.en` and `newstest2013.de-en.de`.
    """

    source_language = "en"
    num_shards = 100

    @property
    def _pair(self) -> str:
        return f"{self.target_language}-en"

    def _text_file(self, split: str, language: str) -> str:
        return f"{_TEXT_FILES[split]}.{self._pair}.{language}"

    @property
    def sources(self) -> tuple[TfdsSource, ...]:
        """The data set from tensorflow-datasets, or the text files that replace it."""
        placed = tuple(self._text_file(split, side) for split in _TEXT_FILES for side in ("en", self.target_language))
        return (TfdsSource(f"wmt14_translate/{self._pair}", placed, url="http://www.statmt.org"),)

    def examples(self, split: str, files: Mapping[str, Path]) -> Iterator[Example]:
        """Yields the pairs in a split."""
        (source,) = self.sources
        if source.name in files:
            return read_pairs(files[source.name], split, "en", self.target_language)
        return read_parallel(*(files[self._text_file(split, side)] for side in ("en", self.target_language)))


@PROBLEMS.register
class WmtEnde(Wmt):
    """WMT 2014 English to German, 4.5 million pairs: 37,000 byte-pair tokens, dev newstest2013, test newstest2014."""

    target_language = "de"
    vocab_size = 37_000
    published_counts = {"train": 4_508_785, "dev": 3000, "test": 3003}


@PROBLEMS.register
class WmtEnfr(Wmt):
    """WMT 2014 English to French, 36 million pairs in the paper: 32,000 WordPiece tokens, newstest2013 and 2014."""

    target_language = "fr"
    vocab_kind = "wordpiece"
    vocab_size = 32_000
    published_counts = {"train": 40_836_715, "dev": 3000, "test": 3003}
