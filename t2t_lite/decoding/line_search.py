"""Searches the outputs of lines of text: encodes them, searches batches in parallel, and decodes the hypotheses."""

import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeAlias

import numpy as np

from t2t_lite.config import WIDE_BEAM, DecodeHParams
from t2t_lite.data.vocab import EOS_ID, Vocabulary
from t2t_lite.decoding.batching import by_length, padded
from t2t_lite.decoding.ensemble import Ensemble
from t2t_lite.decoding.lexical import PhraseVocabulary
from t2t_lite.decoding.search.beam_allocation import MISSING
from t2t_lite.decoding.search.beam_state import EXISTS, NONE, SearchResult
from t2t_lite.decoding.search.length_penalty import length_penalty
from t2t_lite.decoding.search.searcher import Searcher
from t2t_lite.decoding.search_requests import (
    LineConstraint,
    LinesToDecode,
    LineTerm,
    SearchRequest,
    beam_search_of,
    constraints_of,
    terms_of,
)
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
    constraints: Sequence[LineConstraint] | str = ()
    phrases: Sequence[Sequence[str]] | None = None


# A batch: what to search for, how, and the rows of its lines.
_Batch: TypeAlias = tuple[SearchRequest, Searcher, list[int]]


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
          UserError: if a setting is out of range, there are more or fewer prefixes or lists of phrases than lines, or
            the vocabulary cannot write a phrase.
        """
        lines, settings = self._checked(lines, settings)
        results = [[Hypothesis("", 0.0, 0.0)] for _ in lines.texts]
        on_done = lines.on_done or (lambda number: None)
        if num_blank := len(lines.texts) - len(self._rows_of(lines)):
            on_done(num_blank)
        sources, starts = self._encoded(lines, settings)
        phrases = [[] for _ in lines.texts] if lines.phrases is None else list(map(_not_blank, lines.phrases))
        blank = "it is blank, and so is its output, without its phrases"
        warnings = {row: blank for row in {*range(len(phrases))} - {*self._rows_of(lines)} if phrases[row]}

        def search(batch: _Batch) -> None:
            """Searches a batch."""
            request, searcher, rows = batch
            inputs = request.inputs_of(rows)
            found = searcher(padded([sources[row] for row in rows]), inputs)
            stopped = (found.ids[:, 0] != EOS_ID).all(1) & (inputs.limits == self._model.max_positions)
            for index, row in enumerate(rows):
                prefix = (lines.prefixes[row], starts[row]) if lines.prefixes and starts else ("", [])
                of_row = SearchResult(*(part[index] for part in found))
                if _lacks_phrases(of_row):
                    warnings[row] = "no output with all of its phrases was found; raise beam_size or extra_length"
                results[row] = self._hypotheses(_with_all_phrases(of_row, settings.alpha), *prefix)
                # No warning if extra_length stopped it: no sensible output is longer than that.
                if stopped[index] and len(sources[row]) + settings.extra_length > inputs.limits[index]:
                    warnings[row] = f"the output was cut at {inputs.limits[index]} tokens, which is {MAX_POSITIONS}"
            on_done(len(rows))

        self._map(search, self._batches(lines, phrases, settings, num_wanted, sources, starts))
        for row in sorted(warnings):
            self._warn(f"line {lines.first_line + row}: {warnings[row]}")
        return results

    def _checked(self, lines: Lines, settings: DecodeHParams) -> tuple[Lines, DecodeHParams]:
        """Returns lines and settings as the search needs them. Errors: see `__call__`."""
        if not self._has_inputs:
            lines = _as_prefixes(lines)
        if settings.coverage_penalty:
            _check_cross_attention(self._model)
        if isinstance(lines.constraints, str):
            settings = settings.replace(constraints=lines.constraints)
        if lines.prefixes is not None and len(lines.prefixes) != len(lines.texts):
            raise UserError(
                f"there are {len(lines.texts)} lines and {len(lines.prefixes)} prefixes; give each line one"
            )
        if lines.phrases is not None:
            _check_phrases(lines, settings)
        return lines, settings

    def _batches(
        self,
        lines: Lines,
        phrases: list[list[str]],
        settings: DecodeHParams,
        num_wanted: int,
        sources: list[list[int]],
        starts: list[list[int]] | None,
    ) -> list[_Batch]:
        """Returns the batches of all lines with text. Lines with phrases have their own, because only they need it."""
        about = LinesToDecode(lines.texts, sources, settings, self._vocabulary, self._inputs_vocabulary)
        terms, positions = terms_of(about), self._model.max_positions
        given = [] if isinstance(lines.constraints, str) else list(lines.constraints)
        with_text = self._rows_of(lines)
        batches = []
        for has_phrases in (False, True):
            rows = [row for row in with_text if bool(phrases[row]) == has_phrases]
            if not rows and (has_phrases or with_text):
                continue
            more = [self._phrase_vocabulary.constraint(phrases, lines.first_line)] if has_phrases else []
            constraints = constraints_of(about, starts, [*given, *more])
            request = SearchRequest(sources, settings, constraints, positions, lines.first_line, terms)
            searcher = self._searcher(settings, num_wanted, constraints, terms)
            lengths = [len(source) for source in sources]
            batches += [(request, searcher, part) for part in by_length(rows, lengths, searcher.batch_size_of)]
        return batches

    @functools.cached_property
    def _phrase_vocabulary(self) -> PhraseVocabulary:
        return PhraseVocabulary(self._vocabulary)

    def _rows_of(self, lines: Lines) -> list[int]:
        """Returns the numbers of the lines to search; a blank line has a blank output, unless there are no inputs."""
        return [row for row, line in enumerate(lines.texts) if line.strip() or not self._has_inputs]

    def _encoded(self, lines: Lines, settings: DecodeHParams) -> tuple[list[list[int]], list[list[int]] | None]:
        """Returns (ids of the lines, with the end symbol; ids of the prefixes, without it, or None)."""
        limits = (settings, self._model.max_positions, self._warn, lines.first_line)
        sources = encode_lines(self._inputs_vocabulary, lines.texts, *limits, "line")
        if lines.prefixes is None:
            return sources, None
        ended = encode_lines(self._vocabulary, lines.prefixes, *limits, "the prefix of line")
        return sources, [ids[:-1] for ids in ended]

    def _map(self, function: Callable[[_Batch], None], items: list[_Batch]) -> None:
        """Calls the function for each item, in several threads."""
        if self._num_threads == 1 or len(items) < 2:
            for item in items:
                function(item)
            return
        with ThreadPoolExecutor(self._num_threads) as threads:
            list(threads.map(function, items))

    def _searcher(
        self,
        settings: DecodeHParams,
        num_wanted: int,
        constraints: Sequence[LineConstraint],
        terms: Sequence[LineTerm],
    ) -> Searcher:
        # The first position has no more hypotheses than there are tokens; a few empty beams do no harm.
        if settings.beam_size > max(self._vocabulary.size, WIDE_BEAM) and settings.sampling_method != "random":
            raise UserError(
                f"beam_size={settings.beam_size} is more than the {self._vocabulary.size:,} tokens of "
                f"{self._vocabulary.path.name}; 4 is common for translation, and more than 100 rarely helps"
            )
        search = beam_search_of(settings, self._vocabulary.size, num_wanted, constraints, terms)
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


def _check_phrases(lines: Lines, settings: DecodeHParams) -> None:
    """Raises UserError unless there is a list of phrases for each line, and the settings are those of a beam search."""
    phrases = lines.phrases or []
    if len(phrases) != len(lines.texts):
        raise UserError(
            f"there are {len(lines.texts)} lines and {len(phrases)} lists of phrases; give each line one, empty or not"
        )
    if any(isinstance(line, str) for line in phrases):
        raise UserError("`phrases` takes a list of phrases for each line, not one text")
    if not any(map(_not_blank, phrases)):
        return
    for name, wanted in (("sampling_method", "argmax"), ("diverse_beam_groups", 1)):
        if (value := getattr(settings, name)) != wanted:
            raise UserError(f"{name}={value} in `decode_hparams` does not work with phrases: use {name}={wanted}")


def _not_blank(phrases: Sequence[str]) -> list[str]:
    return [phrase for phrase in phrases if phrase.strip()]


def _lacks_phrases(result: SearchResult) -> bool:
    """Whether even the best output of a line lacks phrases, because the length limit ended it."""
    return bool(EXISTS < result.scores[0] < -MISSING / 2)


def _with_all_phrases(result: SearchResult, alpha: float) -> SearchResult:
    """Returns the hypotheses of a line without those that lack phrases; if all do, with their scores restored."""
    lacks = result.scores < -MISSING / 2
    if not lacks.any():
        return result
    if not lacks.all():
        return result._replace(log_probs=np.where(lacks, NONE, result.log_probs))
    return result._replace(scores=result.log_probs / length_penalty(result.lengths, alpha))
