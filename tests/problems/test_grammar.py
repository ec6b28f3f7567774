"""The grammar problem: what it promises about its samples, and German checked against sentences written by hand."""

import itertools
from collections import defaultdict

import pytest

from t2t_lite.problems import grammar_verbs as verbs
from t2t_lite.problems import grammar_words as words
from t2t_lite.problems.grammar import GrammarEnde, sentence_pairs, split_of
from t2t_lite.problems.grammar_clauses import (
    Clause,
    NounPhrase,
    Pair,
    PrepositionalPhrase,
    Relative,
    Sentence,
    english_nominal,
    english_sentence,
)
from t2t_lite.problems.grammar_german import german_nominal, german_sentence, noun_form, prepositional_phrase

SAMPLES = 50_000
ICH, ER, SIE, WIR, SIE_PLURAL = words.PRONOUNS
OUR = words.POSSESSIVES[3]
TWO, MANY = words.AMOUNTS[0], words.AMOUNTS[3]
CAN, SHOULD, WILL, WANT, HAVE_TO = verbs.MODALS


@pytest.fixture(scope="module")
def pairs():
    return list(itertools.islice(sentence_pairs(1), SAMPLES))


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
    # With N sentences n samples collide n^2 / 2N times if all are alike; as they are not, this is less than N.
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


def test_splits_are_disjoint_and_of_their_sizes(pairs):
    shares = defaultdict(int)
    for english, _ in pairs:
        shares[split_of(english)] += 1
    assert set(shares) == {"train", "dev", "test"}
    assert 0.005 < shares["dev"] / SAMPLES < 0.015 and 0.005 < shares["test"] / SAMPLES < 0.015

    class Small(GrammarEnde):
        num_examples = {"train": 2000, "dev": 50, "test": 50}

    problem = Small()
    splits = {split: [example.inputs for example in problem.examples(split, {})] for split in Small.num_examples}
    assert {split: len(set(inputs)) for split, inputs in splits.items()} == Small.num_examples
    assert all(split_of(text) == split for split, inputs in splits.items() for text in inputs)


def test_split_of_does_not_change():
    assert split_of("The old man sees the small dogs because he is not tired.") == "train"


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


def because(clause):
    return Sentence(Clause(ICH, verb("laugh")), words.BECAUSE, clause)


def relative_subject(head, *arguments, **options):
    head.relative = Clause(Relative(head), *arguments, **options)
    return head


def relative_object(head, *arguments, **options):
    head.relative = Clause(*arguments, object=Relative(head), front="object", **options)
    return head


PICK_UP = (SIE, verb("pick up"))
SENTENCES = [
    # the example of the problem's description
    (
        Sentence(
            Clause(the("man", "old"), verb("see"), object=the("dog", "small", True)),
            words.BECAUSE,
            Clause(ER, verbs.BE, predicate=adjective_of("tired"), negated=True),
        ),
        "The old man sees the small dogs because he is not tired.",
        "Der alte Mann sieht die kleinen Hunde, weil er nicht müde ist.",
    ),
    # separable verbs
    (Clause(*PICK_UP, object=the("book")), "She picks up the book.", "Sie hebt das Buch auf."),
    (
        because(Clause(*PICK_UP, object=the("book"))),
        "I laugh because she picks up the book.",
        "Ich lache, weil sie das Buch aufhebt.",
    ),
    (Clause(*PICK_UP, past=True, object=the("book")), "She picked up the book.", "Sie hat das Buch aufgehoben."),
    (
        because(Clause(*PICK_UP, past=True, object=the("book"))),
        "I laugh because she picked up the book.",
        "Ich lache, weil sie das Buch aufgehoben hat.",
    ),
    (
        Clause(*PICK_UP, modal=HAVE_TO, object=the("book")),
        "She has to pick up the book.",
        "Sie muss das Buch aufheben.",
    ),
    (
        because(Clause(*PICK_UP, modal=WANT, object=the("book"), negated=True)),
        "I laugh because she does not want to pick up the book.",
        "Ich lache, weil sie das Buch nicht aufheben will.",
    ),
    (
        Sentence(
            Clause(SIE, verb("go"), place=place("into", the("house"))),
            words.IN_ORDER,
            Clause(*PICK_UP, object=the("book")),
        ),
        "She goes into the house to pick up the book.",
        "Sie geht ins Haus, um das Buch aufzuheben.",
    ),
    (
        Sentence(
            Clause(SIE, verb("run"), past=True, place=place("to", the("station"))),
            words.IN_ORDER,
            Clause(SIE, verb("meet"), object=name("Paul")),
        ),
        "She ran to the station to meet Paul.",
        "Sie ist zum Bahnhof gelaufen, um Paul zu treffen.",
    ),
    # verb second
    (
        Clause(the("man"), verb("buy"), object=some("bread"), time=time("today"), front="time"),
        "Today the man buys bread.",
        "Heute kauft der Mann Brot.",
    ),
    (
        Clause(
            the("child", None, True), verb("play"), place=place("in", the("garden")), time=time("now"), front="place"
        ),
        "In the garden the children play now.",
        "Im Garten spielen die Kinder jetzt.",
    ),
    (
        Sentence(
            Clause(ER, verb("fall asleep")),
            words.IF,
            Clause(the("boy"), verbs.BE, predicate=adjective_of("tired")),
            True,
        ),
        "If the boy is tired, he falls asleep.",
        "Wenn der Junge müde ist, schläft er ein.",
    ),
    # perfect with "sein", pasts without it, modals
    (
        Clause(WIR, verb("drive"), past=True, place=place("to", the("school")), time=time("yesterday")),
        "We drove to the school yesterday.",
        "Wir sind gestern zur Schule gefahren.",
    ),
    (
        Clause(the("girl", None, True), verbs.BE, past=True, predicate=adjective_of("happy")),
        "The girls were happy.",
        "Die Mädchen waren glücklich.",
    ),
    (Clause(ICH, verbs.BE, predicate=adjective_of("hungry")), "I am hungry.", "Ich bin hungrig."),
    (
        Sentence(
            Clause(SIE_PLURAL, verb("know"), past=True), words.THAT, Clause(name("Paul"), verb("come back"), past=True)
        ),
        "They knew that Paul came back.",
        "Sie wussten, dass Paul zurückgekommen ist.",
    ),
    (
        Clause(WIR, verb("work"), modal=SHOULD, time=time("tomorrow")),
        "We should work tomorrow.",
        "Wir sollten morgen arbeiten.",
    ),
    (
        Clause(ICH, verb("sing"), modal=WILL, manner=words.MANNERS["loudly"]),
        "I will sing loudly.",
        "Ich werde laut singen.",
    ),
    # negation
    (
        Clause(ER, verb("buy"), object=a("car", "new"), negated=True),
        "He does not buy a new car.",
        "Er kauft kein neues Auto.",
    ),
    (
        Clause(ER, verb("drink"), modal=CAN, object=some("milk"), negated=True),
        "He cannot drink milk.",
        "Er kann keine Milch trinken.",
    ),
    (
        Clause(ER, verb("buy"), object=the("car"), time=time("today"), negated=True),
        "He does not buy the car today.",
        "Er kauft das Auto heute nicht.",
    ),
    (Clause(ER, verb("love"), object=name("Anna"), negated=True), "He does not love Anna.", "Er liebt Anna nicht."),
    (
        Clause(ER, verb("wait for"), past=True, object=the("boy"), negated=True),
        "He did not wait for the boy.",
        "Er hat nicht auf den Jungen gewartet.",
    ),
    (
        Clause(ER, verb("open"), object=the("door"), time=time("never")),
        "He never opens the door.",
        "Er öffnet die Tür nie.",
    ),
    (
        Clause(ER, verb("buy"), object=a("apple"), time=time("often")),
        "He often buys an apple.",
        "Er kauft oft einen Apfel.",
    ),
    # objects in the dative, with both objects, pronouns
    (
        Clause(the("woman"), verb("give"), object=the("key"), recipient=the("child", "small")),
        "The woman gives the key to the small child.",
        "Die Frau gibt dem kleinen Kind den Schlüssel.",
    ),
    (
        Clause(the("woman"), verb("show"), past=True, object=a("picture"), recipient=SIE_PLURAL, time=time("today")),
        "The woman showed a picture to them today.",
        "Die Frau hat ihnen heute ein Bild gezeigt.",
    ),
    (
        Clause(the("doctor", None, True), verb("help"), object=the("neighbor")),
        "The doctors help the neighbor.",
        "Die Ärzte helfen dem Nachbarn.",
    ),
    (Clause(SIE, verb("listen to"), object=ER), "She listens to him.", "Sie hört ihm zu."),
    (
        Clause(ICH, verb("dream of"), object=the("house", "old")),
        "I dream of the old house.",
        "Ich träume vom alten Haus.",
    ),
    # questions
    (
        Clause(the("man"), verb("see"), object=ICH, question=True, front=""),
        "Does the man see me?",
        "Sieht der Mann mich?",
    ),
    (
        Clause(SIE_PLURAL, verb("invite"), past=True, object=WIR, question=True, front=""),
        "Did they invite us?",
        "Haben sie uns eingeladen?",
    ),
    (
        Clause(words.WHO, verb("call"), object=the("doctor"), question=True),
        "Who calls the doctor?",
        "Wer ruft den Arzt an?",
    ),
    (
        Clause(the("girl"), verb("thank"), object=words.WHO, question=True, front="object"),
        "Whom does the girl thank?",
        "Wem dankt das Mädchen?",
    ),
    (
        Clause(SIE, verb("wait for"), object=words.WHO, question=True, front="object"),
        "Whom does she wait for?",
        "Auf wen wartet sie?",
    ),
    (
        Clause(ER, verb("throw away"), past=True, object=words.WHAT, question=True, front="object"),
        "What did he throw away?",
        "Was hat er weggeworfen?",
    ),
    (Clause(ER, verb("go"), place=words.WHERE_TO, question=True, front="place"), "Where does he go?", "Wohin geht er?"),
    (
        Clause(ER, verbs.BE, predicate=adjective_of("sad"), time=words.WHY, question=True, front="time"),
        "Why is he sad?",
        "Warum ist er traurig?",
    ),
    # relative clauses
    (
        Clause(relative_subject(the("man"), verb("buy"), object=the("bread")), verb("laugh")),
        "The man who buys the bread laughs.",
        "Der Mann, der das Brot kauft, lacht.",
    ),
    (
        Clause(ICH, verb("see"), past=True, object=relative_object(the("dog"), the("woman"), verb("love"))),
        "I saw the dog that the woman loves.",
        "Ich habe den Hund gesehen, den die Frau liebt.",
    ),
    (
        Clause(relative_object(the("child", None, True), SIE, verb("help"), past=True), verb("sleep")),
        "The children whom she helped sleep.",
        "Die Kinder, denen sie geholfen hat, schlafen.",
    ),
    (
        Clause(relative_object(the("woman"), WIR, verb("wait for")), verb("fall asleep"), past=True),
        "The woman whom we wait for fell asleep.",
        "Die Frau, auf die wir warten, ist eingeschlafen.",
    ),
    (
        Clause(SIE, verb("pick up"), object=relative_subject(the("cup"), verbs.BE, predicate=adjective_of("dirty"))),
        "She picks up the cup that is dirty.",
        "Sie hebt die Tasse auf, die schmutzig ist.",
    ),
    # "it" agrees with what it stands for; two main clauses
    (
        Sentence(
            Clause(ER, verb("need"), object=the("lamp")),
            words.ALTHOUGH,
            Clause(words.IT["f"], verbs.BE, predicate=adjective_of("expensive")),
        ),
        "He needs the lamp although it is expensive.",
        "Er braucht die Lampe, obwohl sie teuer ist.",
    ),
    (
        Sentence(Clause(the("man"), verb("cook"), object=some("soup")), words.AND, Clause(SIE, verb("sing"))),
        "The man cooks soup, and she sings.",
        "Der Mann kocht Suppe und sie singt.",
    ),
    (
        Sentence(Clause(the("man"), verb("sleep")), words.BUT, Clause(SIE, verb("get up"))),
        "The man sleeps, but she gets up.",
        "Der Mann schläft, aber sie steht auf.",
    ),
]


@pytest.mark.parametrize("sentence, english, german", SENTENCES, ids=[row[1] for row in SENTENCES])
def test_sentence(sentence, english, german):
    whole = Sentence(sentence) if isinstance(sentence, Clause) else sentence
    assert (english_sentence(whole), german_sentence(whole)) == (english, german)
