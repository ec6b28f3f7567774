"""Sentences of the grammar problem, English and German, one for each rule."""

import pytest
from support.grammar_phrases import (
    CAN,
    ER,
    HAVE_TO,
    ICH,
    SHOULD,
    SIE,
    SIE_PLURAL,
    WANT,
    WILL,
    WIR,
    a,
    adjective_of,
    name,
    place,
    some,
    the,
    time,
    verb,
)

from t2t_lite.problems import grammar_verbs as verbs
from t2t_lite.problems import grammar_words as words
from t2t_lite.problems.grammar_clauses import (
    Clause,
    Relative,
    Sentence,
    english_sentence,
)
from t2t_lite.problems.grammar_german import german_sentence


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
