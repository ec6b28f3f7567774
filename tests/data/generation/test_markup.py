"""What is left of web pages in a text, and what only looks like it."""

import pytest

from t2t_lite.data.generation.text_checks import find_entity, find_invisible, find_tag


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Tom &amp; Tim", "&amp;"),
        ("10 &nbsp;km &lt; 11", "&nbsp;"),
        ("it&#39;s", "&#39;"),
        ("it&#x27;s", "&#x27;"),
        ("R&D; then &quot;", "&quot;"),
        ("Q&A; AT&T; a & b; &; &#; &#x; &unknown;", ""),
        ("fish & chips", ""),
        ("?a=1&copy=2", ""),
    ],
)
def test_entities(text, found):
    assert find_entity(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("one<br>two", "<br>"),
        ("one<BR />two", "<BR>"),
        ("one </p> two", "</p>"),
        ('a <a href="https://example.org/?a=1">link</a>', "<a>"),
        ("a <font size=2 color='red'>word", "<font>"),
        ('<seg id="12">text', "<seg>"),
        ("text</seg>", "</seg>"),
        ("<x/>", "<x>"),
        ("<unk> <b>", "<b>"),
        ("1 < 2 and 3 > 2", ""),
        ("if a <b and c> d", ""),
        ("x<y>z <unk> <2de> <de> <hr> <tr> <num > <s>", ""),
        ("I <3 you -> <-", ""),
        ("<someone@example.org> <https://example.org>", ""),
    ],
)
def test_tags(text, found):
    assert find_tag(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("zero\u200bwidth", "U+200B"),
        ("\u2060word", "U+2060"),
        ("two \ufefffiles", "U+FEFF"),
        ("ภาษา\u200bไทย and zero\u200bwidth", "U+200B"),
        ("ភាសា\u200bខ្មែរ \u200bខ្មែរ ខ្មែរ\u200b.", ""),  # Khmer separates words by U+200B
        ("ภาษา\u200bไทย", ""),
        ("می\u200cخواهم", ""),  # Persian
        ("क्\u200dष", ""),  # Devanagari
        ("👩\u200d👩\u200d👧", ""),
        ("café\u00a0!", ""),
    ],
)
def test_invisible_characters(text, found):
    assert find_invisible(text) == found


def test_a_long_line_takes_no_more_than_linear_time():
    # A pattern that tried all divisions of these attributes would never end.
    assert find_tag("<a" + " x=1" * 10_000) == ""
    assert find_tag("<" * 10_000) == ""
