import re
import xml.etree.ElementTree as ET
from collections import defaultdict
from itertools import pairwise

import pytest

from t2t_lite.trees.drawing import REMARK, draw_svg, text_art
from t2t_lite.trees.tree import LEAF, OPEN, ROOT, UNTAGGED, Tree, parse_brackets, tree_words, walk

SVG = "{http://www.w3.org/2000/svg}"

RAIN = "(TOP (S (NP (DT The) (NN rain)) (VP (VBZ falls)) (. .)))"
NESTED = (
    "(TOP (S (SBAR (IN Although) (S (NP (NP (DT the) (NN man)) (SBAR (WHNP (WP who)) (S (VP (VBD lived) (PP (IN by) "
    "(NP (DT that) (NN sea))))))) (VP (VBD had) (ADVP (RB never)) (VP (VBN learned) (S (VP (TO to) (VP (VB swim))))))))"
    " (, ,) (NP (PRP he)) (VP (VBD told) (NP (PRP us))) (. .)))"
)
FRAGMENTS = "(TOP (XX well) (NP (XX rain)) (XX or) (XX not) (VP (XX falls) (ADVP (RB there))))"
ODD_WORDS = (
    "(TOP (NP (-LRB- -LRB-) (NN R&D) (X <b>\"'</b>) (X &amp;) (X stroke:white) (X Bär) (X nai\u0308ve) (X 漢字) "
    "(X 😀) (NN Donaudampfschifffahrtsgesellschaftskapitänsmütze) (-RRB- -RRB-)))"
)
CHAIN = "(TOP (S (VP (VP (VB Go)))))"
HUNDRED = f"(TOP (S {' '.join(f'(NP (NN word{number}))' for number in range(100))}))"


def tree_of(text):
    (tree,) = parse_brackets(text)
    return tree


def deep(depth):
    """Nested constituents S1, S2 and so on from the inside out, each with its own word."""
    tree = Tree("NN", word="word0")
    for number in range(1, depth + 1):
        tree = Tree(f"S{number}", (tree, Tree(UNTAGGED, word=f"word{number}")))
    return Tree(ROOT, (tree,))


TREES = [
    *map(tree_of, (RAIN, NESTED, FRAGMENTS, ODD_WORDS, CHAIN, HUNDRED)),
    tree_of("(TOP (NN rain))"),
    tree_of("(TOP (XX rain))"),
    deep(150),
]


def read(svg):
    """The size of a picture and its texts [(x, y, letters, anchor)] in their order, (x, y) in the whole picture."""
    found = []

    def visit(element, left, top):
        for child in element:
            if child.tag == f"{SVG}text":
                anchor = re.search("text-anchor: (middle)", child.get("style", ""))
                found.append((left + float(child.get("x")), top + float(child.get("y")), child.text, bool(anchor)))
            elif child.tag == f"{SVG}g":
                x, y = re.fullmatch(r"translate\((\d+),(\d+)\)", child.get("transform")).groups()
                visit(child, left + float(x), top + float(y))

    root = ET.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    visit(root, 0, 0)
    width, height = float(root.get("width")), float(root.get("height"))
    assert root.get("viewBox") == f"0 0 {width:g} {height:g}"
    return width, height, found


def in_rows(texts):
    """From the topmost row to the lowest one, each from left to right."""
    rows = defaultdict(list)
    for text in texts:
        rows[text[1]].append(text)
    return [sorted(rows[y]) for y in sorted(rows)]


def labels_shown(tree):
    """The visible labels and tags, in any order."""
    if len(tree.children) == 1 and tree.label == ROOT:
        tree = tree.children[0]
    return sorted(node.label for kind, node in walk(tree) if kind is OPEN or (kind is LEAF and node.label != UNTAGGED))


@pytest.mark.parametrize("tree", TREES)
def test_svg_shows_every_word_once_from_left_to_right_and_every_label_without_overlap(tree):
    line = "7  " + " ".join(tree_words(tree))
    width, height, texts = read(draw_svg([(line, tree)]))
    (caption,), *upper, words = in_rows(texts)
    assert caption[2] == line
    assert [text[2] for text in words] == tree_words(tree)
    assert all(before[0] < after[0] for before, after in pairwise(words))
    assert sorted(text[2] for row in upper for text in row) == labels_shown(tree)
    for row in in_rows(texts):
        end = 0
        for x, y, letters, is_middle in row:
            # A letter is 0.6 times as wide as the font size, 12 pixels; Chinese letters and emoji twice that.
            room = sum(14.4 if letter > "\u3000" else 7.2 for letter in letters.replace("\u0308", ""))
            start = x - room / 2 if is_middle else x
            assert start > end and y - 12 >= 0
            end = start + room
        assert end <= width and row[0][1] + 12 <= height


def test_svg_connects_every_node_to_its_parent_without_zero_length_lines():
    svg = draw_svg([("", tree_of(RAIN))])
    *_, (caption, root, *others) = read(svg)
    lines = []
    for line in ET.fromstring(svg).iter(f"{SVG}polyline"):
        lines.append([tuple(map(float, point.split(","))) for point in line.get("points").split()])
    assert all(start != end for start, end in lines)
    # The positions of the lines are relative to a group below the caption.
    left, top = 20, 20 + 24
    for x, y, _, _ in others:
        assert any(
            start == (x - left, y - top - 12) and end[0] == x - left and end[1] < start[1] for start, end in lines
        )
    assert (caption[2], root[2], len(others)) == (None, "S", 10)
    assert "stroke:white" not in svg


def test_characters_invalid_in_xml_or_a_terminal_are_replaced():
    tree = Tree(ROOT, (Tree("A\x00", (Tree("NN", word="a\x01b\x1b[1m\x85\ud800\uffff\u2028"),)), Tree("XX", word="c")))
    shown = "a\ufffdb\ufffd[1m" + 4 * "\ufffd"
    svg = draw_svg([("caption\x08", tree)])
    svg.encode()
    assert {letters for _, _, letters, _ in read(svg)[2]} == {"caption\ufffd", "TOP", "A\ufffd", "NN", shown, "c"}
    assert text_art(tree).split("\n")[-1].split() == [shown, "c"]


def test_a_tree_too_deep_for_nltk_is_replaced_by_a_message():
    tree = deep(3000)
    assert text_art(tree) == REMARK
    _, _, texts = read(draw_svg([("1", tree), ("2", tree_of("(TOP (NP (XX rain)))"))]))
    assert [letters for _, _, letters, _ in texts] == ["1", REMARK, "2", "NP", "rain"]


def test_text_art_of_a_known_tree():
    assert text_art(tree_of(RAIN)).split("\n") == [
        "         S",
        "     ┌───┴─────┬────┐",
        "     NP        VP   │",
        " ┌───┴───┐     │    │",
        " DT      NN   VBZ   .",
        " │       │     │    │",
        "The     rain falls  .",
    ]


@pytest.mark.parametrize("tree", TREES)
def test_text_art_has_every_word_in_order_and_no_trailing_blanks(tree):
    lines = text_art(tree).split("\n")
    assert lines[-1].split() == tree_words(tree)
    assert all(line and line == line.rstrip() for line in lines)
    letters = re.findall(r"[^\s│┌┐─┴┬┼]+", " ".join(lines[:-1]))
    assert sorted(letters) == labels_shown(tree)
