"""The built-in problem `grammar_ende`: English sentences with their German translations, made by a grammar.

A sampler builds a sentence as a structure (`grammar_clauses`) of words (`grammar_words`); each language renders that
one structure. The German is a function of the English: there is no "you", no word with two translations, and "it"
only where its antecedent, and so its gender, is in the sentence.
"""

import hashlib
import random
from collections.abc import Iterator

from t2t_lite.data.problem import Example, Problem
from t2t_lite.problems import grammar_verbs as verbs
from t2t_lite.problems import grammar_words as words
from t2t_lite.problems.grammar_clauses import (
    Clause,
    Nominal,
    NounPhrase,
    Pair,
    PrepositionalPhrase,
    Relative,
    Sentence,
    english_sentence,
)
from t2t_lite.problems.grammar_german import german_sentence
from t2t_lite.problems.grammar_verbs import VERBS, Verb
from t2t_lite.problems.grammar_words import NAMES, NOUNS, Noun, Pronoun
from t2t_lite.registry import PROBLEMS

MIN_WORDS, MAX_WORDS = 4, 18  # of the English sentences
_SEED = 2017


def _nouns_of(kinds: tuple[str, ...]) -> list[Noun]:
    return [noun for noun in NOUNS if any(kind in kinds for kind in noun.kinds)]


_KIND_SETS = (
    {verb.objects for verb in VERBS}
    | {verb.subjects for verb in VERBS}
    | {preposition.kinds for group in words.PREPOSITIONS.values() for preposition in group}
    | {("person",), ("animal",)}
)
NOUNS_OF = {kinds: _nouns_of(kinds) for kinds in _KIND_SETS}
VERBS_FOR_SUBJECT = {kind: [verb for verb in VERBS if kind in verb.subjects] for kind in ("person", "animal")}
VERBS_FOR_OBJECT = {noun.kinds: [verb for verb in VERBS if set(verb.objects) & set(noun.kinds)] for noun in NOUNS}
ADJECTIVES_OF = {
    noun.kinds: [adjective for adjective in words.ADJECTIVES if set(adjective.kinds) & set(noun.kinds)]
    for noun in NOUNS
}
PREDICATES_OF = {
    noun.kinds[0]: [adjective for adjective in words.ADJECTIVES if {"state", noun.kinds[0]} <= set(adjective.kinds)]
    for noun in NOUNS
}
TIMES_OF = {tense: [time for time in words.TIMES if tense in time.tenses] for tense in ("present", "past", "modal")}
TRANSITIVES = [verb for verb in VERBS if verb.objects]
ERRANDS = [verb for verb in TRANSITIVES if "animal" not in verb.subjects and not verb.stative]
TRAVELS = [verb for verb in VERBS if verb.places in ("to", "drive")]
PLACED = [verb for verb in VERBS if verb.places in ("at", "to", "drive")]
ANY_TENSE = ("present", "present", "past", "past", "modal")


class SentenceSampler:
    """Draws sentences from `rng`; the nouns of a sentence are all different."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.used: set[str] = set()
        kinds = (
            (self.statement, 34),
            (self.question, 9),
            (self.word_question, 13),
            (self.linked, 22),
            (self.reported, 9),
            (self.coordinated, 7),
            (self.purpose, 6),
        )
        self.kinds = [kind for kind, weight in kinds for _ in range(weight)]

    def sentence(self) -> Sentence:
        """A random sentence of any kind."""
        self.used.clear()
        return self.rng.choice(self.kinds)()

    def chance(self, probability: float) -> bool:
        """True with `probability`."""
        return self.rng.random() < probability

    # Noun phrases

    def noun_phrase(self, kinds: tuple[str, ...], choice: str = "any", plurals: float = 0.3) -> NounPhrase:
        """A noun of `kinds` with its determiner.

        Args:
          kinds: the kinds to choose from.
          choice: the determiners: "any", "plain" (that "kein" can negate, or definite ones) or "definite".
          plurals: how often the noun is plural.
        """
        nouns = NOUNS_OF[kinds]
        noun = self.rng.choice(nouns)
        for _ in range(4):  # not without end: a rare kind may be used up
            if noun.english not in self.used:
                break
            noun = self.rng.choice(nouns)
        self.used.add(noun.english)
        plural = noun.countable and self.chance(plurals)
        adjective = self.rng.choice(ADJECTIVES_OF[noun.kinds]) if self.chance(0.4) else None
        return NounPhrase(noun, self._determiner(noun, plural, choice), adjective, plural)

    def _determiner(self, noun: Noun, plural: bool, choice: str) -> words.Determiner:
        draw = self.rng.random()
        kin = "kin" in noun.kinds
        if draw < (0.75 if kin else 0.2) and "free" not in noun.kinds:
            return self.rng.choice(words.POSSESSIVES)
        if 0.2 <= draw < 0.28 and noun.countable:
            return words.THIS
        if draw < 0.62 or kin or choice == "definite":
            return words.THE
        if draw < 0.65 and choice == "any" and noun.countable and not plural:
            return words.EVERY
        if plural and choice == "any" and draw < 0.85:
            return self.rng.choice(words.AMOUNTS)
        return words.A if noun.countable and not plural else words.BARE

    def person(self, other: Nominal | None = None, choice: str = "any") -> Nominal:
        """A person other than `other`: a pronoun, a name or a noun phrase."""
        draw = self.rng.random()
        if draw < 0.3:
            pronoun = self.rng.choice(words.PRONOUNS)
            if other is None or not (pronoun.person == 1 == other.person):
                return pronoun
        if draw < 0.45:
            name = self.rng.choice(NAMES)
            if name.english not in self.used:
                self.used.add(name.english)
                return NounPhrase(name, words.BARE)
        return self.noun_phrase(("person",), choice)

    def subject(self, kind: str, choice: str = "any") -> Nominal:
        """A subject of `kind`, "person" or "animal"."""
        if kind == "animal":
            return self.noun_phrase(("animal",), choice)
        if self.chance(0.04):
            return Pair(self.noun_phrase(("person",), "definite", 0.0), self.noun_phrase(("person",), "definite", 0.0))
        return self.person(choice=choice)

    # Clauses

    def clause(
        self,
        verb: Verb | None = None,
        subject: Nominal | None = None,
        kind: str = "",
        negation: float = 0.15,
        tenses: tuple[str, ...] = ANY_TENSE,
    ) -> Clause:
        """A clause with random fillings.

        Args:
          verb: its verb, random by default; it may then be "be" with a predicate.
          subject: its subject, random by default.
          kind: the subject's kind; random by default.
          negation: how often the clause is negated.
          tenses: the tenses to choose from: "present", "past", "modal".
        """
        rng = self.rng
        if not kind:
            kind = "animal" if self.chance(0.15) and (verb is None or "animal" in verb.subjects) else "person"
        if verb is None:
            verb = verbs.BE if self.chance(0.12) else rng.choice(VERBS_FOR_SUBJECT[kind])
        negated = self.chance(negation)
        tense = rng.choice(tenses)
        if tense == "modal" and verb.stative:
            tense = "present"
        clause = Clause(
            subject or self.subject(kind, "definite" if negated else "any"),
            verb,
            tense == "past",
            rng.choice(verbs.MODALS) if tense == "modal" else None,
            negated=negated,
        )
        if verb is verbs.BE:
            clause.predicate = rng.choice(PREDICATES_OF[kind])
            if isinstance(clause.subject, NounPhrase) and clause.subject.adjective is clause.predicate:
                clause.subject.adjective = None
        if verb.objects:
            clause.object = self._object(clause)
        self._add_adverbials(clause, tense)
        return clause

    def _object(self, clause: Clause) -> Nominal:
        verb = clause.verb
        choice = "any" if not clause.negated else "definite" if verb.preposition else "plain"
        if "person" in verb.objects and self.chance(0.5):
            return self.person(clause.subject, choice)
        return self.noun_phrase(verb.objects, choice)

    def _add_adverbials(self, clause: Clause, tense: str) -> None:
        """Adds a recipient, company, manner, place and time, as the verb allows."""
        verb, subject = clause.verb, clause.subject
        choice = "definite" if clause.negated else "any"
        if verb.to:
            clause.recipient = self.person(subject, choice)
        elif (verb.company or verb.favour) and self.chance(0.3):
            preposition = words.WITH if verb.company else words.FOR
            clause.companion = PrepositionalPhrase(preposition, self.person(subject, choice))
        elif verb.manners and self.chance(0.3):
            clause.manner = words.MANNERS[self.rng.choice(verb.manners)]
        if verb.places and self.chance(0.25 if verb.objects else 0.45 if verb.places == "at" else 0.9):
            clause.place = self.place(verb.places)
        if not verb.stative and self.chance(0.35):
            time = self.rng.choice(TIMES_OF[tense])
            if not (time.middle and clause.negated):
                clause.time = time

    def place(self, group: str) -> PrepositionalPhrase:
        """A place where something happens ("at"), or where a way leads "to" or "from"."""
        preposition = self.rng.choice(words.PREPOSITIONS[group])
        return PrepositionalPhrase(preposition, self.noun_phrase(preposition.kinds, "definite", 0.1))

    def add_relative(self, head: Nominal) -> None:
        """Gives the noun phrase `head` a relative clause, in which it is the subject or the object."""
        if not isinstance(head, NounPhrase) or "name" in head.noun.kinds:
            return
        kinds = head.noun.kinds
        if head.determiner.declension != "der":
            some = head.noun.countable and not head.plural and "kin" not in kinds
            head.determiner = words.A if some else words.THE
        if kinds[0] in VERBS_FOR_SUBJECT and self.chance(0.55):
            head.relative = self.clause(subject=Relative(head), kind=kinds[0])
        elif VERBS_FOR_OBJECT[kinds]:
            verb = self.rng.choice(VERBS_FOR_OBJECT[kinds])
            head.relative = self.clause(verb, kind="person")
            head.relative.object, head.relative.front = Relative(head), "object"

    # Sentences

    def statement(self) -> Sentence:
        """A main clause, perhaps with something else than the subject in front, or with a relative clause."""
        clause = self.clause()
        if self.chance(0.2):
            self.add_relative(clause.subject)
        elif self.chance(0.25) and not clause.negated and not clause.recipient:
            clause.companion = clause.place = clause.time = None
            self.add_relative(clause.object)
        elif clause.time and not clause.time.middle and self.chance(0.4):
            clause.front = "time"
        elif clause.place and clause.verb.places == "at" and self.chance(0.3):
            clause.front = "place"
        return Sentence(clause)

    def question(self) -> Sentence:
        """A question that asks for yes or no."""
        clause = self.clause(negation=0.0)
        clause.question, clause.front = True, ""
        return Sentence(clause)

    def word_question(self) -> Sentence:
        """A question with who, whom, what, where, when or why."""
        asked = self.rng.choice(("who", "object", "object", "where", "when", "why"))
        if asked == "who":
            clause = self.clause(subject=words.WHO, kind="person", negation=0.0)
        elif asked == "object":
            clause = self.clause(self.rng.choice(TRANSITIVES), negation=0.0)
            what = "person" not in clause.verb.objects or (
                clause.verb.case == words.ACCUSATIVE and self.chance(0.4) and "thing" in clause.verb.objects
            )
            clause.object, clause.front = words.WHAT if what else words.WHO, "object"
        elif asked == "where":
            clause = self.clause(self.rng.choice(PLACED), negation=0.0)
            clause.manner = None
            clause.place, clause.front = words.WHERE if clause.verb.places == "at" else words.WHERE_TO, "place"
        else:
            clause = self.clause(negation=0.0)
            if asked == "when" and clause.verb.stative:
                asked = "why"
            clause.time, clause.front = words.WHEN if asked == "when" else words.WHY, "time"
        clause.question = True
        return Sentence(clause)

    def linked(self) -> Sentence:
        """A main clause and a subordinate clause with because, although, if, when or while."""
        link = self.rng.choice((words.BECAUSE, words.BECAUSE, words.ALTHOUGH, words.IF, words.WHEN_EVER, words.WHILE))
        conditional = link in (words.IF, words.WHEN_EVER)
        first = self.clause(tenses=("present", "modal") if conditional else ANY_TENSE)
        second_first = self.chance(0.35)
        if not conditional and link is not words.WHILE and self.chance(0.4):
            reason = self._about_object(first)
            if reason:
                return Sentence(first, link, reason)
        tenses = ("past",) if first.past else ("present",)
        echo = self._echo(first) if link is not words.WHILE and self.chance(0.6) else None
        subject, kind = echo or (None, "")
        second = self.clause(subject=subject, kind=kind, tenses=tenses)
        if conditional or link is words.WHILE:
            second.time = None
        if second_first and not first.modal:
            first, second = second, first  # the noun goes before its pronoun
        return Sentence(first, link, second, second_first)

    def _echo(self, clause: Clause) -> tuple[Pronoun, str] | None:
        """The pronoun for the subject of `clause`, with its kind, if there is a clear one."""
        subject = clause.subject
        if isinstance(subject, Pronoun):
            return subject, "person"
        if isinstance(subject, Pair):
            return words.THEY, "person"
        kinds = subject.noun.kinds
        if subject.plural:
            return words.THEY, kinds[0]
        if "he" in kinds or "she" in kinds:
            return words.HE if "he" in kinds else words.SHE, "person"
        if kinds[0] == "animal" and clause.object is None and clause.place is None:
            return words.IT[subject.noun.gender], "animal"
        return None

    def _about_object(self, clause: Clause) -> Clause | None:
        """A clause such as "it is cheap" about the object of `clause`, if only that can be meant."""
        object_ = clause.object
        if not isinstance(object_, NounPhrase) or object_.noun.kinds[0] in ("person", "animal", "place"):
            return None
        subject = clause.subject
        animal = isinstance(subject, NounPhrase) and subject.noun.kinds[0] == "animal"  # that would be "it" as well
        if animal or clause.place or object_.determiner is words.EVERY:
            return None
        pronoun = words.THEY if object_.plural else words.IT[object_.noun.gender]
        predicate = self.rng.choice(PREDICATES_OF[object_.noun.kinds[0]])
        return Clause(pronoun, verbs.BE, clause.past, predicate=predicate, negated=self.chance(0.2))

    def reported(self) -> Sentence:
        """What somebody says, believes, knows or hopes."""
        first = self.clause(self.rng.choice(verbs.SAYING_VERBS), tenses=("present", "past"), negation=0.1)
        first.time = None
        second = self.clause(tenses=("past",) if first.past else ANY_TENSE)
        if self.chance(0.15):
            self.add_relative(second.subject)
        return Sentence(first, words.THAT, second)

    def coordinated(self) -> Sentence:
        """Two main clauses with and or but."""
        tense = self.rng.choice(ANY_TENSE)
        first = self.clause(tenses=(tense,))
        subject, kind = (self._echo(first) if self.chance(0.4) else None) or (None, "")
        second = self.clause(subject=subject, kind=kind, tenses=(tense,))
        return Sentence(first, self.rng.choice((words.AND, words.BUT)), second)

    def purpose(self) -> Sentence:
        """Somebody goes somewhere to do something."""
        first = self.clause(self.rng.choice(TRAVELS), kind="person", negation=0.0)
        first.place = first.place or self.place("to")
        second = self.clause(self.rng.choice(ERRANDS), subject=first.subject, kind="person", negation=0.0)
        second.place = second.time = None
        return Sentence(first, words.IN_ORDER, second)


def sentence_pairs(seed: int) -> Iterator[tuple[str, str]]:
    """Yields English sentences with their German translations without end; the same ones for the same seed."""
    sampler = SentenceSampler(random.Random(seed))
    while True:
        sentence = sampler.sentence()
        english = english_sentence(sentence)
        if MIN_WORDS <= english.count(" ") + 1 <= MAX_WORDS:
            yield english, german_sentence(sentence)


def split_of(english: str) -> str:
    """The split that an English sentence belongs to: "train", or one time in a hundred each "dev" and "test"."""
    bucket = int.from_bytes(hashlib.sha256(english.encode()).digest()[:4], "big") % 100
    return ("dev", "test", "train")[min(bucket, 2)]


@PROBLEMS.register
class GrammarEnde(Problem):
    """English to German from a synchronous grammar: 60,000 pairs made on the spot, dev and test 500 each."""

    vocab_size = 1600  # subwords
    byte_fallback = False  # no sentence has a character that the training text has not
    num_examples = {"train": 60_000, "dev": 500, "test": 500}

    def examples(self, split, files):
        """Yields `num_examples[split]` distinct pairs; no sentence is in two splits. `files` is not used."""
        seen = set()
        for english, german in sentence_pairs(_SEED):
            if len(seen) == self.num_examples[split]:
                return
            if english not in seen and split_of(english) == split:
                seen.add(english)
                yield Example(inputs=english, targets=german)
