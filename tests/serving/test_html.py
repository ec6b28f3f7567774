"""HTML of requests: every character but the texts stays."""

import html
import re

import pytest
from support.html_pages import pages

from t2t_lite.serving.html import Html
from t2t_lite.serving.sentences import split_sentences


def test_of_200_pages_everything_stays_but_the_texts():
    for markup in pages(200):
        page = Html(markup)
        assert page.with_texts(page.texts) == markup
        assert "".join(page.texts).count("·") == markup.count("·"), markup
        assert all("·" in text for text in page.texts), (markup, page.texts)
        changed = page.with_texts([text.replace("·", "ü") for text in page.texts])
        assert _seen(changed) == _seen(markup.replace("·", "ü"))


def _seen(markup):
    """Markup as readers see it: without character references, with single blanks."""
    return re.sub("[ \t\n\f\r]+", " ", html.unescape(markup))


@pytest.mark.parametrize(
    ("markup", "texts"),
    [
        ("<p translate=NO>a</p><p translate=no>b<i translate=YES>c</i>d</p>e", ["c", "e"]),
        ('<p translate="no">a<i translate="">b</i><i translate>c</i><i translate="maybe">d</i>', ["b", "c"]),
        ("<p class=notranslate>a<i translate=yes>b<b translate=no>c</b>d</i>e", ["b", "d"]),
        ("<p translate=yes class=notranslate>a", []),
        ("<p translate=no translate=yes>a", []),  # the first of two counts
        ("<p translate='&#110;o'>a<p data-translate=no>b", ["b"]),
        ("<p>a<b translate=no>b<p>c</b>d", ["a", "d"]),  # formatting goes on in the next paragraph
        ("<ul><li translate=no>a<ul><li>b</ul>c<li>d</ul>", ["d"]),
        (
            "<table translate=no><tr><td>a</table>b<table><td translate=no>c<td>d<tr translate=no><td>e<tr><td>f",
            list("bdf"),
        ),
        ("<table><td><b translate=no>a</td><td>b</table>c", ["b", "c"]),  # but not out of a cell
        ("<div translate=no><p>a</p></span></b>b</div>c", ["c"]),
        ("<dl><dt translate=no>a<dd>b<dt>c</dl><select><option translate=no>d<option>e</select>f", list("bcef")),
        ("<body translate=no>a</body></html>b", []),
        ("<svg><desc><p>a</p></desc></svg>b", ["b"]),
        ("<div><svg><g></div>a<math>b<p>c</p>d</math>e", ["a", "e"]),  # in browsers, <p> ends <math>
        ("<p translate=no><svg><a>b</a><path/></svg></p>a", ["a"]),
        ("<h1 translate=no>a<h2>b</h2><button translate=no>c</h2>d</button>e", ["b", "e"]),
        ("<b translate=no><i translate=yes>a</b>b<div>c</i>d</div>e", list("abcde")),
        ("<div translate=no><b>a</div>b</b><div translate=no><b><div></b>c</div>d</div>e", ["b", "e"]),
        ("<table><b translate=no><td>a</table>b</b>c", ["c"]),  # browsers move <b> before the table
        (
            "<ruby><rt translate=no>a<rp>b</ruby><select><optgroup translate=no><option>c<optgroup>d</select>e",
            list("bde"),
        ),
        ("<nobr translate=no>a<nobr>b</nobr><a translate=no>c<a>d</a>e", ["b", "d", "e"]),
        ("<table><caption translate=no>a<colgroup><tbody translate=no><td>b<tbody><td>c</table>d", ["c", "d"]),
        # An open button keeps a paragraph open, but no end tag of a list or a heading.
        ("<dl>a<p><p translate=no>b<button></dl>c", ["a", "c"]),
        ("<p translate=no>a<button>b<p>c</button>d", []),
        ("<listing>a</listing><pre translate=yes>b</pre><xmp><b>c</xmp>d", ["d"]),
        ("<svg><![CDATA[</svg>]]>a</svg>b<![CDATA[c]]>d", ["b", "d"]),
        ("<svg><style/><title/>a</svg>b<title>c</title>d", ["b", "c", "d"]),
        ("<script><!-- <script> </script> --></script>a<script><!--></script>b", ["a", "b"]),
        ("<plaintext>a</plaintext>b", []),
        ("<p>a<!-->b<!--->c<!-- --!>d<!-- e", ["a", "b", "c", "d"]),
        ("a <b c='", ["a"]),
        ("&#" + "1" * 5000 + "; &amp a", ["&#" + "1" * 5000 + "; &amp a"]),
    ],
)
def test_which_texts_are_translated(markup, texts):
    assert Html(markup).texts == texts


def test_only_the_texts_that_change_are_written_anew():
    page = Html("<p>1 & 2 &copy; <b>caf&eacute;</b> x&nbsp;&gt;")
    assert page.texts == ["1 & 2 ©", "café", "x\xa0>"]
    assert page.with_texts(["1 & 2 ©", "<Kaffee>", "y\xa0> &"]) == (
        "<p>1 & 2 &copy; <b>&lt;Kaffee&gt;</b> y&nbsp;&gt; &amp;"
    )


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<p>The old man\n\t\tsees a dog.</p>", "<p>THE OLD MAN SEES A DOG.</p>"),
        ("\r\n  a\r\n b \n<b> c\n</b>", "\r\n  A B \n<b> C\n</b>"),  # around a text, it stays
        ("a \n\f\t\r b", "A B"),
        ("a&#10;b&#13;&#10;\nc&#x9;d&#32; e", "A B C D E"),
        ("&#10;a&Tab;<i>&NewLine;</i>", " A <i>&NewLine;</i>"),
        ("a&nbsp;\n b&nbsp;&nbsp;c\xa0d&#160;", "A&nbsp; B&nbsp;&nbsp;C&nbsp;D&nbsp;"),  # not white space in HTML
        ("a\vb\u2003 \u3000c\u2028d\x85", "A\vB\u2003 \u3000C\u2028D\x85"),
        ("<title>\n a\r\n dog </title>", "<title>\n A DOG </title>"),
        ("<pre>\na\n\tb</pre><textarea>a\n b</textarea>c\nd", "<pre>\na\n\tb</pre><textarea>a\n b</textarea>C D"),
        ("<a\n  href=x\n>a\n b</a\n>\n<!-- x\n y -->\n c", "<a\n  href=x\n>A B</a\n>\n<!-- x\n y -->\n C"),
        ("<p>12 \n 13&#10;&copy;</p>", "<p>12 \n 13&#10;&copy;</p>"),  # unchanged
        ("<p>\n\t&#32;\n</p>", "<p>\n\t&#32;\n</p>"),
    ],
)
def test_white_space_collapses_as_for_a_reader(markup, expected):
    page = Html(markup)
    assert page.with_texts([text.upper() for text in page.texts]) == expected
    assert page.with_texts(page.texts) == markup


def test_a_sentence_goes_on_in_the_next_line():
    (text,) = Html("<p>\n  A man sees\r\n\ta dog. It\n runs.\n</p>").texts
    assert split_sentences(text, "en").sentences == ["A man sees a dog.", "It runs."]


@pytest.mark.parametrize(("number", "texts"), [(45, ["b", "c"]), (55, [])])
def test_a_tag_closes_nothing_far_outside(number, texts):
    """A text is rather not translated than changed where it must not be."""
    assert Html(f"<p><q translate=no>{'<span>' * number}a</q>b</p>c").texts == texts
