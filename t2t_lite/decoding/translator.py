"""The translator, which translates, scores and aligns text with trained models."""

import copy
import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast, overload

import numpy as np

from t2t_lite.arrays import Forwarded
from t2t_lite.config import DecodeHParams
from t2t_lite.data.vocab import EOS_ID, UNKNOWN_ID, Vocabulary
from t2t_lite.data.vocab.symbols import LANGUAGE_TOKEN
from t2t_lite.decoding.alignment import alignment
from t2t_lite.decoding.engine import (
    LEARNED_POSITIONS,
    Engine,
    EngineHypothesis,
    LineConstraint,
    Pairs,
    Request,
    check_process,
)
from t2t_lite.decoding.glossary import Glossary, Terms
from t2t_lite.decoding.loading import ModelSource, open_model
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.options import SettingValue

if TYPE_CHECKING:
    from t2t_lite.decoding.ensemble import Ensemble
    from t2t_lite.models.base import Seq2SeqModel

# Attention weights [heads, queries, keys], the query tokens and the key tokens.
Weights: TypeAlias = tuple[np.ndarray, list[str], list[str]]
# Tokens usually have fewer characters than this, so only the beginning of a long text must be tokenized.
MAX_TOKEN_CHARACTERS = 64
# The options of `translate` that are not search settings.
_OPTIONS = ("prefixes", "first_line", "on_done", "constraints", "phrases", "terms", "check", "copy_letterless")
_Result = TypeVar("_Result")


class Hypothesis(NamedTuple):
    """One output for a line."""

    text: str
    score: float  # log_prob / length penalty + coverage penalty + other score terms; the search ranks by it
    log_prob: float  # sum of the log-probabilities of its tokens and the end symbol, in nats

    @property
    def is_cut(self) -> bool:
        """Whether the output is incomplete: it reached the length limit without an end symbol, or its line was cut."""
        return isinstance(self, CutHypothesis)


class CutHypothesis(Hypothesis):
    """An incomplete hypothesis, see `Hypothesis.is_cut`. It has the same three values, for compatibility."""

    __slots__ = ()


class OfTexts(Protocol[_Result]):
    """The type of a method with `or_a_single_text`: it returns one result for a single text, and a list for a list."""

    @overload
    def __call__(self, text: str, /, *more: Forwarded, **options: Forwarded) -> _Result: ...

    @overload
    def __call__(self, texts: Sequence[str], /, *more: Forwarded, **options: Forwarded) -> list[_Result]: ...

    @overload
    def __call__(self, **options: Forwarded) -> Any: ...  # noqa: ANN401  texts passed by keyword


class Translates(Protocol):
    """The type of `translate`, which returns texts or, with `return_scores`, hypotheses."""

    @overload
    def __call__(self, lines: str, return_scores: Literal[False] = ..., **options: Forwarded) -> str: ...

    @overload
    def __call__(
        self, lines: Sequence[str], return_scores: Literal[False] = ..., **options: Forwarded
    ) -> list[str]: ...

    @overload
    def __call__(self, lines: str, return_scores: Literal[True], **options: Forwarded) -> Hypothesis: ...

    @overload
    def __call__(
        self, lines: Sequence[str], return_scores: Literal[True], **options: Forwarded
    ) -> list[Hypothesis]: ...


def or_a_single_text(
    *names: str, lists: Sequence[str] = ()
) -> Callable[[Callable[..., list[_Result]]], OfTexts[_Result]]:
    """Returns a decorator that lets a method that takes lists of texts accept single texts as well.

    Without it, a string would be treated as a sequence of one-character texts. If all arguments in `names` are single
    texts, the decorated method returns one result instead of a list. It raises TypeError if some of them are single
    texts and others are lists, and UserError if one is neither.

    Args:
      names: the arguments that hold texts; missing ones and None are ignored.
      lists: the arguments that hold one list per text; with a single text, they hold that text's list.
    """

    def decorate(method: Callable[..., list[_Result]]) -> Any:  # noqa: ANN401  the method, of another type
        signature = inspect.signature(method)

        @functools.wraps(method)
        def of_texts(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  (what the method returns)
            bound = signature.bind(*args, **kwargs)
            for name in names:
                if name in bound.arguments and bound.arguments[name] is not signature.parameters[name].default:
                    what = f"{method.__name__}: `{name}`"
                    bound.arguments[name] = checked_texts(what, bound.arguments[name])
            present = [name for name in names if bound.arguments.get(name) is not None]
            single = [name for name in present if isinstance(bound.arguments[name], str)]
            if not single:
                sizes = {name: len(bound.arguments[name]) for name in present}
                if len(set(sizes.values())) > 1:
                    listed = " but ".join(f"{size} {name}" for name, size in sizes.items())
                    raise UserError(f"{method.__name__}: {listed}; pass as many of each")
                return method(*bound.args, **bound.kwargs)
            if single != present:
                others = ", ".join(name for name in present if name not in single)
                raise TypeError(
                    f"{method.__name__}: {', '.join(single)} is a string but {others} is not; "
                    f"pass both as strings or both as lists"
                )
            lists_given = [name for name in lists if bound.arguments.get(name) is not None]
            bound.arguments.update({name: [bound.arguments[name]] for name in (*single, *lists_given)})
            (result,) = method(*bound.args, **bound.kwargs)
            return result

        return of_texts

    return decorate


def translates(method: Callable[..., Any]) -> Translates:
    """Decorates `translate` with `or_a_single_text`; a single text takes one prefix and one list of phrases."""
    decorated: Any = or_a_single_text("lines", "prefixes", lists=("phrases",))(method)
    return decorated


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
        self._language_token = ""  # at the start of each line
        if hasattr(model, "search"):
            self.engine = cast(Engine, model)
        else:
            from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine

            options = EngineOptions(warn, xla_compile, num_threads)
            self.engine = TensorFlowEngine(model, options, self.checkpoints)

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
        source = open_model(path, checkpoint_path, decode_hparams)
        return cls.of(source, EngineOptions(warn, xla_compile, num_threads))

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
        source = open_model(export_dir=path, decode_hparams=decode_hparams)
        return cls.of(source, EngineOptions(warn, xla_compile, num_threads))

    @classmethod
    def of(cls, source: ModelSource, options: EngineOptions) -> "Translator":
        """Loads a model that `open_model` has chosen. Raises UserError if it is unusable, see `ModelSource.load`."""
        engine, (targets, inputs) = source.load(options), source.vocabularies
        of_problem = {"problem": source.problem, "has_inputs": source.has_inputs}
        return cls(engine, targets, source.settings, options.warn, source.checkpoints, inputs, **of_problem)

    def to_language(self, language: str) -> "Translator":
        """Returns this translator for one of the languages of a multilingual model.

        It puts the token of the language, such as ">>fra<<", at the start of each line that has none.

        Args:
          language: a key of `inputs_vocabulary.language_tokens`, such as "fra".

        Raises:
          UserError: if the model has no such language.
        """
        tokens = self.inputs_vocabulary.language_tokens
        if language not in tokens:
            known = f"the model has {', '.join(sorted(tokens))}" if tokens else "the model has only one; omit it"
            raise UserError(f"`target_language={language}`: {known}", status=2)
        other = copy.copy(self)
        other._language_token = tokens[language]
        return other

    def _with_language(self, lines: Sequence[str]) -> Sequence[str]:
        if not (token := self._language_token):
            return lines
        known = self.inputs_vocabulary.language_tokens.values()
        heads = (match[1] if (match := LANGUAGE_TOKEN.match(line)) else "" for line in lines)
        return [f"{token} {line}" if line.strip() and head not in known else line for line, head in zip(lines, heads)]

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
        constraints: Sequence[LineConstraint] | str = (),
        phrases: Sequence[Sequence[str]] | None = None,
        terms: Terms | None = None,
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
          phrases: for each line, the phrases that its translation must contain, as whole words; one that is listed
            twice, twice. None: no phrases.
          terms: a `Glossary`, {term: translation}, or a file with TERM<tab>TRANSLATION on each line: the translation
            of a line that has a term must contain its translation, as a phrase. See `Glossary` for what counts.
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
        options = prefixes, first_line, on_done, constraints, phrases, terms, check, copy_letterless
        beams = self._search(lines, settings, 1, *options, exact_scores=return_scores)
        best = [hypotheses[0] for hypotheses in beams]
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
        lines = cast(Sequence[str], checked_texts("best: `lines`", lines))
        given = {name: options.pop(name) for name in _OPTIONS if name in options}
        return [beams[0] for beams in self._search(lines, options, 1, exact_scores=with_scores, **given)]

    @or_a_single_text("lines", "prefixes", lists=("phrases",))
    def n_best(
        self,
        lines: Sequence[str],
        prefixes: Sequence[str] | None = None,
        first_line: int = 1,
        on_done: Callable[[int], None] | None = None,
        constraints: Sequence[LineConstraint] | str = (),
        phrases: Sequence[Sequence[str]] | None = None,
        terms: Terms | None = None,
        copy_letterless: bool = False,
        **settings: SettingValue,
    ) -> list[list[Hypothesis]]:
        """Translates lines and returns all hypotheses of each: best first, or samples in the order they were drawn.

        Arguments and errors are those of `translate`. A line has `beam_size` hypotheses, or fewer if no more exist or
        some have the same text: then only the best of them is returned.
        """
        options = prefixes, first_line, on_done, constraints, phrases, terms, None, copy_letterless
        return self._search(lines, settings, 0, *options)

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
        return self._search(lines, settings, 0, first_line=first_line)

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
            self._search(part, settings, 1, exact_scores=False, compiles_now=True)

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
        # The words of a line do not include the token of the target language.
        vocabulary = self.inputs_vocabulary
        heads = [ids[:-1] for ids in _ids_of(vocabulary, [*vocabulary.language_tokens.values()])]
        aligned = []
        for weights, source, output in zip(attentions, *pairs):
            start = max((len(head) for head in heads if source[: len(head)] == head), default=0)
            words = vocabulary.tokens_of(source[start:]), self.vocabulary.tokens_of(output)
            aligned.append(alignment(weights[:, start:], *words))
        return aligned

    def _pairs(self, lines: Sequence[str], outputs: Sequence[str], first_line: int = 1) -> Pairs:
        check_process(self._process)
        settings = self.decode_hparams, self.engine, self._warn, first_line
        sources, _ = encode_lines(self.inputs_vocabulary, self._with_language(lines), *settings, "line")
        targets, _ = encode_lines(self.vocabulary, outputs, *settings, "the translation of line")
        return Pairs(sources, targets)

    def _search(
        self,
        lines: Sequence[str],
        changes: Mapping[str, SettingValue],
        num_wanted: int,
        prefixes: Sequence[str] | None = None,
        first_line: int = 1,
        on_done: Callable[[int], None] | None = None,
        constraints: Sequence[LineConstraint] | str = (),
        phrases: Sequence[Sequence[str]] | None = None,
        terms: Terms | None = None,
        check: Callable[[], None] | None = None,
        copy_letterless: bool = False,
        exact_scores: bool = True,
        compiles_now: bool = False,
    ) -> list[list[Hypothesis]]:
        """Returns the hypotheses of each line: best first, or samples in drawing order.

        `changes` are the settings of `translate`, which also explains its options, and `Request` the others.
        """
        settings = self._settings(changes)
        check_process(self._process)
        if not self.has_inputs:  # the lines are the beginnings of their own outputs
            if prefixes is not None:
                raise UserError(
                    "the model reads no inputs and takes no prefixes; pass the beginnings of outputs as lines"
                )
            lines, prefixes = [""] * len(lines), lines
        if first_line < 0:
            raise UserError(f"`first_line={first_line}` is out of range: it must be at least 0")
        if isinstance(constraints, str):
            settings, constraints = settings.replace(constraints=constraints), ()
        if prefixes is not None and len(prefixes) != len(lines):
            raise UserError(f"{len(lines)} lines but {len(prefixes)} prefixes; pass one prefix per line")
        phrases = self._phrases(lines, phrases, terms, settings, first_line)
        self.engine.check(settings, phrases=terms is not None or any(phrases or ()), constraints=bool(constraints))

        copied = _letterless(lines, prefixes, phrases) if copy_letterless and self.has_inputs else {}
        texts = ["" if row in copied else text for row, text in enumerate(lines)]
        rows = [row for row, text in enumerate(texts) if text.strip() or not self.has_inputs]
        common = settings, self.engine, self._warn, first_line
        sources, cut = encode_lines(self.inputs_vocabulary, self._with_language(texts), *common, "line")
        starts, whole_words = None, set()
        if prefixes is not None:
            # The blank after a prefix is the beginning of the next token.
            begins_words = self.vocabulary.starts_with_blank
            whole_words = {row for row, text in enumerate(prefixes) if begins_words and text[-1:].isspace()}
            stripped = [text.rstrip() if row in whole_words else text for row, text in enumerate(prefixes)]
            ended, cut_prefixes = encode_lines(self.vocabulary, stripped, *common, "the prefix of line")
            starts, cut, whole_words = [ids[:-1] for ids in ended], cut | cut_prefixes, whole_words.intersection(rows)

        request = Request(
            *(texts, sources, settings, self.vocabulary, self.inputs_vocabulary),
            prefixes=starts,
            phrases=phrases,
            constraints=constraints,
            rows=rows,
            whole_words=whole_words,
            num_wanted=num_wanted,
            first_line=first_line,
            exact_scores=exact_scores,
            compiles_now=compiles_now,
            on_done=on_done or (lambda lines: None),
            check=check,
        )
        if num_blank := len(texts) - len(rows):
            request.on_done(num_blank)
        hypotheses, warnings = self.engine.search(request)
        blank = "the line is blank, so its output is blank and lacks its phrases"
        without = {row: blank for row, wanted in enumerate(phrases or ()) if wanted and row not in hypotheses}
        for row, line in sorted((without | dict(warnings)).items()):
            self._warn(f"line {first_line + row}: {line}")
        results = [[Hypothesis(copied.get(row, ""), 0.0, 0.0)] for row in range(len(texts))]
        for row in rows:
            start = (prefixes[row], starts[row]) if prefixes is not None and starts else ("", [])
            results[row] = self._hypotheses(hypotheses[row], *start, row in cut, row in whole_words)
        is_list = num_wanted == 0 and settings.sampling_method == "argmax"
        return list(map(distinct, results)) if is_list else results

    def _phrases(
        self,
        lines: Sequence[str],
        phrases: Sequence[Sequence[str]] | None,
        terms: Terms | None,
        settings: DecodeHParams,
        first_line: int,
    ) -> list[list[str]] | None:
        """Returns the phrases of lines with those of the terms in them. Warns of terms that no output can contain."""
        phrases = None if phrases is None else _checked_phrases(phrases, len(lines))
        for name, wanted in (("sampling_method", "argmax"), ("diverse_beam_groups", 1)):
            if (terms is not None or any(phrases or ())) and (value := getattr(settings, name)) != wanted:
                raise UserError(f"{name}={value} in `decode_hparams` does not work with phrases; use {name}={wanted}")
        if terms is None:
            return phrases
        if not self.has_inputs:
            raise UserError("the model reads no inputs, so it takes no `terms`")
        added = Glossary(terms).added_to(phrases, lines)
        unknown_id = self.vocabulary.unknown_id
        for number, (line, own) in enumerate(zip(added, phrases or [()] * len(added)), start=first_line):
            for phrase in line[len(own) :]:
                if unknown_id is not None and unknown_id in self.vocabulary.ids_of([phrase])[0]:
                    line.remove(phrase)
                    self._warn(
                        f"line {number}: no output can contain '{phrase}', because characters or words of it are not "
                        f"in {self.vocabulary.path.name}"
                    )
        return added

    def _settings(self, changes: Mapping[str, SettingValue]) -> DecodeHParams:
        settings = self.decode_hparams.replace(**changes)
        if settings.precision != self.decode_hparams.precision:
            raise UserError(
                "precision cannot change after the model is loaded; set it in from_run_dir's decode_hparams"
            )
        if settings.only_trees:
            raise UserError("only_trees=True is for parsing; use a Parser")
        return settings

    def _hypotheses(
        self, found: Sequence[EngineHypothesis], prefix: str, prefix_ids: list[int], is_cut: bool, has_new_word: bool
    ) -> list[Hypothesis]:
        """Returns the hypotheses of a line as texts.

        If `has_new_word`, only those in which a new word follows the prefix, which ends in a blank; all if there is
        none.
        """
        # Outputs begin with the given prefix verbatim, because its tokens lack characters unknown to the vocabulary.
        (known,) = self.vocabulary.decode([prefix_ids])
        rests = [text.removeprefix(known) for text in self.vocabulary.decode([each.ids for each in found])]
        hypotheses = [
            (CutHypothesis if is_cut or not each.ids or each.ids[-1] != EOS_ID else Hypothesis)(
                prefix + rest, each.score, each.log_prob
            )
            for rest, each in zip(rests, found)
        ]
        if has_new_word:
            fitting = [number for number, rest in enumerate(rests) if not rest or rest[0].isspace()]
            hypotheses = [
                hypotheses[number]._replace(text=prefix + rests[number].removeprefix(" "))
                for number in fitting or range(len(rests))
            ]
        return hypotheses or [CutHypothesis(prefix, float("-inf"), float("-inf"))]


def encode_lines(
    vocabulary: Vocabulary,
    lines: Sequence[str],
    decode_hparams: DecodeHParams,
    engine: Engine,
    warn: Callable[[str], None],
    first_line: int,
    name: str,
) -> tuple[list[list[int]], set[int]]:
    """Returns the ids of each text, with the end symbol, and the indices of the cut texts.

    `first_line` and `name`, such as "line", are for warnings.
    """
    limit = decode_hparams.max_input_length
    reason = f"max_input_length={limit}; raise it in `decode_hparams`"
    if engine.max_positions is not None and engine.max_positions <= limit:
        limit = engine.max_positions
        reason = f"{limit}, which is {engine.positions_limit}; split it"
        if engine.positions_limit == LEARNED_POSITIONS:
            reason += ", or train with a larger max_length"
    ids = _ids_of(vocabulary, [line[: limit * MAX_TOKEN_CHARACTERS] for line in lines])
    for number, line in enumerate(lines):
        if len(ids[number]) <= limit and len(line) > limit * MAX_TOKEN_CHARACTERS:
            ids[number] = _ids_of(vocabulary, [line])[0]  # has longer tokens, or long runs of spaces
    cut = {number for number, row in enumerate(ids) if len(row) > limit}
    for number in sorted(cut):
        warn(f"{name} {first_line + number} has {len(ids[number])} tokens and was cut to {reason}")
        # Cut before the end symbol is added, so that every source still ends with one.
        ids[number] = [*ids[number][: limit - 1], EOS_ID]
    return ids, cut


def _ids_of(vocabulary: Vocabulary, texts: Sequence[str]) -> list[list[int]]:
    return vocabulary.ids_of([text.encode("utf-8", errors="replace").decode() for text in texts])


def has_letters(text: str) -> bool:
    """Returns whether a text has a letter of any script. Digits, marks, emoji and punctuation are no letters."""
    return any(map(str.isalpha, text))


def _letterless(
    texts: Sequence[str], prefixes: Sequence[str] | None, phrases: Sequence[Sequence[str]] | None
) -> dict[int, str]:
    """Returns the texts without letters that begin with their prefix and need no phrases, by row."""
    given = zip(texts, prefixes or [""] * len(texts), phrases or [()] * len(texts), strict=True)
    return {
        row: text
        for row, (text, prefix, wanted) in enumerate(given)
        if text.strip() and not has_letters(text) and text.startswith(prefix) and not wanted
    }


def _checked_phrases(phrases: Sequence[Sequence[str]], count: int) -> list[list[str]]:
    """Returns the phrases of `count` lines without blank ones."""
    if len(phrases) != count:
        raise UserError(f"{count} lines but {len(phrases)} lists of phrases; pass one list per line, empty or not")
    if not all(isinstance(line, list | tuple) and all(isinstance(each, str) for each in line) for line in phrases):
        raise UserError("`phrases` takes a list of texts for each line, such as [['a phrase', 'another'], []]")
    return [[phrase for phrase in map(str.strip, line) if phrase] for line in phrases]


def distinct(beams: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Returns the best hypothesis of each text: different tokens, or diverse groups, may have the same text."""
    found: dict[str, Hypothesis] = {}
    for each in beams:
        found.setdefault(each.text, each)
    return list(found.values())


def checked_texts(what: str, given: object) -> str | Sequence[str]:
    """Returns a text or a sequence of texts without the line end of each, as `readlines()` leaves it.

    Raises UserError if `given` is something else, or a text has several lines, because a model reads one sentence.
    """
    if isinstance(given, str):
        return _without_line_end(what, given)
    is_list = hasattr(given, "__len__") and hasattr(given, "__getitem__")
    if not is_list or isinstance(given, bytes | bytearray | Mapping):
        raise UserError(f"{what} is {_named(given)}; pass a text or a list of texts")
    for number, text in enumerate(cast(Sequence[object], given)):
        if not isinstance(text, str):
            raise UserError(f"{what}[{number}] is {_named(text)}; pass texts")
    if not any("\n" in text for text in cast(Sequence[str], given)):
        return cast(Sequence[str], given)
    return [_without_line_end(f"{what}[{number}]", text) for number, text in enumerate(cast(Sequence[str], given))]


def _without_line_end(what: str, text: str) -> str:
    text = text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
    if "\n" in text:
        raise UserError(f"{what} has several lines; pass each line as a text, as text.splitlines() returns them")
    return text


def _named(given: object) -> str:
    return "None" if given is None else f"of the type {type(given).__name__}"
