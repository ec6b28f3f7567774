"""Phrases of the grammar problem by their English words."""

import itertools

from t2t_lite.problems import grammar_verbs as verbs
from t2t_lite.problems import grammar_words as words
from t2t_lite.problems.grammar_clauses import (
    NounPhrase,
    PrepositionalPhrase,
)

OUR = words.POSSESSIVES[3]
ICH, ER, SIE, WIR, SIE_PLURAL = words.PRONOUNS
TWO, MANY = words.AMOUNTS[0], words.AMOUNTS[3]
CAN, SHOULD, WILL, WANT, HAVE_TO = verbs.MODALS


def the(english, adjective=None, plural=False, determiner=words.THE):
    noun = next(noun for noun in words.NOUNS + words.NAMES if noun.english == english)
    return NounPhrase(noun, determiner, adjective_of(adjective) if adjective else None, plural)


def name(english):
    return the(english, determiner=words.BARE)


def a(english, adjective=None):
    return the(english, adjective, determiner=words.A)


def some(english, adjective=None, plural=False):
    return the(english, adjective, plural, words.BARE)


def verb(english):
    return next(
        verb
        for verb in verbs.VERBS + verbs.SAYING_VERBS
        if " ".join((verb.english[0], verb.english[3])).strip() == english
    )


def time(english):
    return next(time for time in words.TIMES if time.english == english)


def place(english, nominal):
    every = itertools.chain.from_iterable(words.PREPOSITIONS.values())
    return PrepositionalPhrase(next(one for one in every if one.english == english), nominal)


def adjective_of(english):
    return next(one for one in words.ADJECTIVES if one.english == english)


# What holds of all samples
