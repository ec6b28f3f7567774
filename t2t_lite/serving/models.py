"""The models of a server, by name and by languages."""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from os import PathLike

from t2t_lite.data.problem import language_pair
from t2t_lite.decoding.glossary import Glossary
from t2t_lite.decoding.loading import open_model
from t2t_lite.errors import UserError
from t2t_lite.options import SettingValue
from t2t_lite.serving import languages
from t2t_lite.serving.monitoring import Metrics
from t2t_lite.serving.options import ServingOptions
from t2t_lite.serving.served_model import Place, ServedModel

AUTO = "auto"


def model_places(
    exports: Sequence[str | PathLike],
    pairs: str | None,
    decode_hparams: str | Mapping[str, SettingValue] = "",
    num_threads: int | None = None,
    output_dir: str | PathLike | None = None,
    checkpoint_path: str | PathLike | None = None,
    engine: str = "",
    terms: Sequence[str | PathLike] = (),
) -> list[Place]:
    """Chooses the models to serve: exports, or that of a run directory.

    `pairs` are the languages of each, "en-de,de-en", instead of its own, and `terms` the files of their glossaries, or
    "none". Raises UserError if one is unusable.
    """
    language_pairs = list(map(language_pair, pairs.split(","))) if pairs else []
    sources = [open_model(export_dir=path, decode_hparams=decode_hparams) for path in exports]
    if output_dir is not None:
        sources.append(open_model(output_dir, checkpoint_path, decode_hparams))
    if language_pairs and len(language_pairs) != len(sources):
        raise UserError(
            f"`languages={pairs}` has {len(language_pairs)} pairs for {len(sources)} models; pass one pair per model",
            status=2,
        )
    for source, pair in zip(sources, language_pairs):
        own = source.source_language, source.target_language
        if any(each and languages.primary(each) != languages.primary(asked) for each, asked in zip(own, pair)):
            raise UserError(
                f"`languages`: the model in {source.where} translates {' to '.join(own)}, not {' to '.join(pair)}; "
                f"omit `languages`, or correct it",
                status=2,
            )
    if terms and len(terms) != len(sources):
        raise UserError(
            f"`terms` has {len(terms)} files for {len(sources)} models; pass one per model, or none", status=2
        )
    files = [None if str(path) == "none" else path for path in terms]
    for path in filter(None, files):
        Glossary(path)  # a check, before models are loaded
    places = itertools.zip_longest(sources, language_pairs, files)
    return [Place(source, pair, engine, num_threads, file) for source, pair, file in places]


class NoSuchModel(Exception):
    """No model supports a request. The message lists what is available."""


class NotReady(Exception):
    """The models are not loaded yet."""


class ModelSet:
    """The models of a server. Several threads may call its methods.

    Of several models with the same languages, the first one answers unless the request names another.
    """

    def __init__(self, places: Sequence[Place], options: ServingOptions, metrics: Metrics) -> None:
        self._places, self._options, self._metrics = list(places), options, metrics
        names = [place.name for place in places]
        if twice := {name for name in names if names.count(name) > 1}:
            raise UserError(f"two models are named {min(twice)}, after their directories; rename one directory")
        if unknown := sorted({*options.translate_letterless} - {*names, "*"}):
            raise UserError(
                f"`translate_letterless={unknown[0]}`: the models are {', '.join(names)}; or pass *", status=2
            )
        for export in [place.source.export for place in places]:
            if export is not None and export.format == "saved_model":
                raise UserError(
                    f"{export.path} is a SavedModel, which is for TensorFlow Serving; export the run with "
                    f"--format=ctranslate2 or keras"
                )
        self._models: dict[str, ServedModel] = {}  # by name; several of a model with several target languages
        self.is_ready = False

    @property
    def expected_languages(self) -> tuple[str, str]:
        """The languages of the first model that has them, for examples; known before the models are loaded."""
        own = ((each.source.source_language, each.source.target_language) for each in self._places)
        pairs = (each.languages or pair for each, pair in zip(self._places, own))
        return next((pair for pair in pairs if all(pair) and pair[1] != "mul"), ("en", "de"))

    @property
    def all(self) -> list[ServedModel]:
        return list(self._models.values())

    def load(self, on_loaded: Callable[[ServedModel], None] = lambda model: None) -> None:
        """Loads all models. Raises UserError if a model is unusable."""
        for place in self._places:
            model = ServedModel(place, self._options, functools.partial(self._metrics.batch, place.name))
            for each in model.by_language():
                self._models[each.name] = each
                on_loaded(each)
        self.is_ready = True
        if len(self.sources) > 1:
            languages.detect("")  # loads the detector now rather than during the first request

    def close(self) -> None:
        for batcher in {model.batcher for model in self.all}:
            batcher.close()

    def named(self, name: str) -> ServedModel:
        """Returns the model with the given name. Raises NoSuchModel, NotReady."""
        self.check_ready()
        if name not in self._models:
            raise NoSuchModel(f"there is no model {name[:100]}; available models: {', '.join(self._models)}")
        return self._models[name]

    def only(self, name: str = "") -> ServedModel:
        """Returns the model with a name; "": the only model that translates. Raises NoSuchModel, NotReady."""
        if name:
            return self.named(name)
        self.check_ready()
        translators = [model for model in self.all if not model.writes_trees]
        if len(translators) != 1:
            names = ", ".join(model.name for model in translators) or "none that translate"
            raise NoSuchModel(f"choose a model, or source and target; available models: {names}")
        return translators[0]

    def parser(self, name: str = "") -> ServedModel:
        """Returns the model with a name; "": the first model that parses. Raises NoSuchModel, NotReady."""
        if name:
            return self.named(name)
        self.check_ready()
        for model in self.all:
            if model.writes_trees:
                return model
        raise NoSuchModel("this server has no parser")

    def translation(self, source: str, target: str, text: str) -> tuple[ServedModel, languages.Detected | None]:
        """Returns the model for a pair of languages, and the detected language if the source is "auto".

        `text`, or its beginning, is used for detection. Raises NotReady, NoSuchModel.
        """
        self.check_ready()
        models = self.translators
        if source.lower() == AUTO:
            to = languages.nearest(target, self.targets)
            able = {model.source_language: model for model in reversed(models) if model.target_language == to}
            if not able:
                raise NoSuchModel(self._without(target))
            first = next(iter(able))
            detected = languages.Detected(first, 100.0) if len(able) == 1 else languages.detect(text, tuple(able))[0]
            if detected.language not in able:
                detected = detected._replace(language=first)
            return able[detected.language], detected
        for model in models:
            if (source, target) == (model.source_language, model.target_language):
                return model, None
        ranked: dict[tuple[int, int], list[ServedModel]] = {}
        for model in models:
            of_target = languages.distance(target, model.target_language)
            of_source = languages.distance(source, model.source_language)
            if of_target is not None and of_source is not None:
                ranked.setdefault((of_target, of_source), []).append(model)
        best = ranked[min(ranked)] if ranked else []
        if not best or (3 in min(ranked) and len({(each.source_language, each.target_language) for each in best}) > 1):
            raise NoSuchModel(self._without(target, source))
        return best[0], None

    def _without(self, target: str, source: str = "") -> str:
        sources = {
            model.source_language
            for model in self.translators
            if languages.distance(target, model.target_language) is not None
        }
        listed = ", ".join(sorted(sources if source and sources else self.targets))
        if source and sources:
            return f"{source[:20]} to {target[:20]} is not supported; supported sources are {listed}"
        if not self.targets:
            return "the languages of the models are unknown; start the server with `languages`, such as en-fr"
        return f"{target[:20]} is not supported; supported targets are {listed}"

    @property
    def translators(self) -> list[ServedModel]:
        return [each for each in self.all if each.source_language and each.target_language and not each.writes_trees]

    @property
    def sources(self) -> list[str]:
        return list(dict.fromkeys(model.source_language for model in self.translators))

    @property
    def targets(self) -> list[str]:
        return list(dict.fromkeys(model.target_language for model in self.translators))

    def check_ready(self) -> None:
        """Raises NotReady unless all models are loaded."""
        if not self.is_ready:
            raise NotReady
