"""A single text instead of a list: every method of a translator returns the result of that text."""

import inspect

import pytest

from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.parsing.parser import Parser

LINE, OTHER = "She sleeps.", "The old man sees the small dogs."


@pytest.fixture(scope="module")
def translator(small_run):
    return Translator.from_run_dir(small_run, "extra_length=5", xla_compile=False)


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


def test_a_text_together_with_a_list_is_an_error(translator):
    with pytest.raises(TypeError, match="score: inputs is a string but targets is not; pass both"):
        translator.score(LINE, [OTHER])
    with pytest.raises(TypeError, match="translate: prefixes is a string but lines is not; pass both"):
        translator.translate([LINE], prefixes="Der")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (b"x", "`lines` is of the type bytes; pass a text or a list of texts"),
        (None, "`lines` is None; pass a text or a list of texts"),
        ({"q": "x"}, "`lines` is of the type dict; pass a text or a list of texts"),
        ((line for line in ["x"]), "`lines` is of the type generator; pass a text or a list of texts"),
        ([LINE, b"x"], "`lines`[1] is of the type bytes; pass texts"),
        ([LINE, None], "`lines`[1] is None; pass texts"),
    ],
    ids=["bytes", "None", "dict", "generator", "bytes in a list", "None in a list"],
)
def test_what_is_no_text_is_an_error_of_one_line(translator, given, message):
    for method in (translator.translate, translator.n_best, translator.sample):
        with pytest.raises(UserError) as error:
            method(given)
        assert str(error.value) == f"{method.__name__}: {message}"
    with pytest.raises(UserError, match="score: `targets` is None"):
        translator.score(LINE, None)


@pytest.mark.parametrize("kind", [Translator, Parser])
def test_every_method_that_takes_texts_accepts_a_single_one(kind):
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if name.startswith("_") or name in ("attention", "best", "warm_up"):
            continue  # attention has other names, best takes lists only, and warm_up returns nothing
        takes = {"lines", "inputs", "targets", "translations"} & set(inspect.signature(method).parameters)
        assert not takes or hasattr(method, "__wrapped__"), name
