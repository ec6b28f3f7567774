"""Searches the outputs of lines of text: encodes them, searches batches in parallel, and decodes the hypotheses."""

import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from t2t_lite.config import WIDE_BEAM, DecodeHParams
from t2t_lite.data.vocab import EOS_ID, Vocabulary
from t2t_lite.decoding.batching import by_length, padded
from t2t_lite.decoding.ensemble import Ensemble
from t2t_lite.decoding.search.beam_state import EXISTS, SearchResult
from t2t_lite.decoding.search.searcher import Searcher
from t2t_lite.decoding.search_requests import LineConstraint, SearchRequest, beam_search_of, constraints_of
from t2t_lite.decoding.tokenizing import MAX_POSITIONS, encode_lines
from t2t_lite.errors import UserError
from t2t_lite.models.base import Seq2SeqModel


class Hypothesis(NamedTuple):
    """One output for a line."""

    text: str
    score: float  # log_prob / length penalty + coverage penalty: the search ranks by it
    log_prob: float  # sum of the log-probabilities of its tokens and the end symbol, in nats


class Lines(NamedTuple):
    """The lines to search for; see `Translator.translate`."""

    texts: Sequence[str]
    prefixes: Sequence[str] | None = None
    first_line: int = 1
    on_done: Callable[[int], None] | None = None
    constraints: Sequence[LineConstraint] = ()


class LineSearch:
    """Searches lines: search(lines, settings, number of hypotheses wanted) -> hypotheses. It is thread-safe.

    Args:
      model: a built `Seq2SeqModel` with its weights, or an `Ensemble`.
      vocabulary, inputs_vocabulary: the vocabularies of the targets and the inputs.
      warn: receives a line about an input or an output that was cut.
      xla_compile: whether to compile searches with XLA.
      num_threads: number of batches that are searched in parallel.
      has_inputs: False: the model reads no inputs, and the lines are the beginnings of their own outputs.
    """

    def __init__(
        self,
        model: Seq2SeqModel | Ensemble,
        vocabulary: Vocabulary,
        inputs_vocabulary: Vocabulary,
        warn: Callable[[str], None],
        xla_compile: bool,
        num_threads: int,
        has_inputs: bool = True,
    ) -> None:
        self._model, self._warn, self._xla_compile, self._num_threads = model, warn, xla_compile, num_threads
        self._vocabulary, self._inputs_vocabulary = vocabulary, inputs_vocabulary
        self._has_inputs = has_inputs
        self._searchers: dict[tuple, Searcher] = {}
        self._lock = threading.Lock()

    def __call__(self, lines: Lines, settings: DecodeHParams, num_wanted: int) -> list[list[Hypothesis]]:
        """Returns the hypotheses of each line: best first, or samples in the order they were drawn.

        Args:
          lines: the lines.
          settings: the decoding settings.
          num_wanted: how many hypotheses of a line are wanted; 0: all.

        Raises:
          UserError: if a setting is out of range, or there are more or fewer prefixes than lines.
        """
        if not self._has_inputs:
            lines = _as_prefixes(lines)
        if settings.coverage_penalty:
            _check_cross_attention(self._model)
        if lines.prefixes is not None and len(lines.prefixes) != len(lines.texts):
            raise UserError(
                f"there are {len(lines.texts)} lines and {len(lines.prefixes)} prefixes; give each line one"
            )
        sources, starts = self._encoded(lines, settings)
        constraints = constraints_of(settings, sources, starts, lines.constraints)
        request = SearchRequest(sources, settings, constraints, self._model.max_positions, lines.first_line)
        results = [[Hypothesis("", 0.0, 0.0)] for _ in lines.texts]
        searcher = self._searcher(settings, num_wanted, constraints)
        with_text = [row for row, line in enumerate(lines.texts) if line.strip() or not self._has_inputs]
        on_done = lines.on_done or (lambda number: None)
        if len(with_text) < len(lines.texts):
            on_done(len(lines.texts) - len(with_text))

        def search(rows: list[int]) -> list[int]:
            """Searches a batch; returns the rows whose outputs were cut."""
            inputs = request.inputs_of(rows)
            found = searcher(padded([sources[row] for row in rows]), inputs)
            for index, row in enumerate(rows):
                prefix = (lines.prefixes[row], starts[row]) if lines.prefixes and starts else ("", [])
                results[row] = self._hypotheses(SearchResult(*(part[index] for part in found)), *prefix)
            on_done(len(rows))
            stopped = (found.ids[:, 0] != EOS_ID).all(1) & (inputs.limits == self._model.max_positions)
            return [row for row, was_stopped in zip(rows, stopped) if was_stopped]

        batches = list(by_length(with_text, [len(source) for source in sources], searcher.batch_size_of))
        positions = self._model.max_positions
        for row in sorted(itertools.chain.from_iterable(self._map(search, batches))):
            # No warning if extra_length stopped it: no sensible output is longer than that.
            if positions is not None and len(sources[row]) + settings.extra_length > positions:
                self._warn(
                    f"line {lines.first_line + row}: the output was cut at {positions} tokens, which is {MAX_POSITIONS}"
                )
        return results

    def _encoded(self, lines: Lines, settings: DecodeHParams) -> tuple[list[list[int]], list[list[int]] | None]:
        """Returns (ids of the lines, with the end symbol; ids of the prefixes, without it, or None)."""
        limits = (settings, self._model.max_positions, self._warn, lines.first_line)
        sources = encode_lines(self._inputs_vocabulary, lines.texts, *limits, "line")
        if lines.prefixes is None:
            return sources, None
        ended = encode_lines(self._vocabulary, lines.prefixes, *limits, "the prefix of line")
        return sources, [ids[:-1] for ids in ended]

    def _map(self, function: Callable[[list[int]], list[int]], items: list[list[int]]) -> list[list[int]]:
        """Returns the function's result for each item, computed by several threads."""
        if self._num_threads == 1 or len(items) < 2:
            return [function(item) for item in items]
        with ThreadPoolExecutor(self._num_threads) as threads:
            return list(threads.map(function, items))

    def _searcher(self, settings: DecodeHParams, num_wanted: int, constraints: Sequence[LineConstraint]) -> Searcher:
        # The first position has no more hypotheses than there are tokens; a few empty beams do no harm.
        if settings.beam_size > max(self._vocabulary.size, WIDE_BEAM) and settings.sampling_method != "random":
            raise UserError(
                f"beam_size={settings.beam_size} is more than the {self._vocabulary.size:,} tokens of "
                f"{self._vocabulary.path.name}; 4 is common for translation, and more than 100 rarely helps"
            )
        search = beam_search_of(settings, self._vocabulary.size, num_wanted, constraints)
        key = search, settings.batch_tokens
        with self._lock:
            if key not in self._searchers:
                for line in settings.warnings():
                    self._warn(line)
                self._searchers[key] = Searcher(self._model, search, settings.batch_tokens, self._xla_compile)
            return self._searchers[key]

    def _hypotheses(self, result: SearchResult, prefix: str, prefix_ids: list[int]) -> list[Hypothesis]:
        """Returns the hypotheses of one line; `result` has no batch dimension."""
        # Outputs keep the prefix as it was given, because its tokens lack characters that the vocabulary does not know.
        (known,) = self._vocabulary.decode([prefix_ids])
        texts = [prefix + text.removeprefix(known) for text in self._vocabulary.decode(result.ids)]
        found = [
            Hypothesis(text, float(score), float(log_prob))
            for text, log_prob, score in zip(texts, result.log_probs, result.scores)
            if log_prob > EXISTS
        ]
        return found or [Hypothesis(prefix, float("-inf"), float("-inf"))]


def _as_prefixes(lines: Lines) -> Lines:
    """Returns lines without inputs, whose outputs begin with the texts."""
    if lines.prefixes is not None:
        raise UserError("the model reads no inputs: the lines themselves are the beginnings of the outputs")
    return lines._replace(texts=[""] * len(lines.texts), prefixes=lines.texts)


def _check_cross_attention(model: Seq2SeqModel | Ensemble) -> None:
    for each in getattr(model, "models", [model]):
        if isinstance(each, Seq2SeqModel):
            _ = each.alignment_layer  # a model without cross-attention raises a UserError
