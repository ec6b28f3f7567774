"""The base class of problems, which define their pairs and vocabularies, and how outputs are searched and scored."""

import hashlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from t2t_lite.config import DecodeHParams, HParams
from t2t_lite.errors import UserError, nearest
from t2t_lite.files import split_paths
from t2t_lite.metric import LANGUAGE_CODE, TOKENS, TREES
from t2t_lite.registry import METRICS, PROBLEMS, snake_case

SPLITS = ("train", "dev", "test")
REVERSED_SUFFIX = "_rev"


# The attributes of a problem that name the languages of its forward inputs and targets.
LANGUAGES = ("source_language", "target_language")
# The option that sets both, for problems whose text is the user's own.
LANGUAGES_OPTION = {
    "languages": "the languages of sources and translations, such as en-zh or pt-BR:de (BCP 47), for metrics, servers "
    "and the model card (default: the endings of the files, as in train.en and train.zh)"
}


def language_pair(text: str) -> tuple[str, str]:
    """Returns the languages in "en-de" or, if a code has a hyphen, "pt-BR:de". Raises UserError if it is neither."""
    source, _, target = text.strip().replace("_", "-").partition(":" if ":" in text else "-")
    if not LANGUAGE_CODE.fullmatch(source) or not LANGUAGE_CODE.fullmatch(target):
        raise UserError(f"`languages` must be SOURCE-TARGET, such as en-de, not '{text}'", status=2)
    if ":" not in text and re.match("[A-Z]{2}-|[A-Za-z]{4}-", target):  # pt-BR-de
        raise UserError(f"`languages={text}`: write a colon between the codes, such as pt-BR:de", status=2)
    return source, target


def joined_languages(source: str | None, target: str | None) -> str:
    """Returns the text for a pair of languages that `language_pair` reads; "" unless both are known."""
    return f"{source}{':' if '-' in f'{source}{target}' else '-'}{target}" if source and target else ""


class Example(NamedTuple):
    """One pair of texts."""

    inputs: str
    targets: str


SIDES = Example._fields


class Unusable(str):
    """Replaces a text that cannot be used; its value is the reason."""


class WithMore(str):
    """A text whose line had additional columns, which were dropped."""


@dataclass(frozen=True)
class Source:
    """A published file that a problem reads.

    Args:
      name: the file's name in `--tmp_dir`.
      url: the address to download the file from if it is missing.
      sha256: its checksum, in hexadecimal digits.
    """

    name: str
    url: str
    sha256: str


@dataclass(frozen=True)
class OwnFile:
    """A user's file, in any folder.

    Args:
      path: the path of the file.
    """

    path: Path

    @property
    def name(self) -> str:
        """The absolute path, which the manifest records."""
        return str(self.path.absolute())


@dataclass(frozen=True)
class TfdsSource:
    """A data set from tensorflow-datasets; `--tmp_dir` is its data_dir.

    Args:
      name: name and configuration: "wmt14_translate/de-en".
      placed: names of text files, plain or with ".gz", that are used instead if they are in `--tmp_dir`.
      url: the download server, to check early whether it can be reached; "": unknown.
    """

    name: str
    placed: tuple[str, ...] = ()
    url: str = ""


@dataclass(frozen=True)
class Corpus:
    """A parallel corpus at an address, see `corpora`. In `--tmp_dir`, it becomes a folder with two text files.

    Args:
      address: an absolute path, http(s)://, opus://CORPUS[/VERSION] or mtdata:ID.
      languages: as `language_pair` reads them; "": unknown.
    """

    address: str
    languages: str = ""

    @property
    def is_local(self) -> bool:
        """Whether the address is a path."""
        return re.match("(https?|opus)://|mtdata:", self.address) is None

    @property
    def name(self) -> str:
        """The name of the folder."""
        start = re.sub("^.*/(?=[^/]*/[^/]+$)", "", self.address) if self.is_local else self.address
        start = re.sub("[^A-Za-z0-9.]+", "-", start.removeprefix("https://"))[-80:].strip("-.")
        digest = hashlib.sha256(f"{self.address} {self.languages}".encode()).hexdigest()[:6]
        return f"corpus.{start}.{self.languages.replace(':', '-') or 'any'}.{digest}"


AnySource: TypeAlias = Source | OwnFile | TfdsSource | Corpus
_T = TypeVar("_T")


class Problem:
    """A task defined by pairs of texts. Subclass it, implement `examples`, and register it with `@PROBLEMS.register`.

    Class attributes are the problem's settings; the defaults suit translation. A problem `x` is also available as
    `x_rev`, which has the same data with swapped sides.
    """

    vocab_kind: str = "bpe"  # or "wordpiece", "characters", "bytes", "words"
    targets_vocab_kind: str = ""  # the kind of the target vocabulary, if it differs
    vocab_size: int = 8000  # number of tokens in a vocabulary
    byte_fallback: bool = True  # bpe: encode characters without a token as bytes, for which 256 tokens are reserved
    character_coverage: float = 0.9995  # with byte_fallback: the share of the text's characters that get tokens
    # bpe, wordpiece: encode every run of white space as one blank, and none at the ends of a text; not for code
    normalize_whitespace: bool = True
    vocab_file: str = ""  # an existing vocabulary to use instead; "INPUTS,TARGETS" for one vocabulary per side
    symbols: tuple[str, ...] = ()  # texts that are always one token, such as a tag for the target language
    shared_vocabulary: bool = True  # one vocabulary for both sides; otherwise one for each
    num_shards: int = 10  # number of files for the train split; dev and test have one file each
    source_language: str = ""  # BCP 47 code of the forward inputs; "": unknown or several
    target_language: str = ""  # BCP 47 code of the forward targets, for tokenizers of metrics
    has_inputs: bool = True  # False: targets only; all inputs are "", and lines to decode are beginnings of outputs
    metric: str = "bleu"  # the registered metric that scores outputs; "parseval" for trees
    decode_hparams: DecodeHParams = DecodeHParams()
    sources: tuple[AnySource, ...] = ()
    published_counts: Mapping[str, int] = {}  # number of pairs per split; a test split must match exactly
    flags: Mapping[str, str] = {}  # additional flags for t2t-lite-datagen, each with its help text
    switches: frozenset[str] = frozenset()  # flags that may be given without a value, which is then "True"
    # flags that take several files, separated by commas or in several flags; {"*"}: all flags
    file_lists: frozenset[str] = frozenset()
    train_only: bool = False  # as a part of a mixture: whether only the training split is used
    checks_text: bool = False  # whether to check the text for common defects and report them
    tmp_dir: Path | None = None  # `--tmp_dir` during data generation, for anything that a problem fetches itself

    def __init__(self, is_reversed: bool = False, **options: str) -> None:
        self.is_reversed = is_reversed
        self.options = options  # the values of `flags`
        self.set_languages(options)

    def set_languages(self, values: Mapping[str, object]) -> None:
        """Sets the languages that options, a manifest's settings or run.json name, if they are an option.

        Raises UserError if one is not a language code.
        """
        if not LANGUAGES_OPTION.keys() <= self.flags.keys():
            return
        if given := str(values.get("languages") or ""):
            self.source_language, self.target_language = language_pair(given)
        for name in LANGUAGES:  # as runs record them
            if value := str(values.get(name) or ""):
                setattr(self, name, value)

    def share_vocabulary_as(self, vocab_file: str) -> None:
        """Gives each side a vocabulary of its own if `vocab_file` names two files."""
        if len(split_paths(vocab_file)) == 2:
            self.shared_vocabulary = False

    def usual_languages(self) -> str:
        """Returns the languages of the user's own text if they are not given, as `language_pair` reads them; or ""."""
        return ""

    @property
    def data_name(self) -> str:
        """The name used in data file names; a reversed problem uses the forward problem's files."""
        return snake_case(type(self).__name__)

    @property
    def name(self) -> str:
        """The name in the registry."""
        return self.data_name + (REVERSED_SUFFIX if self.is_reversed else "")

    @property
    def writes_trees(self) -> bool:
        """Whether the metric scores trees, so that outputs are trees."""
        return METRICS.fact(self.metric, "needs", None) == TREES

    @property
    def output_language(self) -> str:
        """The BCP 47 code of the outputs' language; "" if unknown."""
        return self.in_direction((self.source_language, self.target_language))[1]

    @property
    def vocab_filenames(self) -> tuple[str, str]:
        """The vocabulary file names in `--data_dir`: forward inputs, forward targets; equal if they share one.

        If the text yields fewer tokens than `vocab_size`, the file names contain the actual number, see
        `vocab_filename`.
        """
        return self.vocab_filename("inputs", self.vocab_size), self.vocab_filename("targets", self.vocab_size)

    def vocab_filename(self, side: str, size: int) -> str:
        """Returns the file name of a vocabulary with `size` tokens; `side` is the forward "inputs" or "targets"."""
        kind = self.kind_of(side)
        ending = {"bpe": "subwords", "wordpiece": "wordpieces"}.get(kind, kind)
        its_own = "" if self.shared_vocabulary else f"{side}."
        return f"vocab.{self.data_name}.{'given' if self.vocab_file else size}.{its_own}{ending}"

    def kind_of(self, side: str) -> str:
        """Returns the kind of a side's vocabulary; `side` is the forward "inputs" or "targets"."""
        return (side == "targets" and self.targets_vocab_kind) or self.vocab_kind

    def in_direction(self, pair: Iterable[_T]) -> tuple[_T, _T]:
        """Returns a pair, given as the forward (inputs, targets), in the direction of this problem."""
        inputs, targets = pair
        return (targets, inputs) if self.is_reversed else (inputs, targets)

    def check_hparams(self, hparams: HParams) -> None:
        """Raises UserError if a model with these settings cannot be trained on this problem."""
        self._check_one_matrix(hparams, type(self).shared_vocabulary)

    def _check_one_matrix(self, hparams: HParams, has_equal_tokens: bool) -> None:
        if hparams.tied_embeddings == "all" and not has_equal_tokens:
            raise UserError(
                f"'{self.name}' has a vocabulary for each side, but tied_embeddings=all needs one for both; use "
                f"`hparams=tied_embeddings=decoder` (the source side has its own matrix), or tied_embeddings=none"
            )

    def check_data(self, hparams: HParams, settings: Mapping[str, Any], vocabularies: Sequence[Path]) -> None:
        """Raises UserError if a model with these settings cannot be trained on the generated data.

        Hard alignment must know which source tokens begin words, and vocabularies with one matrix have equal tokens.

        Args:
          hparams: the settings.
          settings: those that the data was generated with, from its manifest.
          vocabularies: the vocabulary files of the forward inputs and targets.
        """
        from t2t_lite.data.vocab import open_vocabulary

        kind, token, file = settings.get("vocab_kind", ""), hparams.source_word_token, vocabularies[0]
        tokens = [open_vocabulary(path).tokens() for path in vocabularies] if len(set(vocabularies)) > 1 else []
        self._check_one_matrix(hparams, not tokens or tokens[0] == tokens[1])
        if not hparams.hard_alignment_token:
            for name in ("source_word_token", "bracket_labels"):
                if value := getattr(hparams, name):
                    raise UserError(
                        f"{name}={value} has no effect without hard alignment; set `hparams=hard_alignment_token` or "
                        f"`hparams={name}=0`"
                    )
            return
        if hparams.bracket_labels and not self.writes_trees:
            raise UserError(
                f"bracket_labels={hparams.bracket_labels} is for trees, but '{self.name}' is not a parsing problem; "
                f"set `hparams=bracket_labels=0`"
            )
        if not token and kind != "words" and not settings.get("vocab_file"):
            raise UserError(
                f"hard_alignment_token={hparams.hard_alignment_token} needs whole words as source tokens, but the data "
                f"in {file.parent} was generated with `vocab_kind={kind}`; generate it with `vocab_kind=words` or "
                f"train with `hparams=hard_alignment_token=0`"
            )
        if token:
            vocabulary = open_vocabulary(file)
            text = vocabulary.bytes_of(token) if token < vocabulary.size else b""
            if text != b" " or not vocabulary.starts_with_blank:
                raise UserError(
                    f"source_word_token={token}: token {token} of {file.name} is not the space before each word; "
                    f"generate data with such a token (treebank_parsing with `vocab_kind=bpe`) or train with "
                    f"`hparams=source_word_token=0`"
                )

    def symbols_of(self, side: str) -> tuple[str, ...]:
        """Returns the symbols of a side's vocabulary; `side` is the forward "inputs" or "targets"."""
        return self.symbols

    def shards_of(self, split: str) -> int:
        """Returns the number of files of a split."""
        return self.num_shards if split == "train" else 1

    def shard_filename(self, split: str, shard: int) -> str:
        """Returns the file name of one shard, counted from 0."""
        return f"{self.data_name}-{split}-{shard:05d}-of-{self.shards_of(split):05d}"

    def text_filename(self, split: str, side: str) -> str:
        """Returns the file name of a split's plain text; `side` is the forward "inputs" or "targets"."""
        return f"{self.data_name}-{split}.{side}.txt"

    def examples(self, split: str, files: Mapping[str, Path]) -> Iterator[Example]:
        """Yields the pairs of a split, in a fixed order and in the forward direction.

        Every call must yield the same pairs, because they are read once to count them and learn tokens, and again to
        write them.

        Args:
          split: "train", "dev" or "test".
          files: the paths of `sources` by name, already checked.
        """
        old = "; it replaces tensor2tensor's generate_samples" if hasattr(self, "generate_samples") else ""
        raise UserError(f"problem '{self.name}' has no method examples(self, split, files) that yields its pairs{old}")

    def check_options(self) -> None:
        """Raises UserError with status 2 if a required flag of the problem is missing."""

    def keep_streams(self, tmp_dir: Path) -> None:
        """Copies sources that can be read only once, such as pipes, to `tmp_dir`, so that they can be read again."""

    def separate_splits(self) -> tuple[str, ...]:
        """Returns which of the splits dev and test are not taken from the training text."""
        return SPLITS[1:]

    def for_model(self, example: Example) -> Example:
        """Returns a pair as the model reads and writes it, before tokenization. Does not affect plain-text files."""
        return example

    def drop_reason(self, split: str, example: Example) -> str | None:
        """Returns a short reason to drop a pair, or None to keep it. The manifest counts pairs by reason."""
        for side in example if self.has_inputs else example[1:]:
            if isinstance(side, Unusable):
                return str(side)
            if not side or side.isspace():
                return "an empty side"
        return None

    def check_corpus(self, files: Mapping[str, Path], say: Callable[[str], None]) -> None:
        """Is called before the training text is read. May show lines about it with `say`.

        Raises UserError if it should not be read.
        """

    def drop_report(self) -> str:
        """Returns a report about dropped pairs, in Markdown, after the training text was read; "": there is none."""
        return ""

    def raw_pairs(self, files: Mapping[str, Path]) -> Iterator[Example]:
        """Yields all pairs in the training files, including pairs that are dropped or go to other splits."""
        return self.examples("train", files)

    def split_of(self, example: Example) -> str:
        """Returns the split of a pair from `raw_pairs`, whose texts may be truncated."""
        return "train"

    def notes(self, files: Mapping[str, Path]) -> list[str]:
        """Returns notes for the user about the data made from these files, one per line."""
        return []


def get_problem(name: str, **options: str) -> Problem:
    """Returns the problem registered as `name`; the suffix `_rev` swaps its sides.

    Args:
      name: the name, with or without the suffix.
      options: values for the problem's `flags`.

    Raises:
      UserError: if the problem does not exist; the message suggests the nearest names.
    """
    forward = name.removesuffix(REVERSED_SUFFIX)
    if name not in PROBLEMS and forward in PROBLEMS:
        return _checked(PROBLEMS[forward](is_reversed=True, **options))
    return _checked(PROBLEMS[name](**options))


# Methods renamed since version 0.1; if a problem still defined an old one, it would be ignored silently.
_RENAMED = {"flaw": "drop_reason", "remarks": "notes", "check_given": "check_options"}


def _checked(problem: Problem) -> Problem:
    for option in problem.options:
        if option not in problem.flags:
            hint = nearest(option, problem.flags) if problem.flags else "; it has none"
            raise UserError(f"problem '{problem.name}' has no option '{option}'{hint}", status=2)
    for old, new in _RENAMED.items():
        if hasattr(problem, old):
            raise UserError(f"problem '{problem.name}': the method {old} became {new} in version 0.2; rename it")
    try:
        inspect.signature(problem.examples).bind("train", {})
    except TypeError as error:
        raise UserError(
            f"problem '{problem.name}': examples must take (self, split, files), not "
            f"{inspect.signature(type(problem).examples)}"
        ) from error
    if problem.is_reversed and not problem.has_inputs:
        raise UserError(
            f"problem '{problem.name}' has no inputs, so it cannot be reversed; use {problem.data_name}", status=2
        )
    if problem.metric not in METRICS:
        hint = nearest(problem.metric, METRICS)
        raise UserError(f"problem '{problem.name}': metric='{problem.metric}' is unknown{hint}")
    if METRICS.fact(problem.metric, "needs", None) == TOKENS:
        raise UserError(
            f"problem '{problem.name}': metric='{problem.metric}' scores no outputs; use one that does, such as bleu"
        )
    return problem
