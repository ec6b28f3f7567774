"""Finds dependencies between words in texts of the `grammar_ende` problem, using the grammar's lexicon.

The rules hold for all sentences that the grammar generates (`grammar_clauses` and `grammar_german` define the word
order). Ambiguous dependencies are left out.
"""

from collections import defaultdict
from collections.abc import Container

from t2t_lite.data.problem import Dependency
from t2t_lite.problems.grammar_german import RELATIVE_PRONOUNS, noun_form
from t2t_lite.problems.grammar_verbs import VERBS
from t2t_lite.problems.grammar_words import ACCUSATIVE, DATIVE, NOMINATIVE, NOUNS

PARTICLE = "separated particle -> its verb"
RELATIVE = "relative pronoun -> its noun"
IT = "it -> its antecedent"

_MARKS = ".,?"
_ENGLISH_NOUNS = {form for noun in NOUNS for form in (noun.english, noun.english_plural) if form}
_THINGS = {noun.english for noun in NOUNS if noun.kinds[0] != "person"}  # possible antecedents of "it"
_ENGLISH_PRONOUNS = ("who", "whom", "that")
# For each form of a German noun, its possible genders; p is the plural of all genders.
_GERMAN_NOUNS: dict[str, set[str]] = defaultdict(set)
for _noun in NOUNS:
    for _case in (NOMINATIVE, ACCUSATIVE, DATIVE):
        _GERMAN_NOUNS[noun_form(_noun, False, _case)].add(_noun.gender)
        if _noun.countable:
            _GERMAN_NOUNS[noun_form(_noun, True, _case)].add("p")
_GERMAN_PRONOUNS = {form for forms in RELATIVE_PRONOUNS.values() for form in forms}
_PREPOSITIONS = {verb.preposition for verb in VERBS} - {""}
# For each particle, the finite present forms of its verbs.
_FINITE: dict[str, set[str]] = defaultdict(set)
for _verb in VERBS:
    if _verb.prefix:
        _infinitive, _third, _ = _verb.german
        _FINITE[_verb.prefix] |= {_verb.first or _infinitive[:-1], _third, _verb.plural or _infinitive}


def dependencies_of(texts: tuple[str, str], sides: tuple[str, str]) -> list[Dependency]:
    """Returns the dependencies in an English text and in its German translation, given the names of their sides."""
    return [
        Dependency(relation, side, word, head)
        for find, text, side in zip((english_dependencies, german_dependencies), texts, sides)
        for relation, word, head in find(text)
    ]


def english_dependencies(text: str) -> list[tuple[str, int, int]]:
    """Returns (relation, word, head) triples for an English sentence. Words are split at spaces and counted from 0."""
    words = _words(text)
    dependencies = []
    for place, word in enumerate(words):
        # After a verb, "that" begins a clause ("says that"). At the start, "who" asks a question.
        if word in _ENGLISH_PRONOUNS and place and words[place - 1] in _ENGLISH_NOUNS:
            dependencies.append((RELATIVE, place, place - 1))
        elif word == "it":
            # The antecedent precedes it, or is in the main clause that follows: "if it sleeps in the park, the dog ..."
            before = [other for other in range(place) if words[other] in _THINGS]
            things = before or [other for other in range(_after_comma(text), len(words)) if words[other] in _THINGS]
            if len(things) == 1:
                dependencies.append((IT, place, things[0]))
    return dependencies


def _after_comma(text: str) -> int:
    """Returns the index of the first word after a comma, or the number of words if there is no comma."""
    words = text.split()
    return next((place + 1 for place, word in enumerate(words) if word.endswith(",")), len(words))


def german_dependencies(text: str) -> list[tuple[str, int, int]]:
    """Returns (relation, word, head) triples for a German sentence. Words are split at spaces and counted from 0."""
    return _particles(text) + _relative_pronouns(text)


def _particles(text: str) -> list[tuple[str, int, int]]:
    """Finds particles at the end of a clause: "hebt den Apfel auf"."""
    marked, words = text.split(), _words(text, _GERMAN_NOUNS)
    dependencies = []
    for place, word in enumerate(words):
        ends = marked[place] != word or words[place + 1 : place + 2] == ["und"]
        if word not in _FINITE or not ends:
            continue
        verbs = [other for other in range(place) if words[other] in _FINITE[word]]
        # The last such verb belongs to this clause, unless another clause is in between.
        if verbs and not any(part.endswith(",") for part in marked[verbs[-1] : place]):
            dependencies.append((PARTICLE, place, verbs[-1]))
    return dependencies


def _relative_pronouns(text: str) -> list[tuple[str, int, int]]:
    """Finds pronouns after a comma. Each refers to the last noun before the comma: "hat den Apfel gesehen, der"."""
    marked, words = text.split(), [*_words(text, _GERMAN_NOUNS), "", ""]  # two extra, if the text ends with a comma
    dependencies, inside = [], False
    for comma in (place for place, part in enumerate(marked) if part.endswith(",")):
        if inside:
            inside = False  # the comma ends a relative clause; an article may follow
            continue
        place = comma + 2 if words[comma + 1] in _PREPOSITIONS else comma + 1
        if words[place] not in _GERMAN_PRONOUNS:
            continue
        inside = True
        nouns = [other for other in range(comma + 1) if words[other] in _GERMAN_NOUNS]
        if nouns and _agree(words[nouns[-1]], words[place]):
            dependencies.append((RELATIVE, place, nouns[-1]))
    return dependencies


def _agree(noun: str, pronoun: str) -> bool:
    return any(pronoun in RELATIVE_PRONOUNS[gender] for gender in _GERMAN_NOUNS[noun])


def _words(text: str, nouns: Container[str] = ()) -> list[str]:
    """Returns the words without punctuation. The first word loses its capital unless it is one of `nouns`."""
    words = [word.rstrip(_MARKS) for word in text.split()]
    if words and words[0] not in nouns:
        words[0] = words[0][:1].lower() + words[0][1:]
    return words
