"""Dependencies between words of `grammar_ende`, compared with the sampler's structure, and with sentences by hand."""

import collections
import dataclasses
import itertools
import random

import pytest

from t2t_lite.data.problem import SIDES, Dependency, Problem, get_problem
from t2t_lite.problems.grammar import SentenceSampler
from t2t_lite.problems.grammar_clauses import NounPhrase, Relative, english_sentence
from t2t_lite.problems.grammar_german import german_sentence
from t2t_lite.problems.grammar_words import IT, Pronoun

SAMPLES = 5000
PARTICLE, RELATIVE, ANAPHOR = (
    "separated particle -> its verb",
    "relative pronoun -> its noun",
    "it -> its antecedent",
)


def by_words(inputs, targets):
    """The dependencies of a pair as (relation, side, word, head), with the words themselves."""
    sides = {"inputs": inputs.split(), "targets": targets.split()}
    found = get_problem("grammar_ende").dependencies(inputs, targets)
    return {
        (relation, side, sides[side][word].strip(".,?"), sides[side][head].strip(".,?"))
        for relation, side, word, head in found
    }


@pytest.mark.parametrize(
    ("english", "german", "expected"),
    [
        (
            "The man picks up the apple.",
            "Der Mann hebt den Apfel auf.",
            {(PARTICLE, "targets", "auf", "hebt")},
        ),
        (
            "Do I pick up the keys?",
            "Hebe ich die Schlüssel auf?",
            {(PARTICLE, "targets", "auf", "Hebe")},
        ),
        (
            "A boy turns on the lamp, and a bird falls asleep.",
            "Ein Junge schaltet die Lampe ein und ein Vogel schläft ein.",
            {(PARTICLE, "targets", "ein", "schaltet"), (PARTICLE, "targets", "ein", "schläft")},
        ),
        # Prepositions and articles, and verbs that are not separated
        ("The boy sleeps in a room.", "Der Junge schläft in einem Zimmer.", set()),
        ("She waits for an uncle.", "Sie wartet auf einen Onkel.", set()),
        ("I laugh because she picks up a cup.", "Ich lache, weil sie eine Tasse aufhebt.", set()),
        (
            "The man has to pick up the dog that sleeps.",
            "Der Mann muss den Hund aufheben, der schläft.",
            {(RELATIVE, "inputs", "that", "dog"), (RELATIVE, "targets", "der", "Hund")},
        ),
        (
            "She says that the woman whom I wait for sees the dog.",
            "Sie sagt, dass die Frau, auf die ich warte, den Hund sieht.",
            {(RELATIVE, "inputs", "whom", "woman"), (RELATIVE, "targets", "die", "Frau")},
        ),
        ("Who sees the cat?", "Wer sieht die Katze?", set()),
        (
            "I buy the soup because it is fresh.",
            "Ich kaufe die Suppe, weil sie frisch ist.",
            {(ANAPHOR, "inputs", "it", "soup")},
        ),
        (
            "If it sleeps in the park, the dog should get up.",
            "Wenn er im Park schläft, sollte der Hund aufstehen.",
            {(ANAPHOR, "inputs", "it", "dog")},
        ),
        # Not of the grammar: two nouns that "it" may stand for, a particle after a relative clause, bad endings
        ("The dog sees the cat because it is tired.", "", set()),
        ("", "Der Mann hebt den Apfel, der gut ist, auf.", {(RELATIVE, "targets", "der", "Apfel")}),
        ("", "Der Mann, die schläft, lacht,", set()),
        ("it that", "auf, auf", set()),
        ("", "", set()),
    ],
)
def test_sentences_by_hand(english, german, expected):
    assert by_words(english, german) == expected


def test_words_are_numbered_from_0_and_a_reversed_problem_swaps_the_sides():
    pair = ("She picks up the coat that is new.", "Sie hebt den Mantel auf, der neu ist.")
    expected = [
        Dependency(RELATIVE, "inputs", 5, 4),
        Dependency(PARTICLE, "targets", 4, 1),
        Dependency(RELATIVE, "targets", 5, 3),
    ]
    assert get_problem("grammar_ende").dependencies(*pair) == expected
    other = {"inputs": "targets", "targets": "inputs"}
    assert get_problem("grammar_ende_rev").dependencies(*pair[::-1]) == [
        each._replace(side=other[each.side]) for each in expected
    ]
    assert Problem().dependencies(*pair) == []


# The sampler's structure is rendered once more with marks: a word that depends on another begins with "<" and a
# number, and the other one with ">" and the same number. All words keep their places.


def clauses_of(sentence):
    main = [clause for clause in (sentence.first, sentence.second) if clause]
    phrases = [phrase for clause in main for phrase in (clause.subject, clause.object)]
    return main, [phrase for phrase in phrases if isinstance(phrase, NounPhrase) and phrase.relative]


def mark_particles(sentence, relations):
    """Marks the separable verbs: a word that is only the prefix depends on the finite verb."""
    main, with_relatives = clauses_of(sentence)
    for clause in [*main, *(phrase.relative for phrase in with_relatives)]:
        if clause.verb.prefix:
            number, verb = numbered(relations, PARTICLE), clause.verb
            forms = tuple(f">{number}{form}" for form in verb.german)
            clause.verb = dataclasses.replace(verb, german=forms, prefix=f"<{number}{verb.prefix}")


def mark_relatives(sentence, relations):
    """Marks nouns, and puts marked pronouns in the place of relative ones."""
    for phrase in clauses_of(sentence)[1]:
        number, clause = numbered(relations, RELATIVE), phrase.relative
        phrase.noun = marked_noun(phrase.noun, number)
        role = "subject" if isinstance(clause.subject, Relative) else "object"
        setattr(clause, role, marked_pronoun(number, phrase.plural))


def mark_it(sentence, relations):
    """Marks "it" and its antecedent: an animal as the subject of the other clause, else that clause's object."""
    main, _ = clauses_of(sentence)
    for clause, other in itertools.permutations(main, 2):
        if clause.subject in IT.values():
            number, subject = numbered(relations, ANAPHOR), other.subject
            is_animal = isinstance(subject, NounPhrase) and subject.noun.kinds[0] == "animal"
            antecedent = subject if is_animal else other.object
            antecedent.noun = marked_noun(antecedent.noun, number)
            clause.subject = marked_pronoun(number, False)


def numbered(relations, relation):
    relations.append(relation)
    return len(relations) - 1


def marked_noun(noun, number):
    names = ("english", "english_plural", "german", "german_plural")
    return dataclasses.replace(noun, **{name: f">{number}{getattr(noun, name)}" for name in names})


def marked_pronoun(number, plural):
    text = f"<{number}pronoun"
    return Pronoun((text,) * 2, (text,) * 3, plural=plural)


def marked_pairs(text):
    """Returns (number, word, head) of the marks in a text; a prefix that is not separated is part of another word."""
    starts = {word[:2]: place for place, word in enumerate(text.split()) if word[0] in "<>" and ">" not in word[1:]}
    return {
        (int(mark[1]), place, starts[f">{mark[1]}"])
        for mark, place in starts.items()
        if mark[0] == "<" and f">{mark[1]}" in starts
    }


def test_dependencies_are_those_of_the_sampled_structure():
    sampler, problem = SentenceSampler(random.Random(3)), get_problem("grammar_ende")
    seen = collections.Counter()
    for _ in range(SAMPLES):
        sentence, relations = sampler.sentence(), []
        pair = english_sentence(sentence), german_sentence(sentence)
        for mark in (mark_particles, mark_relatives, mark_it):
            mark(sentence, relations)
        expected = set()
        for side, text, marked in zip(SIDES, pair, (english_sentence(sentence), german_sentence(sentence))):
            assert len(marked.split()) == len(text.split())
            expected |= {Dependency(relations[number], side, *places) for number, *places in marked_pairs(marked)}
        expected = {each for each in expected if each[:2] != (ANAPHOR, "targets")}
        found = problem.dependencies(*pair)
        assert set(found) == expected and len(found) == len(expected), pair
        seen.update(each[:2] for each in found)
    assert min(seen[PARTICLE, "targets"], seen[RELATIVE, "inputs"], seen[RELATIVE, "targets"]) > 100
    assert seen[ANAPHOR, "inputs"] > 30
    print(dict(seen))
