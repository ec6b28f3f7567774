import pytest

from t2t_lite.trees.tree import Tree, parse_brackets
from t2t_lite.trees.treebank import clean


def cleaned(text):
    (tree,) = parse_brackets(text)
    tree = clean(tree)
    return tree and str(tree)


# Each rule: (tree, cleaned tree).
RULES = {
    "a trace goes": ("(TOP (S (NP (NN it)) (VP (VBZ is) (-NONE- *T*-1))))", "(TOP (S (NP (NN it)) (VP (VBZ is))))"),
    "traces go at the beginning, in the middle and at the end": (
        "(TOP (S (-NONE- *) (NN a) (-NONE- 0) (-NONE- *U*) (NN b) (-NONE- *ICH*-1)))",
        "(TOP (S (NN a) (NN b)))",
    ),
    "a constituent of a trace goes": ("(TOP (S (NP-SBJ (-NONE- *-1)) (VP (VB go))))", "(TOP (S (VP (VB go))))"),
    "a constituent of several traces goes": (
        "(TOP (S (SBAR (-NONE- 0) (-NONE- *T*-1)) (VP (VB go))))",
        "(TOP (S (VP (VB go))))",
    ),
    "constituents of nothing but such constituents go": (
        "(TOP (S (VP (VB go)) (SBAR (WHNP-1 (-NONE- 0)) (S (NP (-NONE- *T*-1)) (VP (-NONE- *?*))))))",
        "(TOP (S (VP (VB go))))",
    ),
    "a constituent with a word somewhere stays": (
        "(TOP (S (SBAR (WHNP-1 (-NONE- 0)) (S (NP (-NONE- *T*-1)) (VP (X (VB go)))))))",
        "(TOP (S (SBAR (S (VP (X (VB go)))))))",
    ),
    "what looks like a trace and has another tag stays": (
        "(TOP (NP (SYM *T*-1) (NN 0) (NONE *)))",
        "(TOP (NP (SYM *T*-1) (NN 0) (NONE *)))",
    ),
    "a function tag is cut": ("(TOP (S (NP-SBJ (NN it))))", "(TOP (S (NP (NN it))))"),
    "function tags and an index are cut": ("(TOP (S (NP-SBJ-1 (NN it))))", "(TOP (S (NP (NN it))))"),
    "two function tags are cut": ("(TOP (ADVP-LOC-TMP (RB now)))", "(TOP (ADVP (RB now)))"),
    "a gapping index is cut": ("(TOP (S (NP=2 (NN it))))", "(TOP (S (NP (NN it))))"),
    "tags and a gapping index are cut, in any order": (
        "(TOP (S-TPC-1=2 (NP=2-SBJ (NN it)) (PP-LOC=1 (IN in))))",
        "(TOP (S (NP (NN it)) (PP (IN in))))",
    ),
    "a label of two stays": ("(TOP (PRT|ADVP (RP up)))", "(TOP (PRT|ADVP (RP up)))"),
    "a label of two loses its function tags": ("(TOP (PRT|ADVP-CLR (RP|RB up)))", "(TOP (PRT|ADVP (RP|RB up)))"),
    "tags and words of brackets stay": (
        "(TOP (PRN (-LRB- -LRB-) (NN it) (-RRB- -RRB-) (-LRB- -LCB-) (-RRB- -RCB-)))",
        "(TOP (PRN (-LRB- -LRB-) (NN it) (-RRB- -RRB-) (-LRB- -LCB-) (-RRB- -RCB-)))",
    ),
    "escaped slashes and asterisks become those of text": (
        r"(TOP (NP (CC and\/or) (CD 1\/2) (NN a\/b\/c) (SYM \*\*) (CD 1/2) (NN a\b\)))",
        r"(TOP (NP (CC and/or) (CD 1/2) (NN a/b/c) (SYM **) (CD 1/2) (NN a\b\)))",
    ),
    "tags of punctuation stay": (
        "(TOP (NP (`` ``) ('' '') (, ,) (: --) (. .) ($ $) (# #) (PRP$ my) (WP$ whose) (HYPH -)))",
        "(TOP (NP (`` ``) ('' '') (, ,) (: --) (. .) ($ $) (# #) (PRP$ my) (WP$ whose) (HYPH -)))",
    ),
    "words stay as they are": (
        "(TOP (NP (NN NP-SBJ) (NN a=b) (CD *) (NN Größe) (: -)))",
        "(TOP (NP (NN NP-SBJ) (NN a=b) (CD *) (NN Größe) (: -)))",
    ),
    "a root without a label": ("( (S (NN it)))", "(TOP (S (NN it)))"),
    "the root ROOT": ("(ROOT (S (NN it)))", "(TOP (S (NN it)))"),
    "the root TOP": ("(TOP (S (NN it)))", "(TOP (S (NN it)))"),
    "the root S1": ("(S1 (S (NN it)))", "(TOP (S (NN it)))"),
    "a root with several children": ("( (S (NN it)) (NP (NN dog)) (. .))", "(TOP (S (NN it)) (NP (NN dog)) (. .))"),
    "a root over words": ("(ROOT (NN it) (. .))", "(TOP (NN it) (. .))"),
    "no root": ("(S (NN it))", "(TOP (S (NN it)))"),
    "no root, and function tags": ("(NP-TTL-1 (NN it))", "(TOP (NP (NN it)))"),
    "a word alone": ("(NN it)", "(TOP (NN it))"),
    "other labels that begin as a root does": ("(ROOTS (S1X (TOPX (NN it))))", "(TOP (ROOTS (S1X (TOPX (NN it)))))"),
    "a unary chain stays": ("(TOP (S (VP (VP (NP (NN it))))))", "(TOP (S (VP (VP (NP (NN it))))))"),
    "a unary chain that comes of cleaning stays": (
        "(TOP (NP-1 (NP-SBJ (-NONE- *)) (NP=3 (NP (NN it)) (SBAR (-NONE- 0)))))",
        "(TOP (NP (NP (NP (NN it)))))",
    ),
}


@pytest.mark.parametrize(("tree", "left"), RULES.values(), ids=RULES)
def test_a_tree_is_cleaned_by_the_rules(tree, left):
    assert cleaned(tree) == left == cleaned(left)


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
