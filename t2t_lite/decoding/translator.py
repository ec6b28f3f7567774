"""The translator: trained models that translate, score and align text."""

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_lite.config import WIDE_BEAM, DecodeHParams
from t2t_lite.data.vocab import EOS_ID, Vocabulary
from t2t_lite.decoding.alignment import CrossAttentionWeights, alignment
from t2t_lite.decoding.batching import by_length, padded
from t2t_lite.decoding.ensemble import Ensemble
from t2t_lite.decoding.loading import load
from t2t_lite.decoding.scorer import Scorer
from t2t_lite.decoding.search.beam_state import EXISTS, SearchResult
from t2t_lite.decoding.search.searcher import Searcher
from t2t_lite.decoding.search_requests import LineConstraint, SearchRequest, beam_search_of, constraints_of
from t2t_lite.decoding.single_text import or_a_single_text
from t2t_lite.decoding.tokenizing import MAX_POSITIONS, encode_lines
from t2t_lite.errors import UserError


class Hypothesis(NamedTuple):
    """One output for a line."""

    text: str
    score: float  # log_prob / length penalty + coverage penalty: the search ranks by it
    log_prob: float  # sum of the log-probabilities of its tokens and the end symbol, in nats


class Translator:
    """Translates lines; also scores and aligns given translations. It is thread-safe.

    Args:
      model: a built `Seq2SeqModel` with its weights, or an `Ensemble`.
      vocabulary: the vocabulary of the targets that the model was trained with.
      decode_hparams: the decoding settings.
      warn: receives a line about an input or an output that was cut.
      checkpoints: the checkpoints of the weights, for reports.
      inputs_vocabulary: the vocabulary of the inputs; None if both sides share one.
      xla_compile: whether to compile searches with XLA, which takes seconds for each of a few shapes and makes searches
        faster after that.
      num_threads: number of batches that are searched in parallel; None: the number of processors, or one on a GPU.
    """

    def __init__(
        self,
        model,
        vocabulary: Vocabulary,
        decode_hparams: DecodeHParams,
        warn: Callable[[str], None] = print,
        checkpoints: Sequence[Path] = (),
        inputs_vocabulary: Vocabulary | None = None,
        xla_compile: bool = True,
        num_threads: int | None = None,
    ) -> None:
        self.model = model
        self.vocabulary = vocabulary
        self.inputs_vocabulary = inputs_vocabulary or vocabulary
        self.decode_hparams = decode_hparams
        self.checkpoints = list(checkpoints)
        # On a CPU the matrix products of one batch are too small to use all cores; a GPU runs one batch at a time.
        processors = 1 if tf.config.list_physical_devices("GPU") else len(os.sched_getaffinity(0))
        self.num_threads = num_threads or processors
        self._warn = warn
        self._xla_compile = xla_compile
        self._searchers = {}
        self._scorer = Scorer(model)
        self._cross_attention = CrossAttentionWeights(model)
        self._lock = threading.Lock()

    @classmethod
    def from_run_dir(
        cls,
        path: Path | Sequence[Path],
        decode_hparams: str = "",
        checkpoint_path: Path | None = None,
        warn: Callable[[str], None] = print,
        **options,
    ) -> "Translator":
        """Loads the model of a run directory: the averaged checkpoint if it exists, else the last checkpoint.

        Args:
          path: the run directory, or several with the same vocabularies, whose models form an ensemble.
          decode_hparams: "name=value,..." overrides of the problem's defaults.
          checkpoint_path: another checkpoint to load, without suffix ("run/ckpt-2000").
          warn: see `Translator`.
          options: `xla_compile`, `num_threads`, see `Translator`.

        Raises:
          UserError: if there is no checkpoint, a checkpoint does not fit, or the vocabularies differ.
        """
        paths = [path] if isinstance(path, str | os.PathLike) else list(path)
        loaded = load(paths, decode_hparams, checkpoint_path, warn)
        model = loaded.models[0] if len(loaded.models) == 1 else Ensemble(loaded.models)
        return cls(
            model,
            loaded.vocabulary,
            loaded.decode_hparams,
            warn,
            loaded.checkpoints,
            loaded.inputs_vocabulary,
            **options,
        )

    @or_a_single_text("lines", "prefixes")
    def translate(
        self,
        lines: Sequence[str] | str,
        return_scores: bool = False,
        prefixes: Sequence[str] | None = None,
        first_line: int = 1,
        on_done: Callable[[int], None] | None = None,
        constraints: Sequence[LineConstraint] = (),
        **settings,
    ) -> list[str] | list[Hypothesis] | str | Hypothesis:
        """Translates lines.

        Args:
          lines: texts without line ends. Given a single text, every method of this class returns a single result
            instead of a list.
          return_scores: whether to return each translation as a `Hypothesis`, with its scores.
          prefixes: for each line, the beginning of its translation; "" for no prefix. None: no prefixes.
          first_line: the number of the first line, for warnings and, with sampling, to seed the random numbers.
          on_done: called after each batch with the number of lines that it translated.
          constraints: further rules about the next token, such as those of a grammar.
          settings: `DecodeHParams` that override the translator's, such as beam_size=8.

        Returns:
          the translation of each line, in order. A blank line has an empty translation (with score 0).

        Raises:
          UserError: if a setting is out of range.
        """
        found = self._search(lines, prefixes, first_line, on_done, 1, constraints, **settings)
        best = [beams[0] for beams in found]
        return best if return_scores else [hypothesis.text for hypothesis in best]

    @or_a_single_text("lines", "prefixes")
    def n_best(
        self,
        lines: Sequence[str] | str,
        prefixes: Sequence[str] | None = None,
        first_line: int = 1,
        on_done: Callable[[int], None] | None = None,
        constraints: Sequence[LineConstraint] = (),
        **settings,
    ) -> list[list[Hypothesis]] | list[Hypothesis]:
        """Translates lines and returns all hypotheses of each: best first, or samples in the order they were drawn.

        Arguments and errors are those of `translate`. A line has `beam_size` hypotheses, or fewer if no more exist.
        """
        return self._search(lines, prefixes, first_line, on_done, 0, constraints, **settings)

    def _search(
        self, lines, prefixes, first_line: int, on_done, num_wanted: int, constraints=(), **settings
    ) -> list[list[Hypothesis]]:
        settings = self.decode_hparams.replace(**settings)
        if settings.precision != self.decode_hparams.precision:
            raise UserError("precision is fixed when the model is loaded; set it in from_run_dir's decode_hparams")
        if settings.only_trees:
            raise UserError("only_trees=True is for parsing: use a Parser")
        if prefixes is not None and len(prefixes) != len(lines):
            raise UserError(f"there are {len(lines)} lines and {len(prefixes)} prefixes; give each line one")
        sources = self._encode(self.inputs_vocabulary, lines, settings, first_line, "line")
        starts = None
        if prefixes is not None:
            ended = self._encode(self.vocabulary, prefixes, settings, first_line, "the prefix of line")
            starts = [ids[:-1] for ids in ended]
        constraints = constraints_of(settings, sources, starts, constraints)
        request = SearchRequest(sources, settings, constraints, self.model.max_positions, first_line)
        results = [[Hypothesis("", 0.0, 0.0)] for _ in lines]
        searcher = self._searcher(settings, num_wanted, constraints)
        with_text = [row for row, line in enumerate(lines) if line.strip()]
        if on_done and len(with_text) < len(lines):
            on_done(len(lines) - len(with_text))
        batches = list(by_length(with_text, [len(source) for source in sources], searcher.batch_size_of))

        def search(rows):
            inputs = request.inputs_of(rows)
            found = searcher(padded([sources[row] for row in rows]), inputs)
            for index, row in enumerate(rows):
                prefix = (prefixes[row], starts[row]) if prefixes else ("", [])
                results[row] = self._hypotheses(SearchResult(*(part[index] for part in found)), *prefix)
            if on_done:
                on_done(len(rows))
            stopped = (found.ids[:, 0] != EOS_ID).all(1) & (inputs.limits == self.model.max_positions)
            return [row for row, was_stopped in zip(rows, stopped) if was_stopped]

        for row in sorted(itertools.chain.from_iterable(self._map(search, batches))):
            # No warning if extra_length stopped it: no sensible output is longer than that.
            if len(sources[row]) + settings.extra_length > self.model.max_positions:
                positions = f"{self.model.max_positions} tokens, which is {MAX_POSITIONS}"
                self._warn(f"line {first_line + row}: the output was cut at {positions}")
        return results

    @or_a_single_text("inputs", "targets")
    def score(
        self, inputs: Sequence[str] | str, targets: Sequence[str] | str, first_line: int = 1
    ) -> list[Hypothesis] | Hypothesis:
        """Scores given translations.

        Args:
          inputs: source lines.
          targets: a translation of each line.
          first_line: the number of the first line, for warnings.

        Returns:
          a `Hypothesis` for each pair. Its score does not include the coverage penalty.
        """
        settings = self.decode_hparams
        sources = self._encode(self.inputs_vocabulary, inputs, settings, first_line, "line")
        outputs = self._encode(self.vocabulary, targets, settings, first_line, "the translation of line")
        scores = self._scorer(sources, outputs, settings)
        return [Hypothesis(text, *scored) for text, scored in zip(targets, scores, strict=True)]

    def attention(self, line: str, translation: str, kind: str = "cross", layer: int | None = None):
        """Returns the attention weights of one layer for a line and its translation.

        Args:
          line, translation: texts.
          kind: "encoder" or "decoder" for their self-attention, "cross" for the decoder's attention to the source.
          layer: the index of the layer from 0, -1 for the last; None: the layer closest to a word alignment.

        Returns:
          (weights, query tokens, key tokens). The weights are float32 [heads, queries, keys], and each row sums to 1.
          A decoder query is labelled with the token that it predicts. The last token is the end symbol, "".

        Raises:
          UserError: if there is no such layer, it has no attention, or the translator has several models.
        """
        kind = "cross" if kind == "memory" else kind  # its name before version 0.2
        if kind not in ("encoder", "decoder", "cross"):
            raise UserError(f"attention kinds are encoder, decoder and cross, not '{kind}'")
        layer = self._layer(layer)
        (source,), (output,) = self._pair([line], [translation])
        try:
            weights = self.model.attention(padded([source]), padded([output]), kind, layer)[0]
        except ValueError as error:
            raise UserError(str(error)) from error
        sides = ([*self.inputs_vocabulary.tokens_of(source), ""], [*self.vocabulary.tokens_of(output), ""])
        queries, keys = {"encoder": (0, 0), "decoder": (1, 1), "cross": (1, 0)}[kind]
        return np.asarray(weights), sides[queries], sides[keys]

    @or_a_single_text("lines", "translations")
    def align(
        self, lines: Sequence[str] | str, translations: Sequence[str] | str, layer: int | None = None
    ) -> list[str] | str:
        """Aligns the words of translations with the words of their lines, by attention averaged over heads.

        Args:
          lines, translations: texts.
          layer: the decoder layer whose attention is used, see `attention`.

        Returns:
          for each pair, "i-j ..." in Pharaoh format: word j of the translation is aligned with word i of the line. Both
          count from 0; words are separated by blanks. Each word of the translation has one link.

        Raises:
          UserError: as `attention` does.
        """
        layer = self._layer(layer)
        sources, outputs = self._pair(lines, translations)
        try:
            found = self._cross_attention(sources, outputs, layer, self.decode_hparams.batch_tokens)
        except ValueError as error:
            raise UserError(str(error)) from error
        return [
            alignment(weights, self.inputs_vocabulary.tokens_of(source), self.vocabulary.tokens_of(output))
            for weights, source, output in zip(found, sources, outputs)
        ]

    def _layer(self, layer: int | None) -> int:
        if isinstance(self.model, Ensemble):
            raise UserError("attention weights belong to one model, and this is an ensemble; load one run directory")
        return self.model.alignment_layer if layer is None else layer

    def _pair(self, lines: Sequence[str], translations: Sequence[str]):
        """Returns (ids of the lines, ids of their translations)."""
        settings = self.decode_hparams
        sources = self._encode(self.inputs_vocabulary, lines, settings, 1, "line")
        return sources, self._encode(self.vocabulary, translations, settings, 1, "the translation of line")

    def _map(self, function, items):
        """Returns the function's result for each item, computed by several threads."""
        if self.num_threads == 1 or len(items) < 2:
            return [function(item) for item in items]
        with ThreadPoolExecutor(self.num_threads) as threads:
            return list(threads.map(function, items))

    def _searcher(self, settings: DecodeHParams, num_wanted: int, constraints: Sequence[LineConstraint]) -> Searcher:
        # The first position has no more hypotheses than there are tokens; a few empty beams do no harm.
        if settings.beam_size > max(self.vocabulary.size, WIDE_BEAM) and settings.sampling_method != "random":
            raise UserError(
                f"beam_size={settings.beam_size} is more than the {self.vocabulary.size:,} tokens of "
                f"{self.vocabulary.path.name}; 4 is common for translation, and more than 100 rarely helps"
            )
        search = beam_search_of(settings, self.vocabulary.size, num_wanted, constraints)
        key = search, settings.batch_tokens
        with self._lock:
            if key not in self._searchers:
                for line in settings.warnings():
                    self._warn(line)
                self._searchers[key] = Searcher(self.model, search, settings.batch_tokens, self._xla_compile)
            return self._searchers[key]

    def _hypotheses(self, result: SearchResult, prefix: str, prefix_ids: list[int]) -> list[Hypothesis]:
        """Returns the hypotheses of one line; `result` has no batch dimension."""
        # Outputs keep the prefix as it was given, because its tokens lack characters that the vocabulary does not know.
        (known,) = self.vocabulary.decode([prefix_ids])
        texts = [prefix + text.removeprefix(known) for text in self.vocabulary.decode(result.ids)]
        found = [
            Hypothesis(text, float(score), float(log_prob))
            for text, log_prob, score in zip(texts, result.log_probs, result.scores)
            if log_prob > EXISTS
        ]
        return found or [Hypothesis(prefix, float("-inf"), float("-inf"))]

    def _encode(self, vocabulary: Vocabulary, lines, settings: DecodeHParams, first_line: int, name: str):
        """Returns the ids of each text, with the end symbol. See `encode_lines`."""
        return encode_lines(vocabulary, lines, settings, self.model.max_positions, self._warn, first_line, name)
