"""HTML of requests: every character but the texts stays."""

import html
import itertools
import random
import re
import time
import tracemalloc

import pytest

from t2t_lite.serving.html import Html
from t2t_lite.serving.sentences import split_sentences

# Parts of pages as they are found; a text to translate begins with a dot.
BEFORE = ["", "\ufeff", "<!-- saved from (0014)about:internet -->\r\n", '<?xml version="1.0"?>\n', " \n\t"]
DOCTYPES = ["<!DOCTYPE html>\n", "<!doctype HTML>", ""]
DOCTYPES += ['<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/TR/xhtml1-strict.dtd">\r\n']
HEADS = [
    "<html lang=en><head><meta charset=utf-8><title>·a dog &amp; more</title></head><body>",
    "<HTML><HEAD><TITLE>·title</TITLE><STYLE>p > b { color: red }</STYLE></HEAD><BODY BGCOLOR=white>\r\n",
    '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>·t</title><link rel="x" href="a&b=c" /></head><body>',
    "<title>·no head</title><script>if (a<b && c>d) document.write('<p>x</p>')</script>",
    "<head><noscript><style>p{}</style></noscript></head>",
    "",
]
PARTS = [
    "<p>·a dog\r\n<p class=x>·runs</P>",
    "<ul><li>·one<li>·two <b>·and</b>· more</ul>",
    "<table border=1><tr><td>·a<td>·b<tr><th>·c</table>",
    '<a href="/?a=1&b=2&amp;c" title="a > b" data-x=\'<p>"\'>·link</a>',
    "<img src=a.png alt='x > y'><br/><hr><input value=\"q\" disabled>·after",
    "<!-- <p>not a text</p> -->·x",
    "<!--[if IE]><p>old</p><![endif]--><![if !IE]>·new<![endif]>",
    "<![CDATA[ <b>x]]>·rest",
    "<script type=module>let a = '<!-- <script> </script> -->'; if (1 < 2) b();</script>·end",
    "<SCRIPT>x = 1 << 3</SCRIPT >·z",
    "<style>a::before { content: '</p>' }</style>·s",
    '<svg viewBox="0 0 1 1"><style/><title>t</title><path d="M0 0"/><text>x</text><![CDATA[</svg>]]></svg>·beside',
    "<math><mi>x</mi><mo>&lt;</mo></math>·formula",
    "<template><td>{x}</td></template>·t",
    "<pre>\n  x < y\n</pre><code>f()</code><kbd>K</kbd>·code",
    "<textarea>\n<b>a</b></textarea><select><option>·o<option selected>·p</select>",
    '<div translate="no">a<div translate="yes">·b</div>c<p translate>·d</div>·e',
    "<p TRANSLATE=NO>a <b>b</b><p>·c",
    "<span class='x notranslate'>a<i translate=''>·b</i></span>·c",
    "<div translate=no><code translate=yes>a</code><svg><text translate=yes>b</text></svg></div>",
    "·&copy;&nbsp;2024 &#8211; caf&eacute; &AMP &lt;x> &notin; &unknown; 1 & 2",
    "·a < b and 3<4, c > d",
    "<dl><dt>·a<dd translate=no>b<dd>·c</dl>",
    "<p><b translate=no>a</p><p>b</b>·c",
    "<h1>·a<small>·b</small></h1><p/>·c",
    "<p\n\tid = 'a'\r\n class\f=\fb\n>·lines\r\nand\nmore</p\n>",
    "<video controls><source src=x><track src=y>·no video</video>",
    "<iframe src=x><p>old</p></iframe><noscript><p>off</p></noscript>·y",
    "<custom-element some:attr='1' @click=\"a => b\" [x]=y>·z</custom-element>",
    "<button onclick=\"if (a<b) alert('>')\">·press</button>",
    "<?php echo '<p>'; ?>·php",
    "</unknown></p></>·stray",
    "\0·n\0",
    "<a>·x</a> <a>·y</a>",
]
ENDS = ["</body></html>\n", "</BODY>\r\n</HTML>", "", "<!-- end -->", "<p>·last", "<b unfinished='", "</"]
ENDS += ["<!-- never closed <p>"]


def seen(markup):
    """Markup as readers see it: without character references, with single blanks."""
    return re.sub("[ \t\n\f\r]+", " ", html.unescape(markup))


def test_of_200_pages_everything_stays_but_the_texts():
    draw = random.Random(1)
    for _ in range(200):
        parts = draw.choices(PARTS, k=draw.randrange(1, 12))
        markup = "".join([*map(draw.choice, (BEFORE, DOCTYPES, HEADS)), *parts, draw.choice(ENDS)])
        page = Html(markup)
        assert page.with_texts(page.texts) == markup
        assert "".join(page.texts).count("·") == markup.count("·"), markup
        assert all("·" in text for text in page.texts), (markup, page.texts)
        changed = page.with_texts([text.replace("·", "ü") for text in page.texts])
        assert seen(changed) == seen(markup.replace("·", "ü"))


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
        # A tag closes nothing far outside: a text is rather not translated than changed where it must not be.
        (f"<p><q translate=no>{'<span>' * 45}a</q>b</p>c", ["b", "c"]),
        (f"<p><q translate=no>{'<span>' * 55}a</q>b</p>c", []),
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
    page = Html("<p>a <b>b</b></p>")
    assert [page.with_texts([text, text]) for text in "xy"] == ["<p>x <b>x</b></p>", "<p>y <b>y</b></p>"]
    # A sentence goes on in the next line.
    (text,) = Html("<p>\n  A man sees\r\n\ta dog. It\n runs.\n</p>").texts
    assert split_sentences(text, "en").sentences == ["A man sees a dog.", "It runs."]


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
        ("<!DOCTYPE html><html><body><p>a</p></body></html>", "<!DOCTYPE html><html><body><p>A</p></body></html>"),
        ("<div translate=no>a<div><b>b</b></div>c</div>d", "<div translate=no>a<div><b>b</b></div>c</div>D"),
        ('<a href="/?a=1&amp;b=2" title="t">link</a><br/>', '<a href="/?a=1&amp;b=2" title="t">LINK</a><br/>'),
        ("<div>" * 20_000 + "deep" + "</div>" * 20_000, "<div>" * 20_000 + "DEEP" + "</div>" * 20_000),
    ],
    ids=itertools.count(),
)
def test_tags_stay_texts_change_and_white_space_collapses_as_for_a_reader(markup, expected):
    page = Html(markup)
    assert page.with_texts([text.upper() for text in page.texts]) == expected
    assert page.with_texts(page.texts) == markup


# HTML that costs a browser's parser much more than its size: nodes, depth or time grow faster than the markup.
CONSTRUCTIONS = {
    # Each <p> opens all the unclosed <b> again.
    "unclosed <b>": lambda size: (
        "<p>" + "".join(f"<b c={i}>" for i in range(size // 23)) + "</p>" + "<p>x" * (size // 9)
    ),
    "nested tables": lambda size: "<table><tr><td>x" * (size // 16),
    "<a> in tables": lambda size: "<a href=1>x<table><a>y" * (size // 22),
    "<nobr> across blocks": lambda size: "<nobr>x<div>" * (size // 24) + "</nobr>" * (size // 14),
    "foster parents": lambda size: "<table>" + "".join(f"<b c={i}>x<tr>" for i in range(size // 15)),
    "character references": lambda size: (
        "<p>" + "&amp" * (size // 12) + "&#" + "1" * (size // 3) + "&notit" * (size // 18)
    ),
    "deep nesting closed elsewhere": lambda size: (
        "<div>" * (size // 15) + "<i>" * (size // 15) + "</div>x" * (size // 12)
    ),
    "end tags without elements": lambda size: "<q><div>" + "<span>" * (size // 12) + "</q>x</b>y" * (size // 20),
    "attributes on formatting elements": lambda size: (
        "<p>"
        + "".join(f"<font {' '.join(f'a{i}=1' for i in range(40))} b={j}>" for j in range(size // 600))
        + "</p><p>x" * (size // 16)
    ),
    "tags, comments and scripts without an end": lambda size: (
        "<!-" * (size // 20)
        + "<script><!--<script>" * (size // 60)
        + "</title" * (size // 30)
        + "<a b='" * (size // 30)
    ),
    "one attribute after the other": lambda size: (
        f"<p {'translate=x ' * (size // 24)}{'=' * (size // 4)} {'a ' * (size // 8)}>x"
    ),
    "each </b> opens 48 <i> again": lambda size: "<b>" * (size // 10) + "<i>" * 48 + "</b>x" * (size // 10),
    "all at once": lambda size: (
        "<table><tr><td><b><p><a><nobr><li translate=no><select><option>x<title>&lt;</title><i translate=yes>y"
        * (size // 100)
    ),
}


@pytest.mark.parametrize("construction", CONSTRUCTIONS)
def test_hostile_markup_takes_time_and_memory_in_proportion_to_its_size(construction):
    used = []
    for size in (5_000, 20_000, 50_000):
        markup = CONSTRUCTIONS[construction](size)
        begin = time.thread_time()
        Html(markup)
        assert time.thread_time() - begin < 1
        tracemalloc.start()
        page = Html(markup)
        for _ in range(3):
            assert len(page.with_texts([f"{text}." for text in page.texts])) < 3 * size
        used.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert used[-1] < 20 * used[0] and used[-1] < 20 * 2**20
