"""The CTranslate2 engine gives what the TensorFlow engine gives, or refuses in one line before it starts."""

import re

import ctranslate2
import numpy as np
import pytest
from support.exported import WORDS, engines, random_model, translators, word_vocabulary

from t2t_lite.config import DecodeHParams
from t2t_lite.data.vocab import open_vocabulary, train_vocabulary
from t2t_lite.decoding.ctranslate2_engine import CTranslate2Engine
from t2t_lite.decoding.engine import Pairs, Request
from t2t_lite.decoding.options import EngineOptions
from t2t_lite.decoding.search.constraints import MinLength
from t2t_lite.decoding.search_requests import LineConstraint
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.exporting import ctranslate2_model
from t2t_lite.parsing.parser import Parser


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    return word_vocabulary(tmp_path_factory.mktemp("vocabulary"))


@pytest.fixture(scope="module")
def both(vocabulary, tmp_path_factory):
    """Translators with the TensorFlow and the CTranslate2 engine, with the same random weights."""
    model = random_model(vocabulary.size, spread=1.5, seed=2)
    return translators(model, vocabulary, tmp_path_factory.mktemp("model"), extra_length=8, beam_size=4)


@pytest.fixture(scope="module")
def lines():
    random = np.random.default_rng(5)
    return [" ".join(random.choice(WORDS, size)) for size in (*range(1, 25), 3, 3, 40)] + ["", "  ", "unknown w1"]


SETTINGS = [{}, {"alpha": 0.0}, {"alpha": 1.5}, {"beam_size": 1}, {"beam_size": 3, "extra_length": 1}]
SETTINGS += [{"min_length_ratio": 0.8}, {"allow_unk": True}, {"batch_tokens": 40}, {"max_input_length": 9}]
SETTINGS += [{"no_repeat_ngram_size": 2, "beam_size": 1}]  # with beams, too many outputs have nearly the same score


@pytest.mark.slow
@pytest.mark.parametrize("settings", [*SETTINGS, "prefixes"], ids=str)
def test_outputs_and_scores_are_those_of_tensorflow(both, lines, settings):
    prefixes = [""] * len(lines)
    if settings == "prefixes":
        prefixes = [" ".join(WORDS[: number % 4]) for number in range(len(lines))]
        settings = {"prefixes": prefixes}
    ours, theirs = (translator.translate(lines, return_scores=True, **settings) for translator in both)
    same = [mine.text == other.text for mine, other in zip(ours, theirs, strict=True)]
    for line, prefix, mine, other, is_same in zip(lines, prefixes, ours, theirs, same, strict=True):
        assert other.text.startswith(prefix) or not line.strip()
        if is_same:
            np.testing.assert_allclose(mine[1:], other[1:], atol=1e-4)
    assert np.mean(same) > 0.9 and len(set(theirs)) > 20


@pytest.mark.heavy
def test_a_line_with_text_has_an_output_unless_the_settings_allow_an_empty_one(vocabulary, lines, tmp_path):
    model = random_model(vocabulary.size, tied_embeddings="none")
    of_tensorflow, of_ctranslate2 = translators(model, vocabulary, tmp_path, extra_length=5)
    texts = [line for line in lines if line.strip()]
    assert "" in of_tensorflow.translate(texts, min_length=0)  # the paper's search
    for translator in (of_tensorflow, of_ctranslate2):
        for settings in ({}, {"beam_size": 1}, {"sampling_method": "random", "sampling_temp": 2.0}):
            assert all(each.text for line in translator.n_best(texts, **settings) for each in line)
        assert min(len(text.split()) for text in translator.translate(texts, min_length=4)) == 4
        assert translator.translate(["", "  "]) == ["", ""]


@pytest.mark.slow
def test_n_best_lists_are_ranked_by_our_score_and_overlap(both, lines):
    ours, theirs = (translator.n_best(lines, beam_size=4) for translator in both)
    shared = []
    for mine, other in zip(ours, theirs, strict=True):
        scores = [hypothesis.score for hypothesis in other]
        assert scores == sorted(scores, reverse=True) and len({each.text for each in other}) == len(other)
        known = {each.text: each for each in mine}
        shared += [each.text in known for each in other]
        for each in other:
            if each.text in known:
                np.testing.assert_allclose(each[1:], known[each.text][1:], atol=1e-4)
    assert np.mean(shared) > 0.8


@pytest.mark.slow
def test_a_new_word_follows_a_prefix_that_ends_in_a_blank(tmp_path):
    train_vocabulary([f"{a}{b} {b}{a}" for a in "aeiou" for b in "lmnpr"], 60, tmp_path / "vocab")
    vocabulary = open_vocabulary(tmp_path / "vocab")
    starts = [token for token, text in enumerate(vocabulary.tokens()) if text.startswith("\u2581") or token == 1]
    model = random_model(vocabulary.size, spread=1.5, seed=2)
    texts, prefixes = ["la ma"] * 4, ["al ", "al  ", "ma le ", "a "]
    ids_of_prefixes = [ids[:-1] for ids in vocabulary.ids_of([each.rstrip() for each in prefixes])]
    for translator in translators(model, vocabulary, tmp_path, extra_length=8, beam_size=2):
        for text, prefix in zip(translator.translate(texts, prefixes=prefixes), prefixes, strict=True):
            rest = text.removeprefix(prefix)
            assert text == prefix + rest and "  " not in rest and not rest.startswith(" ")
        ids = (texts, vocabulary.ids_of(texts), translator.decode_hparams, vocabulary, vocabulary, ids_of_prefixes)
        found = translator.engine.search(Request(*ids, rows=range(4), whole_words={0, 1, 2, 3})).hypotheses
        nexts = [found[row][0].ids[len(ids)] for row, ids in enumerate(ids_of_prefixes)]
        assert set(nexts) <= set(starts), nexts


@pytest.mark.slow
def test_given_outputs_have_the_same_scores_and_attention(both, lines):
    lines = [line for line in lines if line.strip()]
    outputs = [" ".join(reversed(line.split())) for line in lines]
    ours, theirs = (translator.score(lines, outputs) for translator in both)
    np.testing.assert_allclose([each[1:] for each in ours], [each[1:] for each in theirs], atol=1e-4)
    sources = both[0].inputs_vocabulary.ids_of(lines)
    targets = both[0].vocabulary.ids_of(outputs)
    attention = [each.engine.cross_attention(Pairs(sources, targets), None, each.decode_hparams) for each in both]
    for mine, other in zip(*attention, strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-5)
    lines, outputs = [*lines, "", "w1 w2", ""], [*outputs, "", "", "w3"]
    assert both[0].align(lines, outputs) == both[1].align(lines, outputs)
    assert both[1].align("", "") == ""


def test_what_the_processor_computes_in_and_how_the_search_differs_is_said(vocabulary, lines, tmp_path):
    model, tokens = random_model(vocabulary.size), vocabulary.tokens()
    for name in ("int8", "int16"):
        (tmp_path / name).mkdir()
        ctranslate2_model.write(model, tokens, tokens, tmp_path / name, name)
        said = []
        options = (64, "the limit", model.alignment_layer, EngineOptions(warn=said.append, num_threads=1))
        engine = CTranslate2Engine(tmp_path / name, vocabulary, vocabulary, *options, quantization=name)
        runs = [each.partition("_")[0] for each in ctranslate2.get_supported_compute_types("cpu")]
        differs = f"{tmp_path / name} is in {name}, but CTranslate2 computes in int8 on this processor"
        assert said == ([] if name in runs else [differs])
    said.clear()
    translator = Translator(engine, vocabulary, DecodeHParams(extra_length=4))
    for settings in ({}, {"min_length": 2}, {"min_length_ratio": 1.5}):
        translator.translate(lines[:2], **settings)
        assert len(said) == (1 if settings else 0)
    assert said[0].startswith("below a minimum length, CTranslate2 divides the probability of the end symbol")


@pytest.mark.heavy
def test_a_learned_limit_of_positions_cuts_outputs_with_a_warning(vocabulary, tmp_path):
    model = random_model(vocabulary.size, position_encoding="learned", max_length=12, spread=1.5)
    said, found = [[], []], []
    for engine, warnings in zip(engines(model, vocabulary, tmp_path), said):
        translator = Translator(engine, vocabulary, DecodeHParams(beam_size=1), warn=warnings.append)
        found.append(translator.translate(["w1 w2 w3", " ".join(WORDS[:20])]))
    assert found[0] == found[1] and len(said[0]) == len(said[1])
    assert any("was cut" in line for line in said[1])
    # A minimum length above the positions is no error.
    assert len(translator.translate("w1 w2 w3 w4", min_length_ratio=5.0).split()) == 12


REFUSED = [
    (lambda model: model.translate("w1", coverage_penalty=0.2), "not support coverage_penalty=0.2.*`engine=tensor"),
    (lambda model: model.translate("w1", diverse_beam_groups=2), "not support diverse_beam_groups=2"),
    (lambda model: model.engine.check(DecodeHParams(precision="mixed_bfloat16")), "not support precision=mixed_bfl"),
    (lambda model: model.translate(["w1"], phrases=[["w2"]]), "phrases"),
    (lambda model: model.translate("w1", constraints=[LineConstraint(MinLength(), {"min_lengths": [2]})]), "constra"),
    (lambda model: model.align("w1", "w2", layer=1), "layer 1: the export has only that of layer 0"),
    (lambda model: model.attention("w1", "w2"), "single heads"),
    (lambda model: model.translate("w1", beam_size=31), "31 is larger than the vocabulary .30 tokens"),
]


@pytest.mark.parametrize(("ask", "message"), REFUSED)
def test_what_it_lacks_is_refused_by_name(both, ask, message):
    with pytest.raises(UserError, match=message):
        ask(both[1])


def test_a_damaged_model_is_one_line(vocabulary, tmp_path):
    engines(random_model(vocabulary.size), vocabulary, tmp_path)
    (tmp_path / "model.bin").write_bytes(b"nothing")
    with pytest.raises(UserError, match=f"^CTranslate2 cannot load {tmp_path}: [^\n]*$"):
        CTranslate2Engine(tmp_path, vocabulary, vocabulary, 64, "the limit", 0)


@pytest.mark.slow
def test_trees_are_repaired_and_the_tree_constraint_is_refused(tmp_path):
    symbols = ["XX", *(f"{side}{label}" for label in ("TOP", "S", "NP", "VP") for side in ("(", ")"))]
    vocabulary = word_vocabulary(tmp_path, symbols + WORDS)
    both = translators(random_model(vocabulary.size, spread=1.5), vocabulary, tmp_path, beam_size=2, extra_length=9)
    lines = ["w1 w2", "w3", "", "w4 w5 w6 w7"]
    ours, theirs = (Parser(translator).translate(lines) for translator in both)
    assert ours == theirs and theirs[2] == ""
    words = [re.findall(r"\([^ ()]+ ([^ ()]+)\)", tree) for tree in theirs]
    assert words == [line.split() for line in lines]
    with pytest.raises(UserError, match="does not support only_trees=True"):
        Parser(both[1]).translate(lines, only_trees=True)


@pytest.mark.slow
def test_the_best_output_of_a_flat_distribution_is_not_lost(tmp_path):
    # CTranslate2 ranks the empty output, which our penalty favours, below all others.
    vocabulary = word_vocabulary(tmp_path, WORDS[:5])
    model = random_model(vocabulary.size, spread=0.5, seed=1)
    both = translators(model, vocabulary, tmp_path, beam_size=4, extra_length=3)
    lines = ["w0 w1", "w2", "w3 w4 w0"]
    for ours, theirs in zip(*(translator.n_best(lines, min_length=0) for translator in both), strict=True):
        assert theirs[0].score >= ours[0].score - 1e-4 and len(theirs) <= 4
