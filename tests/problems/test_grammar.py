"""The grammar problem: properties of its samples, and German forms checked against sentences written by hand."""

import itertools
from collections import defaultdict

import pytest
from support.grammar_phrases import (
    MANY,
    OUR,
    TWO,
    a,
    name,
    some,
    the,
)

from t2t_lite.problems import grammar_words as words
from t2t_lite.problems.grammar import GrammarEnde, sentence_pairs, sentence_split
from t2t_lite.problems.grammar_clauses import (
    Pair,
    english_nominal,
)
from t2t_lite.problems.grammar_german import german_nominal, noun_form, prepositional_phrase

SAMPLES = 50_000


@pytest.fixture(scope="module")
def pairs():
    return list(itertools.islice(sentence_pairs(1), SAMPLES))


def test_the_same_seed_gives_the_same_sentences(pairs):
    assert list(itertools.islice(sentence_pairs(1), 1000)) == pairs[:1000]
    assert list(itertools.islice(sentence_pairs(2), 1000)) != pairs[:1000]


def test_german_is_a_function_of_english(pairs):
    translations, sources = defaultdict(set), defaultdict(set)
    for english, german in pairs:
        translations[english].add(german)
        sources[german].add(english)
    assert [english for english, germans in translations.items() if len(germans) > 1] == []
    print("German sentences with two sources:", sum(len(english) > 1 for english in sources.values()))


def test_there_are_millions_of_sentences(pairs):
    counts = defaultdict(int)
    for english, _ in pairs:
        counts[english] += 1
    assert len(counts) >= 40_000
    # n samples of N equally likely sentences have n^2 / 2N collisions. Unequal ones have more: this underestimates N.
    collisions = sum(count * (count - 1) // 2 for count in counts.values())
    bound = SAMPLES * (SAMPLES - 1) / 2 / max(collisions, 1)
    print(f"{len(counts)} of {SAMPLES} distinct; at least about {bound:,.0f} sentences")
    assert bound > 1_000_000


def test_orthography(pairs):
    for text in itertools.chain.from_iterable(pairs):
        assert text[0].isupper() and text[-1] in ".?" and text.count(".") + text.count("?") == 1
        assert not any(wrong in text for wrong in ("  ", " ,", ",,", ",.", ",?", " ."))
    assert all(4 <= len(english.split()) <= 18 for english, _ in pairs)
    assert all(english[-1] == german[-1] for english, german in pairs)


def test_splits_are_disjoint_and_have_the_declared_sizes(pairs):
    shares = defaultdict(int)
    for english, _ in pairs:
        shares[sentence_split(english)] += 1
    assert set(shares) == {"train", "dev", "test"}
    assert 0.005 < shares["dev"] / SAMPLES < 0.015 and 0.005 < shares["test"] / SAMPLES < 0.015

    class Small(GrammarEnde):
        num_examples = {"train": 2000, "dev": 50, "test": 50}

    problem = Small()
    splits = {split: [example.inputs for example in problem.examples(split, {})] for split in Small.num_examples}
    assert {split: len(set(inputs)) for split, inputs in splits.items()} == Small.num_examples
    assert all(sentence_split(text) == split for split, inputs in splits.items() for text in inputs)


def test_split_of_does_not_change():
    assert sentence_split("The old man sees the small dogs because he is not tired.") == "train"


# Noun phrases: nominative, accusative, dative

PHRASES = [
    (the("dog", "old"), "der alte Hund", "den alten Hund", "dem alten Hund"),
    (the("cat", "old"), "die alte Katze", "die alte Katze", "der alten Katze"),
    (the("horse", "old"), "das alte Pferd", "das alte Pferd", "dem alten Pferd"),
    (the("dog", "old", True), "die alten Hunde", "die alten Hunde", "den alten Hunden"),
    (a("dog", "old"), "ein alter Hund", "einen alten Hund", "einem alten Hund"),
    (a("cat", "old"), "eine alte Katze", "eine alte Katze", "einer alten Katze"),
    (a("horse", "old"), "ein altes Pferd", "ein altes Pferd", "einem alten Pferd"),
    (the("dog", "old", False, OUR), "unser alter Hund", "unseren alten Hund", "unserem alten Hund"),
    (the("cat", "old", False, OUR), "unsere alte Katze", "unsere alte Katze", "unserer alten Katze"),
    (the("horse", "old", False, OUR), "unser altes Pferd", "unser altes Pferd", "unserem alten Pferd"),
    (the("horse", "old", True, OUR), "unsere alten Pferde", "unsere alten Pferde", "unseren alten Pferden"),
    (the("dog", "old", False, words.THIS), "dieser alte Hund", "diesen alten Hund", "diesem alten Hund"),
    (the("cat", "old", False, words.THIS), "diese alte Katze", "diese alte Katze", "dieser alten Katze"),
    (the("horse", "old", False, words.THIS), "dieses alte Pferd", "dieses alte Pferd", "diesem alten Pferd"),
    (the("horse", "old", True, words.THIS), "diese alten Pferde", "diese alten Pferde", "diesen alten Pferden"),
    (the("dog", "old", False, words.EVERY), "jeder alte Hund", "jeden alten Hund", "jedem alten Hund"),
    (some("coffee", "cold"), "kalter Kaffee", "kalten Kaffee", "kaltem Kaffee"),
    (some("milk", "cold"), "kalte Milch", "kalte Milch", "kalter Milch"),
    (some("water", "cold"), "kaltes Wasser", "kaltes Wasser", "kaltem Wasser"),
    (some("egg", "fresh", True), "frische Eier", "frische Eier", "frischen Eiern"),
    (the("car", "expensive", True, TWO), "zwei teure Autos", "zwei teure Autos", "zwei teuren Autos"),
    (the("forest", "dark", True, MANY), "viele dunkle Wälder", "viele dunkle Wälder", "vielen dunklen Wäldern"),
    (the("boy", "tired"), "der müde Junge", "den müden Jungen", "dem müden Jungen"),
    (a("neighbor"), "ein Nachbar", "einen Nachbarn", "einem Nachbarn"),
    (the("neighbor", None, True), "die Nachbarn", "die Nachbarn", "den Nachbarn"),
    (Pair(the("man"), name("Anna")), "der Mann und Anna", "den Mann und Anna", "dem Mann und Anna"),
]


@pytest.mark.parametrize("phrase, nominative, accusative, dative", PHRASES, ids=[row[1] for row in PHRASES])
def test_noun_phrase(phrase, nominative, accusative, dative):
    assert [german_nominal(phrase, case) for case in range(3)] == [nominative, accusative, dative]


def test_kein():
    forms = {
        english: [german_nominal(a(english, "old"), case, negated=True) for case in range(3)]
        for english in ("dog", "cat", "horse")
    }
    assert forms == {
        "dog": ["kein alter Hund", "keinen alten Hund", "keinem alten Hund"],
        "cat": ["keine alte Katze", "keine alte Katze", "keiner alten Katze"],
        "horse": ["kein altes Pferd", "kein altes Pferd", "keinem alten Pferd"],
    }
    assert german_nominal(some("egg", "fresh", True), words.ACCUSATIVE, negated=True) == "keine frischen Eier"


def test_english_articles():
    assert english_nominal(a("apple")) == "an apple"
    assert english_nominal(a("dog", "old")) == "an old dog"
    assert english_nominal(a("apple", "big")) == "a big apple"
    assert english_nominal(the("child", None, True, words.THIS)) == "these children"


def test_dative_plurals():
    forms = {noun.english: noun_form(noun, True, words.DATIVE) for noun in words.NOUNS if noun.countable}
    assert all(form[-1] in "ns" for form in forms.values())
    assert (forms["uncle"], forms["car"], forms["museum"]) == ("Onkeln", "Autos", "Museen")


def test_prepositions_merge_with_the_definite_article():
    assert prepositional_phrase("in", the("garden", "big"), words.DATIVE) == "im großen Garten"
    assert prepositional_phrase("in", the("house"), words.ACCUSATIVE) == "ins Haus"
    assert prepositional_phrase("in", the("city"), words.ACCUSATIVE) == "in die Stadt"
    assert prepositional_phrase("in", a("garden"), words.DATIVE) == "in einem Garten"
    assert prepositional_phrase("zu", the("station"), words.DATIVE) == "zum Bahnhof"
    assert prepositional_phrase("zu", the("school"), words.DATIVE) == "zur Schule"
    assert prepositional_phrase("an", the("river"), words.DATIVE) == "am Fluss"
    assert prepositional_phrase("von", the("house"), words.DATIVE) == "vom Haus"
    assert prepositional_phrase("für", the("girl"), words.ACCUSATIVE) == "für das Mädchen"
    assert prepositional_phrase("mit", the("uncle", "old", True), words.DATIVE) == "mit den alten Onkeln"


# Clauses
