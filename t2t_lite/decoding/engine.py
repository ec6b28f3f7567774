"""What an engine is: it turns token ids and search settings into hypotheses, and knows no text.

Everything around it (tokens, files, prefixes as texts, trees, n-best output) is written once, for all engines.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from t2t_lite.config import DecodeHParams

if TYPE_CHECKING:
    import numpy as np

    from t2t_lite.data.vocab import Vocabulary
    from t2t_lite.decoding.search_requests import LineConstraint

# The names that `--engine` takes.
ENGINES = ("tensorflow", "ctranslate2")


class Lines(NamedTuple):
    """The lines to search for; see `Translator.translate`. All sequences have an entry for each line."""

    texts: Sequence[str]
    prefixes: Sequence[str] | None = None
    first_line: int = 1  # for messages and, with sampling, the random numbers
    on_done: Callable[[int], None] | None = None
    constraints: "Sequence[LineConstraint] | str" = ()
    phrases: Sequence[Sequence[str]] | None = None
    with_scores: bool = True  # whether scores and log-probabilities must be exact; else they are only for ranking
    warm_up: bool = False  # whether to compile what is compiled at first use, or later
    check: Callable[[], None] | None = None


class Query(NamedTuple):
    """Lines to search for, as token ids. All sequences have an entry for each line."""

    lines: Lines  # without blank phrases
    sources: Sequence[list[int]]  # ids, with the end symbol
    prefixes: Sequence[list[int]] | None  # ids that outputs begin with, without the end symbol
    constraints: "Sequence[LineConstraint]"
    rows: Sequence[int]  # the indices of the lines to search; the others are blank
    settings: DecodeHParams
    num_wanted: int  # how many hypotheses of a line are wanted; 0: all

    def done(self, number: int) -> None:
        """Says that a batch of so many lines is finished."""
        if self.lines.on_done:
            self.lines.on_done(number)


class Found(NamedTuple):
    """One output for a line, as token ids."""

    ids: Sequence[int]  # up to the end symbol, or the length limit
    score: float  # see `Hypothesis`
    log_prob: float


class Outcome(NamedTuple):
    """What a search found."""

    found: Mapping[int, list[Found]]  # of each row of the query: best first, or samples in the order they were drawn
    warnings: Mapping[int, str]  # of rows whose output is not what one would expect: why


class Pairs(NamedTuple):
    """Sources and given outputs of them, as token ids with the end symbol."""

    sources: Sequence[list[int]]
    outputs: Sequence[list[int]]


class Needs(NamedTuple):
    """What a decoding needs of an engine, besides its settings."""

    phrases: bool = False
    constraints: bool = False
    alignment_layer: int | None = None  # a decoder layer; None: no alignments, or those of the usual layer


class Engine(Protocol):
    """A model that searches, scores and attends. Its methods are thread-safe.

    Attributes:
      name: its name in `ENGINES`.
      model_name: what reports call the model.
      max_positions: the longest sequence on either side, in tokens; None: any.
      positions_limit: what messages call that limit.
      num_threads: number of batches that are searched in parallel.
      attention_layers: the number of layers whose weights `attention` gives, by kind; {} if it gives none.
    """

    name: str
    model_name: str
    max_positions: int | None
    positions_limit: str
    num_threads: int

    @property
    def attention_layers(self) -> Mapping[str, int]:
        """See above."""
        ...

    def check(self, settings: DecodeHParams, needs: Needs) -> None:
        """Raises UserError if the engine cannot do what settings and needs ask for; the message names it."""

    def search(self, query: Query) -> Outcome:
        """Searches the outputs of lines.

        Raises UserError if the engine or the vocabulary cannot do what the query asks for, or memory does not suffice.
        """
        ...

    def score(self, pairs: Pairs, settings: DecodeHParams) -> list[tuple[float, float]]:
        """Returns (log-probability / length penalty, log-probability) of given outputs."""
        ...

    def cross_attention(self, pairs: Pairs, layer: int | None, settings: DecodeHParams) -> "list[np.ndarray]":
        """Returns the attention of given outputs to their sources, averaged over the heads of a decoder layer.

        That is float32 [output tokens, source tokens] for each pair. The layer None is the one
        closest to a word alignment; of the settings, `batch_tokens` is used. Raises UserError if the engine or the
        model does not give it.
        """
        ...

    def attention(self, pairs: Pairs, kind: str, layer: int | None, settings: DecodeHParams) -> "list[np.ndarray]":
        """Returns the attention weights of one layer of given outputs: float32 [heads, queries, keys] for each pair.

        For `kind` and `layer` see `Translator.attention`, for the others `cross_attention`.
        """
        ...

    def description(self) -> dict[str, Any]:
        """Returns what outputs depend on besides the settings: the files with the weights, and their state."""
        ...


class Loaded(NamedTuple):
    """What a translator is made of, loaded from run directories or an export."""

    engine: Engine
    vocabulary: "Vocabulary"  # of the targets
    inputs_vocabulary: "Vocabulary"
    decode_hparams: DecodeHParams  # the defaults, with the changes applied
    problem: str  # its name
    has_inputs: bool  # see `Problem`
    checkpoints: Sequence[Path] = ()  # the checkpoint of each model, without suffix
