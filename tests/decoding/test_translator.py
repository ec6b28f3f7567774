"""Translations do not depend on the other lines, what is cut is said, and a text instead of a list gives a result."""

import inspect
import os
import types

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.config import DecodeHParams, HParams
from t2t_lite.data.vocab import EOS_ID, open_vocabulary, train_vocabulary
from t2t_lite.decoding.translator import Translator, encode_lines
from t2t_lite.errors import UserError
from t2t_lite.parsing.parser import Parser
from t2t_lite.registry import MODELS

LINES = ["The old man sees the small dogs.", "I sleep.", "", "Does the girl who is tired sing in the garden?", "   "]


@pytest.mark.slow
def test_a_line_gives_the_same_text_alone_and_among_others(translator):
    together = translator.translate([*LINES, "word " * 40])
    assert [translator.translate([line])[0] for line in LINES] == together[: len(LINES)]


def test_lines_without_letters_are_copied_if_asked(translator):
    lines = ["12", "I sleep.", "*** \u2764\ufe0f", "", "٣ % ≠ ½"]
    usual, copied = translator.translate(lines), translator.translate(lines, copy_letterless=True)
    assert usual[0] != "12" and usual[2] != lines[2]
    assert copied == [lines[0], usual[1], lines[2], "", lines[4]]
    beams = translator.n_best(lines, copy_letterless=True)
    assert [beams[0], beams[2]] == [[(lines[0], 0.0, 0.0)], [(lines[2], 0.0, 0.0)]] and len(beams[1]) > 1
    assert translator.best(["12"], copy_letterless=True) == beams[0]
    done = []
    prefixed = translator.translate(["12", "12"], prefixes=["1", "Ich"], copy_letterless=True, on_done=done.append)
    assert prefixed[0] == "12" and prefixed[1].startswith("Ich") and sum(done) == 2
    (wanted,) = translator.translate(["12"], phrases=[["Hund"]], copy_letterless=True)
    assert "Hund" in wanted


class Stutter:
    """Replaces a model: writes every token of the source `times` times, in order, and then the end symbol."""

    def __init__(self, vocab_size, max_positions=None, times=1):  # going beyond the positions is an error
        self.vocab_size, self.max_positions, self.times = vocab_size, max_positions, times

    def start_decoding(self, inputs, beam_size, max_length):
        return inputs, tf.zeros([tf.shape(inputs)[0], 1])

    def grow_state(self, state, beam_size, max_length):
        return state

    def decode_step(self, ids, position, encoded_source, state, ancestry):
        place = tf.minimum(position // self.times, tf.shape(encoded_source)[1] - 1)
        logits = 20.0 * tf.one_hot(encoded_source[:, place], self.vocab_size)
        if self.max_positions is not None:
            logits = tf.where(position < self.max_positions, logits, np.nan)
        return tf.repeat(logits[:, tf.newaxis], ids.shape[1], axis=1), state, None


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    """A vocabulary whose only tokens are a blank and the letters a to h, so that "a b c" is 6 tokens with the end."""
    path = tmp_path_factory.mktemp("letters") / "vocab"
    train_vocabulary([" ".join("abcdefgh")], 12, path)
    return open_vocabulary(path)


def stutter(letters, said, settings="", **arguments):
    model = Stutter(letters.size, **arguments)
    return Translator(model, letters, DecodeHParams().override(settings), warn=said.append)


def tokens_of(letters, text):
    return int(letters.encode(tf.constant([text])).row_lengths()[0])


def text_of(letters, tokens):
    """A text with a given number of tokens, end symbol included."""
    texts = (("ab" * tokens)[:length] for length in range(2 * tokens))
    return next(text for text in texts if tokens_of(letters, text) == tokens)


@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 4])
def test_only_an_output_cut_by_learned_positions_gives_a_warning_with_its_line(letters, beam_size):
    said = []
    text = text_of(letters, 9)
    for positions in (None, 9):  # it ends exactly at the limit, or is cut by extra_length
        assert stutter(letters, said, max_positions=positions).translate([text]) == [text]
        stutter(letters, said, "extra_length=1", max_positions=positions, times=2).translate([text_of(letters, 8)])
    assert said == []
    translator = stutter(letters, said, f"beam_size={beam_size},batch_tokens=32", max_positions=9, times=2)
    short, long, longer = (text_of(letters, tokens) for tokens in (4, 6, 8))
    outputs = translator.translate([longer, short, "", long, short], first_line=7)
    words = "the output was cut at 9 tokens, which is the limit of the learned positions (max_length)"
    assert said == [f"line 7: {words}", f"line 10: {words}"]
    assert outputs[2] == "" and outputs[1] == outputs[4]
    for place, text in ((0, longer), (3, long)):
        # 9 tokens, the first two of which are the blank at the start of a text.
        assert outputs[place] == " " + "".join(2 * letter for letter in text)[:7]


@pytest.mark.parametrize(("settings", "tokens"), [("max_input_length=8", 8), ("max_input_length=9", 9), ("", 9)])
def test_an_input_is_cut_at_the_lower_of_two_limits_and_that_limit_is_named(letters, settings, tokens):
    said = []
    translator = stutter(letters, said, settings, max_positions=9)
    (output,) = translator.translate([text_of(letters, 20)], first_line=3)
    of_positions = "9, which is the limit of the learned positions (max_length); split it, or train with a larger"
    message = "max_input_length=8; raise it in `decode_hparams`" if tokens == 8 else of_positions
    assert said[0].startswith(f"line 3 has 20 tokens and was cut to {message}") and len(said) == 1
    assert text_of(letters, 20).startswith(output) and tokens_of(letters, output) == tokens


@pytest.mark.slow
def test_a_model_with_learned_positions_decodes_up_to_the_last_position(letters):
    sizes = dict.fromkeys(("num_encoder_layers", "num_decoder_layers"), 1) | {"hidden_size": 16, "filter_size": 16}
    hparams = HParams(**sizes, num_heads=2, position_encoding="learned", max_length=9)
    model = MODELS["transformer"](hparams, letters.size)
    model.build()
    step = model.decode_step

    def never_ending(*arguments):
        logits, state, attention = step(*arguments)
        return logits - 1e6 * tf.one_hot(EOS_ID, logits.shape[-1]), state, attention

    model.decode_step = never_ending
    said = []
    translator = Translator(model, letters, DecodeHParams(), warn=said.append)
    outputs = translator.translate([text_of(letters, 20), text_of(letters, 4)])
    assert [line.split(" ")[:2] for line in said] == [["line", "1"], ["line", "1:"], ["line", "2:"]]
    assert len(outputs) == 2


@pytest.mark.heavy
@pytest.mark.parametrize("groups", [{}, {"diverse_beam_groups": 3, "diverse_beam_strength": 0.1}], ids=["one", "three"])
def test_a_list_has_each_text_once_with_its_best_score_and_begins_with_the_translation(translator, groups):
    beams = translator.n_best(LINES, beam_size=6, **groups)
    best = translator.translate(LINES, beam_size=6, return_scores=True, **groups)
    for line, found, first in zip(LINES, beams, best):
        assert found[0].text == first.text and len({beam.text for beam in found}) == len(found)
        assert [beam.score for beam in found] == sorted((beam.score for beam in found), reverse=True)
        if line.strip():
            assert first.score == pytest.approx(found[0].score, rel=1e-5) and len(found) > 1
        else:
            assert found == [("", 0.0, 0.0)]
    if groups:  # they find some texts twice
        assert any(1 < len(found) < 6 for found in beams)


@pytest.mark.slow
def test_given_translations_are_scored_by_teacher_forcing(translator):
    pairs = [("I sleep.", "Ich schlafe."), ("", "Hund"), ("The dog sees me.", ""), ("She sings.", "Hund " * 30)]
    scored = translator.score(*zip(*pairs))
    for (line, text), found in zip(pairs, scored):
        inputs, targets = (translator.vocabulary.encode([side]).to_tensor() for side in (line, text))
        log_probs = tf.nn.log_softmax(translator.model(inputs, targets))
        expected = float(tf.reduce_sum(tf.gather(log_probs, targets, batch_dims=2)))
        assert found.text == text
        assert found.log_prob == pytest.approx(expected, rel=1e-4)
        assert found.score == pytest.approx(expected / ((5 + targets.shape[1]) / 6) ** 0.6, rel=1e-4)


@pytest.mark.parametrize("kind", ["memory", "encoder", "decoder"])
def test_attention_rows_sum_to_one_and_belong_to_tokens(kind, translator):
    line, text = "The girl sings in the garden.", "Das Kind singt."
    weights, queries, keys = translator.attention(line, text, kind, 0)
    assert weights.shape == (2, len(queries), len(keys))
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)
    sides = {"memory": (text, line), "encoder": (line, line), "decoder": (text, text)}[kind]
    assert ("".join(queries).strip(), "".join(keys).strip()) == sides
    if kind == "decoder":
        assert not np.triu(weights, 1).any()
    for wrong, message in ((("memory", 5), "no layer 5"), (("both", 0), "not 'both'")):
        with pytest.raises(UserError, match=message):
            translator.attention(line, text, *wrong)


@pytest.mark.parametrize("kind", ["words", "wordpiece", "bpe"])
def test_a_text_of_many_characters_and_few_tokens_is_not_cut(kind, tmp_path):
    path = tmp_path / "vocab"
    train_vocabulary(["a small house", "a house"] * 9, 300 if kind == "wordpiece" else 14, path, kind=kind)
    vocabulary = open_vocabulary(path)
    lines = ["a" + 5_000 * " " + "house", 5_000 * "z" + " house", "a house", 30 * "a small house "]
    warnings = []
    engine = types.SimpleNamespace(max_positions=None)
    ids, cut = encode_lines(vocabulary, lines, DecodeHParams(max_input_length=20), engine, warnings.append, 1, "line")
    whole = vocabulary.ids_of(lines)
    assert len(whole[3]) > 20
    assert cut == {number for number, row in enumerate(whole) if len(row) > 20}
    for number, row in enumerate(whole):
        assert ids[number] == (row if len(row) <= 20 else [*row[:19], EOS_ID])
    assert len(warnings) == len(cut) and warnings[-1].startswith(f"line 4 has {len(whole[3])} tokens and ")


PHRASES = "`phrases` takes a list of texts for each line, such as [['a phrase', 'another'], []]"
OUT = "is out of range: it must be at least 0 and at most"
LINE, OTHER = "She sleeps.", "The old man sees the small dogs."


@pytest.mark.heavy
def test_one_text_gives_one_text(translator):
    whole = translator.translate([LINE])
    assert translator.translate(LINE) == whole[0] and isinstance(whole[0], str)
    assert translator.translate(lines=LINE, return_scores=True) == translator.translate([LINE], return_scores=True)[0]
    assert translator.translate(LINE, prefixes="Der") == translator.translate([LINE], prefixes=["Der"])[0]
    assert translator.n_best(LINE) == translator.n_best([LINE])[0]
    assert translator.score(LINE, OTHER) == translator.score([LINE], [OTHER])[0]
    assert translator.align(LINE, OTHER) == translator.align([LINE], [OTHER])[0]
    assert translator.translate("") == ""


def test_one_line_end_is_ignored(translator):
    texts = [LINE, OTHER]
    assert translator.translate([f"{LINE}\n", f"{OTHER}\r\n"]) == translator.translate(texts)
    assert translator.best([f"{LINE}\n", OTHER]) == translator.best(texts)
    assert translator.score(f"{LINE}\n", f"{OTHER}\n") == translator.score(LINE, OTHER)


WRONG = [
    (lambda t: t.score(LINE, [OTHER]), "score: inputs is a string but targets is not; pass both"),
    (lambda t: t.translate([LINE], prefixes="Der"), "translate: prefixes is a string but lines is not; pass both"),
    (lambda t: t.score([LINE, LINE], [OTHER]), "score: 2 inputs but 1 targets; pass as many of each"),
    (lambda t: t.align([LINE], [OTHER, OTHER]), "align: 1 lines but 2 translations; pass as many of each"),
    (lambda t: t.attention([LINE], []), "attention: 1 line but 0 translation; pass as many of each"),
    (lambda t: t.translate([LINE], prefixes=["a", "b"]), "translate: 1 lines but 2 prefixes; pass as many of each"),
    (lambda t: t.translate([LINE], phrases=["Hund"]), PHRASES),
    (lambda t: t.translate([LINE], phrases=[[["Hund"]]]), PHRASES),
    (lambda t: t.translate([LINE], phrases=[5]), PHRASES),
    (lambda t: t.sample(LINE, first_line=-1), "`first_line=-1` is out of range: it must be at least 0"),
    (lambda t: t.translate(LINE, min_length_ratio=1e9), f"`decode_hparams`: min_length_ratio=1000000000.0 {OUT} 100"),
    (lambda t: t.translate(LINE, extra_length=2**31), f"`decode_hparams`: extra_length=2147483648 {OUT} 10,000,000"),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_wrong_arguments_are_errors_of_one_line(translator, call, message):
    with pytest.raises((UserError, TypeError)) as error:
        call(translator)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


def test_a_model_that_was_loaded_before_a_fork_is_an_error_and_does_not_hang(translator):
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        for use in (translator.translate, lambda line: translator.score(line, line)):
            try:
                use(LINE)
            except UserError as error:
                os.write(write, f"{error}\n".encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    said = os.fdopen(read).read().splitlines()
    assert len(said) == 2 and all("was loaded before this process was forked" in line for line in said)


@pytest.mark.parametrize("kind", [Translator, Parser])
def test_every_method_that_takes_texts_accepts_a_single_one(kind):
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if name.startswith("_") or name in ("attention", "best", "warm_up"):
            continue  # attention has other names, best takes lists only, and warm_up returns nothing
        takes = {"lines", "inputs", "targets", "translations"} & set(inspect.signature(method).parameters)
        assert not takes or hasattr(method, "__wrapped__"), name
