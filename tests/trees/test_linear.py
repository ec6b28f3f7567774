import gzip
import random
import re

import pytest

from t2t_lite.trees.linear import linearise, rebuild, tags_of
from t2t_lite.trees.tree import Tree, leaves, parse_brackets, words_of
from t2t_lite.trees.treebank import read_trees, treebank_files

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


def raw_text(path):
    return (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()


def random_tree(rng, depth):
    if depth == 0 or rng.random() < 0.3:
        return Tree(rng.choice(["NN", "XX", ","]), word=rng.choice(["a", "XX", ",", "-LRB-", "(S", ")S", ")"]))
    children = tuple(random_tree(rng, depth - 1) for _ in range(rng.randint(1, 4)))
    return Tree(rng.choice(["S", "NP", "XX", "TOP"]), children)


@pytest.mark.parametrize(("tree", "symbols"), EXAMPLES.values(), ids=EXAMPLES)
def test_linearise_gives_the_symbols_of_a_tree(tree, symbols):
    (tree,) = parse_brackets(tree)
    assert linearise(tree) == symbols


@pytest.mark.parametrize(("tree", "symbols"), EXAMPLES.values(), ids=EXAMPLES)
def test_rebuild_gives_the_tree_of_symbols(tree, symbols):
    words_and_tags = [(word, tag) for tag, word in re.findall(r"\(([^\s()]+) ([^\s()]+)\)", tree)]
    words, tags = zip(*words_and_tags, strict=True)
    assert str(rebuild(symbols, words, tags)) == tree
    assert str(rebuild(f"\n {symbols}\t".replace(" ", "  "), words, tags)) == tree


def test_without_given_tags_only_punctuation_gets_tags():
    tree = rebuild("(S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S", ["John", "has", "a", "dog", "."])
    assert str(tree) == "(TOP (S (NP (XX John)) (VP (XX has) (NP (XX a) (XX dog))) (. .)))"


def test_the_tags_of_punctuation():
    tagged = {
        **{"``": "``", "''": "''", ",": ",", ".": ".", "?": ".", "!": ".", ":": ":", ";": ":", "--": ":", "...": ":"},
        **{"-LRB-": "-LRB-", "-RRB-": "-RRB-", "$": "$", "#": "#"},
        **dict.fromkeys(["dog", "XX", "-", "'", '"', "(", ")", "%", "&", "..", "a.", "-LCB-", "", "'s"], "XX"),
    }
    assert tags_of(list(tagged)) == list(tagged.values())
    assert tags_of([]) == []


def test_punctuation_tags_agree_with_the_treebank(wsj_dir):
    """Except for tagging errors and words that are not punctuation: "--" is ":" nearly always, and "..." always."""
    pairs = [
        pair for path in wsj_dir.glob("*.mrg") for pair in re.findall(r"\(([^\s()]+) ([^\s()]+)\)", raw_text(path))
    ]
    tags = {}
    for tag, word in pairs:
        tags.setdefault(word, []).append(tag)
    words = ["``", "''", ",", ".", "?", "!", ":", ";", "--", "...", "-LRB-", "-RRB-", "$", "#"]
    for word, tag in zip(words, tags_of(words), strict=True):
        assert tags[word].count(tag) >= 0.98 * len(tags[word]), word


# defect: (symbols, number of words, message)
ERRORS = {
    "a leaf too many": ("(S XX XX )S", 1, "more leaves than words"),
    "leaves and no words": ("(S XX )S", 0, "more leaves than words"),
    "a leaf too few": ("(S XX )S", 2, "fewer leaves than words"),
    "nothing": ("", 1, "fewer leaves than words"),
    "blanks": (" \n ", 1, "fewer leaves than words"),
    "nothing for nothing": ("", 0, "an empty tree"),
    "brackets around nothing": ("(S (NP )NP XX )S", 1, "nothing in the brackets of 'NP'"),
    "brackets around nothing only": ("(S )S", 0, "nothing in the brackets of 'S'"),
    "brackets around nothing after the last word": ("(S XX )S (NP )NP", 1, "nothing in the brackets of 'NP'"),
    "not closed": ("(S (NP XX )NP", 1, "the bracket of 'S' is not closed"),
    "two not closed": ("(S (NP XX", 1, "the bracket of 'NP' is not closed"),
    "nothing but an opening bracket": ("(S", 1, "the bracket of 'S' is not closed"),
    "a closing bracket too many": ("(S XX )S )S", 1, "')S' does not match an open bracket"),
    "a closing bracket first": (")S (S XX )S", 1, "')S' does not match an open bracket"),
    "another label": ("(S XX )NP", 1, "')NP' does not match an open bracket"),
    "in the wrong order": ("(S (NP XX )S )NP", 1, "')S' does not match an open bracket"),
    "the root closed": ("XX )TOP", 1, "')TOP' does not match an open bracket"),
    "labels in small letters": ("(S XX )s", 1, "')s' does not match an open bracket"),
    "an opening bracket alone": ("( XX )", 1, "'(' is not a symbol"),
    "a closing bracket alone": ("(S XX ) )S", 1, "')' is not a symbol"),
    "a word": ("(S dog )S", 1, "'dog' is not a symbol"),
    "an unknown token": ("(S XX ⁇ )S", 1, "'⁇' is not a symbol"),
    "a leaf in small letters": ("(S xx )S", 1, "'xx' is not a symbol"),
    # A tree with such a label could not be written, because its brackets would not match.
    "a label with a bracket": ("((S XX )(S", 1, "'((S' is not a symbol"),
    "another label with a bracket": ("(NP) XX )NP)", 1, "'(NP)' is not a symbol"),
    "two brackets in one": ("(S(NP XX )S(NP", 1, "'(S(NP' is not a symbol"),
    "symbols without a blank": ("(S (NP XX)NP )S", 1, "'XX)NP' is not a symbol"),
}


@pytest.mark.parametrize(("symbols", "length", "message"), ERRORS.values(), ids=ERRORS)
def test_malformed_symbols_are_refused_with_the_reason(symbols, length, message):
    with pytest.raises(ValueError) as error:
        rebuild(symbols, ["dog"] * length)
    assert str(error.value) == message


def test_random_trees_survive_a_round_trip():
    """For any words, because the symbols do not contain them."""
    rng = random.Random(5)
    for _ in range(1000):
        tree = Tree("TOP", tuple(random_tree(rng, 6) for _ in range(rng.randint(1, 3))))
        assert rebuild(linearise(tree), words_of(tree), [leaf.label for leaf in leaves(tree)]) == tree


def test_trees_of_any_depth_survive_a_round_trip():
    depth = 20_000
    symbols = " ".join(["(NP"] * depth + ["XX"] + [")NP"] * depth)
    tree = rebuild(symbols, ["dog"], ["NN"])
    assert linearise(tree) == symbols
    assert str(tree) == "(TOP " + "(NP " * depth + "(NN dog)" + ")" * depth + ")"


@pytest.mark.parametrize(
    ("corpus", "count"), [("wsj", 3669), pytest.param("gum", 10_224 + 1575, marks=pytest.mark.slow)]
)
def test_every_tree_of_a_treebank_survives_a_round_trip(corpus, count, request):
    done = 0
    for path in treebank_files(request.getfixturevalue(f"{corpus}_dir")):
        for tree in read_trees(path):
            words, tags = words_of(tree), [leaf.label for leaf in leaves(tree)]
            symbols = linearise(tree)
            assert rebuild(symbols, words, tags) == tree
            # Without tags, the tree is the same except for the tags.
            given = iter(zip(tags_of(words), words, strict=True))
            written = re.sub(r"\([^\s()]+ [^\s()]+\)", lambda _, given=given: "({} {})".format(*next(given)), str(tree))
            assert str(rebuild(symbols, words)) == written
            # The same content, counted in another way.
            assert symbols.count("XX") == len(words)
            assert symbols.count("(") == symbols.count(")") == str(tree).count("(") - len(words) - 1
            done += 1
    assert done == count
