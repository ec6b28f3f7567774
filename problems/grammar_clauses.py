"""The phrases and clauses of the `grammar_ende` problem, and their rendering in English.

A clause is built once and rendered in both languages, here and in `grammar_german`. Rendered phrases use the token ","
for a comma; `punctuate` turns them into a sentence with normal orthography.
"""

from dataclasses import dataclass

from t2t_lite.problems.grammar_verbs import BE, Modal, Verb
from t2t_lite.problems.grammar_words import Adjective, Adverbial, Determiner, Link, Noun, Preposition, Pronoun


@dataclass(slots=True)
class NounPhrase:
    """A noun with a determiner and an optional adjective and relative clause. `plural` applies to the noun."""

    noun: Noun
    determiner: Determiner
    adjective: Adjective | None = None
    plural: bool = False
    relative: "Clause | None" = None
    person = 3


@dataclass(slots=True)
class Pair:
    """Two noun phrases joined by "and"."""

    first: NounPhrase
    second: NounPhrase
    person = 3
    plural = True


@dataclass(slots=True)
class Relative:
    """A relative pronoun; it agrees with the noun phrase `head`."""

    head: NounPhrase
    person = 3

    @property
    def plural(self) -> bool:
        """Whether its noun is plural."""
        return self.head.plural


Nominal = NounPhrase | Pair | Relative | Pronoun


@dataclass(slots=True)
class PrepositionalPhrase:
    """A preposition with the phrase that it governs."""

    preposition: Preposition
    nominal: Nominal


@dataclass(slots=True)
class Clause:
    """A verb with its subject, objects and adverbials.

    `front` names the first field: "subject", "object", "recipient", "time", "place", or "" for a clause that begins
    with its verb (a yes/no question; in German also a main clause after a subordinate one). A question word such as
    "where" is a `time` or a `place` at the front.
    """

    subject: Nominal
    verb: Verb
    past: bool = False
    modal: Modal | None = None
    object: Nominal | None = None
    recipient: Nominal | None = None
    companion: PrepositionalPhrase | None = None
    place: PrepositionalPhrase | Adverbial | None = None
    time: Adverbial | None = None
    manner: Adverbial | None = None
    predicate: Adjective | None = None
    negated: bool = False
    question: bool = False
    front: str = "subject"


@dataclass(slots=True)
class Sentence:
    """A clause, optionally linked to a second one. The second comes first if `second_first` is set."""

    first: Clause
    link: Link | None = None
    second: Clause | None = None
    second_first: bool = False


def punctuate(parts: list[str], question: bool) -> str:
    """Joins `parts` into a sentence: attaches and merges commas, capitalizes the start, adds the final mark."""
    text = " ".join(filter(None, parts)).replace(" ,", ",").replace(",,", ",").rstrip(",")
    return text[0].upper() + text[1:] + ("?" if question else ".")


def english_sentence(sentence: Sentence) -> str:
    """Returns the English text of `sentence`."""
    first, link, second = sentence.first, sentence.link, sentence.second
    if link is None or second is None:
        parts = english_clause(first)
    elif sentence.second_first:
        parts = [link.english, *english_clause(second), ",", *english_clause(first)]
    elif link.order == "infinitive":
        parts = [*english_clause(first), link.english, _base(second.verb), *_complements(second)]
    else:
        comma = "," if link.english_comma else ""
        parts = [*english_clause(first), comma, link.english, *english_clause(second)]
    return punctuate(parts, first.question)


def english_clause(clause: Clause) -> list[str]:
    """Returns the English words of `clause` as a list of phrases."""
    front = clause.front
    inverted = clause.question and front != "subject"
    auxiliary, verb = _verb_forms(clause, support=inverted or clause.negated)
    subject = english_nominal(clause.subject, subject=True)
    if clause.negated:
        auxiliary = "cannot" if auxiliary == "can" else auxiliary + " not"
    parts = [auxiliary, subject] if inverted else [subject, auxiliary]
    if front not in ("", "subject"):
        parts.insert(0, _complement(clause, front))
    if clause.time and clause.time.middle:
        parts.append(clause.time.english)
    parts.append(verb)
    return parts + _complements(clause)


def _verb_forms(clause: Clause, support: bool) -> tuple[str, str]:
    """Returns (auxiliary or "", main verb). `support` requires an auxiliary: "do" if there is no other."""
    base, third_form, past_form, particle = clause.verb.english
    modal, subject = clause.modal, clause.subject
    third = subject.person == 3 and not subject.plural
    if modal and not modal.to:
        return modal.english[0], _base(clause.verb)
    if modal:
        base, third_form = modal.english
        particle = "to " + _base(clause.verb)
    elif clause.verb is BE:
        return _be_form(clause.past, third, subject.plural), ""
    if support:
        form, auxiliary = base, "did" if clause.past else "does" if third else "do"
    else:
        form, auxiliary = past_form if clause.past else third_form if third else base, ""
    return auxiliary, f"{form} {particle}" if particle else form


def _be_form(past: bool, third: bool, plural: bool) -> str:
    if past:
        return "were" if plural else "was"
    return "are" if plural else "is" if third else "am"


def _base(verb: Verb) -> str:
    base, particle = verb.english[0], verb.english[3]
    return f"{base} {particle}" if particle else base


def _complements(clause: Clause) -> list[str]:
    """Returns the phrases that follow the verb, in English order."""
    roles = ("predicate", "object", "recipient", "companion", "manner", "place", "time")
    return [
        _complement(clause, role)
        for role in roles
        if getattr(clause, role) is not None
        and role != clause.front
        and not (role == "time" and clause.time and clause.time.middle)
    ]


def _complement(clause: Clause, role: str) -> str:
    value = getattr(clause, role)
    if isinstance(value, PrepositionalPhrase):
        return f"{value.preposition.english} {english_nominal(value.nominal)}"
    if isinstance(value, (Adverbial, Adjective)):
        return value.english
    return ("to " if role == "recipient" else "") + english_nominal(value)


def english_nominal(nominal: Nominal, subject: bool = False) -> str:
    """Returns the English text of a noun phrase or pronoun, in its subject or its object form."""
    if isinstance(nominal, Pronoun):
        return nominal.english[0 if subject else 1]
    if isinstance(nominal, Pair):
        return f"{english_nominal(nominal.first)} and {english_nominal(nominal.second)}"
    if isinstance(nominal, Relative):
        person = "person" in nominal.head.noun.kinds
        return ("who" if subject else "whom") if person else "that"
    noun, determiner = nominal.noun, nominal.determiner
    words = [noun.english_plural if nominal.plural else noun.english]
    if nominal.adjective:
        words.insert(0, nominal.adjective.english)
    article = determiner.english_plural if nominal.plural else determiner.english
    if article == "a" and words[0][0] in "aeiou":
        article = "an"
    if article:
        words.insert(0, article)
    if nominal.relative:
        words += english_clause(nominal.relative)
    return " ".join(filter(None, words))
