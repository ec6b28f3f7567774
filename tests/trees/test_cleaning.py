import pytest

from t2t_lite.trees.tree import Tree, parse_brackets
from t2t_lite.trees.treebank import clean


def cleaned(text):
    (tree,) = parse_brackets(text)
    tree = clean(tree)
    return tree and str(tree)


# Each rule: (tree, cleaned tree), both without their root
RULES = {
    "a trace goes": ("(S (NP (NN it)) (VP (VBZ is) (-NONE- *T*-1)))", "(S (NP (NN it)) (VP (VBZ is)))"),
    "traces go at the beginning, in the middle and at the end": (
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
    "tags and a gapping index are cut, in any order": (
        "(S-TPC-1=2 (NP=2-SBJ (NN it)) (PP-LOC=1 (IN in)))",
        "(S (NP (NN it)) (PP (IN in)))",
    ),
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
