"""Symbols of trees: what a tree becomes, and how any output is repaired to a tree."""

import collections
import random
import re

import nltk
import pytest

from t2t_lite.trees.linear import REPAIRS, TAGS, linearise, punctuation_tags, repair
from t2t_lite.trees.tree import LEAF, OPEN, Tree, TreeBuilder, parse_brackets, tree_words, walk
from t2t_lite.trees.treebank import read_trees, treebank_files

EMPTY, UNKNOWN, UNMATCHED, HOLLOW, TOO_FEW, TOO_MANY = REPAIRS
# The first one is from Vinyals et al. 2015, figure 2, with XX for its tags: (tree, symbols).
EXAMPLES = {
    "John has a dog .": (
        "(TOP (S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .)))",
        "(S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S",
    ),
    "Go .": ("(TOP (S (VP (VB Go)) (. .)))", "(S (VP XX )VP XX )S"),
    "rain falls": ("(TOP (S (NP (NN rain)) (VP (VBZ falls))))", "(S (NP XX )NP (VP XX )VP )S"),
    "one word": ("(TOP (NN rain))", "XX"),
    "words only": ("(TOP (NN rain) (. .))", "XX XX"),
    "several constituents": ("(TOP (NP (NN rain)) (: -) (VP (VBZ falls)))", "(NP XX )NP XX (VP XX )VP"),
    "a unary chain": ("(TOP (NP (NP (VP (NP (NN rain))))))", "(NP (NP (VP (NP XX )NP )VP )NP )NP"),
    "labels of other characters": ("(TOP (PRT|ADVP (-LRB- -LRB-) (X$ a)))", "(PRT|ADVP XX XX )PRT|ADVP"),
    "the word XX": ("(TOP (XX (NN XX) (XX (XX XX))))", "(XX XX (XX XX )XX )XX"),
}


def random_tree(rng, depth):
    if depth == 0 or rng.random() < 0.3:
        return Tree(rng.choice(["NN", "XX", ","]), word=rng.choice(["a", "XX", ",", "-LRB-", "(S", ")S", ")"]))
    children = tuple(random_tree(rng, depth - 1) for _ in range(rng.randint(1, 4)))
    return Tree(rng.choice(["S", "NP", "XX", "TOP"]), children)


def as_repaired(tree):
    """What `repair` returns for the symbols of a tree: the tree with the tags of `punctuation_tags`, and no repairs."""
    builder, tags = TreeBuilder(), iter(punctuation_tags(tree_words(tree)))
    for kind, node in walk(tree):
        if kind is LEAF:
            builder.leaf(next(tags), node.word)
        elif kind is OPEN:
            builder.open(node.label)
        else:
            builder.close()
    return builder.trees()[0], frozenset()


@pytest.mark.parametrize(("tree", "symbols"), EXAMPLES.values(), ids=EXAMPLES)
def test_a_tree_and_its_symbols_give_one_another(tree, symbols):
    (tree,) = parse_brackets(tree)
    assert linearise(tree) == symbols
    for written in (symbols, f"\n {symbols}\t".replace(" ", "  ")):
        assert repair(written, tree_words(tree)) == as_repaired(tree)


def test_with_tags_words_become_their_tags_and_other_tags_stay_xx():
    (tree,) = parse_brackets("(TOP (S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (ART dog))) (. .)))")
    symbols = linearise(tree, TAGS)
    assert symbols == "(S (NP NNP )NP (VP VBZ (NP DT XX )NP )VP . )S"
    assert repair(symbols, tree_words(tree)) == (parse_brackets(str(tree).replace("ART", "XX"))[0], frozenset())


def test_punctuation_keeps_its_tag_whatever_the_model_writes():
    tree, needed = repair("(S NN NN , )S", ["rain", "-LRB-", "falls"])
    assert str(tree) == "(TOP (S (NN rain) (-LRB- -LRB-) (, falls)))" and not needed


def test_the_tags_of_punctuation():
    tagged = {
        **{"``": "``", "''": "''", ",": ",", ".": ".", "?": ".", "!": ".", ":": ":", ";": ":", "--": ":", "...": ":"},
        **{"-LRB-": "-LRB-", "-RRB-": "-RRB-", "$": "$", "#": "#"},
        **dict.fromkeys(["dog", "XX", "-", "'", '"', "(", ")", "%", "&", "..", "a.", "-LCB-", "", "'s"], "XX"),
    }
    assert punctuation_tags(list(tagged)) == list(tagged.values())
    assert punctuation_tags([]) == []


@pytest.mark.slow
def test_punctuation_tags_agree_with_the_treebank(wsj_dir):
    """Nearly always: the treebank has errors."""
    tags = collections.defaultdict(list)
    for path in wsj_dir.glob("*.mrg"):
        for tag, word in re.findall(r"\(([^\s()]+) ([^\s()]+)\)", path.read_text()):
            tags[word].append(tag)
    words = ["``", "''", ",", ".", "?", "!", ":", ";", "--", "...", "-LRB-", "-RRB-", "$", "#"]
    for word, tag in zip(words, punctuation_tags(words), strict=True):
        assert tags[word].count(tag) >= 0.98 * len(tags[word]), word


@pytest.mark.slow
def test_random_trees_survive_a_round_trip():
    rng = random.Random(5)
    for _ in range(1000):
        tree = Tree("TOP", tuple(random_tree(rng, 6) for _ in range(rng.randint(1, 3))))
        assert repair(linearise(tree), tree_words(tree)) == as_repaired(tree)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("corpus", "count"), [("wsj", 3669), pytest.param("gum", 10_224 + 1575, marks=pytest.mark.slow)]
)
def test_every_tree_of_a_treebank_survives_a_round_trip(corpus, count, request):
    done = 0
    for path in treebank_files(request.getfixturevalue(f"{corpus}_dir")):
        for tree in read_trees(path):
            words, symbols = tree_words(tree), linearise(tree)
            assert repair(symbols, words) == as_repaired(tree)
            # The same content, counted in another way.
            assert symbols.count("XX") == len(words)
            assert symbols.count("(") == symbols.count(")") == str(tree).count("(") - len(words) - 1
            done += 1
    assert done == count


# rule: (symbols, the tree that is repaired to, without its root; repairs)
RULES = {
    "nothing": ("(S (NP XX )NP (VP XX )VP )S", "(S (NP (XX a)) (VP (XX b)))", set()),
    "nothing, with words only": ("XX XX", "(XX a) (XX b)", set()),
    "nothing, with several constituents": ("(S XX )S (S XX )S", "(S (XX a)) (S (. .))", set()),
    "nothing, with any blanks": (" (S  XX\n)S\t", "(S (XX a))", set()),
    "nothing, with a constituent called as a word is": ("(XX XX )XX", "(XX (XX a))", set()),
    # EMPTY
    "empty": ("", "(S (XX a) (XX b) (. .))", {EMPTY}),
    "blanks": (" \n\t ", "(S (XX a))", {EMPTY}),
    "nothing that is a symbol": ("⁇ ( ) xx (NP)", "(S (XX a) (XX b))", {EMPTY}),
    # UNKNOWN
    "an unknown token is left out": ("(S ⁇ XX )S", "(S (XX a))", {UNKNOWN}),
    "a bracket alone is left out": ("( (S XX ) )S", "(S (XX a))", {UNKNOWN}),
    "two brackets in one are left out": ("(S ((S (S(NP XX )S) ()) )S", "(S (XX a))", {UNKNOWN}),
    "symbols without a blank": (
        "(S (NP XX)NP (VP XX )VP )S",
        "(S (NP (VP (XX a))) (XX b))",
        {UNKNOWN, UNMATCHED, TOO_FEW},
    ),
    "a leaf in small letters is left out": ("(S XX xx )S", "(S (XX a) (XX b))", {UNKNOWN, TOO_FEW}),
    "words are left out": ("(S dog )S XX", "(XX a)", {UNKNOWN, HOLLOW}),
    # UNMATCHED
    "an open bracket is closed at the end": ("(S (NP XX )NP", "(S (NP (XX a)))", {UNMATCHED}),
    "all open brackets are closed at the end": ("(S (NP (NP XX", "(S (NP (NP (XX a))))", {UNMATCHED}),
    "a closing bracket too many is left out": ("(S XX )S )S", "(S (XX a))", {UNMATCHED}),
    "a closing bracket of no open label is left out": ("(S XX )NP XX )S", "(S (XX a) (XX b))", {UNMATCHED}),
    "a closing bracket at the beginning is left out": (")S (S XX )S", "(S (XX a))", {UNMATCHED}),
    "it closes what is open inside": ("(S (NP (QP XX )S XX", "(S (NP (QP (XX a)))) (XX b)", {UNMATCHED}),
    "it closes the innermost of its label": ("(NP (NP (PP XX )NP XX )NP", "(NP (NP (PP (XX a))) (XX b))", {UNMATCHED}),
    "crossing brackets": ("(S (NP XX )S XX )NP", "(S (NP (XX a))) (XX b)", {UNMATCHED}),
    "the root has no bracket": ("(S XX )TOP )S", "(S (XX a))", {UNMATCHED}),
    "labels in small letters are others": ("(S XX )s", "(S (XX a))", {UNMATCHED}),
    # HOLLOW
    "brackets around nothing are left out": ("(S (NP )NP XX )S", "(S (XX a))", {HOLLOW}),
    "brackets around such brackets, too": ("(S (VP (NP )NP )VP XX )S", "(S (XX a))", {HOLLOW}),
    "brackets around nothing at the end": ("(S XX )S (S )S", "(S (XX a))", {HOLLOW}),
    "an open bracket at the end": ("(S XX )S (S", "(S (XX a))", {UNMATCHED, HOLLOW}),
    # TOO_FEW
    "words at the end of the last constituent": ("(S (NP XX )NP )S", "(S (NP (XX a)) (XX b) (. .))", {TOO_FEW}),
    "words at the end of the last of several": ("(S XX )S (NP XX )NP", "(S (XX a)) (NP (XX b) (XX c))", {TOO_FEW}),
    "words after the last word of the root": ("(S XX )S XX", "(S (XX a)) (XX b) (XX c)", {TOO_FEW}),
    "words and no leaves": ("(S )S", "(S (XX a) (XX b))", {HOLLOW, TOO_FEW}),
    "words and no leaves in other brackets": ("(NP )NP", "(S (XX a) (XX b))", {HOLLOW, TOO_FEW}),
    "closing brackets only": (")S )NP", "(S (XX a) (XX b))", {UNMATCHED, TOO_FEW}),
    "opening brackets only": ("(S (NP", "(S (XX a))", {UNMATCHED, HOLLOW, TOO_FEW}),
    # TOO_MANY
    "leaves without words are left out": ("(S XX XX XX )S", "(S (XX a))", {TOO_MANY}),
    "with the brackets around them": ("(S XX (NP XX XX )NP )S", "(S (XX a))", {HOLLOW, TOO_MANY}),
    # All at once, except EMPTY and TOO_FEW
    "several": ("(S junk XX )NP (NP )NP XX XX", "(S (XX a) (XX b))", {UNKNOWN, UNMATCHED, HOLLOW, TOO_MANY}),
}


@pytest.mark.parametrize(("symbols", "left", "needed"), RULES.values(), ids=RULES)
def test_each_rule_of_repair(symbols, left, needed):
    assert repair(symbols, re.findall(r" ([^ ()]+)\)", left)) == (*parse_brackets(f"(TOP {left})"), needed)


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
    rng, seen, usual = random.Random(6), collections.Counter(), ["XX", "(S", ")S", "(NP", ")NP", "XX"]
    for _ in range(5000):
        symbols = [rng.choice(JUNK if rng.random() < 0.05 else usual) for _ in range(rng.randint(0, 12))]
        _, needed = check(" ".join(symbols), rng.choices(WORDS, k=rng.randint(1, 5)))
        seen.update(needed or {None})
    assert min(seen[repairs] for repairs in (*REPAIRS, None)) >= 20, seen


@pytest.fixture(scope="module")
def dev_trees(gum_dir):
    """(symbols, words) of trees with several constituents."""
    pairs = [(linearise(tree).split(), tree_words(tree)) for tree in read_trees(gum_dir / "dev.ptb.gz")]
    return [pair for pair in pairs if len(pair[0]) > 6]


def mutated(symbols, rng):
    """The symbols with one random change."""
    place, other = sorted(rng.choices(range(len(symbols)), k=2))
    start, rest = symbols[:place], symbols[place + 1 :]
    changes = [
        start,
        [*start, *rest],
        [*start, symbols[other], *symbols[place:]],
        [*start, symbols[other], *symbols[place + 1 : other], symbols[place], *symbols[other + 1 :]],
        [*start, rng.choice("()") + rng.choice(["S", "NP", "VP", "ZZ"]), *rest],
        [*start, *symbols[place:other], *symbols[place:]],
        [*start, rng.choice(JUNK), *symbols[place:]],
        [*start, "".join(symbols[place : place + 2]), *rest[1:]],
    ]
    return rng.choice(changes)


@pytest.mark.slow
def test_mutated_treebank_symbols_are_repaired_to_a_tree(dev_trees):
    rng, needing = random.Random(7), 0
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


def change_bracket(symbols, rng):
    place = rng.choice(places(symbols, ("(", ")")))
    instead = rng.choice([[], 2 * [symbols[place]], [f"{symbols[place][0]}ZZ"]])
    return [*symbols[:place], *instead, *symbols[place + 1 :]], {UNMATCHED}


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


HARMLESS = [insert_junk, insert_hollow, close_once_more]
BROKEN = [change_bracket, delete_leaf, insert_leaf, cut_the_end, forget_all]


@pytest.mark.parametrize("change", HARMLESS + BROKEN, ids=lambda change: change.__name__)
def test_a_single_change_needs_only_repairs_of_its_kind(change, dev_trees):
    rng = random.Random(8)
    for symbols, words in dev_trees[::4]:
        changed, expected = change(symbols, rng)
        tree, needed = check(" ".join(changed), words)
        assert needed == expected, (changed, words)
        if change in HARMLESS:
            assert tree == str(repair(" ".join(symbols), words)[0])


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
