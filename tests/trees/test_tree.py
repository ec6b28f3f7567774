import random

import nltk
import pytest

from t2t_lite.trees.tree import CLOSE, LEAF, OPEN, Tree, TreeBuilder, parse_brackets, to_brackets, tree_words, walk

RAIN = Tree("NN", word="rain")
FALLS = Tree("VBZ", word="falls")
NP, VP = Tree("NP", (RAIN,)), Tree("VP", (FALLS,))
S = Tree("S", (NP, VP))
RAIN_FALLS = "(S (NP (NN rain)) (VP (VBZ falls)))"


def as_nltk(tree):
    return nltk.Tree(tree.label, [as_nltk(child) for child in tree.children] or [tree.word])


def random_tree(rng, depth):
    """A random tree of limited depth and its brackets, with random blanks and line breaks."""
    blanks = rng.choice(["", " ", "\n  ", "\t", " \r\n"])
    if depth == 0 or rng.random() < 0.3:
        tag, word = rng.choice(["NN", ",", "-LRB-", "PRP$"]), rng.choice(["a", "-LRB-", "n't", "Größe", "1,000", "*"])
        return Tree(tag, word=word), f"{blanks}({blanks}{tag} {blanks}{word}{blanks}){blanks}"
    children = [random_tree(rng, depth - 1) for _ in range(rng.randint(1, 4))]
    label = rng.choice(["S", "NP", "NP-SBJ=1", "PRT|ADVP", ""])
    written = "".join(text for _, text in children)
    return Tree(label, tuple(tree for tree, _ in children)), f"{blanks}({blanks}{label}{written}){blanks}"


def test_walk_visits_a_tree_from_left_to_right():
    kinds, nodes = zip(*walk(S))
    assert kinds == (OPEN, OPEN, LEAF, CLOSE, OPEN, LEAF, CLOSE, CLOSE)
    assert nodes == (S, NP, RAIN, NP, VP, FALLS, VP, S)
    assert list(walk(RAIN)) == [(LEAF, RAIN)]


def test_a_builder_drops_brackets_without_words_at_any_depth():
    builder = TreeBuilder()
    for label in ("S", "NP", "NP", "QP"):
        builder.open(label)
    assert not builder.close() and not builder.close()
    builder.leaf("NN", "rain")
    assert builder.close() and builder.close()
    assert builder.trees() == (Tree("S", (NP,)),)


ODD = [("-LRB-", "-LRB-"), ("''", "''"), ("PRP$", "il\u00a0a"), ("#", "\u2028")]
# case: (text, trees)
READ = {
    "one tree": (RAIN_FALLS, [S]),
    "the root's label may be missing": (f"( {RAIN_FALLS})", [Tree("", (S,))]),
    "so may others": ("(S ((NN rain)))", [Tree("S", (Tree("", (RAIN,)),))]),
    "several trees": (f"{RAIN_FALLS} {RAIN_FALLS}\n(NN rain)", [S, S, RAIN]),
    "no blanks but where they are needed": ("(S(NP(NN rain))(VP(VBZ falls)))", [S]),
    "blanks everywhere": (" ( S\n\t( NP\r\n  ( NN\n rain ) )\f(\vVP ( VBZ falls ) ) ) \n", [S]),
    "a tag alone": ("(NN rain)", [RAIN]),
    "nothing": ("", []),
    "blanks only": (" \n\t\n", []),
    "labels and words of any characters": (
        "(NP-SBJ=1 (-LRB- -LRB-) ('' '') (PRP$ il\u00a0a) (# \u2028))",
        [Tree("NP-SBJ=1", tuple(Tree(tag, word=word) for tag, word in ODD))],
    ),
    "a label above itself": ("(NP (NP (NN rain)))", [Tree("NP", (NP,))]),
}


@pytest.mark.parametrize(("text", "trees"), READ.values(), ids=READ)
def test_brackets_are_read(text, trees):
    assert parse_brackets(text) == trees


# text: part of the message
MALFORMED = {
    "(S (NN rain)": "the bracket of 'S' is not closed",
    "(S (NP (NN rain))": "the bracket of 'S' is not closed",
    "(S (NP (NN rain)": "the bracket of 'NP' is not closed",
    "(S": "the bracket of 'S' is not closed",
    "(": "the outermost bracket is not closed",
    "( (S (NN rain))": "the outermost bracket is not closed",
    ")": "one closing bracket too many",
    "(S (NN rain)))": "one closing bracket too many",
    "(S (NN rain))) (S (NN rain))": "one closing bracket too many",
    "()": "nothing in the brackets of ''",
    "( )": "nothing in the brackets of ''",
    "(S ())": "nothing in the brackets of ''",
    "(S (NP) (NN rain))": "nothing in the brackets of 'NP'",
    "(S (NN rain) (NP ))": "nothing in the brackets of 'NP'",
    "(rain)": "nothing in the brackets of 'rain'",
    "(S (NN rain fall))": "more than one word in the brackets of 'NN'",
    "(S (NN rain (NP (NN fall))))": "more than one word in the brackets of 'NN'",
    "rain": "'rain' has no tag",
    "rain (S (NN rain))": "'rain' has no tag",
    "(S (NN rain)) rain": "'rain' has no tag",
    "(S (NN rain) rain)": "'rain' has no tag",
}


@pytest.mark.parametrize(("text", "message"), MALFORMED.items(), ids=MALFORMED)
def test_malformed_brackets_are_refused_with_the_reason(text, message):
    with pytest.raises(ValueError) as error:
        parse_brackets(text)
    assert str(error.value) == message


def test_every_truncated_tree_is_refused():
    for length in range(1, len(RAIN_FALLS)):
        with pytest.raises(ValueError):
            parse_brackets(RAIN_FALLS[:length])


def test_random_trees_are_read_as_they_were_written_and_by_nltk():
    rng = random.Random(1)
    for _ in range(500):
        tree, text = random_tree(rng, 5)
        assert parse_brackets(text) == [tree] == parse_brackets(to_brackets(tree))
        assert nltk.Tree.fromstring(to_brackets(tree)) == as_nltk(tree)
        assert tree_words(tree) == as_nltk(tree).leaves()
        assert to_brackets(tree) == " ".join(to_brackets(tree).split())


def test_random_brackets_with_one_word_per_tag_are_read_as_nltk_reads_them_and_others_are_refused():
    """NLTK also accepts empty constituents and several words in a bracket."""
    rng, read = random.Random(3), 0
    for _ in range(20_000):
        text = " ".join(rng.choice(["(", "(S", "(NN a)", ")", ")", "b"]) for _ in range(rng.randint(1, 9)))
        try:
            outer = nltk.Tree.fromstring(f"(TOP {text})")
        except ValueError:
            outer = None
        parts = [] if outer is None else list(outer.subtrees())
        bad = [node for node in parts if not len(node) or (len(node) > 1 and not all_trees(node))]
        if outer is None or bad or not all_trees(outer):
            with pytest.raises(ValueError):
                parse_brackets(text)
            continue
        read += 1
        assert [as_nltk(tree) for tree in parse_brackets(text)] == list(outer)
    assert read > 500


def all_trees(node):
    return all(isinstance(child, nltk.Tree) for child in node)


def test_trees_of_any_depth_are_read_and_written():
    depth = 100_000
    text = "(S " * depth + "(NN rain)" + ")" * depth
    (tree,) = parse_brackets(text)
    assert to_brackets(tree) == text
    assert tree_words(tree) == ["rain"]
    assert sum(kind is OPEN for kind, _ in walk(tree)) == depth
