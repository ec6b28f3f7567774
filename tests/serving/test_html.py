"""HTML of requests: every character but the texts stays."""

import html

import pytest
from support.html_pages import pages

from t2t_lite.serving.html import Html


def test_of_200_pages_everything_stays_but_the_texts():
    for markup in pages(200):
        page = Html(markup)
        assert page.with_texts(page.texts) == markup
        assert "".join(page.texts).count("·") == markup.count("·"), markup
        assert all("·" in text for text in page.texts), (markup, page.texts)
        changed = page.with_texts([text.replace("·", "ü") for text in page.texts])
        assert html.unescape(changed) == html.unescape(markup.replace("·", "ü"))


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
        ("<svg><desc><p>a</p></desc></svg>b<math>c<p>d", ["b", "d"]),
        ("<svg><![CDATA[</svg>]]>a</svg>b<![CDATA[c]]>d", ["b", "d"]),
        ("<svg><style/><title/>a</svg>b<title>c</title>d", ["b", "c", "d"]),
        ("<script><!-- <script> </script> --></script>a<script><!--></script>b", ["a", "b"]),
        ("<plaintext>a</plaintext>b", []),
        ("<p>a<!-->b<!--->c<!-- --!>d<!-- e", ["a", "b", "c", "d"]),
        ("a <b c='", ["a "]),
        ("&#" + "1" * 5000 + "; &amp a", ["&#" + "1" * 5000 + "; &amp a"]),
    ],
)
def test_which_texts_are_translated(markup, texts):
    assert Html(markup).texts == texts


def test_only_the_texts_that_change_are_written_anew():
    page = Html("<p>1 & 2 &copy; <b>caf&eacute;</b> x&nbsp;&gt;")
    assert page.texts == ["1 & 2 © ", "café", " x\xa0>"]
    assert page.with_texts(["1 & 2 © ", "<Kaffee>", " y\xa0> &"]) == (
        "<p>1 & 2 &copy; <b>&lt;Kaffee&gt;</b> y&nbsp;&gt; &amp;"
    )
