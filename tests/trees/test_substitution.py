"""Substitution of constituents."""

import collections
import random

from t2t_lite.trees.substitution import Substitution
from t2t_lite.trees.tree import parse_brackets

TREES = [
    parse_brackets(text)[0]
    for text in (
        "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (PRP it)))))",
        "(TOP (S (NP (DT a) (JJ red) (NN fox)) (VP (VBZ sleeps))))",
        "(TOP (S (NP (PRP we)) (VP (VBP know) (SBAR (IN that) (S (NP (PRP you)) (VP (VBP know)))))))",
    )
]


def variants(tree, rate, count=4000):
    substitution, lots = Substitution(TREES, rate), random.Random(3)
    return collections.Counter(str(substitution(tree, lots)) for _ in range(count))


def test_substitutes_have_the_same_label_and_a_similar_length_and_are_equally_likely():
    found = variants(TREES[0], 1.0)
    # Two or three words: two noun phrases, and one verb phrase, that with "it" inside.
    expected = {
        f"(TOP (S (NP {noun}) (VP (VBZ sees) (NP (PRP it)))))"
        for noun in ("(DT the) (NN dog)", "(DT a) (JJ red) (NN fox)")
    }
    assert found.keys() == expected
    assert all(abs(count - 2000) < 150 for count in found.values())
    found = variants(TREES[1], 1.0)
    verbs = {text.split("(VP ")[1].split(")")[0] for text in found}
    assert verbs == {"(VBZ sleeps", "(VBP know"}
    assert len(found) == 4


def test_each_constituent_is_replaced_with_the_given_probability():
    # The subject "we" becomes "it", "we" or "you"; the clause below "that" has itself and no other.
    found = variants(TREES[2], 0.3)
    subjects = collections.Counter()
    for text, count in found.items():
        subjects[text.split("(PRP ")[1].split(")")[0]] += count
    assert abs(subjects["we"] - 4000 * (0.7 + 0.1)) < 120
    assert abs(subjects["it"] - 400) < 80
    assert abs(subjects["you"] - 400) < 80


def test_a_rate_of_0_changes_nothing_and_the_same_seed_gives_the_same_variants():
    assert all(variants(tree, 0.0, 10).keys() == {str(tree)} for tree in TREES)
    assert variants(TREES[2], 0.5) == variants(TREES[2], 0.5)
