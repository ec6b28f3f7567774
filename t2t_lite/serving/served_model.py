"""A loaded model and its queue."""

import copy
import time
import types
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from t2t_lite.config import DecodeHParams
from t2t_lite.data.vocab import Vocabulary
from t2t_lite.data.vocab.symbols import LANGUAGE_TOKEN
from t2t_lite.decoding.glossary import Glossary
from t2t_lite.decoding.loading import ModelSource
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.decoding.translator import MAX_TOKEN_CHARACTERS, Hypothesis, Translator, has_letters
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.exporting.export import exported_run
from t2t_lite.files import encodable
from t2t_lite.parsing.parser import Parser
from t2t_lite.serving.batching import Batcher, Job
from t2t_lite.serving.languages import canonical, shortest
from t2t_lite.serving.options import LARGEST_SETTINGS, MAX_ATTENTION_TOKENS, ServingOptions
from t2t_lite.system.machine import num_cores
from t2t_lite.system.tensorflow import import_for_searches
from t2t_lite.visualization.attention_map import AttentionMap, attention_map, chosen_layers, paper_layer

# The default of `batch_tokens`. Smaller batches are slower, and larger ones only make requests wait.
_BATCH_TOKENS = {"ctranslate2": 1024, "tensorflow": 4096}


class Place(NamedTuple):
    """A model to serve, as `open_model` chose it."""

    source: ModelSource
    languages: tuple[str, str] | None = None  # its (source, target) languages; None: those that the model specifies
    engine: str = ""  # "ctranslate2": a run is exported first
    num_threads: int | None = None  # parallel batches; None: one per core, or one with TensorFlow on a GPU
    terms: str | PathLike | None = None  # the file of a glossary

    @property
    def name(self) -> str:
        return Path(self.source.where).absolute().name


class Attention(NamedTuple):
    """The attention weights that a request asks for, see `Translator.attention`."""

    kind: str
    layer: int | None
    as_map: bool = False  # whether to return an `AttentionMap` instead of `Weights`


class Task(NamedTuple):
    """What a request asks for. Texts with equal tasks can share a batch."""

    settings: DecodeHParams
    num_wanted: int = 1  # the number of hypotheses for each text
    with_scores: bool = False
    with_prefixes: bool = False
    with_phrases: bool = False  # `submit` sets it
    alignments: bool = False
    attention: Attention | None = None
    is_given: bool = False  # the request contains the outputs, so nothing is searched
    language: str = ""  # the target language of a model that has several; `submit` sets it


class Text(NamedTuple):
    text: str
    tokens: int
    prefix: str = ""
    phrases: tuple[str, ...] = ()
    number: int = 1  # its position in the request, from 1; samples depend on it
    output: str = ""  # its output, if given


class Weights(NamedTuple):
    weights: np.ndarray  # float32 [heads, queries, keys]
    queries: list[str]
    keys: list[str]


class Result(NamedTuple):
    hypotheses: list[Hypothesis]  # best first
    alignments: list[str]  # for each hypothesis, "i-j ..."; [] if not requested
    attention: Weights | AttentionMap | None = None  # of the best hypothesis


class TooLong(Exception):
    """A text has more tokens than the server accepts."""


class ServedModel:
    """A model that answers requests. Several threads may call its methods.

    For `on_batch`, see `Batcher`. The attribute `loaded_at` is the time at which the model was loaded, in seconds since
    1970. Raises UserError if the model is unusable.
    """

    def __init__(self, place: Place, options: ServingOptions, on_batch: Callable[[int, float], None]) -> None:
        self.name, self.source, self._options = place.name, place.source, options
        self._place_name = place.name
        is_run = place.source.export is None
        source = exported_run(place.source) if is_run and place.engine == "ctranslate2" else place.source
        if source.engine == "tensorflow":
            import_for_searches()
        # CTranslate2 uses its own threads. With TensorFlow, each batch is searched in the thread that calls.
        threads = place.num_threads if source.engine == "ctranslate2" else 1
        self.translator = Translator.of(source, EngineOptions(_warn, num_threads=threads))
        self.engine = self.translator.engine.name
        self.loaded_at = time.time()
        own = self.source.source_language, self.source.target_language
        self.source_language, self.target_language = map(canonical, place.languages or own)
        self._parser = Parser(self.translator) if self.source.writes_trees else None
        self._glossary = Glossary(place.terms or {})
        if place.terms:
            if self._parser:
                raise UserError(f"`terms={place.terms}`: {self.name} is a parser, which takes no glossary")
            self.translator.engine.check(self.translator.decode_hparams, phrases=True)
        self._language = ""  # of `by_language`
        self.translator.warm_up(only_trees=False)
        self._attention = {
            kind: {"layers": number, "heads": len(self.translator.attention("a", "a", kind, 0)[0])}
            for kind, number in self.translator.attention_layers.items()
        }
        if self._parser is not None:
            self._parser.translate(["a b c d"])
        # How many batches are searched at the same time: for TensorFlow, one on a GPU, else one per core.
        if self.engine == "ctranslate2":
            parallel = self.translator.num_threads
        elif not (parallel := place.num_threads):
            import tensorflow as tf

            parallel = 1 if tf.config.list_physical_devices("GPU") else num_cores()
        self.batcher = Batcher(
            self._run,
            lambda text: text.tokens,
            options.batch_tokens or _BATCH_TOKENS[self.engine],
            options.batch_delay_ms / 1000,
            options.max_waiting,
            parallel,
            on_batch,
        )

    def by_language(self) -> "list[ServedModel]":
        """Returns this model, or, if it has several target languages, a view for each of them.

        The name of a view ends in its language. All views share the model and its queue.
        """
        views = []
        for language in self.translator.inputs_vocabulary.language_tokens:
            view = copy.copy(self)
            view._language, view.target_language = language, shortest(language)
            view.name = f"{self.name}:{language}"
            views.append(view)
        return views or [self]

    @property
    def writes_trees(self) -> bool:
        return self._parser is not None

    @property
    def copies_letterless(self) -> bool:
        """Whether the output for a text without letters is the text itself: in translation between known languages."""
        is_translation = bool(self.source_language and self.target_language) and not self.writes_trees
        return is_translation and {self._place_name, "*"}.isdisjoint(self._options.translate_letterless)

    @property
    def splitting(self) -> tuple[str, bool]:
        """How texts are split: the arguments `language` and `apart` of `split_sentences`."""
        return self.source_language, self.copies_letterless

    @property
    def max_beam_size(self) -> int:
        """The largest allowed beam size: the server's limit, or the model's own (such as 21 for parsers) if larger."""
        return max(self._options.max_beam_size, self.translator.decode_hparams.beam_size)

    def settings(self, changes: Mapping[str, Any], num_hypotheses: int = 1) -> DecodeHParams:
        """Returns the search settings of a request with its changes.

        If the request does not set beam_size but may, the beam size is raised to the number of hypotheses; with
        sampling, it equals that number. It is rounded up to a multiple of the beam groups. Raises UserError if a
        setting is unknown, out of range, not allowed in requests, or too expensive.
        """
        for name in changes:
            if name not in self._options.request_settings:
                raise UserError(f"a request cannot set {name}; it can set {', '.join(self._options.request_settings)}")
        if self.engine != "tensorflow" and "random_seed" in changes:
            raise UserError("random_seed has no effect with this model's engine; omit it")
        usual = self.translator.decode_hparams
        settings = usual.replace(**changes) if changes else usual
        for name in changes:
            if (most := LARGEST_SETTINGS[name]) is not None and getattr(settings, name) > most:
                raise UserError(f"{name}={changes[name]} exceeds this server's limit of {most}")
        is_sampled = settings.sampling_method == "random"
        may_widen = "beam_size" in self._options.request_settings and "beam_size" not in changes
        if may_widen and (is_sampled or num_hypotheses > settings.beam_size):
            settings = settings.replace(beam_size=num_hypotheses + -num_hypotheses % settings.diverse_beam_groups)
        if settings.beam_size > self.max_beam_size:
            raise UserError(f"beam_size={settings.beam_size} exceeds this server's limit of {self.max_beam_size}")
        if num_hypotheses > settings.beam_size:
            raise UserError(f"num_hypotheses={num_hypotheses} exceeds beam_size={settings.beam_size}")
        return settings

    def texts(
        self,
        texts: Sequence[str],
        prefixes: Sequence[str] | None = None,
        phrases: Sequence[Sequence[str]] | None = None,
        terms: Mapping[str, str] = types.MappingProxyType({}),
    ) -> list[Text]:
        """Returns texts with their token counts, and the phrases of `terms` and of the model's glossary.

        Raises TooLong if a text, its prefix or its phrases have more tokens than the server accepts.
        """
        inputs, targets = self.translator.inputs_vocabulary, self.translator.vocabulary
        if self._language:  # which a token in a text would overrule
            texts = [LANGUAGE_TOKEN.sub("", text, count=1) if LANGUAGE_TOKEN.match(text) else text for text in texts]
        prefixes = prefixes or [""] * len(texts)
        phrases = (self._glossary | Glossary(terms) if terms else self._glossary).added_to(phrases, texts)
        are_copied = self.copies_letterless and not any(prefixes) and not any(phrases)
        # A text that is copied, such as a line of 3,000 dashes, needs no tokens.
        searched = [text if has_letters(text) or not are_copied else "" for text in texts]
        counts = self._counted("sentence", searched, inputs)
        self._counted("the prefix of sentence", prefixes, targets)
        self._counted("the phrases of sentence", ["\n".join(each) for each in phrases], targets)
        return [
            Text(text, tokens, prefix, tuple(its_phrases), number)
            for number, (text, tokens, prefix, its_phrases) in enumerate(
                zip(texts, counts, prefixes, phrases, strict=True), start=1
            )
        ]

    def given_text(self, text: str, output: str) -> list[Text]:
        """Returns a text with a given output, as a list. Its token count includes both.

        Raises TooLong as `texts` does, and UserError if the model is a parser and the output is no tree over the words.
        """
        (source,) = self.texts([text])
        written = output
        if self._parser is not None and len(output) <= MAX_ATTENTION_TOKENS * MAX_TOKEN_CHARACTERS:
            written = self._parser.symbols_of(encodable(text), encodable(output))
        (tokens,) = self._counted("the output of sentence", [written], self.translator.vocabulary)
        return [source._replace(output=output, tokens=source.tokens + tokens)]

    def _counted(self, name: str, texts: Sequence[str], vocabulary: Vocabulary) -> list[int]:
        """Returns the number of tokens in each text. Raises TooLong if a text has too many."""
        limit = min(self._options.max_tokens, self.translator.decode_hparams.max_input_length)
        limit = min(limit, self.translator.engine.max_positions or limit)
        counts = []
        for number, text in enumerate(texts, start=1):
            if len(text) > limit * MAX_TOKEN_CHARACTERS:  # such a text would take long to tokenize
                raise TooLong(f"{name} {number} has {len(text):,} characters; at most {limit} tokens are allowed")
            counts.append(len(vocabulary.ids_of([encodable(text)])[0]) if text else 1)
            if counts[-1] > limit:
                raise TooLong(f"{name} {number} has {counts[-1]} tokens; at most {limit} are allowed")
        return counts

    def submit(self, task: Task, texts: Sequence[Text]) -> Job:
        """Queues texts.

        Raises:
          QueueFull: if the queue has no room for them.
          UserError: if the model does not support the task.
          TooLong: if the texts have too many tokens for attention weights.
        """
        if task.attention is not None and sum(text.tokens for text in texts) > MAX_ATTENTION_TOKENS:
            raise TooLong(f"a request with attention weights may have at most {MAX_ATTENTION_TOKENS} tokens")
        task = task._replace(with_phrases=any(text.phrases for text in texts), language=self._language)
        trees, layer = task.settings.only_trees, task.attention.layer if task.attention else None
        settings = task.settings.replace(only_trees=False) if trees else task.settings
        self.translator.engine.check(settings, phrases=task.with_phrases, constraints=trees, alignment_layer=layer)
        return self.batcher.submit(task, texts)

    def description(self) -> dict[str, Any]:
        model = self.translator
        return {
            "name": self.name,
            "kind": "parsing" if self.writes_trees else "translation",
            "source": self.source_language,
            "target": self.target_language,
            "engine": self.engine,
            "problem": self.source.problem,
            "checkpoint": self.source.checkpoint,
            "loaded_at": round(self.loaded_at, 3),
            "settings": {name: getattr(model.decode_hparams, name) for name in self._options.request_settings},
            "beam_size": model.decode_hparams.beam_size,
            "max_beam_size": self.max_beam_size,
            "alignments": not self.writes_trees and (self.engine == "ctranslate2" or "cross" in self._attention),
            "attention": self._attention,
            "copies_letterless": self.copies_letterless,
            "terms": len(self._glossary.terms),
        }

    def _run(self, task: Task, texts: Sequence[Text]) -> list[Result]:
        if task.settings.sampling_method != "random":
            try:
                return self._searched(task, texts)
            except UserError:
                if len(texts) == 1:
                    raise
        # One by one, since samples depend on line numbers, and the error should name the faulty line.
        return [self._searched(task, [text])[0] for text in texts]

    def _searched(self, task: Task, texts: Sequence[Text]) -> list[Result]:
        lines = [encodable(text.text) for text in texts]
        if task.is_given:
            given = [[Hypothesis(encodable(text.output), 0.0, 0.0)] for text in texts]
            return [Result(beam, [], self._weights(task, line, beam)) for line, beam in zip(lines, given)]
        usual, settings = vars(self.translator.decode_hparams), vars(task.settings)
        options: dict[str, Any] = {name: value for name, value in settings.items() if value != usual[name]}
        if task.with_prefixes:
            options["prefixes"] = [encodable(text.prefix) for text in texts]
        if task.with_phrases:
            options["phrases"] = [list(map(encodable, text.phrases)) for text in texts]
        if len(texts) == 1:
            options["first_line"] = texts[0].number
        options["copy_letterless"] = self.copies_letterless
        model = self._parser or self._translator_of(task)
        if task.num_wanted != 1:
            beams = [beam[: task.num_wanted] for beam in model.n_best(lines, **options)]
        else:
            beams = [[best] for best in model.best(lines, task.with_scores, **options)]
        alignments = self._alignments(task, lines, beams) if task.alignments else [[] for _ in lines]
        weights = [self._weights(task, line, beam) for line, beam in zip(lines, beams)]
        return [Result(*each) for each in zip(beams, alignments, weights)]

    def _translator_of(self, task: Task) -> Translator:
        return self.translator.to_language(task.language) if task.language else self.translator

    def _alignments(self, task: Task, lines: Sequence[str], beams: Sequence[Sequence[Hypothesis]]) -> list[list[str]]:
        pairs = [(line, each.text) for line, beam in zip(lines, beams) for each in beam]
        searched = [pair for pair in pairs if not self._is_copied(*pair)]
        sides = [line for line, _ in searched], [output for _, output in searched]
        found = iter(self._translator_of(task).align(*sides))
        aligned = []
        for line, output in pairs:
            # Each word of a copy is aligned with itself.
            own = " ".join(f"{word}-{word}" for word in range(len(output.split())))
            aligned.append(own if self._is_copied(line, output) else next(found))
        rest = iter(aligned)
        return [[next(rest) for _ in beam] for beam in beams]

    def _is_copied(self, line: str, output: str) -> bool:
        return self.copies_letterless and output == line and not has_letters(line)

    def _weights(self, task: Task, line: str, hypotheses: Sequence[Hypothesis]) -> Weights | AttentionMap | None:
        attention, translator = task.attention, self._translator_of(task)
        if attention is None or not line.strip():
            return None
        output = hypotheses[0].text
        if not attention.as_map:
            if self._is_copied(line, output):
                return None
            return Weights(*translator.attention(line, output, attention.kind, attention.layer))
        model = self._parser or translator
        asked = None if attention.layer is None else [attention.layer]
        layers = chosen_layers(model, [attention.kind], asked)[attention.kind]
        return attention_map(model, line, output, attention.kind, layers[0] if asked else paper_layer(len(layers)))


def _warn(line: str) -> None:
    """Logs a message about a model. Omits messages about texts, because their line numbers refer to a batch."""
    if not line.startswith(("line ", "the prefix of line ")):
        LOG.warning("%s", line)
