import gzip
import itertools
import random
import re
import tracemalloc
from pathlib import Path

import nltk
import pytest

from t2t_lite.data.text_files import read_lines
from t2t_lite.errors import UserError
from t2t_lite.trees.tree import Tree, parse_brackets, tree_words
from t2t_lite.trees.treebank import Malformed, clean, read_trees, treebank_files, wsj_section

# A good tree as lines; {} is a word that identifies it.
GOOD = ["(TOP", "(S", "(NP (NN {}))", "(VP (VB go))))"]
# kind: the lines of a tree that is malformed
BAD = {
    "a bracket not closed at the end": ["(TOP", "(S", "(NP (NN bad))", "(VP (VB go))"],
    "a bracket not closed inside": ["(TOP", "(S", "(NP (NN bad)", "(VP (VB go))))"],
    "no bracket closed": ["(TOP", "(S", "(NP (NN bad", "(VP (VB go"],
    "a closing bracket too many at the end": ["(TOP", "(S", "(NP (NN bad))", "(VP (VB go)))))"],
    "closing brackets too many inside": ["(TOP", "(S", "(NP (NN bad))))))", "(VP (VB go))))"],
    "empty brackets": ["(TOP", "(S", "(NP ())", "(VP (VB go))))"],
    "a constituent of nothing": ["(TOP", "(S", "(NP )", "(VP (VB go))))"],
    "two words in a tag": ["(TOP", "(S", "(NP (NN bad tree))", "(VP (VB go))))"],
    "a word without a tag": ["(TOP", "(S", "(NP (NN bad) tree)", "(VP (VB go))))"],
    "text before a tree": ["text (TOP", "(S", "(NP (NN bad))", "(VP (VB go))))"],
    "text after a tree": ["(TOP", "(S", "(NP (NN bad))", "(VP (VB go)))) text"],
    "text instead of a tree": ["text"],
    "a closing bracket instead of a tree": [")"],
    "not UTF-8 in the first line": ["(TOP (X \udcff)", "(S", "(NP (NN bad))", "(VP (VB go))))"],
    "not UTF-8 in the middle": ["(TOP", "(S", "(NP (NN \udcff))", "(VP (VB go))))"],
    "not UTF-8 in the last line": ["(TOP", "(S", "(NP (NN bad))", "(VP (VB \udcff))))"],
    "not UTF-8 where brackets open": ["(TOP", "(S (X (X \udcff)", "(X a)) (NP (NN bad))", "(VP (VB go))))"],
    "a tree inside": ["(TOP", "(S", "(NP (ROOT (NN bad)))", "(VP (VB go))))"],
}
# name: the text between the lines of a tree, and after it
INDENTED = {
    "a tree a line": (" ", "\n"),
    "a tree a line, with empty lines": (" ", "\n\n"),
    "indented": ("\n    ", "\n"),
    "indented, with empty lines": ("\n    ", "\n\n"),
    "indented, with blank lines inside": ("\n    \n  ", "\n \n"),
}
NOT_INDENTED = {"not indented": ("\n", "\n"), "not indented, with empty lines": ("\n", "\n\n")}
LAYOUTS = INDENTED | NOT_INDENTED
# Good and malformed trees.
ORDERS = ["B", "BGG", "GGB", "GBG", "BB", "GBBG", "BBBG", "GBGGGBG"]


def written(path, text):
    """The path of a text whose surrogates represent bytes that are not UTF-8."""
    content = text.encode(errors="surrogateescape")
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def good_tree(word):
    return f"(TOP (S (NP (NN {word})) (VP (VB go))))"


def described(path):
    """The results of reading, as brackets or as the line of a malformed tree."""
    return [found.where if isinstance(found, Malformed) else str(found) for found in read_trees(path)]


def good_and_bad(path, layout, trees, root="TOP"):
    """Writes trees, None for a good one; returns the expected results. FRAG is no root label, so it is kept."""
    between, after = LAYOUTS[layout]
    text, expected = "", []
    for number, lines in enumerate(trees):
        place = f"{path}, line {text.count(chr(10)) + 1}"
        tree = between.join(lines or GOOD).replace("{}", f"w{number}")
        text += tree.replace("(TOP", f"({root}") + after
        good = good_tree(f"w{number}").replace("(TOP", "(TOP (FRAG")
        expected.append(place if lines else f"{good})" if root == "FRAG" else good_tree(f"w{number}"))
    written(path, text)
    return expected


@pytest.mark.parametrize("end", ["", "\n", "\r\n"], ids=["no end", "LF", "CRLF"])
@pytest.mark.parametrize("name", ["x.mrg", "x.ptb", "x.mrg.gz", "x.ptb.gz", "x.txt"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_good_trees_are_read_in_any_layout(layout, name, end, tmp_path):
    between, after = LAYOUTS[layout]
    text = "".join(between.join(GOOD).format(f"w{number}") + after for number in range(9))
    text = text.replace("\n", end) if end else text.rstrip()
    trees = [good_tree(f"w{number}") for number in range(9)]
    for mark in ("", "\ufeff"):
        assert described(written(tmp_path / name, mark + text)) == trees
    assert described(written(tmp_path / name, f"\ufeff{text}" * 2)) == 2 * trees  # as cat joins files


def test_a_file_of_the_treebank_is_read(tmp_path):
    text = (
        "\n( (S \n    (NP-SBJ-1 (NNP Mr.) (NNP Smith) )\n    (VP (VBZ wants) \n      (S \n"
        "        (NP-SBJ (-NONE- *-1) )\n  \t \n        (VP (TO to) (VP (VB go) ))))\n    (. .) ))\n"
        "( (NP (NN Rain) (, ,) \n \n    (-LRB- -LRB-) (NN sun) (-RRB- -RRB-) ))\n\n"
        "( (S (-NONE- *)))\n( (INTJ (UH Yes) ) (. !) )\n"
    )
    assert described(written(tmp_path / "wsj_0001.mrg", text)) == [
        "(TOP (S (NP (NNP Mr.) (NNP Smith)) (VP (VBZ wants) (S (VP (TO to) (VP (VB go))))) (. .)))",
        "(TOP (NP (NN Rain) (, ,) (-LRB- -LRB-) (NN sun) (-RRB- -RRB-)))",
        "(TOP (INTJ (UH Yes)) (. !))",
    ]


# A tree without indentation whose lines are mostly whole brackets, or never, or sometimes.
@pytest.mark.parametrize(
    "lines",
    [
        ["(TOP", "(NN a)", "(NN b)", "(NN c)", "(NN d)", ")"],
        ["(TOP (S", "(NP (NN a))", "(NP (NN b))", "(NP (NN c))", "(. .)", "))"],
        ["(TOP (S (NN a)", "(NN b)))"],
        ["(", "(", "S", "(", "NN", "a", ")", ")", ")"],
        ["(TOP", "(S", "(NP", "(NN", "a", ")", ")", "(VP", "(VB go)", ")", ")", ")"],
        ["(S", "(NP (NN a))", "(NP (NN b))", "(VP (VB go)))"],
    ],
    ids=" ".join,
)
def test_a_tree_that_is_not_indented_is_one_tree(lines, tmp_path):
    whole = " ".join(lines)
    (expected,) = read_trees(written(tmp_path / "line.mrg", whole))
    text = "\n".join(lines) + "\n"
    assert described(written(tmp_path / "lines.mrg", text)) == [str(expected)]
    assert described(written(tmp_path / "lines.mrg", 3 * text)) == 3 * [str(expected)]


def test_a_file_without_words_has_no_trees(tmp_path):
    texts = ["", "\n", "\ufeff", " \n\t\n\r\n", "( (-NONE- *))\n"]
    for name, text in itertools.product(["x.mrg", "x.ptb.gz"], texts):
        assert described(written(tmp_path / name, text)) == [], (name, text)


@pytest.mark.parametrize("layout", ["indented", "not indented"])
def test_a_tree_of_many_lines_is_read(layout, tmp_path):
    between, after = LAYOUTS[layout]
    lines = ["(TOP", "(S", *(f"(NP (NN w{number}))" for number in range(900)), "(VP (VB go))))"]
    text = "".join(between.join(tree) + after for tree in [GOOD, lines, GOOD])
    first, tree, last = read_trees(written(tmp_path / "x.mrg", text))
    assert str(first) == str(last) == good_tree("{}")
    assert tree_words(tree) == [*(f"w{number}" for number in range(900)), "go"]


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize(
    ("root", "layout"), [*itertools.product(["TOP", "", "FRAG"], INDENTED), *(("TOP", name) for name in NOT_INDENTED)]
)
def test_good_trees_around_a_malformed_one_are_read(root, layout, kind, tmp_path):
    """Nor is a part of a malformed one read as a tree."""
    for name, order in itertools.product(["x.mrg", "x.ptb.gz"], ORDERS):
        trees = [BAD[kind] if each == "B" else None for each in order]
        expected = good_and_bad(tmp_path / name, layout, trees, root)
        assert described(tmp_path / name) == expected, order


@pytest.mark.parametrize("layout", INDENTED)
def test_good_trees_between_malformed_ones_of_all_kinds_are_read(layout, tmp_path):
    rng = random.Random(9)
    for _ in range(100):
        trees = [rng.choice([None, rng.choice(list(BAD.values()))]) for _ in range(rng.randint(1, 12))]
        expected = good_and_bad(tmp_path / "x.mrg", layout, trees)
        good = [each for each in expected if each.startswith("(")]
        assert [each for each in described(tmp_path / "x.mrg") if each.startswith("(")] == good, trees


def test_a_malformed_tree_is_reported_with_place_and_reason(tmp_path):
    path = written(tmp_path / "x.mrg", "(TOP (NN a))\n\n(TOP\n  (S (NN a b)))\n(TOP (NN c))\n")
    _, malformed, _ = read_trees(path)
    assert malformed == Malformed(f"{path}, line 3", "more than one word in the brackets of 'NN'")
    assert str(malformed) == f"{path}, line 3: more than one word in the brackets of 'NN'"


@pytest.mark.slow
@pytest.mark.parametrize("layout", INDENTED)
@pytest.mark.parametrize("root", ["TOP", "", "FRAG"])
def test_thousands_of_trees_after_an_unclosed_bracket_are_read(root, layout, tmp_path):
    trees = [BAD["a bracket not closed at the end"]] + [None] * 5000
    expected = good_and_bad(tmp_path / "x.mrg", layout, trees, root)
    assert described(tmp_path / "x.mrg") == expected


@pytest.mark.slow
def test_memory_after_an_unclosed_bracket_does_not_grow_with_the_file(tmp_path):
    most = []
    for count in (2500, 7500):
        good_and_bad(tmp_path / "x.mrg", "a tree a line", [BAD["a bracket not closed at the end"]] + [None] * count)
        tracemalloc.start()
        assert sum(1 for _ in read_trees(tmp_path / "x.mrg")) == count + 1
        most.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert most[1] < 1.5 * most[0]


def test_missing_treebank_files_and_a_folder_without_trees_are_errors(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        list(read_trees(tmp_path / "none.mrg"))
    with pytest.raises(UserError, match="no such file or folder"):
        treebank_files(tmp_path / "none")
    written(tmp_path / "README.txt", "(TOP (NN a))")
    (tmp_path / "folder.mrg").mkdir()
    with pytest.raises(UserError, match=r"has no trees.*\.mrg, \.ptb"):
        treebank_files(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "changed", "no gzip"])
def test_a_damaged_gzip_file_is_refused(damage, tmp_path):
    good = gzip.compress("".join(good_tree(number) + "\n" for number in range(5000)).encode())
    middle = len(good) // 2
    changed = good[:middle] + bytes(255 - byte for byte in good[middle : middle + 40]) + good[middle + 40 :]
    path = tmp_path / "x.mrg.gz"
    path.write_bytes({"cut": good[:middle], "changed": changed, "no gzip": good_tree(1).encode()}[damage])
    with pytest.raises(UserError, match=r"x\.mrg\.gz is a damaged gzip file"):
        list(read_trees(path))


def test_files_of_a_folder_are_found_by_ending_in_sorted_order(tmp_path):
    names = ["00/wsj_0002.mrg", "00/wsj_0010.MRG", "01/deep/a.ptb", "B.ptb.gz", "a.mrg.gz", "b.mrg"]
    others = ["README", "a.txt", "b.mrg.bak", "c.gz", "d.ptb.zip", "mrg", "e.mrg.xz", "00/f.prd", "g_mrg"]
    for name in reversed(names + others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        written(tmp_path / name, "")
    (tmp_path / "folder.mrg").mkdir()
    assert [str(path.relative_to(tmp_path)) for path in treebank_files(tmp_path)] == names
    assert treebank_files(tmp_path / "a.txt") == [tmp_path / "a.txt"]  # a file itself may have any name


SECTIONS = {"wsj_2314.mrg": 23, "wsj_0001.mrg": 0, "wsj_0199.mrg.gz": 1, "00/wsj_2454.mrg": 24, "WSJ_0223.MRG": 2}
OTHERS = ["train.ptb.gz", "wsj_23.mrg", "wsj_23145.mrg", "my_wsj_2314.mrg", "wsj_2314/train.mrg", "wsj_2x14.mrg"]


def test_sections_are_those_of_file_names():
    expected = SECTIONS | {"wsj_2100.ptb": 21} | dict.fromkeys([*OTHERS, "wsj_2314"])
    assert {name: wsj_section(Path(name)) for name in expected} == expected


def with_words(node):
    """The cleaned version of NLTK's tree, None if no word is left; function tags are removed, too."""
    label = re.match(r"-[A-Z]+-|[^-=]*", node.label())[0]
    if isinstance(node[0], str):
        return None if label == "-NONE-" else nltk.Tree(label, list(map(unescaped, node)))
    parts = [part for part in map(with_words, node) if part is not None]
    return nltk.Tree(label, parts) if parts else None


def unescaped(word):
    """The word without the backslashes of the Penn Treebank."""
    return word.replace("\\/", "/").replace("\\*", "*")


def nltk_trees(text):
    """The trees of a file in which each tree begins a line, and no other line begins with one."""
    for brackets in re.split(r"(?m)^(?=\()", text)[1:]:
        tree = with_words(nltk.Tree.fromstring(brackets))
        assert tree.label() in ("", "ROOT")
        yield nltk.Tree("TOP", list(tree))


def as_nltk(tree):
    return nltk.Tree(tree.label, [as_nltk(child) for child in tree.children] or [tree.word])


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("corpus", "files", "counts"),
    [("wsj", 179, None), pytest.param("gum", 2, {"dev.ptb.gz": 1575, "train.ptb.gz": 10_224}, marks=pytest.mark.slow)],
)
def test_a_whole_treebank_is_read_as_by_nltk(corpus, files, counts, request):
    paths = treebank_files(request.getfixturevalue(f"{corpus}_dir"))
    assert len(paths) == files
    found = {}
    for path in paths:
        text, trees = "\n".join(read_lines(path)), list(read_trees(path))
        assert not [each for each in trees if isinstance(each, Malformed)]
        assert len(trees) == len(re.findall(r"(?m)^\(", text)) > 0
        assert [as_nltk(tree) for tree in trees] == list(nltk_trees(text))
        leaves = re.findall(r"\(\s*([^\s()]+)\s+([^\s()]+)\s*\)", text)
        words = [unescaped(word) for tag, word in leaves if tag != "-NONE-"]
        assert [word for tree in trees for word in tree_words(tree)] == words
        found[path.name] = len(trees)
    assert found == counts or (counts is None and sum(found.values()) == 3669)


def cleaned(text):
    (tree,) = parse_brackets(text)
    tree = clean(tree)
    return tree and str(tree)


# Each rule: (tree, cleaned tree), both without their root
RULES = {
    "a trace goes": ("(S (NP (NN it)) (VP (VBZ is) (-NONE- *T*-1)))", "(S (NP (NN it)) (VP (VBZ is)))"),
    "traces go anywhere": (
        "(S (-NONE- *) (NN a) (-NONE- 0) (-NONE- *U*) (NN b) (-NONE- *ICH*-1))",
        "(S (NN a) (NN b))",
    ),
    "a constituent of a trace goes": ("(S (NP-SBJ (-NONE- *-1)) (VP (VB go)))", "(S (VP (VB go)))"),
    "a constituent of several traces goes": ("(S (SBAR (-NONE- 0) (-NONE- *T*-1)) (VP (VB go)))", "(S (VP (VB go)))"),
    "constituents of nothing but such constituents go": (
        "(S (VP (VB go)) (SBAR (WHNP-1 (-NONE- 0)) (S (NP (-NONE- *T*-1)) (VP (-NONE- *?*)))))",
        "(S (VP (VB go)))",
    ),
    "a constituent with a word somewhere stays": (
        "(S (SBAR (WHNP-1 (-NONE- 0)) (S (NP (-NONE- *T*-1)) (VP (X (VB go))))))",
        "(S (SBAR (S (VP (X (VB go))))))",
    ),
    "a function tag is cut": ("(S (NP-SBJ (NN it)))", "(S (NP (NN it)))"),
    "function tags and an index are cut": ("(S (NP-SBJ-1 (NN it)))", "(S (NP (NN it)))"),
    "two function tags are cut": ("(ADVP-LOC-TMP (RB now))", "(ADVP (RB now))"),
    "a gapping index is cut": ("(S (NP=2 (NN it)))", "(S (NP (NN it)))"),
    "any order of them": ("(S-TPC-1=2 (NP=2-SBJ (NN it)) (PP-LOC=1 (IN in)))", "(S (NP (NN it)) (PP (IN in)))"),
    "a label of two loses its function tags": ("(PRT|ADVP-CLR (RP|RB up))", "(PRT|ADVP (RP|RB up))"),
    "escaped slashes and asterisks become those of text": (
        r"(NP (CC and\/or) (CD 1\/2) (NN a\/b\/c) (SYM \*\*) (CD 1/2) (NN a\b\))",
        r"(NP (CC and/or) (CD 1/2) (NN a/b/c) (SYM **) (CD 1/2) (NN a\b\))",
    ),
    "a unary chain that comes of cleaning stays": (
        "(NP-1 (NP-SBJ (-NONE- *)) (NP=3 (NP (NN it)) (SBAR (-NONE- 0))))",
        "(NP (NP (NP (NN it))))",
    ),
}
# What stays: a tree without its root
SAME = {
    "what looks like a trace and has another tag stays": "(NP (SYM *T*-1) (NN 0) (NONE *))",
    "a label of two stays": "(PRT|ADVP (RP up))",
    "tags and words of brackets stay": "(PRN (-LRB- -LRB-) (NN it) (-RRB- -RRB-) (-LRB- -LCB-) (-RRB- -RCB-))",
    "tags of punctuation stay": "(NP (`` ``) ('' '') (, ,) (: --) (. .) ($ $) (# #) (PRP$ my) (WP$ whose) (HYPH -))",
    "words stay as they are": "(NP (NN NP-SBJ) (NN a=b) (CD *) (NN Größe) (: -))",
    "a unary chain stays": "(S (VP (VP (NP (NN it)))))",
}
# Roots: (tree, cleaned tree without its root)
ROOTS = {
    "a root without a label": ("( (S (NN it)))", "(S (NN it))"),
    "the root ROOT": ("(ROOT (S (NN it)))", "(S (NN it))"),
    "the root TOP": ("(TOP (S (NN it)))", "(S (NN it))"),
    "the root S1": ("(S1 (S (NN it)))", "(S (NN it))"),
    "a root with several children": ("( (S (NN it)) (NP (NN dog)) (. .))", "(S (NN it)) (NP (NN dog)) (. .)"),
    "a root over words": ("(ROOT (NN it) (. .))", "(NN it) (. .)"),
    "no root": ("(S (NN it))", "(S (NN it))"),
    "no root, and function tags": ("(NP-TTL-1 (NN it))", "(NP (NN it))"),
    "a word alone": ("(NN it)", "(NN it)"),
    "other labels that begin as a root does": ("(ROOTS (S1X (TOPX (NN it))))", "(ROOTS (S1X (TOPX (NN it))))"),
}
CASES = {kind: (f"(TOP {tree})", left) for kind, (tree, left) in RULES.items()} | ROOTS
CASES |= {kind: (f"(TOP {tree})", tree) for kind, tree in SAME.items()}


@pytest.mark.parametrize(("tree", "left"), CASES.values(), ids=CASES)
def test_a_tree_is_cleaned_by_the_rules(tree, left):
    assert cleaned(tree) == f"(TOP {left})" == cleaned(f"(TOP {left})")


@pytest.mark.parametrize(
    "tree",
    ["(-NONE- *)", "( (-NONE- *))", "(S (-NONE- *))", "( (S (NP (-NONE- *)) (VP (-NONE- 0) (X (-NONE- *T*-1)))))"],
)
def test_a_tree_of_only_traces_becomes_none(tree):
    assert cleaned(tree) is None


@pytest.mark.parametrize("root", ["", "ROOT", "TOP", "S1"])
@pytest.mark.parametrize("outer", ["", "ROOT", "TOP", "S1", "S"])
def test_a_root_inside_a_tree_is_refused(root, outer):
    for inside in (f"(NP (NN it)) ({root} (S (NN it)))", f"({root} (S (NN it)))", f"(S (NN it)) ({root} (-NONE- *))"):
        with pytest.raises(ValueError, match="a whole tree inside another"):
            cleaned(f"({outer} {inside})")


def test_round_brackets_as_words_become_treebank_symbols():
    """Words with brackets cannot be read from brackets, but a tree made in another way may have them."""
    tree = Tree("S", (Tree("-LRB-", word="("), Tree("NN", word="it"), Tree("-RRB-", word=")")))
    assert str(clean(tree)) == "(TOP (S (-LRB- -LRB-) (NN it) (-RRB- -RRB-)))"
