"""Renders the phrases and clauses of `grammar_clauses` in German: endings, verb forms and word order."""

from t2t_lite.problems.grammar_clauses import (
    Clause,
    Nominal,
    NounPhrase,
    Pair,
    PrepositionalPhrase,
    Relative,
    Sentence,
    punctuate,
)
from t2t_lite.problems.grammar_words import BARE, DATIVE, EVERY, NO, NOMINATIVE, A, Noun, Pronoun

# Tables are indexed by gender (p is the plural of all genders), then by case: nominative, accusative, dative.
_DIES = {"m": ("er", "en", "em"), "f": ("e", "e", "er"), "n": ("es", "es", "em"), "p": ("e", "e", "en")}
ARTICLE_ENDINGS = {
    "der": {
        "m": ("der", "den", "dem"),
        "f": ("die", "die", "der"),
        "n": ("das", "das", "dem"),
        "p": ("die", "die", "den"),
    },
    "dies": _DIES,
    "ein": _DIES | {"m": ("", "en", "em"), "n": ("", "", "em")},
    "many": _DIES,
    "none": dict.fromkeys("mfnp", ("", "", "")),
}
_WEAK = {"m": ("e", "en", "en"), "f": ("e", "e", "en"), "n": ("e", "e", "en"), "p": ("en", "en", "en")}
ADJECTIVE_ENDINGS = {
    "der": _WEAK,
    "dies": _WEAK,
    "ein": _WEAK | {"m": ("er", "en", "en"), "n": ("es", "es", "en")},
    "many": _DIES,
    "none": _DIES,
}
RELATIVE_PRONOUNS = ARTICLE_ENDINGS["der"] | {"p": ("die", "die", "denen")}
CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
}


def german_sentence(sentence: Sentence) -> str:
    """Returns the German text of `sentence`."""
    first, link, second = sentence.first, sentence.link, sentence.second
    if link is None or second is None:
        parts = german_clause(first)
    elif sentence.second_first:
        parts = [link.german, *german_clause(second, link.order), ",", *german_clause(first, front="")]
    else:
        comma = "," if link.german_comma else ""
        parts = [*german_clause(first), comma, link.german, *german_clause(second, link.order)]
    return punctuate(parts, first.question)


def german_clause(clause: Clause, order: str = "main", front: str | None = None) -> list[str]:
    """Returns the German words of `clause` as a list of phrases.

    `order` is "main" (the verb is second), "final" (the verb is last) or "infinitive" (with "zu", no subject).
    `front` overrides `clause.front`.
    """
    front = clause.front if front is None else front
    finite, tail = _verb_forms(clause, order)
    fields = _fields(clause)
    opening = [fields.pop(front)] if front in fields else []
    if order == "main":
        parts = [*opening, finite, *fields.values(), *tail]
    elif order == "final":
        parts = [*opening, *fields.values(), *tail, finite]
    else:
        parts = [*fields.values(), finite]
    if isinstance(clause.object, NounPhrase) and clause.object.relative:
        parts += relative_clause(clause.object.relative)  # after the verbs: "hat den Hund gesehen, der schläft"
    return parts


def _fields(clause: Clause) -> dict[str, str]:
    """Returns the phrases of `clause` by role, without its verbs and in neutral order."""
    verb, time = clause.verb, clause.time.german if clause.time else ""
    direct = None if verb.preposition else clause.object
    no = clause.negated and is_indefinite(direct)
    late = _time_follows_object(clause, direct)
    fields = {"subject": german_nominal(clause.subject, NOMINATIVE)}
    if isinstance(direct, Pronoun):
        fields["object"] = german_nominal(direct, verb.case)
    if isinstance(clause.recipient, Pronoun):
        fields["recipient"] = german_nominal(clause.recipient, DATIVE)
    if time and not late:
        fields["time"] = time
    if clause.recipient and "recipient" not in fields:
        fields["recipient"] = german_nominal(clause.recipient, DATIVE)
    if direct and "object" not in fields:
        fields["object"] = german_nominal(direct, verb.case, negated=no, relative=False)
    if time and late:
        fields["time"] = time
    if clause.negated and not no:
        fields["negation"] = "nicht"
    fields |= _adverbials(clause)
    if clause.object and verb.preposition:
        fields["object"] = prepositional_phrase(verb.preposition, clause.object, verb.case)
    return fields


def _time_follows_object(clause: Clause, direct: Nominal | None) -> bool:
    """Returns whether the time of `clause` follows `direct`, its object if it has no preposition, else None."""
    if clause.time is None or direct is None or isinstance(direct, Pronoun):
        return False
    return is_definite(direct) if clause.time.middle else clause.negated and not is_indefinite(direct)


def _adverbials(clause: Clause) -> dict[str, str]:
    """Returns the predicate and the adverbials that follow the object, in neutral order."""
    fields = {}
    for role in ("manner", "companion", "place", "predicate"):
        value = getattr(clause, role)
        if isinstance(value, PrepositionalPhrase):
            fields[role] = prepositional_phrase(value.preposition.german, value.nominal, value.preposition.case)
        elif value:
            fields[role] = value.german
    return fields


def is_indefinite(nominal: Nominal | None) -> bool:
    """Returns whether "kein" negates a clause whose object is `nominal`."""
    return isinstance(nominal, NounPhrase) and nominal.determiner in (A, BARE) and "name" not in nominal.noun.kinds


def is_definite(nominal: Nominal) -> bool:
    """Returns whether adverbs such as "oft" follow `nominal` if it is the object."""
    if not isinstance(nominal, NounPhrase):
        return True
    determiner = nominal.determiner
    return "name" in nominal.noun.kinds or (
        determiner.declension not in ("none", "many") and determiner not in (A, EVERY)
    )


def _verb_forms(clause: Clause, order: str) -> tuple[str, list[str]]:
    """Returns the finite verb (or the infinitive with "zu") and the verb parts at the end of the clause."""
    verb, subject = clause.verb, clause.subject
    infinitive, third, participle = verb.german
    if order == "infinitive":
        return (f"{verb.prefix}zu{infinitive}" if verb.prefix else f"zu {infinitive}"), []
    if clause.modal:
        return _agree(subject, *clause.modal.german), [verb.prefix + infinitive]
    if clause.past and verb.preterite:
        ending = "n" if verb.preterite.endswith("e") else "en"
        return _agree(subject, verb.preterite, verb.preterite, verb.preterite + ending), []
    if clause.past:
        forms = ("bin", "ist", "sind") if verb.auxiliary == "sein" else ("habe", "hat", "haben")
        return _agree(subject, *forms), [participle]
    finite = _agree(subject, verb.first or infinitive[:-1], third, verb.plural or infinitive)
    if order == "final":
        return verb.prefix + finite, []
    return finite, [verb.prefix]


def _agree(subject: Nominal, first: str, third: str, plural: str) -> str:
    return plural if subject.plural else first if subject.person == 1 else third


def prepositional_phrase(preposition: str, nominal: Nominal, case: int) -> str:
    """Returns `preposition` with `nominal` in `case`. Some prepositions merge with a definite article: "im", "zur"."""
    text = german_nominal(nominal, case, relative=False)
    article, _, rest = text.partition(" ")
    merged = CONTRACTIONS.get((preposition, article)) if isinstance(nominal, NounPhrase) else None
    return f"{merged} {rest}" if merged else f"{preposition} {text}"


def german_nominal(nominal: Nominal, case: int, negated: bool = False, relative: bool = True) -> str:
    """Returns the German text of a noun phrase or pronoun in the case NOMINATIVE, ACCUSATIVE or DATIVE.

    `negated` turns its determiner into "kein". `relative` says whether to append its relative clause, if any.
    """
    if isinstance(nominal, Pronoun):
        return nominal.german[case]
    if isinstance(nominal, Pair):
        return f"{german_nominal(nominal.first, case)} und {german_nominal(nominal.second, case)}"
    if isinstance(nominal, Relative):
        return RELATIVE_PRONOUNS[_gender(nominal.head)][case]
    gender = _gender(nominal)
    determiner = NO if negated else nominal.determiner
    declension = determiner.declension
    words = [determiner.german + ARTICLE_ENDINGS[declension][gender][case]]
    if nominal.adjective:
        words.append(nominal.adjective.stem + ADJECTIVE_ENDINGS[declension][gender][case])
    words.append(noun_form(nominal.noun, nominal.plural, case))
    if relative and nominal.relative:
        words += relative_clause(nominal.relative)
    return " ".join(filter(None, words))


def _gender(phrase: NounPhrase) -> str:
    return "p" if phrase.plural else phrase.noun.gender


def noun_form(noun: Noun, plural: bool, case: int) -> str:
    """Returns the form of `noun` in a number and a case. Dative plurals and inflected weak nouns end in -n."""
    if plural:
        return noun.german_plural + ("n" if case == DATIVE and noun.german_plural[-1] not in "ns" else "")
    return noun.german + ("n" if noun.weak and case != NOMINATIVE else "")


def relative_clause(clause: Clause) -> list[str]:
    """Returns a relative clause between commas."""
    return [",", *german_clause(clause, "final"), ","]
