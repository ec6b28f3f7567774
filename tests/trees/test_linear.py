import gzip
import random
import re

import pytest

from t2t_lite.trees.linear import TAGS, linearise, punctuation_tags, repair
from t2t_lite.trees.tree import LEAF, OPEN, Tree, TreeBuilder, parse_brackets, tree_words, walk
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
    """Except for tagging errors and words that are not punctuation: "--" is ":" nearly always, and "..." always."""
    pairs = [
        pair for path in wsj_dir.glob("*.mrg") for pair in re.findall(r"\(([^\s()]+) ([^\s()]+)\)", raw_text(path))
    ]
    tags = {}
    for tag, word in pairs:
        tags.setdefault(word, []).append(tag)
    words = ["``", "''", ",", ".", "?", "!", ":", ";", "--", "...", "-LRB-", "-RRB-", "$", "#"]
    for word, tag in zip(words, punctuation_tags(words), strict=True):
        assert tags[word].count(tag) >= 0.98 * len(tags[word]), word


@pytest.mark.slow
def test_random_trees_survive_a_round_trip():
    """For any words, because the symbols do not contain them."""
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
