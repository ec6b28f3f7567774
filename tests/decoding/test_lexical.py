"""Phrases of a user's lines: tokens of each kind of vocabulary, outputs that contain them, constraints by name."""

import dataclasses
import re
import types
from pathlib import Path

import pytest
import tensorflow as tf

from t2t_lite.data.vocab import open_vocabulary, train_vocabulary
from t2t_lite.decoding.ensemble import Ensemble
from t2t_lite.decoding.search.beam_state import NONE
from t2t_lite.decoding.search_requests import LineConstraint, LineTerm, PhraseVocabulary
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.parsing.parser import Parser
from t2t_lite.registry import CONSTRAINTS, SCORERS

pytestmark = pytest.mark.slow

FROZEN = Path(__file__).resolve().parents[1] / "frozen" / "0.1"
LINES = ["The old man sees the small dogs.", "I sleep.", "", "The girl sings.", "She sees him."]
PHRASES = [["Hund", "alter Mann"], [], [], ["singt"], ["sie", "sieht", "ihn"]]
TEXTS = ["Ein Hund sieht einen Hundekuchen.", "Der Mann schläft, und der Hund sieht ihn."] * 20


@pytest.fixture(scope="module")
def translator(small_run):
    return Translator.from_run_dir(small_run, "extra_length=20", xla_compile=False)


def contains(text, phrase):
    """Whether a phrase is in a text as whole words."""
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text) is not None


def assert_all_phrases(texts, phrases):
    for text, each in zip(texts, phrases, strict=True):
        assert all(contains(text, phrase) for phrase in each), (text, each)


@pytest.mark.heavy
def test_outputs_contain_their_phrases_and_lines_without_any_do_not_change(translator):
    plain = translator.translate(LINES, return_scores=True)
    found = translator.translate(LINES, return_scores=True, phrases=PHRASES)
    assert_all_phrases([hypothesis.text for hypothesis in found], PHRASES)
    # Up to rounding, because their batch is a smaller one.
    assert [found[row].text for row in (1, 2)] == [plain[row].text for row in (1, 2)]
    assert found[1].log_prob == pytest.approx(plain[1].log_prob, rel=1e-5)
    assert not any(contains(plain[row].text, phrase) for row in (0, 3, 4) for phrase in PHRASES[row])
    assert translator.translate(LINES, phrases=[[] for _ in LINES]) == [hypothesis.text for hypothesis in plain]
    assert translator.translate(LINES[3], phrases=PHRASES[3]) == found[3].text
    given = translator.score(LINES[3], found[3].text)
    # The output was cut at the limit, and given translations end with the end symbol.
    assert given.log_prob <= found[3].log_prob + 1e-3


@pytest.mark.heavy
def test_n_best_lists_prefixes_and_ensembles_contain_the_phrases(translator):
    for beams, phrases in zip(translator.n_best(LINES, phrases=PHRASES, beam_size=5), PHRASES):
        assert len({hypothesis.text for hypothesis in beams}) == len(beams) >= 1
        assert_all_phrases([hypothesis.text for hypothesis in beams], [phrases] * len(beams))
        assert all(hypothesis.score > -100 for hypothesis in beams)
    prefixes = ["Der Hundemann ", "", "", "Das", ""]
    wanted = [["Hundemann", "alter Mann"], *PHRASES[1:]]
    found = translator.translate(LINES, prefixes=prefixes, phrases=wanted)
    assert_all_phrases(found, wanted)
    assert all(text.startswith(prefix) for text, prefix in zip(found, prefixes))
    assert found[0].count("Hundemann") == 1  # that of the prefix counts; a word that the model itself never writes
    pair = Ensemble([translator.model] * 2)
    two = Translator(pair, translator.vocabulary, translator.decode_hparams, xla_compile=False)
    assert two.translate(LINES, phrases=PHRASES) == translator.translate(LINES, phrases=PHRASES)


def test_phrases_that_cannot_be_used_are_errors(translator):
    for phrases, settings, message in (
        ([["a"]], {}, "5 lines but 1 lists of phrases"),
        (["a"] * 5, {}, "takes a list of texts for each line"),
        (PHRASES, {"sampling_method": "random"}, "sampling_method=random .* does not work with phrases"),
        (PHRASES, {"diverse_beam_groups": 2}, "diverse_beam_groups=2 .* does not work with phrases"),
    ):
        with pytest.raises(UserError, match=message):
            translator.translate(LINES, phrases=phrases, **settings)
    with pytest.raises(UserError, match="a parser does not support phrases"):
        Parser(translator).translate(LINES, phrases=PHRASES)
    (path,) = (FROZEN / "words" / "run").glob("vocab.*")
    unwritable = "line 4: the phrase 'Quastenflosser' has characters or words that are not in vocab"
    with pytest.raises(UserError, match=unwritable):
        PhraseVocabulary(open_vocabulary(path)).constraint([["Quastenflosser"]], first_line=4)


@pytest.mark.heavy
@pytest.mark.parametrize("run", ["words", "characters", "bytes", "tied"])
def test_outputs_of_each_kind_of_vocabulary_contain_phrases_as_whole_words(run):
    translator = Translator.from_run_dir(FROZEN / run / "run", "beam_size=6", xla_compile=False)
    lines = (FROZEN / run / "inputs.txt").read_text(encoding="utf-8").splitlines()[:3]
    words = ["Hund.", "Baum."] if run == "words" else ["Hund", "Baum"]
    plain = translator.translate(lines)
    phrases = [[word] for word in (words[0], words[1], words[0])]
    found = translator.translate(lines, phrases=phrases)
    assert_all_phrases(found, phrases)
    assert plain != found and not any(text.startswith(" ") for text in found)


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "characters", "bytes"])
def test_phrases_have_the_tokens_that_they_have_inside_a_text(tmp_path, kind):
    path = tmp_path / "vocab"
    train_vocabulary(TEXTS, 400, path, kind, byte_fallback=kind == "bpe")
    vocabulary = open_vocabulary(path)
    line = PhraseVocabulary(vocabulary).constraint([["Hund", "sieht einen", ""]])
    (tokens,), (ends,) = line.inputs["phrase_tokens"], line.inputs["phrase_ends"]
    (whole,) = vocabulary.encode_all(["Ein Hund sieht einen Hundekuchen."]).to_list()
    phrases = [tokens[: ends[0] + 1], tokens[ends[0] + 1 :]]
    assert ["".join(vocabulary.tokens_of(phrase)).strip() for phrase in phrases] == ["Hund", "sieht einen"]
    for phrase in phrases:
        assert any(whole[place : place + len(phrase)] == phrase for place in range(len(whole)))


@dataclasses.dataclass(frozen=True)
class Without:
    """Forbids some tokens in lines that do not allow them."""

    tokens: tuple[bool, ...]

    def apply(self, logits, unconstrained, state, inputs):
        forbids = inputs.constraint_inputs["allowed"] == 0
        return tf.where(forbids[:, None, None] & tf.constant(self.tokens), NONE, logits)


@dataclasses.dataclass(frozen=True)
class OneTokenLess:
    """Lowers the score of outputs by the square of the difference of their length to that of the source."""

    def term(self, ids, lengths, inputs):
        difference = lengths - inputs.constraint_inputs["source_lengths"][:, None]
        return -10.0 * tf.cast(difference**2, tf.float32)


def test_a_registered_constraint_and_a_registered_term_are_chosen_by_name(translator, registered):
    lines = ["The young man sees the dogs.", "The old man sees the dogs."]
    plain = translator.translate(lines)
    letter = min({*filter(str.isalpha, plain[0])} & {*plain[1]})

    def only_of_the_young(lines):
        tokens = tuple(letter in token for token in lines.vocabulary.tokens())
        return LineConstraint(Without(tokens), {"allowed": [int("young" in text) for text in lines.texts]})

    def same_length(lines):
        return LineTerm(OneTokenLess(), {"source_lengths": [len(ids) for ids in lines.sources]})

    registered(CONSTRAINTS, "of_the_young", only_of_the_young)
    registered(SCORERS, "same_length", same_length)
    strict = translator.translate(lines, constraints="of_the_young")
    assert strict[0] == plain[0] and letter not in strict[1]
    # A caller may pass it, too, whatever else is in the batch.
    for rows in (lines, lines[1:]):
        passed = only_of_the_young(types.SimpleNamespace(vocabulary=translator.vocabulary, texts=rows))
        assert translator.translate(rows, constraints=[passed]) == strict[-len(rows) :]
    with pytest.raises(ValueError, match="'allowed' must occur once, with one entry for each of the 2 lines"):
        translator.translate(lines, constraints=[passed])
    with pytest.raises(ValueError, match="'allowed' must occur once"):
        translator.translate(lines[1:], constraints=[passed, passed])
    with pytest.raises(UserError, match="only_trees=True is for parsing"):
        translator.translate(lines, only_trees=True)
    settings = translator.decode_hparams.override("constraints=of_the_young,scorers=same_length,beam_size=8")
    named = Translator(translator.model, translator.vocabulary, settings, xla_compile=False)
    for line, beams in zip(lines, named.n_best(lines)):
        assert any(letter in hypothesis.text for hypothesis in beams) == ("young" in line)
        scores = [hypothesis.score for hypothesis in beams]
        assert scores == sorted(scores, reverse=True)
        # An output that is cut at the limit has 20 tokens more than its line.
        for hypothesis in beams:
            length = 20 + named.vocabulary.encode_all([line]).row_lengths().numpy()[0]
            expected = hypothesis.log_prob / ((5 + length) / 6) ** 0.6 - 10.0 * 20**2
            assert hypothesis.score == pytest.approx(expected, rel=1e-4)
