"""What a problem is: where its pairs come from, how they are cut into pieces, how its output is searched and scored."""

import contextlib
import gzip
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from t2t_lite.config import DecodeHParams, HParams
from t2t_lite.errors import UserError
from t2t_lite.registry import PROBLEMS, snake_case

SPLITS = ("train", "dev", "test")
REVERSED_SUFFIX = "_rev"


class Example(NamedTuple):
    """One pair of texts."""

    inputs: str
    targets: str


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


class Problem:
    """A task as pairs of texts. Subclass it, give it `examples`, and register it with `@PROBLEMS.register`.

    Class attributes are the problem's settings; the defaults suit translation. A problem called `x` can also be
    asked for as `x_rev`: the same data with its sides swapped.
    """

    vocab_kind: str = "bpe"
    vocab_size: int = 8000  # pieces of a vocabulary
    shared_vocabulary: bool = True  # one vocabulary for both sides; otherwise one for each
    num_shards: int = 10  # files of the train split; dev and test are one file each
    metric: str = "bleu"
    decode_hparams: DecodeHParams = DecodeHParams()
    sources: tuple[Source, ...] = ()

    def __init__(self, is_reversed: bool = False):
        self.is_reversed = is_reversed

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
        """The vocabularies' file names in `--data_dir`: forward inputs, forward targets; the same twice if shared."""
        sides = ("", "") if self.shared_vocabulary else tuple(f"{side}." for side in Example._fields)
        return tuple(f"vocab.{self.data_name}.{self.vocab_size}.{side}subwords" for side in sides)

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
        """
        raise NotImplementedError(f"problem '{self.name}' does not say where its examples come from")


def get_problem(name: str) -> Problem:
    """Returns the problem called `name` in the registry, with `_rev` for swapped sides.

    Raises:
      UserError: if there is none; the message gives the nearest names.
    """
    if name not in PROBLEMS and name.endswith(REVERSED_SUFFIX):
        forward = name.removesuffix(REVERSED_SUFFIX)
        if forward in PROBLEMS:
            return PROBLEMS[forward](is_reversed=True)
    return PROBLEMS[name]()


def read_lines(path: Path) -> Iterator[str]:
    """Yields the lines of a UTF-8 text file, plain or gzip, without their ends ("\\n" or "\\r\\n").

    Raises:
      UserError: if there is no such file, it is a damaged gzip file, or a line is not UTF-8 (with its number).
    """
    with open_bytes(path) as file:
        for number, line in enumerate(file, start=1):
            yield decode_line(line, str(path), number)


@contextlib.contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Opens a file, plain or gzip, to read its bytes inside the block.

    Raises:
      UserError: if there is no such file, or it turns out to be a damaged gzip file.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            yield file
    except FileNotFoundError as error:
        raise UserError(f"no such file: {path}") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path} is not a whole gzip file ({error}); fetch or write it again") from error


def decode_line(line: bytes, where: str, number: int) -> str:
    """Returns a line of text without its end. `where` and `number` name it in the UserError for text not in UTF-8."""
    try:
        # A byte-order mark at the start of a file is no part of its text.
        return re.sub(r"\r?\n\Z", "", line.decode("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(
            f"{where}, line {number}: not UTF-8 ({error.reason} at byte {error.start}); convert it first"
        ) from error


def read_parallel(inputs: Path, targets: Path) -> Iterator[Example]:
    """Yields the pairs of two files with a sentence a line. Pairs with an empty side are left out.

    Raises:
      UserError: if one file has more lines than the other, or on text that is not UTF-8.
    """
    ended = object()
    left, right = read_lines(inputs), read_lines(targets)
    count = 0
    while True:
        pair = next(left, ended), next(right, ended)
        if pair[0] is ended or pair[1] is ended:
            break
        count += 1
        if pair[0].strip() and pair[1].strip():
            yield Example(*pair)
    if pair[0] is not pair[1]:
        longer, shorter = (targets, inputs) if pair[0] is ended else (inputs, targets)
        raise UserError(
            f"{longer} has more lines than {shorter} ({count}); line n of one must answer line n of the other"
        )
