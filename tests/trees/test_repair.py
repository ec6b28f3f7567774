import random
import re

import nltk
import pytest

from t2t_lite.trees.linear import EMPTY, HOLLOW, REPAIRS, TOO_FEW, TOO_MANY, UNKNOWN, UNMATCHED, linearise, repair
from t2t_lite.trees.tree import OPEN, tree_words, walk
from t2t_lite.trees.treebank import read_trees

# rule: (symbols, words, tree, repairs)
RULES = {
    "nothing": ("(S (NP XX )NP (VP XX )VP )S", "a b", "(TOP (S (NP (XX a)) (VP (XX b))))", set()),
    "nothing, with words only": ("XX XX", "a b", "(TOP (XX a) (XX b))", set()),
    "nothing, with several constituents": ("(S XX )S (S XX )S", "a .", "(TOP (S (XX a)) (S (. .)))", set()),
    "nothing, with any blanks": (" (S  XX\n)S\t", "a", "(TOP (S (XX a)))", set()),
    "nothing, with a constituent called as a word is": ("(XX XX )XX", "a", "(TOP (XX (XX a)))", set()),
    # EMPTY
    "empty": ("", "a b .", "(TOP (S (XX a) (XX b) (. .)))", {EMPTY}),
    "blanks": (" \n\t ", "a", "(TOP (S (XX a)))", {EMPTY}),
    "nothing that is a symbol": ("⁇ ( ) xx (NP)", "a b", "(TOP (S (XX a) (XX b)))", {EMPTY}),
    # UNKNOWN
    "an unknown token is left out": ("(S ⁇ XX )S", "a", "(TOP (S (XX a)))", {UNKNOWN}),
    "a bracket alone is left out": ("( (S XX ) )S", "a", "(TOP (S (XX a)))", {UNKNOWN}),
    "two brackets in one are left out": ("(S ((S (S(NP XX )S) ()) )S", "a", "(TOP (S (XX a)))", {UNKNOWN}),
    "symbols without a blank are left out": (
        "(S (NP XX)NP (VP XX )VP )S",
        "a b",
        "(TOP (S (NP (VP (XX a))) (XX b)))",
        {UNKNOWN, UNMATCHED, TOO_FEW},
    ),
    "a leaf in small letters is left out": ("(S XX xx )S", "a b", "(TOP (S (XX a) (XX b)))", {UNKNOWN, TOO_FEW}),
    "words are left out": ("(S dog )S XX", "a", "(TOP (XX a))", {UNKNOWN, HOLLOW}),
    # UNMATCHED
    "an open bracket is closed at the end": ("(S (NP XX )NP", "a", "(TOP (S (NP (XX a))))", {UNMATCHED}),
    "all open brackets are closed at the end": ("(S (NP (NP XX", "a", "(TOP (S (NP (NP (XX a)))))", {UNMATCHED}),
    "a closing bracket too many is left out": ("(S XX )S )S", "a", "(TOP (S (XX a)))", {UNMATCHED}),
    "a closing bracket of no open label is left out": (
        "(S XX )NP XX )S",
        "a b",
        "(TOP (S (XX a) (XX b)))",
        {UNMATCHED},
    ),
    "a closing bracket at the beginning is left out": (")S (S XX )S", "a", "(TOP (S (XX a)))", {UNMATCHED}),
    "a closing bracket closes what is open inside": (
        "(S (NP (QP XX )S XX",
        "a b",
        "(TOP (S (NP (QP (XX a)))) (XX b))",
        {UNMATCHED},
    ),
    "a closing bracket closes the innermost of its label": (
        "(NP (NP (PP XX )NP XX )NP",
        "a b",
        "(TOP (NP (NP (PP (XX a))) (XX b)))",
        {UNMATCHED},
    ),
    "crossing brackets": ("(S (NP XX )S XX )NP", "a b", "(TOP (S (NP (XX a))) (XX b))", {UNMATCHED}),
    "the root has no bracket": ("(S XX )TOP )S", "a", "(TOP (S (XX a)))", {UNMATCHED}),
    "labels in small letters are others": ("(S XX )s", "a", "(TOP (S (XX a)))", {UNMATCHED}),
    # HOLLOW
    "brackets around nothing are left out": ("(S (NP )NP XX )S", "a", "(TOP (S (XX a)))", {HOLLOW}),
    "brackets around such brackets, too": ("(S (VP (NP )NP )VP XX )S", "a", "(TOP (S (XX a)))", {HOLLOW}),
    "brackets around nothing at the end": ("(S XX )S (S )S", "a", "(TOP (S (XX a)))", {HOLLOW}),
    "an open bracket at the end": ("(S XX )S (S", "a", "(TOP (S (XX a)))", {UNMATCHED, HOLLOW}),
    # TOO_FEW
    "words at the end of the last constituent": (
        "(S (NP XX )NP )S",
        "a b .",
        "(TOP (S (NP (XX a)) (XX b) (. .)))",
        {TOO_FEW},
    ),
    "words at the end of the last of several": (
        "(S XX )S (NP XX )NP",
        "a b c",
        "(TOP (S (XX a)) (NP (XX b) (XX c)))",
        {TOO_FEW},
    ),
    "words after the last word of the root": ("(S XX )S XX", "a b c", "(TOP (S (XX a)) (XX b) (XX c))", {TOO_FEW}),
    "words and no leaves": ("(S )S", "a b", "(TOP (S (XX a) (XX b)))", {TOO_FEW, HOLLOW}),
    "words and no leaves in other brackets": ("(NP )NP", "a b", "(TOP (S (XX a) (XX b)))", {TOO_FEW, HOLLOW}),
    "closing brackets only": (")S )NP", "a b", "(TOP (S (XX a) (XX b)))", {UNMATCHED, TOO_FEW}),
    "opening brackets only": ("(S (NP", "a", "(TOP (S (XX a)))", {UNMATCHED, HOLLOW, TOO_FEW}),
    # TOO_MANY
    "leaves without words are left out": ("(S XX XX XX )S", "a", "(TOP (S (XX a)))", {TOO_MANY}),
    "with the brackets around them": ("(S XX (NP XX XX )NP )S", "a", "(TOP (S (XX a)))", {TOO_MANY, HOLLOW}),
    # All at once, except EMPTY and TOO_FEW
    "several": (
        "(S junk XX )NP (NP )NP XX XX",
        "a b",
        "(TOP (S (XX a) (XX b)))",
        {UNKNOWN, UNMATCHED, HOLLOW, TOO_MANY},
    ),
}


@pytest.mark.parametrize(("symbols", "words", "tree", "needed"), RULES.values(), ids=RULES)
def test_each_rule_of_repair(symbols, words, tree, needed):
    repaired, repairs = repair(symbols, words.split())
    assert str(repaired) == tree
    assert repairs == frozenset(needed)


def test_punctuation_has_its_tags():
    tree, _ = repair("(S XX", ["``", "It", "is", "--", "-LRB-", "$", "3", "!"])
    assert str(tree) == "(TOP (S (`` ``) (XX It) (XX is) (: --) (-LRB- -LRB-) ($ $) (XX 3) (. !)))"


@pytest.mark.parametrize("word", ["(NP", ")", ")NP", "(", "XX", "()", "S", "a b"])
@pytest.mark.parametrize(
    "symbols", ["", "XX", "(S XX )S", "(S (NP XX )S", "(S )S", "XX XX", "(NP (S XX XX )NP", "XX)S"]
)
def test_words_that_look_like_symbols_are_words(symbols, word):
    tree, needed = repair(symbols, [word])
    assert tree.label == "TOP"
    assert tree_words(tree) == [word]
    same, same_needed = repair(symbols, ["dog"])  # a word like any other
    assert needed == same_needed
    assert [(kind, node.label) for kind, node in walk(tree)] == [(kind, node.label) for kind, node in walk(same)]


# Many outputs, checked in another way.


def accepted(symbols, length):
    """Whether these are the symbols of a tree: replaces innermost constituents with leaves until none is left."""
    listed, found = f" {symbols.strip()} ", 1
    while found:
        listed, found = re.subn(r"(?<= )\(([^\s()]+)((?: +XX)+) +\)\1(?= )", "XX", " ".join(listed.split()).join("  "))
    return bool(re.fullmatch(r"( *XX)+ *", listed)) and symbols.split().count("XX") == length


def check(symbols, words):
    """Repairs, checks properties that hold for every output, and returns (brackets of the tree, repairs)."""
    tree, needed = repair(symbols, words)
    text = str(tree)
    read = nltk.Tree.fromstring(text)
    assert read.label() == "TOP"
    assert read.leaves() == list(words)
    for part in read.subtrees():
        assert part.label()
        # Each word has its own tag.
        assert len(part) == 1 or (part and all(isinstance(child, nltk.Tree) for child in part))
    assert set(needed) <= set(REPAIRS)
    assert (not needed) == accepted(symbols, len(words)), (symbols, words)
    assert needed or linearise(tree).split() == symbols.split()
    # A repaired tree needs no further repair.
    assert repair(linearise(tree), words) == (tree, frozenset())
    return text, needed


JUNK = ["⁇", "(", ")", "((S", "))", "XX)NP", "(NP)", "()", "xx", "dog", ")S)", "(NP(PP", "nn", "X X"]
WORDS = ["dog", ".", "-LRB-", "n't", "``", "Größe", "XX", "NP"]


def test_random_symbols_are_repaired_to_a_tree():
    rng = random.Random(6)
    seen = {}
    for _ in range(5000):
        usual = ["XX", "(S", ")S", "(NP", ")NP", "XX"]
        symbols = [rng.choice(JUNK if rng.random() < 0.05 else usual) for _ in range(rng.randint(0, 12))]
        _, needed = check(" ".join(symbols), rng.choices(WORDS, k=rng.randint(1, 5)))
        for repairs in needed or {None}:
            seen[repairs] = seen.get(repairs, 0) + 1
    assert min(seen[repairs] for repairs in (*REPAIRS, None)) >= 20, seen


@pytest.fixture(scope="module")
def dev_trees(gum_dir):
    """(symbols, words) of trees with several constituents."""
    pairs = [(linearise(tree).split(), tree_words(tree)) for tree in read_trees(gum_dir / "dev.ptb.gz")]
    return [(symbols, words) for symbols, words in pairs if len(symbols) > 6]


def mutated(symbols, rng):
    """The symbols with one random change."""
    symbols, kind = list(symbols), rng.randrange(8)
    place, other = sorted(rng.choices(range(len(symbols)), k=2))
    if kind == 0:
        del symbols[place]
    elif kind == 1:
        symbols.insert(place, symbols[other])
    elif kind == 2:
        symbols[place], symbols[other] = symbols[other], symbols[place]
    elif kind == 3:
        symbols[place] = rng.choice(["(", ")"]) + rng.choice(["S", "NP", "VP", "ZZ"])
    elif kind == 4:
        del symbols[place:]
    elif kind == 5:
        symbols[place:place] = symbols[place:other]
    elif kind == 6:
        symbols.insert(place, rng.choice(JUNK))
    else:
        symbols[place : place + 2] = ["".join(symbols[place : place + 2])]
    return symbols


@pytest.mark.slow
def test_mutated_treebank_symbols_are_repaired_to_a_tree(dev_trees):
    rng = random.Random(7)
    needing = 0
    for number in range(5000):
        symbols, words = dev_trees[number % len(dev_trees)]
        if len(words) > 40:
            continue
        for _ in range(rng.randint(1, 4)):
            symbols = mutated(symbols, rng) or ["(S"]
        needing += bool(check(" ".join(symbols), words)[1])
    assert needing > 3000


def places(symbols, start):
    return [place for place, symbol in enumerate(symbols) if symbol.startswith(start)]


def is_alone(symbols, place):
    """Returns whether a leaf is the only child."""
    around = symbols[max(0, place - 1) : place] + symbols[place + 1 : place + 2]
    return [symbol[0] for symbol in around] == ["(", ")"]


# Changes of one kind: (symbols, random numbers) -> (changed symbols, the repairs that they need)


def delete_leaf(symbols, rng):
    place = rng.choice(places(symbols, "XX"))
    return symbols[:place] + symbols[place + 1 :], {TOO_FEW} | ({HOLLOW} if is_alone(symbols, place) else set())


def insert_leaf(symbols, rng):
    place = rng.randrange(len(symbols) + 1)
    changed = [*symbols[:place], "XX", *symbols[place:]]
    last = places(changed, "XX")[-1]  # the leaf without a word
    return changed, {TOO_MANY} | ({HOLLOW} if is_alone(changed, last) else set())


def delete_bracket(symbols, rng):
    place = rng.choice(places(symbols, ("(", ")")))
    return symbols[:place] + symbols[place + 1 :], {UNMATCHED}


def double_bracket(symbols, rng):
    place = rng.choice(places(symbols, ("(", ")")))
    return symbols[:place] + symbols[place : place + 1] + symbols[place:], {UNMATCHED}


def relabel_bracket(symbols, rng):
    place = rng.choice(places(symbols, ("(", ")")))
    return [*symbols[:place], f"{symbols[place][0]}ZZ", *symbols[place + 1 :]], {UNMATCHED}


def insert_junk(symbols, rng):
    place = rng.randrange(len(symbols) + 1)
    return [*symbols[:place], rng.choice(JUNK), *symbols[place:]], {UNKNOWN}


def insert_hollow(symbols, rng):
    place = rng.randrange(len(symbols) + 1)
    return [*symbols[:place], *rng.choice([["(S", ")S"], ["(NP", "(ZZ", ")ZZ", ")NP"]]), *symbols[place:]], {HOLLOW}


def close_once_more(symbols, rng):
    return [*symbols, *rng.choices([")S", ")NP", ")ZZ"], k=rng.randint(1, 3))], {UNMATCHED}


def cut_the_end(symbols, rng):
    kept = symbols[: rng.randrange(1, len(symbols))]
    needed = {TOO_FEW} if kept.count("XX") < symbols.count("XX") else set()
    if sum(symbol[0] == "(" for symbol in kept) > sum(symbol[0] == ")" for symbol in kept):
        needed |= {UNMATCHED}
    return kept, needed | ({HOLLOW} if kept[-1][0] == "(" else set())


def forget_all(symbols, rng):
    return rng.choice([[], [" "], ["⁇"] * len(symbols)]), {EMPTY}


CHANGES = [
    delete_leaf,
    insert_leaf,
    delete_bracket,
    double_bracket,
    relabel_bracket,
    insert_junk,
    insert_hollow,
    close_once_more,
    cut_the_end,
    forget_all,
]
HARMLESS = [insert_junk, insert_hollow, close_once_more]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_single_change_needs_only_repairs_of_its_kind(change, dev_trees):
    rng = random.Random(8)
    for symbols, words in dev_trees[::4]:
        changed, expected = change(symbols, rng)
        tree, needed = check(" ".join(changed), words)
        assert needed == expected, (changed, words)
        if change in HARMLESS:
            assert tree == str(repair(" ".join(symbols), words)[0])


# Extremes.


# name: (symbols, number of words, constituents except the root, repairs)
DEEP = {
    "whole": (["(NP"] * 1500 + ["XX"] + [")NP"] * 1500, 1, 1500, set()),
    "never closed": (["(NP"] * 3000 + ["XX"], 1, 3000, {UNMATCHED}),
    "never closed, around nothing": (["(NP"] * 3000, 1, 1, {UNMATCHED, HOLLOW, TOO_FEW}),
    "labels of their own": ([f"(N{n}" for n in range(3000)] + ["XX", ")N0"], 1, 3000, {UNMATCHED}),
    "closed in the wrong order": (
        [f"(N{n}" for n in range(1500)] + ["XX"] + [f")N{n}" for n in range(1500)],
        1,
        1500,
        {UNMATCHED},
    ),
    "closing brackets only": ([")NP"] * 3000, 1, 1, {UNMATCHED, TOO_FEW}),
    "around nothing": (["(NP"] * 1500 + [")NP"] * 1500, 1, 1, {HOLLOW, TOO_FEW}),
    "leaves only": (["XX"] * 3000, 1, 0, {TOO_MANY}),
    "one leaf for many words": (["(NP", "XX", ")NP"], 3000, 1, {TOO_FEW}),
}


@pytest.mark.parametrize(("symbols", "length", "constituents", "expected"), DEEP.values(), ids=DEEP)
def test_trees_of_any_depth_and_length_are_repaired(symbols, length, constituents, expected):
    words = [f"w{n}" for n in range(length)]
    tree, needed = repair(" ".join(symbols), words)
    assert tree_words(tree) == words
    assert needed == frozenset(expected)
    assert sum(kind is OPEN for kind, _ in walk(tree)) == constituents + 1
    assert needed or linearise(tree) == " ".join(symbols)
