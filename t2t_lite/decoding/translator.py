"""The translator, which translates, scores and aligns text with trained models."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from t2t_lite.arrays import Forwarded
from t2t_lite.config import DecodeHParams
from t2t_lite.data.vocab import UNKNOWN_ID, Vocabulary
from t2t_lite.decoding.alignment import alignment
from t2t_lite.decoding.engine import Engine, Lines, Loaded, Pairs, check_process
from t2t_lite.decoding.line_search import Hypothesis, LineSearch
from t2t_lite.decoding.loading import load_export, load_runs
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.decoding.single_text import checked_texts, or_a_single_text, translates
from t2t_lite.decoding.tokenizing import encode_lines
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.options import SettingValue

if TYPE_CHECKING:
    from t2t_lite.decoding.ensemble import Ensemble
    from t2t_lite.decoding.search_requests import LineConstraint
    from t2t_lite.models.base import Seq2SeqModel

# Attention weights [heads, queries, keys], the query tokens and the key tokens.
Weights: TypeAlias = tuple[np.ndarray, list[str], list[str]]


class Translator:
    """Translates lines; also scores and aligns given translations. Thread-safe.

    Args:
      model: a built `Seq2SeqModel` with its weights, or an `Ensemble`; or an `Engine`.
      vocabulary: the target vocabulary that the model was trained with.
      decode_hparams: the decoding settings.
      warn: receives a line about each input or output that was cut.
      checkpoints: the checkpoints of the weights, for reports.
      inputs_vocabulary: the input vocabulary; None if both sides share one.
      xla_compile, num_threads: see `EngineOptions`. Not used with an `Engine`.
      problem: the name of the problem that the model was trained for, for reports.
      has_inputs: whether the model reads inputs. If not, it completes each line, which is the beginning of an output.
    """

    def __init__(
        self,
        model: "Seq2SeqModel | Ensemble | Engine",
        vocabulary: Vocabulary,
        decode_hparams: DecodeHParams,
        warn: Callable[[str], None] = LOG.warning,
        checkpoints: Sequence[Path] = (),
        inputs_vocabulary: Vocabulary | None = None,
        xla_compile: bool | None = None,
        num_threads: int | None = None,
        problem: str = "",
        has_inputs: bool = True,
    ) -> None:
        self.vocabulary, self.inputs_vocabulary = vocabulary, inputs_vocabulary or vocabulary
        self.decode_hparams, self._warn, self._process = decode_hparams, warn, os.getpid()
        self.checkpoints, self.problem, self.has_inputs = list(checkpoints), problem, has_inputs
        vocabularies = self.vocabulary, self.inputs_vocabulary
        if hasattr(model, "search"):
            self.engine = cast(Engine, model)
        else:
            from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine

            options = EngineOptions(warn, xla_compile, num_threads)
            self.engine = TensorFlowEngine(model, *vocabularies, options, self.checkpoints)
        self._search_lines = LineSearch(self.engine, *vocabularies, warn, has_inputs)

    @property
    def model(self) -> "Seq2SeqModel | Ensemble":
        """The model of the TensorFlow engine.

        Raises:
          UserError: if another engine is in use.
        """
        if not hasattr(self.engine, "model"):
            raise UserError(f"the engine {self.engine.name} has no Keras model; use the TensorFlow engine")
        return getattr(self.engine, "model")  # noqa: B009  no attribute of every engine

    @property
    def num_threads(self) -> int:
        """Number of batches searched in parallel."""
        return self.engine.num_threads

    @property
    def attention_layers(self) -> Mapping[str, int]:
        """The number of layers for each kind of `attention`; {} for an ensemble or CTranslate2."""
        return self.engine.attention_layers

    @classmethod
    def from_run_dir(
        cls,
        path: str | os.PathLike | Sequence[str | os.PathLike],
        decode_hparams: str | Mapping[str, SettingValue] = "",
        checkpoint_path: str | os.PathLike | None = None,
        warn: Callable[[str], None] = LOG.warning,
        *,
        xla_compile: bool | None = None,
        num_threads: int | None = None,
    ) -> "Translator":
        """Loads the model of a run directory: the averaged checkpoint if it exists, else the last checkpoint.

        Args:
          path: a run directory, or several with the same vocabularies, whose models form an ensemble.
          decode_hparams: changes to the run's defaults, as a dict or "name=value,...". The defaults are its problem's,
            or those in decode_hparams.json if t2t-lite-eval --tune found better ones.
          checkpoint_path: another checkpoint to load: "best", "best:chrf", "last", "average", "ckpt-2000", or a path
            without suffix.
          warn, xla_compile, num_threads: see `EngineOptions`.

        Raises:
          UserError: if there is no checkpoint, a checkpoint does not fit, or the vocabularies differ.
        """
        paths = [Path(each) for each in ([path] if isinstance(path, str | os.PathLike) else path)]
        options = EngineOptions(warn, xla_compile, num_threads)
        return cls._of(load_runs(paths, decode_hparams, checkpoint_path, options), warn)

    @classmethod
    def from_export(
        cls,
        path: str | os.PathLike,
        decode_hparams: str | Mapping[str, SettingValue] = "",
        warn: Callable[[str], None] = LOG.warning,
        *,
        xla_compile: bool | None = None,
        num_threads: int | None = None,
    ) -> "Translator":
        """Loads an export from t2t-lite-export: a CTranslate2 model, without TensorFlow, or a Keras model.

        Args:
          path: the export directory.
          decode_hparams: changes to the export's search settings, as a dict or "name=value,...".
          warn, xla_compile, num_threads: see `EngineOptions`.

        Raises:
          UserError: if the directory is not an export, one of its files is missing or changed, or it is a SavedModel,
            which has its own search.
        """
        return cls._of(load_export(Path(path), decode_hparams, EngineOptions(warn, xla_compile, num_threads)), warn)

    @classmethod
    def _of(cls, loaded: Loaded, warn: Callable[[str], None]) -> "Translator":
        return cls(
            loaded.engine,
            loaded.vocabulary,
            loaded.decode_hparams,
            warn,
            loaded.checkpoints,
            loaded.inputs_vocabulary,
            problem=loaded.problem,
            has_inputs=loaded.has_inputs,
        )

    def __repr__(self) -> str:
        parts = [f"model={self.engine.model_name}", *(f"checkpoint={checkpoint}" for checkpoint in self.checkpoints)]
        return f"<{type(self).__name__} {', '.join([*parts, f'problem={self.problem}'] if self.problem else parts)}>"

    @translates
    def translate(
        self,
        lines: Sequence[str],
        return_scores: bool = False,
        prefixes: Sequence[str] | None = None,
        first_line: int = 1,
        on_done: Callable[[int], None] | None = None,
        constraints: "Sequence[LineConstraint] | str" = (),
        phrases: Sequence[Sequence[str]] | None = None,
        check: Callable[[], None] | None = None,
        copy_letterless: bool = False,
        **settings: SettingValue,
    ) -> list[str] | list[Hypothesis]:
        """Translates lines.

        Args:
          lines: texts without line ends. For a single text, every method of this class returns a single result instead
            of a list.
          return_scores: whether to return a `Hypothesis`, with scores, for each translation.
          prefixes: for each line, the beginning of its translation; "" for no prefix. None: no prefixes.
          first_line: the number of the first line, for warnings and, with sampling, to seed the random numbers.
          on_done: called after each batch with its number of translated lines.
          constraints: additional rules about the next token, such as those of a grammar; or names of registered rules,
            "a+b".
          phrases: for each line, the phrases that its translation must contain, as whole words; None: no phrases.
          check: called several times a second, in any thread; an exception from it ends the search.
          copy_letterless: whether the translation of a line without a letter of any script, such as "12" or an emoji,
            is the line itself, with score 0, unless it lacks the line's prefix or phrases. The server does so, see
            `ServingOptions.translate_letterless`.
          settings: fields of `DecodeHParams` that override the translator's, such as beam_size=8.

        Returns:
          the translation of each line, in order. A line of only whitespace has an empty translation (with score 0).

        Raises:
          UserError: if a setting is out of range.
        """
        lines_to_search = Lines(
            *(lines, prefixes, first_line, on_done, constraints, phrases, return_scores),
            check=check,
            copy_letterless=copy_letterless,
        )
        best = self._best(lines_to_search, settings)
        return best if return_scores else [hypothesis.text for hypothesis in best]

    def best(self, lines: Sequence[str], with_scores: bool = True, **options: Forwarded) -> list[Hypothesis]:
        """Returns the best hypothesis of each line, like `translate` with scores.

        Args:
          lines: texts without line ends.
          with_scores: whether the scores must be exact; if not, they may be the search's ranking scores.
          options: arguments of `translate`, except return_scores.

        Raises:
          UserError: see `translate`.
        """
        given = {name: value for name, value in options.items() if name in Lines._fields}
        settings = {name: value for name, value in options.items() if name not in given}
        lines = cast(Sequence[str], checked_texts("best: `lines`", lines))
        return self._best(Lines(lines, **given, with_scores=with_scores), settings)

    def _best(self, lines: Lines, settings: Mapping[str, SettingValue]) -> list[Hypothesis]:
        return [beams[0] for beams in self._search_lines(lines, self._settings(settings), 1)]

    @or_a_single_text("lines", "prefixes", lists=("phrases",))
    def n_best(
        self,
        lines: Sequence[str],
        prefixes: Sequence[str] | None = None,
        first_line: int = 1,
        on_done: Callable[[int], None] | None = None,
        constraints: "Sequence[LineConstraint] | str" = (),
        phrases: Sequence[Sequence[str]] | None = None,
        copy_letterless: bool = False,
        **settings: SettingValue,
    ) -> list[list[Hypothesis]]:
        """Translates lines and returns all hypotheses of each: best first, or samples in the order they were drawn.

        Arguments and errors are those of `translate`. A line has `beam_size` hypotheses, or fewer if no more exist or
        some have the same text: then only the best of them is returned.
        """
        lines_to_search = Lines(
            lines, prefixes, first_line, on_done, constraints, phrases, copy_letterless=copy_letterless
        )
        return self._search_lines(lines_to_search, self._settings(settings), 0)

    @or_a_single_text("lines")
    def sample(
        self, lines: Sequence[str], num_samples: int = 1, first_line: int = 1, **settings: SettingValue
    ) -> list[list[Hypothesis]]:
        """Draws translations at random, token by token, from the model's probabilities.

        Args:
          lines: see `translate`.
          num_samples: number of samples for each line.
          first_line: the number of the first line.
          settings: fields of `DecodeHParams`, such as sampling_temp=0.8, sampling_keep_top_k=20 or random_seed=2.

        Returns:
          the samples of each line, in the order they were drawn. They depend on random_seed and the line's number.
        """
        settings = {"sampling_method": "random", "beam_size": num_samples} | settings
        return self._search_lines(Lines(lines, first_line=first_line), self._settings(settings), 0)

    def warm_up(self, lines: Sequence[str] | str | None = None, **settings: SettingValue) -> None:
        """Translates some lines, so that searches are compiled now rather than during later translations.

        Args:
          lines: lines of typical lengths; None: lines of 4, 12 and 40 tokens. They are translated separately and
            together.
          settings: the settings that `translate` will receive.
        """
        if lines is None:
            first = UNKNOWN_ID + 1
            known = range(first, min(self.inputs_vocabulary.size, first + 40))
            ids = [[known[place % len(known)] for place in range(length)] for length in (4, 12, 40)]
            lines = [self.inputs_vocabulary.decode([row])[0] for row in ids]
        lines = [lines] if isinstance(lines, str) else lines
        for part in [*([line] for line in lines), lines]:
            self._search_lines(Lines(part, with_scores=False, warm_up=True), self._settings(settings), 1)

    @or_a_single_text("inputs", "targets")
    def score(self, inputs: Sequence[str], targets: Sequence[str], first_line: int = 1) -> list[Hypothesis]:
        """Scores given translations.

        The texts are tokenized. If a search found the same text as other tokens, it gave it another score.

        Args:
          inputs: source lines.
          targets: a translation of each line.
          first_line: the number of the first line, for warnings.

        Returns:
          a `Hypothesis` for each pair. Its score does not include the coverage penalty.
        """
        scores = self.engine.score(self._pairs(inputs, targets, first_line), self.decode_hparams)
        return [Hypothesis(text, *scored) for text, scored in zip(targets, scores, strict=True)]

    @or_a_single_text("line", "translation")
    def attention(
        self, line: Sequence[str], translation: Sequence[str], kind: str = "cross", layer: int | None = None
    ) -> list[Weights]:
        """Returns the attention weights of one layer for a line and its translation.

        Args:
          line, translation: two texts, or two lists of texts.
          kind: "encoder" or "decoder" for their self-attention, "cross" for the decoder's attention to the source.
          layer: the index of the layer, counted from 0, -1 for the last; None: the layer closest to a word alignment.

        Returns:
          (weights, query tokens, key tokens), or a list of them. The weights are float32 [heads, queries, keys], and
          each row sums to 1. A decoder query is labelled with the token that it predicts. The last token is the end
          symbol, "".

        Raises:
          UserError: if there is no such layer, it has no attention, or the translator is an ensemble or uses
            CTranslate2.
        """
        kind = "cross" if kind == "memory" else kind  # its name before version 0.2
        if kind not in ("encoder", "decoder", "cross"):
            raise UserError(f"attention kinds are encoder, decoder and cross, not '{kind}'")
        pairs = self._pairs(line, translation)
        try:
            attentions = self.engine.attention(pairs, kind, layer, self.decode_hparams)
        except ValueError as error:
            raise UserError(str(error)) from error
        queries, keys = {"encoder": (0, 0), "decoder": (1, 1), "cross": (1, 0)}[kind]
        results = []
        for weights, source, output in zip(attentions, *pairs):
            sides = ([*self.inputs_vocabulary.tokens_of(source), ""], [*self.vocabulary.tokens_of(output), ""])
            results.append((weights, sides[queries], sides[keys]))
        return results

    @or_a_single_text("lines", "translations")
    def align(self, lines: Sequence[str], translations: Sequence[str], layer: int | None = None) -> list[str]:
        """Aligns the words of translations with the words of their lines, by cross-attention averaged over heads.

        Args:
          lines, translations: texts.
          layer: the decoder layer that provides the attention, see `attention`.

        Returns:
          for each pair, "i-j ..." in Pharaoh format: word j of the translation is aligned with word i of the line. Both
          indices start at 0; words are separated by whitespace. Each word of the translation has one link.

        Raises:
          UserError: if the engine or the model does not return the cross-attention of this layer.
        """
        pairs = self._pairs(lines, translations)
        try:
            attentions = self.engine.cross_attention(pairs, layer, self.decode_hparams)
        except ValueError as error:
            raise UserError(str(error)) from error
        return [
            alignment(weights, self.inputs_vocabulary.tokens_of(source), self.vocabulary.tokens_of(output))
            for weights, source, output in zip(attentions, *pairs)
        ]

    def _pairs(self, lines: Sequence[str], outputs: Sequence[str], first_line: int = 1) -> Pairs:
        check_process(self._process)
        settings = self.decode_hparams, self.engine, self._warn, first_line
        sources, _ = encode_lines(self.inputs_vocabulary, lines, *settings, "line")
        targets, _ = encode_lines(self.vocabulary, outputs, *settings, "the translation of line")
        return Pairs(sources, targets)

    def _settings(self, changes: Mapping[str, SettingValue]) -> DecodeHParams:
        settings = self.decode_hparams.replace(**changes)
        if settings.precision != self.decode_hparams.precision:
            raise UserError(
                "precision cannot change after the model is loaded; set it in from_run_dir's decode_hparams"
            )
        if settings.only_trees:
            raise UserError("only_trees=True is for parsing; use a Parser")
        return settings
