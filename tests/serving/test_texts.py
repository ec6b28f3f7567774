"""Texts of requests: sentences, HTML and languages."""

import itertools
import random

import pytest

from t2t_lite.serving import languages
from t2t_lite.serving.html import Html
from t2t_lite.serving.sentences import MAX_PART, split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Dr. Smith went home.  He slept!", ["Dr. Smith went home.", "He slept!"]),
        ("  First line.\n\n\tSecond line?\r\nThird", ["First line.", "Second line?", "Third"]),
        ("no end, no beginning", ["no end, no beginning"]),
        ("One line\ngoes on here.", ["One line", "goes on here."]),
        ("", []),
        (" \n \t", []),
    ],
)
def test_a_text_is_split_and_put_together_again(text, sentences):
    split = split_sentences(text, "en")
    assert split.sentences == sentences
    assert split.joined(split.sentences) == text
    wanted = text
    for sentence in sentences:
        wanted = wanted.replace(sentence, sentence.upper(), 1)
    assert split.joined([sentence.upper() for sentence in sentences]) == wanted


@pytest.mark.parametrize("language", ["en", "de", "zh", "pt-BR", "", "xx"])
def test_no_character_of_any_text_is_lost(language):
    draw = random.Random(1)
    parts = ["A dog. ", "Dr. ", "\n", "\r\n", "\u2028", "\x00", "😀", "。", "\u00a0", "«Oui!» ", "...", "?!", "\t", "x"]
    for _ in range(300):
        text = "".join(draw.choices(parts, k=draw.randrange(12)))
        split = split_sentences(text, language)
        assert split.joined(split.sentences) == text
        assert all(sentence == sentence.strip() != "" and "\n" not in sentence for sentence in split.sentences)


def test_a_long_paragraph_is_cut_between_sentences_and_bounded_without_them():
    sentences = [f"The old man saw {number} dogs." for number in range(2_000)]
    assert split_sentences(" ".join(sentences), "en").sentences == sentences
    for text in ("' " * 60_000, '"' * 60_000, "a" * 30_000 + " b." * 10_000):
        split = split_sentences(text, "en")
        assert split.joined(split.sentences) == text
        # Time is quadratic in the longest part.
        assert max(map(len, split.sentences)) <= MAX_PART


def translated(markup):
    page = Html(markup)
    return page.with_texts([text.upper() for text in page.texts])


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<p class='x'>a <b>dog</b> &amp; cat</p>", "<p class='x'>A <b>DOG</b> &amp; CAT</p>"),
        ("plain &lt;text&gt;", "PLAIN &lt;TEXT&gt;"),
        ("a<script>let x='y';</script><!-- note -->b", "A<script>let x='y';</script><!-- note -->B"),
        ("<style>p{}</style><pre>x\n</pre>b", "<style>p{}</style><pre>x\n</pre>B"),
        (
            '<i translate="no">Ac <b>me</b></i> ltd <code>x</code> end',
            '<i translate="no">Ac <b>me</b></i> LTD <code>x</code> END',
        ),
        ('<span class="a notranslate">keep</span>me', '<span class="a notranslate">keep</span>ME'),
        ("<p>not closed <b>either", "<p>NOT CLOSED <b>EITHER"),
        ("<td>one</td><td>two</td>", "<td>ONE</td><td>TWO</td>"),
        ("<![CDATA[x]]>a<!DOCTYPE>b", "<![CDATA[x]]>A<!DOCTYPE>B"),
        (
            "<!DOCTYPE html><html><body><p>a</p></body></html>",
            "<!DOCTYPE html><html><body><p>A</p></body></html>",
        ),
        ("<div translate=no>a<div><b>b</b></div>c</div>d", "<div translate=no>a<div><b>b</b></div>c</div>D"),
        ('<a href="/?a=1&amp;b=2" title="t">link</a><br/>', '<a href="/?a=1&amp;b=2" title="t">LINK</a><br/>'),
    ],
)
def test_tags_are_kept_and_texts_are_not(markup, expected):
    assert translated(markup) == expected


def test_what_a_model_writes_cannot_become_a_tag():
    page = Html("<p>text</p>")
    assert page.with_texts(["<script>alert(1)</script>"]) == "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>"


def test_deep_nesting_is_no_problem():
    markup = "<div>" * 20_000 + "deep" + "</div>" * 20_000
    assert translated(markup) == markup.replace("deep", "DEEP")


def test_html_can_be_joined_with_several_translations():
    page = Html("<p>a <b>b</b></p>")
    assert [page.with_texts([text, text]) for text in "xy"] == ["<p>x<b>x</b></p>", "<p>y<b>y</b></p>"]


def test_languages_are_named_and_found():
    assert [languages.language_name(code) for code in ("en", "de", "pt-BR", "qq")] == [
        "English",
        "German",
        "Portuguese (Brazil)",
        "qq",
    ]
    assert [languages.find(code, ["en", "pt"]) for code in ("EN", "pt-BR", "pt_BR", "de", "")] == [
        "en",
        "pt",
        "pt",
        None,
        None,
    ]


def test_the_language_of_a_text_is_detected():
    texts = {
        "de": "Ein Mann fährt mit dem Fahrrad über die Straße.",
        "fr": "Un homme fait du vélo dans la rue avec son chien.",
        "en": "A man is riding his bicycle down the street.",
    }
    for (code, text), among in itertools.product(texts.items(), [(), ("de", "fr", "en")]):
        found = languages.detect(text, among)[0]
        assert found.language == code and 50 < found.confidence <= 100
    assert languages.detect(texts["fr"], ("en", "de"))[0].language in ("en", "de")
    assert languages.detect(texts["de"], ("en", "de-AT"))[0].language == "de-AT"
    assert languages.detect("", ("en", "de"))
