"""The models of a server: run directories and exports, and parsers."""

import json
import os
import shutil
from pathlib import Path
from unittest import mock

import pytest

import t2t_lite as t2t
from t2t_lite.decoding.loading import open_model
from t2t_lite.serving.app import loaded_app
from t2t_lite.serving.models import ModelSet, NoSuchModel, NotReady, model_places
from t2t_lite.serving.monitoring import Metrics
from t2t_lite.serving.options import ServingOptions
from t2t_lite.serving.served_model import Attention, Place, Task, TooLong

pytestmark = pytest.mark.slow

FROZEN = Path(__file__).resolve().parents[1] / "frozen" / "0.2"
RUN, PARSER = FROZEN / "tied/run", FROZEN / "hard_alignment/run"
LINES = ["The garden hears the baker.", "The tree sees the dog.", "The dog knows the man."]


def model_set(*places, **options):
    models = ModelSet(places, ServingOptions(**options), Metrics())
    models.load()
    return models


def answers(models, model, lines, prefixes=None, phrases=None, settings=(), **task):
    chosen = models.named(model)
    settings = chosen.settings(dict(settings), task.get("num_wanted", 1))
    wanted = Task(settings, **task)
    return chosen.submit(wanted, chosen.texts(lines, prefixes, phrases)).future.result(120)


@pytest.fixture(scope="module", autouse=True)
def environment_is_restored():
    with mock.patch.dict(os.environ):  # the models of a server set the threads of their process
        yield


@pytest.fixture(scope="module")
def translator():
    return t2t.Translator.from_run_dir(RUN, xla_compile=False)


@pytest.fixture(scope="module")
def models():
    run_copy, parser_copy = (Place(open_model(each)) for each in (RUN, PARSER))
    with pytest.raises(t2t.UserError, match="two models are named run"):
        model_set(run_copy, parser_copy)
    both = model_set(run_copy._replace(languages=("en", "de")))
    yield both
    both.close()


@pytest.mark.heavy
def test_a_run_directory_answers_as_its_translator_does(models, translator):
    assert [each.hypotheses[0].text for each in answers(models, "run", LINES)] == translator.translate(LINES)
    found = answers(models, "run", LINES, num_wanted=3, with_scores=True, alignments=True, settings={"alpha": 1.0})
    for line, result, beams in zip(LINES, found, translator.n_best(LINES, alpha=1.0)):
        assert [each.text for each in result.hypotheses] == [each.text for each in beams[:3]]
        assert [each.score for each in result.hypotheses] == pytest.approx([each.score for each in beams[:3]], abs=1e-5)
        assert result.alignments == translator.align([line] * 3, [each.text for each in beams[:3]])


@pytest.mark.heavy
def test_prefixes_phrases_and_attention_are_those_of_the_translator(models, translator):
    prefixes = ["Der", "", "Das"]
    found = answers(models, "run", LINES, prefixes, with_prefixes=True, attention=Attention("decoder", 0))
    assert [each.hypotheses[0].text for each in found] == translator.translate(LINES, prefixes=prefixes)
    for line, result in zip(LINES, found):
        weights, queries, keys = translator.attention(line, result.hypotheses[0].text, "decoder", 0)
        assert (result.attention.queries, result.attention.keys) == (queries, keys)
        assert result.attention.weights == pytest.approx(weights, abs=1e-6)
    phrases = [["Mann"], [], ["Baum", "Garten"]]
    found = answers(models, "run", LINES, phrases=phrases)
    assert [each.hypotheses[0].text for each in found] == translator.translate(LINES, phrases=phrases)


@pytest.mark.heavy
def test_a_model_has_a_glossary_and_a_request_may_have_another(models, translator, tmp_path):
    (tmp_path / "terms.tsv").write_text("baker\tBaum\ndog\tMann\n")
    run, parser = (open_model(each) for each in (RUN, PARSER))
    (place,) = model_places((), None, output_dir=RUN, terms=[tmp_path / "terms.tsv"])
    served = model_set(place)
    model, (line, *_) = served.named("run"), LINES
    asked = "The garden hears the dog."
    texts = [*model.texts([line, asked]), *model.texts([asked], terms={"dog": "Bäcker"})]
    assert [text.phrases for text in texts] == [("Baum",), ("Mann",), ("Bäcker",)]
    found = model.submit(Task(model.settings({})), texts).future.result(120)
    expected = [
        translator.translate(each, terms={term: translation})
        for each, term, translation in zip((line, asked, asked), ("baker", "dog", "dog"), ("Baum", "Mann", "Bäcker"))
    ]
    assert [each.hypotheses[0].text for each in found] == expected
    assert served.named("run").description()["terms"] == 2 and models.named("run").description()["terms"] == 0
    served.close()
    with pytest.raises(t2t.UserError, match="is a parser, which takes no glossary"):
        model_set(Place(parser, terms=tmp_path / "terms.tsv"))
    with pytest.raises(t2t.UserError, match=r"the model in .* translates en to de, not en to fr; omit `languages`"):
        model_places((), "en-fr", output_dir=known_languages(run, tmp_path))
    assert model_places((), "EN_gb:de", output_dir=tmp_path / "run")[0].languages == ("EN-gb", "de")


def known_languages(source, folder):
    """A copy of a run that names its languages."""
    copied = shutil.copytree(source.run_dir.path, folder / "run")
    about = json.loads((copied / "run.json").read_text())
    (copied / "run.json").write_text(json.dumps(about | {"source_language": "en", "target_language": "de"}))
    return copied


def test_an_output_without_an_end_says_so(models, translator):
    """One that has the greatest length, or whose line was cut, is not complete; it is a tuple of three all the same."""
    endless = {"min_length_ratio": 9.0}
    for task in ({}, {"num_wanted": 2}, {"with_scores": True}):
        assert not any(best.is_cut for result in answers(models, "run", LINES, **task) for best in result.hypotheses)
        found = answers(models, "run", LINES, settings=endless, **task)
        assert all(each.is_cut for result in found for each in result.hypotheses)
    assert [len(each) for each in translator.best(LINES, **endless)] == [3, 3, 3]
    longest = len(translator.inputs_vocabulary.ids_of([LINES[0]])[0])
    lines, prefixes = [LINES[0], f"{LINES[0]} {LINES[1]}", LINES[0]], ["", "", f"Der{' Mann' * longest}"]
    found = translator.best(lines, prefixes=prefixes, max_input_length=longest)
    assert [each.is_cut for each in found] == [False, True, True]


def test_samples_depend_on_the_line_and_not_on_the_batch(models, translator):
    settings = {"sampling_method": "random", "random_seed": 3}
    together = answers(models, "run", LINES * 5, num_wanted=2, settings=settings)
    expected = translator.sample(LINES * 5, 2, random_seed=3)
    assert [[each.text for each in result.hypotheses] for result in together] == [
        [each.text for each in beams] for beams in expected
    ]


@pytest.mark.heavy
def test_parsers_give_trees_over_the_words():
    parsers = model_set(Place(open_model(PARSER, decode_hparams="beam_size=2")))
    parser = t2t.Parser.from_run_dir(PARSER, "beam_size=2", xla_compile=False)
    lines = ["the dog knows the baker .", "the tree sees the garden ."]
    for settings in ({}, {"only_trees": True}):
        found = [each.hypotheses[0].text for each in answers(parsers, "run", lines, settings=settings)]
        assert found == parser.translate(lines, **settings)
        assert all(text.startswith("(TOP") for text in found)
    assert [each.is_cut for each in parser.best(lines, extra_length=0)] == [True, True]
    assert parsers.parser() is parsers.named("run") and parsers.named("run").description()["kind"] == "parsing"
    with pytest.raises(NoSuchModel, match="none that translate"):
        parsers.only()
    parsers.close()


def test_models_are_found_by_languages(models):
    translation, detected = models.translation("EN", "De_latn", "")
    assert translation is models.named("run") is models.only() and detected is None
    assert models.translation("auto", "de", "text")[1].language == "en"
    for source, target, message in (
        ("fr", "de", "fr to de is not supported; supported sources are en"),
        ("en-GB", "de", "en-GB to de is not supported; supported sources are en"),
        ("en", "fr", "fr is not supported; supported targets are de"),
        ("auto", "de_AT", "de_AT is not supported; supported targets are de"),
    ):
        with pytest.raises(NoSuchModel, match=message):
            models.translation(source, target, "")
    with pytest.raises(NoSuchModel, match="this server has no parser"):
        models.parser()


def test_what_cannot_be_searched_is_refused_with_the_reason(models):
    with pytest.raises(TooLong, match=r"sentence 2 has \d+ tokens; at most 512"):
        models.named("run").texts(["short", "dog " * 600])
    with pytest.raises(t2t.UserError, match="use sampling_method=argmax"):
        answers(models, "run", LINES, phrases=[["a"]] * 3, settings={"sampling_method": "random"})
    assert answers(models, "run", LINES[:1])[0].hypotheses


def test_what_a_server_cannot_serve_yet_or_ever_is_said(tmp_path):
    t2t.export(RUN, tmp_path / "saved", format="saved_model")
    with pytest.raises(t2t.UserError, match="is for TensorFlow Serving; export the run with --format=ctranslate2"):
        loaded_app([Place(open_model(export_dir=tmp_path / "saved"))])
    models = ModelSet([Place(open_model(RUN), ("en", "de"))], ServingOptions(), Metrics())  # not loaded
    for ask in (models.only, models.parser, lambda: models.named("run"), lambda: models.translation("en", "de", "")):
        with pytest.raises(NotReady):
            ask()
