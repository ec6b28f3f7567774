"""Text in, text out: trained models behind one object."""

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
    score: float  # log_prob / length penalty + coverage penalty: what the search ranks by
    log_prob: float  # sum of the log-probabilities of its tokens and of the end, in nats


class Translator:
    """Translates lines, and tells what the model thinks of translations. It can be shared by threads.

    Args:
      model: a built `Seq2SeqModel` with its weights, or an `Ensemble`.
      vocabulary: the targets' vocabulary that it was trained with.
      decode_hparams: how to search.
      warn: takes a line about an input or an output that was cut.
      checkpoints: where the weights came from, for reports.
      inputs_vocabulary: the inputs' vocabulary; None if both sides share one.
      xla_compile: whether searches are compiled with XLA: some seconds for each of few shapes, and then faster.
      num_threads: batches that are searched at a time; None: as many as there are processors, or one on a GPU.
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
    ):
        self.model = model
        self.vocabulary = vocabulary
        self.inputs_vocabulary = inputs_vocabulary or vocabulary
        self.decode_hparams = decode_hparams
        self.checkpoints = list(checkpoints)
        # On a CPU the products of one batch are too small for all of its cores; a GPU takes one batch at a time.
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
        """Loads the model of a run directory: its average of checkpoints if there is one, else its last checkpoint.

        Args:
          path: the run directory, or several with the same vocabularies, whose models then search together.
          decode_hparams: "name=value,..." to change the problem's defaults.
          checkpoint_path: another checkpoint to use, without ending ("run/ckpt-2000").
          warn: as the class takes it.
          options: `xla_compile`, `num_threads`, as the class takes them.

        Raises:
          UserError: if there is no checkpoint, it does not fit, or vocabularies differ.
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
          lines: texts without line ends, or one such text: then the result is that of this text, and not a list. All
            methods take texts so.
          return_scores: whether to return each translation as a `Hypothesis`, with its scores.
          prefixes: for each line what its translation begins with; "" for anything. None: anything for all.
          first_line: the number of the first of them, for warnings and, with sampling, for the random numbers.
          on_done: called with a number of lines whenever so many more are translated.
          constraints: further rules about the next token, such as those of a grammar.
          settings: other values of settings of `DecodeHParams` than the translator's, such as beam_size=8.

        Returns:
          the translation of each line, in order. A line without any text gives an empty one (with score 0).

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
        """Translates lines, with all hypotheses of each: the best first, or samples as they were drawn.

        Arguments and errors are those of `translate`. Of a line there are `beam_size`, or fewer if no more exist.
        """
        return self._search(lines, prefixes, first_line, on_done, 0, constraints, **settings)

    def _search(
        self, lines, prefixes, first_line: int, on_done, num_wanted: int, constraints=(), **settings
    ) -> list[list[Hypothesis]]:
        settings = self.decode_hparams.replace(**settings)
        if settings.precision != self.decode_hparams.precision:
            raise UserError("the precision is that of the loaded model; give it in from_run_dir's decode_hparams")
        if settings.only_trees and not constraints:
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
            # Otherwise extra_length stopped it, which means "no sensible output is longer".
            if len(sources[row]) + settings.extra_length > self.model.max_positions:
                positions = f"{self.model.max_positions} tokens, which is {MAX_POSITIONS}"
                self._warn(f"line {first_line + row}: the output was cut at {positions}")
        return results

    @or_a_single_text("inputs", "targets")
    def score(
        self, inputs: Sequence[str] | str, targets: Sequence[str] | str, first_line: int = 1
    ) -> list[Hypothesis] | Hypothesis:
        """Tells how probable given translations are.

        Args:
          inputs: source lines.
          targets: a translation of each.
          first_line: the number of the first of them, for warnings.

        Returns:
          a `Hypothesis` for each pair. Coverage has no part in its score.
        """
        settings = self.decode_hparams
        sources = self._encode(self.inputs_vocabulary, inputs, settings, first_line, "line")
        outputs = self._encode(self.vocabulary, targets, settings, first_line, "the translation in line")
        scores = self._scorer(sources, outputs, settings)
        return [Hypothesis(text, *scored) for text, scored in zip(targets, scores, strict=True)]

    def attention(self, line: str, translation: str, kind: str = "cross", layer: int | None = None):
        """Gives the attention weights of one layer for a line and its translation.

        Args:
          line, translation: texts.
          kind: "encoder" or "decoder" for their self-attention, "cross" for the decoder's attention to the source.
          layer: its number from 0, -1 the last; None: the one that is nearest to a word alignment.

        Returns:
          (weights, float32 [heads, queries, keys] of which each row sums to 1; the queries' tokens; the keys' tokens).
          A query of the decoder is what predicts its token. The last token is the end symbol, "".

        Raises:
          UserError: if there is no such layer, it has no attention, or there are several models.
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
        """Aligns the words of translations with those of their lines, by attention averaged over heads.

        Args:
          lines, translations: texts.
          layer: which decoder layer's attention, see `attention`.

        Returns:
          for each pair "i-j ...": word j of the translation goes back to word i of the line, both counted from 0 and
          separated by blanks (the format of Pharaoh); each word of the translation has one.

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
            raise UserError("attention weights are those of one model, and this is an ensemble")
        return self.model.alignment_layer if layer is None else layer

    def _pair(self, lines: Sequence[str], translations: Sequence[str]):
        """Returns the ids of lines and of their translations."""
        settings = self.decode_hparams
        sources = self._encode(self.inputs_vocabulary, lines, settings, 1, "line")
        return sources, self._encode(self.vocabulary, translations, settings, 1, "the translation of line")

    def _map(self, function, items):
        """Returns what a function makes of each item; TensorFlow runs them at the same time."""
        if self.num_threads == 1 or len(items) < 2:
            return [function(item) for item in items]
        with ThreadPoolExecutor(self.num_threads) as threads:
            return list(threads.map(function, items))

    def _searcher(self, settings: DecodeHParams, num_wanted: int, constraints: Sequence[LineConstraint]) -> Searcher:
        # At the start there are no more hypotheses than tokens; a few empty beams do no harm.
        if settings.beam_size > max(self.vocabulary.size, WIDE_BEAM) and settings.sampling_method != "random":
            raise UserError(
                f"beam_size={settings.beam_size} is more than the {self.vocabulary.size:,} tokens of "
                f"{self.vocabulary.path.name}; 4 is usual for translation, and more than 100 rarely helps"
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
        """Returns the hypotheses of one line, whose result has no batch, from their tokens."""
        # A prefix stands as it was given: tokens have lost characters that the vocabulary does not know.
        (known,) = self.vocabulary.decode([prefix_ids])
        texts = [prefix + text.removeprefix(known) for text in self.vocabulary.decode(result.ids)]
        found = [
            Hypothesis(text, float(score), float(log_prob))
            for text, log_prob, score in zip(texts, result.log_probs, result.scores)
            if log_prob > EXISTS
        ]
        return found or [Hypothesis(prefix, float("-inf"), float("-inf"))]

    def _encode(self, vocabulary: Vocabulary, lines, settings: DecodeHParams, first_line: int, name: str):
        """Returns the ids of each text with the end symbol, see `encode_lines`."""
        return encode_lines(vocabulary, lines, settings, self.model.max_positions, self._warn, first_line, name)
