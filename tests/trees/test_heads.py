"""Heads of constituents by the rules of Collins (1999), on trees made by hand and on trees of GUM."""

import pytest

from t2t_lite.data.problem import get_problem
from t2t_lite.trees.heads import PUNCTUATION, head_child, head_dependencies
from t2t_lite.trees.tree import leaves, parse_brackets, tree_words
from t2t_lite.trees.treebank import Malformed, read_trees


@pytest.mark.parametrize(
    ("label", "children", "head"),
    [
        ("NP", "DT JJ NN", 2),
        ("NP", "DT NN POS", 2),  # the dog 's
        ("NP", "NP PP NP", 0),
        ("NP", "NP NN", 1),  # the man 's hat
        ("NP", "DT NN CC NN", 1),  # of "the cats and dogs" the first
        ("NP", "NP , NP CC NP", 0),
        ("NP", "DT CD", 1),
        ("NP", "DT JJ", 1),
        ("NP", "PRP", 0),
        ("NP", "EX RB", 1),
        ("NP", "NN -RRB-", 0),  # punctuation does not count
        ("NML", "JJ NN", 1),
        ("VP", "MD RB VP", 0),
        ("VP", "VBD VP", 0),
        ("VP", "ADVP VBN NP", 1),
        ("VP", "VP CC VP", 0),
        ("S", "NP VP .", 1),
        ("S", "S , CC S", 0),
        ("PP", "ADVP IN NP", 1),
        ("PP", "PP CC PP", 0),
        ("SBAR", "IN S", 0),
        ("SBAR", "WHNP S", 0),
        ("SQ", "VBZ NP VP", 0),
        ("QP", "RB CD", 0),  # Collins prefers "almost" in "almost ten"
        ("WHNP", "WP$ NN", 0),
        ("FRAG", "NP ADJP .", 1),
        ("PRN", "-LRB- NP -RRB-", 1),
        ("UNKNOWN", "A B", 0),
        ("X", ", .", 0),
    ],
)
def test_the_head_child(label, children, head):
    assert head_child(label, children.split()) == head


def by_words(tree):
    words = tree_words(tree)
    return {(label, words[word], words[head]) for label, word, head in head_dependencies(tree)}


def test_heads_rise_through_the_tree():
    (tree,) = parse_brackets(
        "(TOP (S (NP (NP (DT The) (NN dog)) (PP (IN of) (NP (DT a) (NN man)))) (, ,) "
        "(VP (VBZ has) (RB not) (VP (VBN eaten) (NP (NN bread))) ) (. .)))"
    )
    assert by_words(tree) == {
        ("NP", "The", "dog"),
        ("NP", "of", "dog"),
        ("NP", "a", "man"),
        ("PP", "man", "of"),
        ("S", "dog", "has"),
        ("VP", "not", "has"),
        ("VP", "eaten", "has"),
        ("VP", "bread", "eaten"),
    }
    assert head_dependencies(parse_brackets("(TOP (NP (NN rain)))")[0]) == []
    assert head_dependencies(parse_brackets("(NN rain)")[0]) == []


def test_deep_trees():
    tree = parse_brackets("(S (UH oh) " * 5000 + "(NN rain)" + ")" * 5000)[0]
    assert len(head_dependencies(tree)) == 5000


# Trees of GUM's dev split by their words, with what depends on what, by hand.
OF_GUM = {
    "Her mom would n't lie .": "NP:Her>mom S:mom>would VP:n't>would VP:lie>would",
    "What 's that supposed to be ?": "SBARQ:What>'s SQ:that>'s SQ:supposed>'s VP:to>supposed VP:be>to",
    "John FitzGibbon , 2nd Earl of Clare": "NP:John>FitzGibbon NP:2nd>Earl NP:Earl>FitzGibbon NP:of>Earl PP:Clare>of",
    "Well , it 's all packed up in garbage bags now .": (
        "S:Well>'s S:it>'s VP:all>'s VP:packed>'s VP:up>packed VP:in>packed NP:garbage>bags PP:bags>in VP:now>packed"
    ),
}


@pytest.fixture(scope="module")
def gum_trees(gum_dir):
    return [tree for tree in read_trees(gum_dir / "dev.ptb.gz") if not isinstance(tree, Malformed)]


def test_trees_of_gum_by_hand(gum_trees):
    found = {" ".join(tree_words(tree)): by_words(tree) for tree in gum_trees}
    for text, expected in OF_GUM.items():
        triples = (each.replace(":", " ").replace(">", " ").split() for each in expected.split())
        assert found[text] == {tuple(each) for each in triples}, text


def test_each_word_of_gum_but_the_root_has_one_head_and_none_is_its_own(gum_trees):
    assert len(gum_trees) == 1575
    for tree in gum_trees:
        heads = {word: head for _, word, head in head_dependencies(tree)}
        assert len(heads) == len(head_dependencies(tree))
        tags = [leaf.label for leaf in leaves(tree)]
        roots = [word for word, tag in enumerate(tags) if word not in heads and tag not in PUNCTUATION]
        assert len(roots) == any(tag not in PUNCTUATION for tag in tags)
        for word in heads:  # every chain ends
            seen = set()
            while word in heads:
                assert word not in seen
                seen.add(word)
                word = heads[word]


def test_parsing_problems_know_the_heads_of_the_gold_tree():
    problem = get_problem("treebank_parsing")
    tree = "(TOP (S (NP (DT The) (NN rain)) (VP (VBZ falls)) (. .)))"
    assert problem.dependencies("The rain falls .", tree) == [
        ("NP: word -> head", "inputs", 0, 1),
        ("S: word -> head", "inputs", 1, 2),
        # (S (NP XX XX )NP (VP XX )VP XX )S
        ("closing bracket -> its opening one, at most 4 symbols before", "targets", 4, 1),
        ("closing bracket -> its opening one, at most 4 symbols before", "targets", 7, 5),
        ("closing bracket -> its opening one, farther away", "targets", 9, 0),
    ]
    for inputs, targets in (("The rain .", tree), ("The rain falls .", "(TOP (S"), ("", ""), ("The", "The")):
        assert problem.dependencies(inputs, targets) == []
