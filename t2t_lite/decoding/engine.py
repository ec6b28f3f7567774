"""The interface of engines, which turn token ids and search settings into hypotheses and do not handle text.

All engines share everything else (tokenization, files, text prefixes, trees, n-best output), and the functions here,
which group sentences of similar length into batches and score given outputs.
"""

import dataclasses
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from t2t_lite.config import DecodeHParams
from t2t_lite.data.vocab import PAD_ID
from t2t_lite.decoding.search.length_penalty import length_penalty
from t2t_lite.errors import UserError

if TYPE_CHECKING:
    from t2t_lite.data.vocab import Vocabulary
    from t2t_lite.decoding.search.constraints import Constraint
    from t2t_lite.decoding.search.scorer_terms import ScorerTerm

# The name of a model's limit `max_positions` in messages.
LEARNED_POSITIONS = "the limit of the learned positions (max_length)"


@dataclasses.dataclass(frozen=True)
class LineConstraint:
    """A constraint and its inputs for each line.

    What differs between requests belongs in the inputs: a search is made, and compiled, for each constraint.
    """

    constraint: "Constraint"
    # its `constraint_inputs` by name, unique in a search, with an int or a list of ints for each line; lists are padded
    # with 0
    inputs: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    # for each line, a lower bound on the output's length limit, in tokens with the end symbol; None: no bound
    min_limits: Sequence[int] | None = None


@dataclasses.dataclass(frozen=True)
class LineTerm:
    """A term of the score and its inputs for each line."""

    term: "ScorerTerm"
    # as those of a `LineConstraint`
    inputs: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    min_limits: None = None


@dataclasses.dataclass(frozen=True)
class Request:
    """Lines to decode, as texts and as ids, with their search settings.

    Texts, sources, prefixes and phrases have one entry per line. `Translator` makes it, engines search for its
    outputs, and registered constraints and scorers read it.
    """

    texts: Sequence[str]
    sources: Sequence[list[int]]  # ids including the end symbol
    decode_hparams: DecodeHParams
    vocabulary: "Vocabulary"  # of the outputs
    inputs_vocabulary: "Vocabulary"
    prefixes: Sequence[list[int]] | None = None  # ids that outputs begin with, excluding the end symbol
    phrases: Sequence[Sequence[str]] | None = None  # texts that outputs contain, none of them blank
    constraints: Sequence[LineConstraint] = ()  # besides those that the settings name
    rows: Sequence[int] = ()  # the indices of the lines to decode; the other lines are blank or copied
    whole_words: Collection[int] = ()  # the rows in which a new word must follow the prefix, because it ends in a blank
    num_wanted: int = 0  # number of hypotheses per line that must be the best ones; 0: all
    first_line: int = 1  # for messages and, with sampling, for the random numbers
    exact_scores: bool = True  # whether scores and log-probabilities must be exact; if not, they need only rank outputs
    compiles_now: bool = False  # whether to compile the search now, see `Translator.warm_up`
    on_done: Callable[[int], None] = lambda lines: None  # called after each batch with its number of lines
    check: Callable[[], None] | None = None  # called several times a second; an exception from it ends the search


class EngineHypothesis(NamedTuple):
    ids: Sequence[int]  # up to and including the end symbol, or up to the length limit
    score: float  # see `Hypothesis`
    log_prob: float


class Outcome(NamedTuple):
    hypotheses: Mapping[int, list[EngineHypothesis]]  # by row of the request: best first, or samples in drawing order
    warnings: Mapping[int, str]  # by row: why its output is cut or lacks phrases


class Pairs(NamedTuple):
    """Sources and their given outputs, as token ids including the end symbol."""

    sources: Sequence[list[int]]
    outputs: Sequence[list[int]]


class Engine(Protocol):
    """A model that decodes lines, scores outputs and returns attention weights. Its methods are thread-safe.

    Attributes:
      name: its name in `ENGINES`, see `options.py`.
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

    def check(
        self,
        settings: DecodeHParams,
        *,
        phrases: bool = False,
        constraints: bool = False,
        alignment_layer: int | None = None,
    ) -> None:
        """Raises UserError with the reason if the engine does not support the settings, or what else is wanted.

        `phrases` and `constraints` say whether a request has any; `alignment_layer` is the decoder layer for
        alignments, None for no alignments or the default layer.
        """

    def search(self, request: Request) -> Outcome:
        """Searches for the outputs of lines.

        Raises UserError if the engine or the vocabulary does not support the request, or it does not fit into memory.
        """
        ...

    def score(self, pairs: Pairs, settings: DecodeHParams) -> list[tuple[float, float]]:
        """Returns (log-probability / length penalty, log-probability) for each pair."""
        ...

    def cross_attention(self, pairs: Pairs, layer: int | None, settings: DecodeHParams) -> list[np.ndarray]:
        """Returns the attention of given outputs to their sources, averaged over the heads of a decoder layer.

        The result is float32 [output tokens, source tokens] for each pair. `layer=None` selects the layer closest to a
        word alignment. Of the settings, only `batch_tokens` matters. Raises UserError if the engine or the model cannot
        return attention.
        """
        ...

    def attention(self, pairs: Pairs, kind: str, layer: int | None, settings: DecodeHParams) -> list[np.ndarray]:
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


def by_length(
    rows: Sequence[int], lengths: Sequence[int], batch_size_of: Callable[[int], int], most: int | None = None
) -> Iterator[list[int]]:
    """Groups rows (indices into `lengths`) into batches of similar length, longest first.

    `batch_size_of` maps the longest length in a batch to the maximum number of rows; `most` is a limit for all batches.
    """
    batch: list[int] = []
    for row in sorted(rows, key=lambda row: -lengths[row]):
        if batch and len(batch) >= min(batch_size_of(lengths[batch[0]]), most or len(rows)):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def padded(sequences: Sequence[Sequence[int]]) -> np.ndarray:
    ids = np.full([len(sequences), max((len(sequence) for sequence in sequences), default=0)], PAD_ID, np.int32)
    for row, sequence in zip(ids, sequences, strict=True):
        row[: len(sequence)] = sequence
    return ids


def output_scores(
    outputs: Sequence[Sequence[int]], log_probs: Callable[[], Iterable[float]], settings: DecodeHParams
) -> list[tuple[float, float]]:
    """Returns (log-probability / length penalty, log-probability) for each output.

    Raises ValueError if an output contains padding, which cannot be scored.
    """
    if any(PAD_ID in output for output in outputs):
        raise ValueError(f"an output to score contains id {PAD_ID}, which is padding; remove it")
    penalties = [length_penalty(len(output), settings.alpha, settings.length_penalty) for output in outputs]
    return [(each / penalty, each) for each, penalty in zip(log_probs(), penalties)]
