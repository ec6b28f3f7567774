"""Pages as they are found, made of many constructs."""

import random
from collections.abc import Iterator

_BEFORE = [
    "",
    "\ufeff",
    "<!-- saved from (0014)about:internet -->\r\n",
    '<?xml version="1.0" encoding="utf-8"?>\n',
    " \n\t",
]
_DOCTYPES = [
    "<!DOCTYPE html>\n",
    "<!doctype HTML>",
    '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd">\r\n',
    "",
]
_HEADS = [
    "<html lang=en><head><meta charset=utf-8><title>·a dog &amp; more</title></head><body>",
    "<HTML><HEAD><TITLE>·title</TITLE><STYLE>p > b { color: red }</STYLE></HEAD><BODY BGCOLOR=white>\r\n",
    '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>·t</title><link rel="x" href="a&b=c" /></head><body>',
    "<title>·no head</title><script>if (a<b && c>d) document.write('<p>x</p>')</script>",
    "<head><noscript><style>p{}</style></noscript></head>",
    "",
]
# A text to translate begins with a dot.
_PARTS = [
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
_ENDS = [
    "</body></html>\n",
    "</BODY>\r\n</HTML>",
    "",
    "<!-- end -->",
    "<p>·last",
    "<b unfinished='",
    "</",
    "<!-- never closed <p>",
]


def pages(number: int, seed: int = 1) -> Iterator[str]:
    """Yields pages in which the texts to translate, and no others, have a dot in front."""
    draw = random.Random(seed)
    for _ in range(number):
        parts = draw.choices(_PARTS, k=draw.randrange(1, 12))
        yield "".join([*map(draw.choice, (_BEFORE, _DOCTYPES, _HEADS)), *parts, draw.choice(_ENDS)])
