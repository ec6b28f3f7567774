"""HTML that costs a browser's parser much more than its size: nodes, depth or time grow faster than the markup."""

from collections.abc import Callable

# Each returns markup of about a number of characters.
CONSTRUCTIONS: dict[str, Callable[[int], str]] = {
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
