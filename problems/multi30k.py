"""Multi30k, task 1, raw text: English image captions with professional translations (Elliott et al. 2016, W16-3210)."""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite.data.mixture import Mixture, Part
from t2t_lite.data.problem import Example, Problem, Source
from t2t_lite.data.text_files import read_parallel
from t2t_lite.registry import PROBLEMS

if TYPE_CHECKING:
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

_URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
_FILE_PREFIXES = {"train": "train", "dev": "val", "test": "test_2016_flickr"}
_SHA256 = {
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.fr.gz": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.fr.gz": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.fr.gz": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
}


class Multi30k(Problem):
    """The base class of the language pairs, whose source language is English."""

    source_language = "en"
    vocab_size = 6000
    byte_fallback = False  # the results in docs/results.md were measured without it
    num_shards = 4

    @property
    def sources(self) -> tuple[Source, ...]:
        """The files of both languages."""
        return tuple(
            Source(name, _URL + name, _SHA256[name])
            for prefix in _FILE_PREFIXES.values()
            for name in (f"{prefix}.en.gz", f"{prefix}.{self.target_language}.gz")
        )

    def examples(self, split: str, files: Mapping[str, Path]) -> Iterator[Example]:
        """Yields the pairs of captions in a split. The test split is test_2016_flickr."""
        prefix = _FILE_PREFIXES[split]
        return read_parallel(files[f"{prefix}.en.gz"], files[f"{prefix}.{self.target_language}.gz"])


@PROBLEMS.register
class Multi30kEnde(Multi30k):
    """English to German image captions: 29,000 pairs, dev 1,014, test_2016_flickr 1,000."""

    target_language = "de"


@PROBLEMS.register
class Multi30kEndeSeparate(Multi30kEnde):
    """Like multi30k_ende, with a vocabulary for each side."""

    vocab_size = 4000
    shared_vocabulary = False


@PROBLEMS.register
class Multi30kEndeTokenised(Multi30kEnde):
    """Like multi30k_ende, preprocessed as for published scores: lower-cased, normalized and tokenized by Moses.

    The steps and their order are the same as in the data set's own tokenized files. The plain-text files contain the
    preprocessed text, so outputs are scored as they are (`--metric=paper_bleu --tokenized`).
    """

    vocab_size = 10_000

    def examples(self, split: str, files: Mapping[str, Path]) -> Iterator[Example]:
        """Yields the pairs of captions in a split, as tokens separated by spaces."""
        for pair in super().examples(split, files):
            sides = []
            for text, language in zip(pair, (self.source_language, self.target_language)):
                normalizer, tokenizer = _moses(language)
                sides.append(" ".join(tokenizer.tokenize(normalizer.normalize(text.lower()), escape=True)))
            yield Example(*sides)


@functools.cache
def _moses(language: str) -> "tuple[MosesPunctNormalizer, MosesTokenizer]":
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    return MosesPunctNormalizer(language), MosesTokenizer(language)


@PROBLEMS.register
class Multi30kEnfr(Multi30k):
    """English to French image captions: 29,000 pairs, dev 1,014, test_2016_flickr 1,000."""

    target_language = "fr"


@PROBLEMS.register
class Multi30kEndefr(Mixture):
    """English captions to German or French, selected by the first token, <2de> or <2fr>: 58,000 pairs."""

    source_language = "en"
    vocab_size = 8000
    byte_fallback = False  # like its parts
    num_shards = 4
    parts = (Part("multi30k_ende", tag="<2de>"), Part("multi30k_enfr", tag="<2fr>"))
