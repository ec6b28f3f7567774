"""What a problem is: where its pairs come from, how they are cut into tokens, how its output is searched and scored."""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from t2t_lite.config import DecodeHParams, HParams
from t2t_lite.errors import UserError
from t2t_lite.registry import PROBLEMS, snake_case

SPLITS = ("train", "dev", "test")
METRICS = ("bleu", "parseval")
REVERSED_SUFFIX = "_rev"


class Example(NamedTuple):
    """One pair of texts."""

    inputs: str
    targets: str


SIDES = Example._fields


class Unusable(str):
    """Stands where a text should be and says why it is not there."""


class WithMore(str):
    """A text with more beside it in its file, which was left out."""


@dataclass(frozen=True)
class Source:
    """A file that a problem reads.

    Args:
      name: the file's name in `--tmp_dir`.
      url: where it is fetched from when it is not there.
      sha256: its checksum, in hexadecimal digits.
    """

    name: str
    url: str
    sha256: str


@dataclass(frozen=True)
class OwnFile:
    """A file of the user's, which may be anywhere.

    Args:
      path: where it is.
    """

    path: Path

    @property
    def name(self) -> str:
        """The path, whole, so that the data remembers it."""
        return str(self.path.absolute())


@dataclass(frozen=True)
class TfdsSource:
    """A data set of tensorflow-datasets; `--tmp_dir` is what it calls data_dir.

    Args:
      name: its name and configuration: "wmt14_translate/de-en".
      placed: names of text files, which are used instead if they are in `--tmp_dir`, plain or with ".gz".
      url: the server that it is downloaded from, to see at once whether it can be reached; "": not known.
    """

    name: str
    placed: tuple[str, ...] = ()
    url: str = ""


class Problem:
    """A task as pairs of texts. Subclass it, give it `examples`, and register it with `@PROBLEMS.register`.

    Class attributes are the problem's settings; the defaults suit translation. A problem called `x` can also be
    asked for as `x_rev`: the same data with its sides swapped.
    """

    vocab_kind: str = "bpe"  # or "wordpiece", "characters", "bytes", "words"
    targets_vocab_kind: str = ""  # that of the targets, if they have a vocabulary of another kind
    vocab_size: int = 8000  # tokens of a vocabulary
    byte_fallback: bool = True  # bpe: characters without a token are written in bytes, which 256 tokens are kept for
    character_coverage: float = 0.9995  # with byte_fallback: the share of the text's characters that get tokens
    vocab_file: str = ""  # a vocabulary made elsewhere, instead; "INPUTS,TARGETS" for one of each side
    symbols: tuple[str, ...] = ()  # texts that are always one token, such as a tag for the target language
    shared_vocabulary: bool = True  # one vocabulary for both sides; otherwise one for each
    num_shards: int = 10  # files of the train split; dev and test are one file each
    metric: str = "bleu"  # how outputs are scored: or "parseval", for trees
    decode_hparams: DecodeHParams = DecodeHParams()
    sources: tuple[Source | OwnFile | TfdsSource, ...] = ()
    published_counts: Mapping[str, int] = {}  # pairs of each split; a test split has to have them all
    flags: Mapping[str, str] = {}  # flags of its own for t2t-lite-datagen, each with its help
    switches: frozenset[str] = frozenset()  # those of them that need no value, which is "True" then
    checks_text: bool = False  # look for what is often wrong with text from anywhere, and report it

    def __init__(self, is_reversed: bool = False, **options: str):
        self.is_reversed = is_reversed
        self.options = options  # values of `flags`

    @property
    def data_name(self) -> str:
        """The name that data files carry; a reversed problem uses the forward problem's files."""
        return snake_case(type(self).__name__)

    @property
    def name(self) -> str:
        """The name in the registry."""
        return self.data_name + (REVERSED_SUFFIX if self.is_reversed else "")

    @property
    def vocab_filenames(self) -> tuple[str, str]:
        """The vocabularies' file names in `--data_dir`: forward inputs, forward targets; the same twice if shared.

        One for which the text held fewer tokens is called by their number, see `vocab_filename`.
        """
        return tuple(self.vocab_filename(side, self.vocab_size) for side in Example._fields)

    def vocab_filename(self, side: str, size: int) -> str:
        """Returns the name of a vocabulary with so many tokens; `side` is the forward "inputs" or "targets"."""
        kind = self.kind_of(side)
        ending = {"bpe": "subwords", "wordpiece": "wordpieces"}.get(kind, kind)
        its_own = "" if self.shared_vocabulary else f"{side}."
        return f"vocab.{self.data_name}.{'options' if self.vocab_file else size}.{its_own}{ending}"

    def kind_of(self, side: str) -> str:
        """Returns the kind of a side's vocabulary; `side` is the forward "inputs" or "targets"."""
        return (side == "targets" and self.targets_vocab_kind) or self.vocab_kind

    def in_direction(self, pair: tuple) -> tuple:
        """Returns what belongs to (inputs, targets) of this problem, given that of the forward problem."""
        inputs, targets = pair
        return (targets, inputs) if self.is_reversed else (inputs, targets)

    def check_hparams(self, hparams: HParams) -> None:
        """Raises UserError if no model with these settings can be trained on this problem."""
        if not self.shared_vocabulary and hparams.tied_embeddings == "all":
            raise UserError(
                f"'{self.name}' has a vocabulary for each side, and tied_embeddings=all needs one for both; use "
                f"--hparams=tied_embeddings=decoder (the source side has its own matrix) or tied_embeddings=none"
            )

    def symbols_of(self, side: str) -> tuple[str, ...]:
        """Returns the symbols of a side's vocabulary; `side` is the forward "inputs" or "targets"."""
        del side
        return self.symbols

    def shards_of(self, split: str) -> int:
        """Returns how many files a split is written to."""
        return self.num_shards if split == "train" else 1

    def shard_filename(self, split: str, shard: int) -> str:
        """Returns the file name of one shard, counted from 0."""
        return f"{self.data_name}-{split}-{shard:05d}-of-{self.shards_of(split):05d}"

    def text_filename(self, split: str, side: str) -> str:
        """Returns the file name of a split's plain text; `side` is the forward "inputs" or "targets"."""
        return f"{self.data_name}-{split}.{side}.txt"

    def examples(self, split: str, files: Mapping[str, Path]) -> Iterator[Example]:
        """Yields the pairs of a split, in a fixed order and in the forward direction.

        Args:
          split: "train", "dev" or "test".
          files: the path of each of `sources`, by its name, checked.

        The same pairs each time: they are read once to count and to learn tokens, and again to be written.
        """
        old = "; tensor2tensor's generate_samples is called so here" if hasattr(self, "generate_samples") else ""
        raise UserError(f"problem '{self.name}' has no examples(self, split, files), which yields its pairs{old}")

    def check_options(self) -> None:
        """Raises UserError, of status 2, if flags of its own are missing that data cannot be made without."""

    def keep_streams(self, tmp_dir: Path) -> None:
        """Keeps in `tmp_dir` what can be read only once, such as a pipe, as sources are read several times."""
        del tmp_dir

    def separate_splits(self) -> tuple[str, ...]:
        """Returns those of dev and test that are not taken out of the training text."""
        return SPLITS[1:]

    def for_model(self, example: Example) -> Example:
        """Returns a pair as the model reads and writes it: what is cut into tokens. The plain text stays as it was."""
        return example

    def drop_reason(self, split: str, example: Example) -> str | None:
        """Returns in a few words why a pair is left out, for the manifest to count; None keeps it."""
        for side in example:
            if isinstance(side, Unusable):
                return str(side)
            if not side or side.isspace():
                return "an empty side"
        return None

    def raw_pairs(self, files: Mapping[str, Path]) -> Iterator[Example]:
        """Yields the training text as it stands in its files, with pairs that are dropped or go to other splits."""
        return self.examples("train", files)

    def split_of(self, example: Example) -> str:
        """Returns the split that a pair of `raw_pairs` belongs to; of a long text only the beginning may be given."""
        del example
        return "train"

    def notes(self, files: Mapping[str, Path]) -> list[str]:
        """Returns what the user should be told about the data that is made from these files, a line each."""
        del files
        return []


def get_problem(name: str, **options: str) -> Problem:
    """Returns the problem called `name` in the registry, with `_rev` for swapped sides.

    Args:
      name: the name.
      given: values of the problem's own flags.

    Raises:
      UserError: if there is none; the message gives the nearest names.
    """
    if name not in PROBLEMS and name.endswith(REVERSED_SUFFIX):
        forward = name.removesuffix(REVERSED_SUFFIX)
        if forward in PROBLEMS:
            return _checked(PROBLEMS[forward](is_reversed=True, **options))
    return _checked(PROBLEMS[name](**options))


def _checked(problem: Problem) -> Problem:
    try:
        inspect.signature(problem.examples).bind("train", {})
    except TypeError as error:
        raise UserError(
            f"problem '{problem.name}': examples has to take (self, split, files), not "
            f"{inspect.signature(type(problem).examples)}"
        ) from error
    if problem.metric not in METRICS:
        known = ", ".join(METRICS)
        raise UserError(f"problem '{problem.name}': metric='{problem.metric}' is unknown; there are {known}")
    return problem
