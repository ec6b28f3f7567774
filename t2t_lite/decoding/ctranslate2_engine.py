"""The CTranslate2 engine: searches an exported model without TensorFlow.

Like this package's own search, CTranslate2 keeps the hypotheses with the best log-probabilities, but it ranks finished
ones by log-probability / length^alpha. Therefore this engine reranks its n-best lists by the length penalty of Wu et
al., and searches until 2 * beam_size hypotheses are finished: with fewer, the best one by this penalty may be missing.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from t2t_lite.config import DecodeHParams
from t2t_lite.data.vocab import EOS_ID, PAD_ID, Vocabulary
from t2t_lite.decoding.engine import EngineHypothesis, Outcome, Pairs, Request, by_length, output_scores
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.decoding.search.length_penalty import length_penalty
from t2t_lite.errors import UserError
from t2t_lite.system.installed import check_installed
from t2t_lite.system.machine import num_cores

# A search ends when PATIENCE * beam_size hypotheses are finished.
PATIENCE = 2
# Batching counts shorter sources as this many tokens, because their outputs take memory, too.
_MIN_LENGTH = 32
# The largest useful batch: larger ones are no faster and need more memory.
_BATCH_TOKENS = 1024
# The settings for which this engine supports only one value.
_ONLY = {
    "coverage_penalty": 0.0,
    "diverse_beam_groups": 1,
    "constraints": "",
    "scorers": "",
    "only_trees": False,
    "precision": "float32",
}
# Number of tokens to try after a prefix that ends in a blank, if those of the beam continue its last word.
_ALTERNATIVES = 64


class CTranslate2Engine:
    """An `Engine` that runs a model in CTranslate2's format, from a folder with model.bin.

    `positions_limit` is the name of the limit `max_positions` in messages. `alignment_layer` is the only decoder layer
    whose attention the model returns, and `digest` is the checksum of the model. `quantization` is that of its weights.
    Without `source_end_symbol`, the model receives sources without their end symbol.
    `options.warn` also receives a line if sampling ignores random_seed, searches differ from those of TensorFlow, or
    the processor computes with another quantization.
    """

    name = "ctranslate2"

    def __init__(
        self,
        folder: Path,
        vocabulary: Vocabulary,
        inputs_vocabulary: Vocabulary,
        max_positions: int,
        positions_limit: str,
        alignment_layer: int,
        options: EngineOptions = EngineOptions(),  # noqa: B008  frozen
        digest: str = "",
        quantization: str | None = None,
        source_end_symbol: bool = True,
    ) -> None:
        ctranslate2 = imported()
        self._source_end_symbol = source_end_symbol
        self.max_positions: int | None = max_positions
        self._limit = max_positions
        self.positions_limit = positions_limit
        self.num_threads = options.num_threads or num_cores()
        self.model_name = f"{folder.name} ({self.name})"
        self._alignment_layer, self._digest, self._warn = alignment_layer, digest, options.warn
        self._warned: set[str] = set()
        self._tokens, self._inputs_tokens = vocabulary.tokens(), inputs_vocabulary.tokens()
        self._has_unknown = vocabulary.unknown_id is not None
        self._starts = vocabulary.word_starts
        self._ids = {token: id for id, token in enumerate(self._tokens)}
        try:
            # One batch's matrix products are too small to use all cores, so each thread gets its own batch.
            self._translator = ctranslate2.Translator(
                str(folder), device="auto", inter_threads=self.num_threads, intra_threads=1
            )
        except (RuntimeError, ValueError) as error:
            raise UserError(f"CTranslate2 cannot load {folder}: {error}") from error
        config = folder / "config.json"
        of_model = json.loads(config.read_text(encoding="utf-8")) if config.exists() else {}  # old models have none
        self._start = of_model.get("decoder_start_token", self._tokens[PAD_ID])
        computed = self._translator.compute_type.partition("_")[0]
        if quantization and computed != quantization:
            self._warn(f"{folder} is in {quantization}, but CTranslate2 computes in {computed} on this processor")

    def check(
        self,
        settings: DecodeHParams,
        *,
        phrases: bool = False,
        constraints: bool = False,
        alignment_layer: int | None = None,
    ) -> None:
        check_settings(settings, self._alignment_layer, phrases, constraints, alignment_layer)
        if settings.beam_size > len(self._tokens):
            raise UserError(
                f"beam_size={settings.beam_size} is larger than the vocabulary ({len(self._tokens):,} tokens)"
            )

    def search(self, request: Request) -> Outcome:
        settings = request.decode_hparams
        if settings.sampling_method == "random":
            self._warn_once("CTranslate2 samples with its own random numbers; random_seed has no effect")
        elif settings.min_length_ratio or settings.min_length > 1:
            self._warn_once(
                "below a minimum length, CTranslate2 divides the probability of the end symbol among all tokens, so it "
                "may find other translations than TensorFlow"
            )
        lines = [_Line.of(request, row, self._limit) for row in request.rows]
        hypotheses = self._searched(request, lines)
        # A batch has one length limit, the largest of its lines' limits. Lines whose outputs exceed their own limit are
        # searched again.
        too_long = [line for line in lines if any(len(each.ids) > line.limit for each in hypotheses[line.row])]
        for limit in sorted({line.limit for line in too_long}):
            hypotheses |= self._searched(request, [each for each in too_long if each.limit == limit], report=False)
        hypotheses |= self._with_new_words(request, lines, hypotheses)
        if request.prefixes is None:
            hypotheses = _cut(hypotheses, settings.beam_size)
        if request.exact_scores or request.prefixes is not None:
            # From the log-probabilities of all tokens: CTranslate2's search omits those of the prefix, and its
            # probabilities sum to 1 over allowed tokens only.
            flat = [(row, each) for row, beams in hypotheses.items() for each in beams]
            pairs = Pairs([request.sources[row] for row, _ in flat], [list(each.ids) for _, each in flat])
            exact: dict[int, list[EngineHypothesis]] = {row: [] for row in hypotheses}
            for (row, each), log_prob in zip(flat, self._log_probs(pairs, settings), strict=True):
                score = log_prob / length_penalty(len(each.ids), settings.alpha, settings.length_penalty)
                exact[row].append(EngineHypothesis(each.ids, score, log_prob))
            hypotheses = _cut({row: _ranked(beams, settings) for row, beams in exact.items()}, settings.beam_size)
        warnings = {}
        for line in lines:
            ids, longest = hypotheses[line.row][0].ids, len(line.source) + settings.extra_length
            if len(ids) == self._limit < longest and ids[-1] != EOS_ID:
                warnings[line.row] = f"the output was cut at {self._limit} tokens, which is {self.positions_limit}"
        return Outcome(hypotheses, warnings)

    def _warn_once(self, line: str) -> None:
        if line not in self._warned:
            self._warned.add(line)
            self._warn(line)

    def score(self, pairs: Pairs, settings: DecodeHParams) -> list[tuple[float, float]]:
        return output_scores(pairs.outputs, lambda: self._log_probs(pairs, settings), settings)

    def cross_attention(self, pairs: Pairs, layer: int | None, settings: DecodeHParams) -> list[np.ndarray]:
        _check_layer(layer, self._alignment_layer)
        sources, outputs = pairs
        # The only token of a blank line receives an attention of 1; CTranslate2 returns no weights for it.
        attentions = [np.ones([len(output), 1], np.float32) for output in outputs]
        lengths = [max(len(source), len(output)) for source, output in zip(sources, outputs, strict=True)]
        longer = [row for row, source in enumerate(sources) if len(source) > 1]
        for rows in by_length(longer, lengths, lambda length: settings.batch_tokens // length):
            # Each output is forced; the step after it returns the attention of the end symbol, whatever it predicts.
            results = self._translator.translate_batch(
                [self._named_source(sources[row]) for row in rows],
                target_prefix=[self._named(outputs[row][:-1], self._tokens) for row in rows],
                beam_size=1,
                return_attention=True,
                return_end_token=True,
                max_input_length=0,
                min_decoding_length=max(len(outputs[row]) for row in rows),
                max_decoding_length=max(len(outputs[row]) for row in rows),
            )
            for row, result in zip(rows, results, strict=True):
                found = np.array(result.attention[0], np.float32)[: len(outputs[row]), : len(sources[row])]
                attentions[row] = np.pad(found, [(0, 0), (0, len(sources[row]) - found.shape[1])])
        return attentions

    @property
    def attention_layers(self) -> dict[str, int]:
        """Empty, because `attention` is not supported."""
        return {}

    def attention(self, pairs: Pairs, kind: str, layer: int | None, settings: DecodeHParams) -> list[np.ndarray]:
        raise UserError("CTranslate2 returns no attention weights of single heads; use the TensorFlow engine")

    def description(self) -> dict[str, Any]:
        return {"engine": self.name, "model": self._digest}

    def _searched(
        self, request: Request, lines: "Sequence[_Line]", report: bool = True, **more: Any
    ) -> dict[int, list[EngineHypothesis]]:
        """Returns the hypotheses of each line: best first, or samples in drawing order.

        `more` are further arguments of translate_batch.
        """
        hypotheses: dict[int, list[EngineHypothesis]] = {}
        waiting = [
            (batch, self._translator.translate_batch(**self._options(request, batch) | more, asynchronous=True))
            for batch in _batches(lines, min(request.decode_hparams.batch_tokens, _BATCH_TOKENS))
        ]
        for batch, results in waiting:
            for line, result in zip(batch, results, strict=True):
                hypotheses[line.row] = self._hypotheses(result.result(), request.decode_hparams)
            if report:
                request.on_done(len(batch))
            if request.check:
                request.check()
        return hypotheses

    def _with_new_words(
        self, request: Request, lines: "Sequence[_Line]", hypotheses: Mapping[int, list[EngineHypothesis]]
    ) -> dict[int, list[EngineHypothesis]]:

        def fitting(
            found: Mapping[int, list[EngineHypothesis]], lines: "Sequence[_Line]"
        ) -> dict[int, list[EngineHypothesis]]:
            return {
                row: beams
                for row, place in {line.row: len(line.prefix) for line in lines}.items()
                if (beams := [each for each in found[row] if len(each.ids) > place and self._starts[each.ids[place]]])
            }

        lines = [line for line in lines if line.row in request.whole_words]
        found = fitting(hypotheses, lines)
        # CTranslate2 cannot forbid tokens at one position, but tries many different ones after a prefix.
        more = {"return_alternatives": True, "beam_size": 1, "patience": 1}
        more |= {"num_hypotheses": min(_ALTERNATIVES, len(self._tokens))}
        left = [line for line in lines if line.row not in found]
        return found | fitting(self._searched(request, left, report=False, **more), left)

    def _options(self, request: Request, batch: "Sequence[_Line]") -> dict[str, Any]:
        settings = request.decode_hparams
        options: dict[str, Any] = {
            "source": [self._named_source(line.source) for line in batch],
            "length_penalty": settings.alpha,
            "no_repeat_ngram_size": settings.no_repeat_ngram_size,
            "disable_unk": self._has_unknown and not settings.allow_unk,
            "suppress_sequences": [] if self._start == self._tokens[EOS_ID] else [[self._start]],
            "min_decoding_length": batch[0].min_length,
            "max_decoding_length": max(line.limit for line in batch),
            "max_input_length": 0,
            "return_end_token": True,
            "return_scores": True,
        }
        if settings.sampling_method == "random":
            options |= {
                "beam_size": 1,
                "num_hypotheses": settings.beam_size,
                # CTranslate2 does not check this value and would read beyond the vocabulary.
                "sampling_topk": min(settings.sampling_keep_top_k, len(self._tokens)),
                "sampling_topp": settings.sampling_keep_top_p,
                "sampling_temperature": settings.sampling_temp,
            }
        else:
            patience = PATIENCE if settings.beam_size > 1 else 1
            finished = settings.beam_size * patience  # all: CTranslate2 may rank our best hypothesis lower
            options |= {"beam_size": settings.beam_size, "patience": patience, "num_hypotheses": finished}
        if request.prefixes is not None:
            options["target_prefix"] = [self._named(line.prefix, self._tokens) for line in batch]
        return options

    def _hypotheses(self, result: Any, settings: DecodeHParams) -> list[EngineHypothesis]:  # noqa: ANN401
        # `result` is a TranslationResult.
        hypotheses = []
        for tokens, its_score in zip(result.hypotheses, result.scores, strict=True):
            log_prob = its_score * max(1, len(tokens)) ** settings.alpha
            ids = [self._ids[token] for token in tokens]
            score = log_prob / length_penalty(len(ids), settings.alpha, settings.length_penalty)
            hypotheses.append(EngineHypothesis(ids, score, log_prob))
        return _ranked(hypotheses, settings)

    def _log_probs(self, pairs: Pairs, settings: DecodeHParams) -> list[float]:
        """Returns the log-probability of each output; the end symbol counts only if the output has one."""
        sources, outputs = pairs
        ended = [bool(output) and output[-1] == EOS_ID for output in outputs]
        results = self._translator.score_batch(
            [self._named_source(source) for source in sources],
            [self._named(output[:-1] if end else output, self._tokens) for output, end in zip(outputs, ended)],
            max_batch_size=settings.batch_tokens,
            batch_type="tokens",
            max_input_length=0,
        )
        return [sum(result.log_probs if end else result.log_probs[:-1]) for result, end in zip(results, ended)]

    def _named_source(self, ids: Sequence[int]) -> list[str]:
        # A blank line has only an end symbol, and keeps it.
        has_more = not self._source_end_symbol and len(ids) > 1 and ids[-1] == EOS_ID
        return self._named(ids[:-1] if has_more else ids, self._inputs_tokens)

    def _named(self, ids: Sequence[int], tokens: Sequence[str]) -> list[str]:
        return [tokens[id] for id in ids]


class _Line(NamedTuple):
    row: int
    source: list[int]
    prefix: list[int]
    limit: int  # maximum output length in tokens, including the end symbol
    min_length: int  # minimum output length in tokens, without the end symbol

    @classmethod
    def of(cls, request: Request, row: int, max_positions: int) -> "_Line":
        settings, source = request.decode_hparams, request.sources[row]
        prefix = [] if request.prefixes is None else list(request.prefixes[row])
        limit = min(max(len(source) + settings.extra_length, len(prefix) + 1), max_positions)
        shortest = max(settings.min_length, int(np.ceil(settings.min_length_ratio * (len(source) - 1))))
        return cls(row, source, prefix, limit, min(shortest, limit))


def _batches(lines: Sequence[_Line], batch_tokens: int) -> Iterator[list[_Line]]:
    """Divides lines into batches with equal minimum lengths and similar source lengths, longest first."""
    for shortest in sorted({line.min_length for line in lines}):
        same = [line for line in lines if line.min_length == shortest]
        lengths = [len(line.source) for line in same]
        size_of = lambda length: max(1, batch_tokens // max(length, _MIN_LENGTH))  # noqa: E731
        yield from ([same[place] for place in rows] for rows in by_length(range(len(same)), lengths, size_of))


def _cut(hypotheses: dict[int, list[EngineHypothesis]], number: int) -> dict[int, list[EngineHypothesis]]:
    return {row: beams[:number] for row, beams in hypotheses.items()}


def _ranked(hypotheses: list[EngineHypothesis], settings: DecodeHParams) -> list[EngineHypothesis]:
    """Returns hypotheses sorted by score, best first; samples stay in drawing order."""
    return hypotheses if settings.sampling_method == "random" else sorted(hypotheses, key=lambda each: -each.score)


def check_settings(
    settings: DecodeHParams,
    exported_layer: int | None = None,
    phrases: bool = False,
    constraints: bool = False,
    alignment_layer: int | None = None,
) -> None:
    """Raises UserError if the engine does not support the settings, or what else is wanted, see `Engine.check`.

    `exported_layer` is the decoder layer whose attention the model returns; None: not known yet.
    """
    for name, value in _ONLY.items():
        if (given := getattr(settings, name)) != value:
            hint = " (the weights have the precision of the export)" if name == "precision" else ""
            raise _cannot(f"{name}={given}{hint}")
    if phrases:
        raise _cannot("phrases or terms that outputs must contain")
    if constraints:
        raise _cannot("constraints on outputs, such as trees")
    if exported_layer is not None:
        _check_layer(alignment_layer, exported_layer)


def _check_layer(layer: int | None, alignment_layer: int) -> None:
    if layer is not None and layer != alignment_layer:
        raise _cannot(f"the attention of layer {layer}: the export has only that of layer {alignment_layer}")


def _cannot(what: str) -> UserError:
    return UserError(
        f"the engine ctranslate2 does not support {what}; use `engine=tensorflow`, with the run directory or an export "
        f"in the format keras"
    )


def imported() -> Any:  # noqa: ANN401  a module
    check_installed("this", {"ctranslate2": "CTranslate2"}, "ctranslate2")
    import ctranslate2

    return ctranslate2
