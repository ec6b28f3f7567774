"""The grammar problem: properties of its samples, and German forms checked against sentences written by hand."""

import itertools
import re
from collections import Counter

import pytest

from t2t_lite.problems import grammar
from t2t_lite.problems import grammar_words as words
from t2t_lite.problems.grammar import Clause, Phrase, noun_phrase, pronoun, sentence_pairs, sentence_split
from t2t_lite.problems.grammar_words import ACCUSATIVE, DATIVE, NOMINATIVE

SAMPLES = 50_000
OUR = words.POSSESSIVES["our"]
TWO, MANY = words.AMOUNTS["two"], words.AMOUNTS["many"]


@pytest.fixture(scope="module")
def pairs():
    return list(itertools.islice(sentence_pairs(1), SAMPLES))


def test_the_same_seed_gives_the_same_sentences(pairs):
    assert list(itertools.islice(sentence_pairs(1), 1000)) == pairs[:1000]
    assert list(itertools.islice(sentence_pairs(2), 1000)) != pairs[:1000]


def test_there_are_millions_of_sentences_with_one_translation_each(pairs):
    counts = Counter(english for english, _ in pairs)
    assert len(set(pairs)) == len(counts) >= 40_000
    # n samples of N equally likely sentences have n^2 / 2N collisions. Unequal ones have more: this underestimates N.
    collisions = sum(count * (count - 1) // 2 for count in counts.values())
    assert SAMPLES * (SAMPLES - 1) / 2 / max(collisions, 1) > 500_000


def test_orthography(pairs):
    for text in itertools.chain.from_iterable(pairs):
        assert text[0].isupper() and text[-1] in ".?" and text.count(".") + text.count("?") == 1
        assert not any(wrong in text for wrong in ("  ", " ,", ",,", ",.", ",?", " ."))
    assert all(4 <= len(english.split()) <= 18 for english, _ in pairs)
    assert all(english[-1] == german[-1] for english, german in pairs)


def test_splits_are_disjoint_and_have_the_declared_sizes(pairs):
    shares = Counter(sentence_split(english) for english, _ in pairs)
    assert set(shares) == {"train", "dev", "test"}
    assert 0.005 < shares["dev"] / SAMPLES < 0.015 and 0.005 < shares["test"] / SAMPLES < 0.015
    problem = grammar.GrammarEnde()
    problem.num_examples = {"train": 2000, "dev": 50, "test": 50}
    for split, count in problem.num_examples.items():
        inputs = {example.inputs for example in problem.examples(split, {})}
        assert len(inputs) == count and {sentence_split(text) for text in inputs} == {split}
    # This does not change.
    assert sentence_split("The old man sees the small dogs because he is not tired.") == "train"


def test_every_word_occurs(pairs):
    english = " ".join(english for english, _ in pairs).lower()
    tables = (words.NOUNS, words.ADJECTIVES, words.LINKS, words.POSSESSIVES, words.AMOUNTS, words.PRONOUNS)
    verbs = {f"{verb.present[1]} {verb.particle}".strip() for verb in words.VERBS.values()}
    assert [word for word in verbs.union(*tables) if not re.search(rf"\b{word.lower()}\b", english)] == []


def the(noun, adjective="", case=NOMINATIVE, plural=False, determiner=words.THE):
    return noun_phrase(words.NOUNS[noun], determiner, case, adjective, plural)


def who(english, case=NOMINATIVE):
    return pronoun(words.PRONOUNS[english], case)


# A noun, its adjective and determiner, whether it is plural, the English, the German nominative, accusative and dative.
PHRASES = [
    ("dog", "old", words.THE, False, "the old dog", "der alte Hund", "den alten Hund", "dem alten Hund"),
    ("cat", "old", words.THE, False, "the old cat", "die alte Katze", "die alte Katze", "der alten Katze"),
    ("horse", "old", words.THE, False, "the old horse", "das alte Pferd", "das alte Pferd", "dem alten Pferd"),
    ("dog", "old", words.THE, True, "the old dogs", "die alten Hunde", "die alten Hunde", "den alten Hunden"),
    ("dog", "old", words.A, False, "an old dog", "ein alter Hund", "einen alten Hund", "einem alten Hund"),
    ("cat", "big", words.A, False, "a big cat", "eine große Katze", "eine große Katze", "einer großen Katze"),
    ("horse", "old", words.A, False, "an old horse", "ein altes Pferd", "ein altes Pferd", "einem alten Pferd"),
    ("apple", "", words.A, False, "an apple", "ein Apfel", "einen Apfel", "einem Apfel"),
    ("dog", "old", OUR, False, "our old dog", "unser alter Hund", "unseren alten Hund", "unserem alten Hund"),
    ("cow", "", OUR, True, "our cows", "unsere Kühe", "unsere Kühe", "unseren Kühen"),
    ("boy", "old", OUR, True, "our old boys", "unsere alten Jungen", "unsere alten Jungen", "unseren alten Jungen"),
    ("dog", "old", words.THIS, False, "this old dog", "dieser alte Hund", "diesen alten Hund", "diesem alten Hund"),
    ("horse", "", words.THIS, False, "this horse", "dieses Pferd", "dieses Pferd", "diesem Pferd"),
    ("child", "", words.THIS, True, "these children", "diese Kinder", "diese Kinder", "diesen Kindern"),
    ("dog", "old", words.EVERY, False, "every old dog", "jeder alte Hund", "jeden alten Hund", "jedem alten Hund"),
    ("coffee", "cold", words.BARE, False, "cold coffee", "kalter Kaffee", "kalten Kaffee", "kaltem Kaffee"),
    ("milk", "cold", words.BARE, False, "cold milk", "kalte Milch", "kalte Milch", "kalter Milch"),
    ("water", "cold", words.BARE, False, "cold water", "kaltes Wasser", "kaltes Wasser", "kaltem Wasser"),
]


@pytest.mark.parametrize("row", PHRASES, ids=[row[5] for row in PHRASES])
def test_noun_phrase(row):
    noun, adjective, determiner, plural, english, *german = row
    phrases = [the(noun, adjective, case, plural, determiner) for case in (NOMINATIVE, ACCUSATIVE, DATIVE)]
    assert [phrase.german for phrase in phrases] == german
    assert {phrase.english for phrase in phrases} == {english}


def test_dative_plurals_and_prepositions_that_merge_with_the_definite_article():
    plurals = [noun for noun in words.NOUNS if words.NOUNS[noun].english_plural]
    assert all(the(noun, case=DATIVE, plural=True).german[-1] in "ns" for noun in plurals)
    assert the("garden", "big", DATIVE).behind("in").german == "im großen Garten"
    assert the("house", case=ACCUSATIVE).behind("in", "into").german == "ins Haus"
    assert the("house", case=ACCUSATIVE).behind("in", "into").english == "into the house"
    assert the("city", case=ACCUSATIVE).behind("in").german == "in die Stadt"
    assert the("garden", case=DATIVE, determiner=words.A).behind("in").german == "in einem Garten"
    assert the("station", case=DATIVE).behind("zu").german == "zum Bahnhof"
    assert the("school", case=DATIVE).behind("zu").german == "zur Schule"
    assert the("house", case=DATIVE).behind("von").german == "vom Haus"
    assert the("uncle", "old", DATIVE, True).behind("mit").german == "mit den alten Onkeln"
    assert which("house", DATIVE).behind("von").german == "von dem"


def clause(subject, verb, /, modal="", past=False, negated=False, front="subject", question=False, **phrases):
    head = words.BE if verb == "be" else words.VERBS[verb]
    subject = who(subject) if isinstance(subject, str) else subject
    return Clause(head, {"subject": subject, **phrases}, words.MODALS.get(modal), past, negated, question, front)


def accusative(noun, adjective="", determiner=words.THE, plural=False):
    return the(noun, adjective, ACCUSATIVE, plural, determiner)


def dative(noun, adjective="", plural=False):
    return the(noun, adjective, DATIVE, plural)


def which(noun, case, plural=False):
    return grammar.relative_pronoun(the(noun, plural=plural), words.NOUNS[noun], case)


def with_relative(of, role, relative):
    grammar.add_relative(of, role, relative)
    return of


def being(adjective):
    return Phrase(adjective, words.ADJECTIVES[adjective][0])


def of_two(*clauses):
    return clauses


BOOK, TODAY = accusative("book"), Phrase("today", "heute")
# English and German: the clauses
SENTENCES = {
    "The old man sees a dog. | Der alte Mann sieht einen Hund.": clause(
        the("man", "old"), "see", object=accusative("dog", determiner=words.A)
    ),
    "The old man sees the small dogs because he is not tired."
    " | Der alte Mann sieht die kleinen Hunde, weil er nicht müde ist.": of_two(
        clause(the("man", "old"), "see", object=accusative("dog", "small", plural=True)),
        "because",
        clause("he", "be", predicate=being("tired"), negated=True),
    ),
    # Separable verbs
    "She picks up the book. | Sie hebt das Buch auf.": clause("she", "pick up", object=BOOK),
    "I laugh because she picks up the book. | Ich lache, weil sie das Buch aufhebt.": of_two(
        clause("I", "laugh"), "because", clause("she", "pick up", object=BOOK)
    ),
    "She picked up the book. | Sie hat das Buch aufgehoben.": clause("she", "pick up", past=True, object=BOOK),
    # The verb is second, first and last
    "Today the man buys bread. | Heute kauft der Mann Brot.": clause(
        the("man"), "buy", front="time", time=TODAY, object=the("bread", determiner=words.BARE)
    ),
    "If the boy is tired, he falls asleep. | Wenn der Junge müde ist, schläft er ein.": of_two(
        clause("he", "fall asleep"), "if", clause(the("boy"), "be", predicate=being("tired")), True
    ),
    "The man cooks soup, and she sings. | Der Mann kocht Suppe und sie singt.": of_two(
        clause(the("man"), "cook", object=the("soup", determiner=words.BARE)), "and", clause("she", "sing")
    ),
    # Tenses
    "We ran to the school yesterday. | Wir sind gestern zur Schule gelaufen.": clause(
        "we", "run", past=True, time=Phrase("yesterday", "gestern"), place=dative("school").behind("zu", "to")
    ),
    "The girls were happy. | Die Mädchen waren glücklich.": clause(
        the("girl", plural=True), "be", past=True, predicate=being("happy")
    ),
    "I am hungry. | Ich bin hungrig.": clause("I", "be", predicate=being("hungry")),
    # Negation
    "He does not buy a new car. | Er kauft kein neues Auto.": clause(
        "he", "buy", negated=True, object=accusative("car", "new", words.NO)
    ),
    "He cannot drink milk. | Er kann keine Milch trinken.": clause(
        "he", "drink", modal="can", negated=True, object=accusative("milk", determiner=words.NO)
    ),
    "He does not love Anna. | Er liebt Anna nicht.": clause(
        "he", "love", negated=True, object=accusative("Anna", determiner=words.BARE)
    ),
    # Objects in the dative, two objects, pronouns
    "The woman gives the key to the small child. | Die Frau gibt dem kleinen Kind den Schlüssel.": clause(
        the("woman"), "give", object=accusative("key"), recipient=dative("child", "small").behind("", "to")
    ),
    "The woman showed a picture to them today. | Die Frau hat ihnen heute ein Bild gezeigt.": clause(
        the("woman"),
        "show",
        past=True,
        time=TODAY,
        object=accusative("picture", determiner=words.A),
        recipient=who("they", DATIVE).behind("", "to"),
    ),
    "The doctors help the neighbor. | Die Ärzte helfen dem Nachbarn.": clause(
        the("doctor", plural=True), "help", object=dative("neighbor")
    ),
    # Questions
    "Does the man see me? | Sieht der Mann mich?": clause(
        the("man"), "see", front="", question=True, object=who("I", ACCUSATIVE)
    ),
    "Did they invite us? | Haben sie uns eingeladen?": clause(
        "they", "invite", front="", question=True, past=True, object=who("we", ACCUSATIVE)
    ),
    "Who calls the doctor? | Wer ruft den Arzt an?": clause(
        pronoun(words.WHO, NOMINATIVE), "call", question=True, object=accusative("doctor")
    ),
    # Relative clauses, and the gender of "it"
    "The man who buys the bread laughs. | Der Mann, der das Brot kauft, lacht.": with_relative(
        clause(the("man"), "laugh"), "subject", clause(which("man", NOMINATIVE), "buy", object=the("bread"))
    ),
    "I saw the dog that the woman loves. | Ich habe den Hund gesehen, den die Frau liebt.": with_relative(
        clause("I", "see", past=True, object=accusative("dog")),
        "object",
        clause(the("woman"), "love", front="object", object=which("dog", ACCUSATIVE)),
    ),
    "The children whom she helped sleep. | Die Kinder, denen sie geholfen hat, schlafen.": with_relative(
        clause(the("child", plural=True), "sleep"),
        "subject",
        clause("she", "help", past=True, front="object", object=which("child", DATIVE, plural=True)),
    ),
}


@pytest.mark.parametrize(("texts", "clauses"), SENTENCES.items(), ids=SENTENCES)
def test_sentence(texts, clauses):
    assert " | ".join(grammar.sentence(*(clauses if type(clauses) is tuple else (clauses,)))) == texts
