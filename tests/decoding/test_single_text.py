"""A single text instead of a list: every method of a translator returns the result of that text."""

import inspect
import os

import pytest

from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.parsing.parser import Parser

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
