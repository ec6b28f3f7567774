"""The interface of engines, which turn token ids and search settings into hypotheses and do not handle text.

All engines share everything else (tokenization, files, text prefixes, trees, n-best output).
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from t2t_lite.config import DecodeHParams
from t2t_lite.errors import UserError

if TYPE_CHECKING:
    import numpy as np

    from t2t_lite.decoding.search_requests import LineConstraint

# The values of `--engine`.
ENGINES = ("tensorflow", "ctranslate2")
# The name of a model's limit `max_positions` in messages.
LEARNED_POSITIONS = "the limit of the learned positions (max_length)"


class Lines(NamedTuple):
    """Lines to decode; see `Translator.translate`. All sequences have one entry per line."""

    texts: Sequence[str]
    prefixes: Sequence[str] | None = None
    first_line: int = 1  # for messages and, with sampling, for the random numbers
    on_done: Callable[[int], None] | None = None
    constraints: "Sequence[LineConstraint] | str" = ()
    phrases: Sequence[Sequence[str]] | None = None
    with_scores: bool = True  # whether scores and log-probabilities must be exact; if not, they need only rank outputs
    warm_up: bool = False  # whether to compile the search now, see `Translator.warm_up`
    check: Callable[[], None] | None = None
    copy_letterless: bool = False  # whether the output of a line without letters is the line itself


class Query(NamedTuple):
    """Lines to decode, as token ids. All sequences have one entry per line."""

    lines: Lines  # without blank phrases
    sources: Sequence[list[int]]  # ids including the end symbol
    prefixes: Sequence[list[int]] | None  # ids that outputs begin with, excluding the end symbol
    constraints: "Sequence[LineConstraint]"
    rows: Sequence[int]  # the indices of the lines to decode; the other lines are blank or copied
    settings: DecodeHParams
    num_wanted: int  # number of hypotheses wanted per line; 0: all
    whole_words: Collection[int] = ()  # the rows in which a new word must follow the prefix, because it ends in a blank

    def done(self, number: int) -> None:
        if self.lines.on_done:
            self.lines.on_done(number)


class EngineHypothesis(NamedTuple):
    ids: Sequence[int]  # up to and including the end symbol, or up to the length limit
    score: float  # see `Hypothesis`
    log_prob: float


class Outcome(NamedTuple):
    hypotheses: Mapping[int, list[EngineHypothesis]]  # by row of the query: best first, or samples in drawing order
    warnings: Mapping[int, str]  # by row: why its output is cut or lacks phrases


class Pairs(NamedTuple):
    """Sources and their given outputs, as token ids including the end symbol."""

    sources: Sequence[list[int]]
    outputs: Sequence[list[int]]


class Needs(NamedTuple):
    phrases: bool = False
    constraints: bool = False
    alignment_layer: int | None = None  # the decoder layer for alignments; None: no alignments, or the default layer


class Engine(Protocol):
    """A model that decodes lines, scores outputs and returns attention weights. Its methods are thread-safe.

    Attributes:
      name: its name in `ENGINES`.
      model_name: the name of the model in reports.
      max_positions: the longest sequence on either side, in tokens; None: unlimited.
      positions_limit: the name of that limit in messages.
      num_threads: number of batches searched in parallel.
      attention_layers: the number of layers whose weights `attention` returns, by kind; {} if it returns none.
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
        """Raises UserError with the reason if the engine does not support the settings or needs."""

    def search(self, query: Query) -> Outcome:
        """Searches for the outputs of lines.

        Raises UserError if the engine or the vocabulary does not support the query, or it does not fit into memory.
        """
        ...

    def score(self, pairs: Pairs, settings: DecodeHParams) -> list[tuple[float, float]]:
        """Returns (log-probability / length penalty, log-probability) for each pair."""
        ...

    def cross_attention(self, pairs: Pairs, layer: int | None, settings: DecodeHParams) -> "list[np.ndarray]":
        """Returns the attention of given outputs to their sources, averaged over the heads of a decoder layer.

        The result is float32 [output tokens, source tokens] for each pair. `layer=None` selects the layer closest to a
        word alignment. Of the settings, only `batch_tokens` matters. Raises UserError if the engine or the model cannot
        return attention.
        """
        ...

    def attention(self, pairs: Pairs, kind: str, layer: int | None, settings: DecodeHParams) -> "list[np.ndarray]":
        """Returns the attention weights of one layer for each pair: float32 [heads, queries, keys].

        For `kind` and `layer` see `Translator.attention`, for the other arguments `cross_attention`.
        """
        ...

    def description(self) -> dict[str, Any]:
        """Returns what outputs depend on besides the settings: checkpoints with modification times, or a checksum."""
        ...


def check_process(loaded_in: int) -> None:
    """Raises UserError in a process that was forked from the one that loaded an engine, `loaded_in`.

    The threads of TensorFlow and CTranslate2 do not exist in the new process, so a search would wait for them forever.
    """
    if loaded_in != os.getpid():
        raise UserError(
            "the model was loaded before this process was forked, and its threads are missing here; load it in each "
            "process, which multiprocessing must start with get_context('spawn')"
        )
