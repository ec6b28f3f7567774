"""The TensorFlow engine, which supports all features and searches several batches of lines in parallel."""

import os
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from t2t_lite.config import WIDE_BEAM, DecodeHParams, HParams
from t2t_lite.data.vocab import EOS_ID, PAD_ID, Vocabulary
from t2t_lite.decoding import engine, search_requests
from t2t_lite.decoding.engine import EngineHypothesis, LineConstraint, LineTerm, Outcome, Pairs, Request
from t2t_lite.decoding.ensemble import Ensemble
from t2t_lite.decoding.export_dir import ExportDir
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.decoding.search.beam_state import EXISTS, NONE, SearchResult
from t2t_lite.decoding.search.length_penalty import length_penalty
from t2t_lite.decoding.search.phrases import MISSING
from t2t_lite.decoding.search.searcher import AdaptiveSearcher, Searcher, tokens_of_batch
from t2t_lite.errors import UserError
from t2t_lite.models.base import Seq2SeqModel
from t2t_lite.models.building import load_model_file, make_model
from t2t_lite.runs import checkpoints
from t2t_lite.system.machine import num_cores

# Fewer sentences are not divided among threads.
_WORTH_SHARING = 8
# Maximum number of searches kept for reuse, each with its own graphs; a server's requests may have any settings.
_MAX_SEARCHERS = 16
# Maximum number of logits in a batch (64 MiB); a single long output may exceed it.
_LOGITS = 2**24
# The lines of a batch, by row, their searcher, and the search's constraints and score terms.
_Batch: TypeAlias = tuple[list[int], Searcher | AdaptiveSearcher, list[LineConstraint | LineTerm]]


class TensorFlowEngine:
    """An `Engine` that runs a built model of this package, with its weights.

    `checkpoints` contain the weights; if they come from an export, `digest` is their checksum. Both are only for
    `description`. Unless `options.xla_compile` is set, `AdaptiveSearcher` decides which searches to compile.
    """

    name = "tensorflow"
    positions_limit = engine.LEARNED_POSITIONS
    _first_process: int | None = None  # the process in which TensorFlow started its threads, which a fork does not copy

    def __init__(
        self, model: Seq2SeqModel | Ensemble, options: EngineOptions, checkpoints: Sequence[Path] = (), digest: str = ""
    ) -> None:
        self.check_first_process()
        self.model, self._digest = model, digest
        self.model_name: str = getattr(model, "name", type(model).__name__)
        self.max_positions: int | None = model.max_positions
        self.checkpoints = list(checkpoints)
        # On a CPU, one batch's matrix products are too small to use all cores; a GPU runs one batch at a time.
        processors = 1 if tf.config.list_physical_devices("GPU") else num_cores()
        self.num_threads = options.num_threads or processors
        self._options = options
        self._searchers: dict[tuple, Searcher | AdaptiveSearcher] = {}  # the most recently used one at the end
        self._lock = threading.Lock()
        self._phrases: search_requests.PhraseVocabulary | None = None  # made for the first phrases
        self._graphs: dict[Hashable, Callable[..., tf.Tensor]] = {}  # of scores and attention, by name
        self._graphs_lock = threading.Lock()  # tracing takes a second, in which searches can start

    @classmethod
    def check_first_process(cls) -> None:
        """Raises UserError in a process that was forked from one that has used TensorFlow, see `check_process`."""
        cls._first_process = cls._first_process or os.getpid()
        engine.check_process(cls._first_process)

    def check(
        self,
        settings: DecodeHParams,
        *,
        phrases: bool = False,
        constraints: bool = False,
        alignment_layer: int | None = None,
    ) -> None:
        if settings.coverage_penalty:
            for each in getattr(self.model, "models", [self.model]):
                if isinstance(each, Seq2SeqModel):
                    _ = each.alignment_layer  # raises a UserError for a model without cross-attention

    def search(self, request: Request) -> Outcome:
        sources, settings = request.sources, request.decode_hparams
        hypotheses: dict[int, list[EngineHypothesis]] = {}
        warnings: dict[int, str] = {}

        def search_batch(batch: _Batch) -> None:
            rows, searcher, rules = batch
            inputs = search_requests.search_inputs(request, rows, rules, self.max_positions)
            search = searcher.compile if request.compiles_now and isinstance(searcher, AdaptiveSearcher) else searcher
            result = search(engine.padded([sources[row] for row in rows]), inputs, request.check)
            stopped = (result.ids[:, 0] != EOS_ID).all(1) & (inputs.limits == self.max_positions)
            for index, row in enumerate(rows):
                of_row = SearchResult(*(part[index] for part in result))
                if EXISTS < of_row.scores[0] < -MISSING / 2:  # even the best output lacks some
                    warnings[row] = "no output with all of its phrases was found; raise beam_size or extra_length"
                hypotheses[row] = _hypotheses(_with_all_phrases(of_row, settings))
                # No warning if extra_length stopped the output, because no sensible output is longer.
                if stopped[index] and len(sources[row]) + settings.extra_length > inputs.limits[index]:
                    warnings[row] = (
                        f"the output was cut at {inputs.limits[index]} tokens, which is {self.positions_limit}"
                    )
            request.on_done(len(rows))

        batches = self._batches(request)
        if self.num_threads == 1 or len(batches) < 2:
            for batch in batches:
                search_batch(batch)
        else:
            with ThreadPoolExecutor(self.num_threads) as threads:
                list(threads.map(search_batch, batches))
        return Outcome(hypotheses, warnings)

    def score(self, pairs: Pairs, settings: DecodeHParams) -> list[tuple[float, float]]:
        def log_probs(inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
            logits = tf.cast(self.model(inputs, targets), tf.float32)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)  # [batch, length]
            return -tf.reduce_sum(tf.where(targets != PAD_ID, losses, 0.0), 1)

        positions = max(1, min(settings.batch_tokens, _LOGITS // self.model.vocab_size))
        graph = self._graph("score", log_probs)
        return engine.output_scores(pairs.outputs, lambda: map(float, _by_pair(graph, pairs, positions)), settings)

    def cross_attention(self, pairs: Pairs, layer: int | None, settings: DecodeHParams) -> list[np.ndarray]:
        model, layer = self._model_of_layer(layer)

        def mean(inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
            return tf.reduce_mean(model.attention(inputs, targets, "cross", layer), 1)

        attentions = _by_pair(self._graph(layer, mean), pairs, settings.batch_tokens)
        return [weights[: len(output), : len(source)] for weights, source, output in zip(attentions, *pairs)]

    @property
    def attention_layers(self) -> dict[str, int]:
        return {} if isinstance(self.model, Ensemble) else self.model.attention_layers()

    def attention(self, pairs: Pairs, kind: str, layer: int | None, settings: DecodeHParams) -> list[np.ndarray]:
        model, layer = self._model_of_layer(layer)

        def weights(inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
            return np.asarray(model.attention(inputs, targets, kind, layer))

        attentions = _by_pair(weights, pairs, settings.batch_tokens)
        sources, outputs = pairs
        queries, keys = sources if kind == "encoder" else outputs, outputs if kind == "decoder" else sources
        return [each[:, : len(query), : len(key)] for each, query, key in zip(attentions, queries, keys)]

    def description(self) -> dict[str, Any]:
        written = [[str(path), Path(f"{path}.index").stat().st_mtime] for path in self.checkpoints]
        return {"checkpoints": written} | ({"model": self._digest} if self._digest else {})

    def _model_of_layer(self, layer: int | None) -> tuple[Seq2SeqModel, int]:
        if isinstance(self.model, Ensemble):
            raise UserError("an ensemble returns no attention weights; load a single run directory")
        return self.model, self.model.alignment_layer if layer is None else layer

    def _graph(
        self, name: Hashable, function: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    ) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Returns a function that runs `function` on inputs and targets, int32 [batch, length], as one graph."""
        ids = tf.TensorSpec([None, None], tf.int32)
        with self._graphs_lock:
            if name not in self._graphs:
                # Traced explicitly, because TensorFlow warns if calls trace many graphs, as with several models.
                traced = tf.function(function, input_signature=[ids, ids], autograph=False)
                self._graphs[name] = traced.get_concrete_function()
            graph = self._graphs[name]
        return lambda inputs, targets: graph(tf.constant(inputs, tf.int32), tf.constant(targets, tf.int32)).numpy()

    def _batches(self, request: Request) -> list[_Batch]:
        """Divides lines into batches of similar length that are small enough for each thread to get one."""
        terms = search_requests.make_score_terms(request)
        lengths = [len(source) for source in request.sources]
        phrases = request.phrases or [()] * len(lengths)
        batches: list[_Batch] = []
        for with_phrases in (False, True):
            rows = [row for row in request.rows if bool(phrases[row]) == with_phrases]
            if not rows and (with_phrases or request.rows):
                continue
            if with_phrases and self._phrases is None:
                self._phrases = search_requests.PhraseVocabulary(request.vocabulary)  # reads all tokens, so once
            constraints = search_requests.make_constraints(request, self._phrases if with_phrases else None)
            searcher = self._searcher(request, constraints, terms)
            share = max(-(-len(rows) // self.num_threads), _WORTH_SHARING)
            parts = engine.by_length(rows, lengths, searcher.batch_size_of, share)
            batches += [(part, searcher, [*constraints, *terms]) for part in parts]
        return batches

    def _searcher(
        self, request: Request, constraints: list[LineConstraint], terms: list[LineTerm]
    ) -> Searcher | AdaptiveSearcher:
        settings, vocabulary = request.decode_hparams, request.vocabulary
        # At the first position, there is at most one hypothesis per token; a few empty beams do no harm.
        if settings.beam_size > max(vocabulary.size, WIDE_BEAM) and settings.sampling_method != "random":
            raise UserError(
                f"beam_size={settings.beam_size} is larger than the {vocabulary.size:,} tokens of "
                f"{vocabulary.path.name}; use a smaller one: 4 is common, and more than 100 rarely helps"
            )
        search = search_requests.make_beam_search(settings, vocabulary, request.num_wanted, constraints, terms)
        key = search, settings.batch_tokens
        with self._lock:
            if key not in self._searchers:
                for line in settings.warnings():
                    self._options.warn(line)
                parts = self.model, search, tokens_of_batch(self.model, search, settings.batch_tokens)
                # Compilation changes rounding, so samples would depend on when a search is compiled.
                xla_compile = self._options.xla_compile
                adapts = xla_compile is None and settings.sampling_method != "random"
                self._searchers[key] = AdaptiveSearcher(*parts) if adapts else Searcher(*parts, bool(xla_compile))
                while len(self._searchers) > _MAX_SEARCHERS:
                    del self._searchers[next(iter(self._searchers))]
            self._searchers[key] = searcher = self._searchers.pop(key)
            return searcher


def _hypotheses(result: SearchResult) -> list[EngineHypothesis]:
    """Returns the existing hypotheses of one line; `result` has no batch dimension."""
    return [
        EngineHypothesis(ids[:length], float(score), float(log_prob))
        for ids, length, log_prob, score in zip(result.ids.tolist(), *(part.tolist() for part in result[1:]))
        if log_prob > EXISTS
    ]


def _with_all_phrases(result: SearchResult, settings: DecodeHParams) -> SearchResult:
    """Drops a line's hypotheses that lack phrases; if all do, keeps them, but does not penalize their scores."""
    lacks = result.scores < -MISSING / 2
    if not lacks.any():
        return result
    if not lacks.all():
        return result._replace(log_probs=np.where(lacks, NONE, result.log_probs))
    penalties = length_penalty(result.lengths, settings.alpha, settings.length_penalty)
    return result._replace(scores=result.log_probs / penalties)


def restored_model(
    hparams: HParams, vocab_size: int, inputs_vocab_size: int, checkpoint: Path, alignment_layer: int | None = None
) -> Seq2SeqModel:
    """Returns a model with the weights of a checkpoint, whose path has no suffix.

    `alignment_layer` is that of the `RunDir`.
    """
    TensorFlowEngine.check_first_process()
    model = make_model(hparams, vocab_size, inputs_vocab_size)
    model.measured_alignment_layer = alignment_layer
    checkpoints.restore(checkpoint, "model", checkpoints.by_name(model.variables))
    return model


def keras_engine(
    export: ExportDir, vocabularies: tuple[Vocabulary, Vocabulary], settings: DecodeHParams, options: EngineOptions
) -> engine.Engine:
    file = export.path / "model.keras"
    model = load_model_file(file)
    if settings.precision != model.hparams.precision:
        weights, hparams = model.get_weights(), model.hparams.replace(precision=settings.precision)
        model = make_model(hparams, *(each.size for each in vocabularies))
        model.set_weights(weights)
    model.measured_alignment_layer = export.content["alignment_layer"]
    model.freeze()
    digest = export.content["files"][file.name]["sha256"]
    return TensorFlowEngine(model, options, digest=digest)


def _by_pair(
    function: Callable[[np.ndarray, np.ndarray], np.ndarray], pairs: Pairs, batch_tokens: int
) -> list[np.ndarray]:
    """Returns the result of `function` for each pair, computed in batches of at most `batch_tokens` positions."""
    results = [np.zeros(0)] * len(pairs.sources)
    lengths = [max(len(source), len(output)) for source, output in zip(*pairs, strict=True)]
    for rows in engine.by_length(range(len(lengths)), lengths, lambda length: batch_tokens // length):
        for row, result in zip(rows, function(*(engine.padded([side[row] for row in rows]) for side in pairs))):
            results[row] = result
    return results
