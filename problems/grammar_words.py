"""The words of the problem `grammar_ende`, English and German, in one table.

The English alone must determine the German. The table therefore has no English word with two common translations, no
"you", and no verb whose past equals its present ("read"). Kinds make sentences plausible: they limit the objects of a
verb, the adjectives of a noun and the nouns behind a preposition.
"""

from collections.abc import Iterator
from typing import NamedTuple

NOMINATIVE, ACCUSATIVE, DATIVE = range(3)
FIRST, SINGULAR, PLURAL = range(3)  # what a verb agrees with: "I", a singular such as "he", a plural such as "we"
Forms = tuple[str, str, str]  # German cases; or forms of a verb by what it agrees with

# Kinds: nouns with their plurals, the German ones behind the article. The first kind is the class of the noun. A noun
# of the kind "weak" ends in -n except in the singular nominative.
_NOUNS = """\
person: man men der Mann Männer, woman women die Frau Frauen, child children das Kind Kinder
person: girl girls das Mädchen Mädchen, son sons der Sohn Söhne, daughter daughters die Tochter Töchter
person: brother brothers der Bruder Brüder, sister sisters die Schwester Schwestern, uncle uncles der Onkel Onkel
person: aunt aunts die Tante Tanten, teacher teachers der Lehrer Lehrer, doctor doctors der Arzt Ärzte
person weak: boy boys der Junge Jungen, neighbor neighbors der Nachbar Nachbarn
person name: Anna die Anna, Maria die Maria, Julia die Julia, Peter der Peter, Paul der Paul, Thomas der Thomas
animal: dog dogs der Hund Hunde, cat cats die Katze Katzen, horse horses das Pferd Pferde
animal: bird birds der Vogel Vögel, cow cows die Kuh Kühe, rabbit rabbits das Kaninchen Kaninchen
thing small: key keys der Schlüssel Schlüssel, picture pictures das Bild Bilder, bottle bottles die Flasche Flaschen
thing small: ball balls der Ball Bälle, cup cups die Tasse Tassen, gift gifts das Geschenk Geschenke
thing small writing: book books das Buch Bücher, letter letters der Brief Briefe
thing clothing: coat coats der Mantel Mäntel, shirt shirts das Hemd Hemden, bag bags die Tasche Taschen
thing furniture: table tables der Tisch Tische, chair chairs der Stuhl Stühle
thing device: lamp lamps die Lampe Lampen, radio radios das Radio Radios
thing vehicle: car cars das Auto Autos, bicycle bicycles das Fahrrad Fahrräder
thing fixture: door doors die Tür Türen, window windows das Fenster Fenster
food: apple apples der Apfel Äpfel, cake cakes der Kuchen Kuchen, bread das Brot, cheese der Käse
food cooked: egg eggs das Ei Eier, potato potatoes die Kartoffel Kartoffeln, soup die Suppe
drink: water das Wasser, milk die Milch, tea der Tee, coffee der Kaffee
place inside: garden gardens der Garten Gärten, forest forests der Wald Wälder, room rooms das Zimmer Zimmer
place inside: kitchen kitchens die Küche Küchen, city cities die Stadt Städte, village villages das Dorf Dörfer
place inside goal: house houses das Haus Häuser, school schools die Schule Schulen, park parks der Park Parks
place inside goal: hotel hotels das Hotel Hotels, museum museums das Museum Museen, church churches die Kirche Kirchen
place goal: station stations der Bahnhof Bahnhöfe, river rivers der Fluss Flüsse
"""

# The kinds of nouns that they describe: adjectives. One of the kind "state" can be a predicate.
_ADJECTIVES = """\
person: famous berühmt
person animal: young jung, strong stark, clever klug
person animal thing place: old alt, beautiful schön
person state: happy glücklich, sad traurig
person animal state: friendly freundlich, tired müde, hungry hungrig, sick krank
animal thing: black schwarz, white weiß
animal thing food place: small klein, big groß
animal thing state: dirty schmutzig
thing: red rot, blue blau
thing state: new neu
thing food drink state: cheap billig, expensive teuer
food drink state: good gut, fresh frisch, cold kalt, warm warm
place: dark dunkel
"""

# Base form, third person, past and particle | infinitive, third person and participle | kinds of objects | options: who
# does it ("person", "animal", "that" for a person who says that ...), a preposition or "dative" for the German object,
# "sein" in the perfect, "recipient" (to somebody), "company" (with somebody), "stative" (no modal verb, no time) and
# where it can happen (a key of `PLACES`).
_VERBS = """\
see sees saw              | sehen sieht gesehen                 | person animal vehicle     | person animal at
find finds found          | finden findet gefunden              | animal small clothing     | person at
look looks looked for     | suchen sucht gesucht                | person animal small       | person at
hear hears heard          | hören hört gehört                   | person animal             | person animal at
love loves loved          | lieben liebt geliebt                | person animal             | person stative
need needs needed         | brauchen braucht gebraucht          | thing food drink          | person stative
buy buys bought           | kaufen kauft gekauft                | thing food drink          | person at
eat eats ate              | essen isst gegessen                 | food                      | person at
drink drinks drank        | trinken trinkt getrunken            | drink                     | person at
cook cooks cooked         | kochen kocht gekocht                | cooked                    | person
write writes wrote        | schreiben schreibt geschrieben      | writing                   | person at
wash washes washed        | waschen wäscht gewaschen            | clothing vehicle          | person
repair repairs repaired   | reparieren repariert repariert      | vehicle device furniture  | person
open opens opened         | öffnen öffnet geöffnet              | fixture                   | person
visit visits visited      | besuchen besucht besucht            | person goal               | person
call calls called         | an-rufen ruft angerufen             | person                    | person
invite invites invited    | ein-laden lädt eingeladen           | person                    | person
pick picks picked up      | auf-heben hebt aufgehoben           | small                     | person
throw throws threw away   | weg-werfen wirft weggeworfen        | small clothing            | person
bring brings brought along| mit-bringen bringt mitgebracht      | small food drink          | person
turn turns turned on      | ein-schalten schaltet eingeschaltet | device                    | person
turn turns turned off     | aus-schalten schaltet ausgeschaltet | device                    | person
look looks looked at      | an-sehen sieht angesehen            | person animal thing place | person animal
give gives gave           | geben gibt gegeben                  | small food                | person recipient
show shows showed         | zeigen zeigt gezeigt                | animal small place        | person recipient
help helps helped         | helfen hilft geholfen               | person animal             | person animal dative at
thank thanks thanked      | danken dankt gedankt                | person                    | person dative
follow follows followed   | folgen folgt gefolgt                | person animal             | person animal dative sein
listen listens listened to| zu-hören hört zugehört              | person                    | person dative
wait waits waited for     | warten wartet gewartet              | person                    | person animal auf at
dream dreams dreamed of   | träumen träumt geträumt             | person thing place        | person von dative
sleep sleeps slept        | schlafen schläft geschlafen         |                           | person animal at
play plays played         | spielen spielt gespielt             |                           | person animal at company
sing sings sang           | singen singt gesungen               |                           | person at company
laugh laughs laughed      | lachen lacht gelacht                |                           | person at company
get gets got up           | auf-stehen steht aufgestanden       |                           | person animal sein
fall falls fell asleep    | ein-schlafen schläft eingeschlafen  |                           | person animal sein at
come comes came back      | zurück-kommen kommt zurückgekommen  |                           | person animal sein from
go goes went              | gehen geht gegangen                 |                           | person sein to company
run runs ran              | laufen läuft gelaufen               |                           | person animal sein to
say says said             | sagen sagt gesagt                   |                           | that stative
hope hopes hoped          | hoffen hofft gehofft                |                           | that stative
"""


class Noun(NamedTuple):
    """A noun; `english_plural` is "" if it has none, `gender` is m, f or n."""

    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: str
    kinds: tuple[str, ...]


class Verb(NamedTuple):
    """A verb. `particle` is "up" in "pick up" and "to" in "want to", `prefix` is "auf" in "aufheben"."""

    base: str
    present: Forms
    past: Forms
    particle: str
    german_present: Forms
    infinitive: str = ""
    participle: str = ""
    prefix: str = ""
    objects: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def option(self, *names: str) -> str:
        """Returns which of `names` is among the options, or ""."""
        return next((name for name in names if name in self.options), "")

    @property
    def governs(self) -> tuple[str, int, str]:
        """The object's role in a clause ("about" behind a German preposition), its case and the preposition."""
        preposition = self.option("auf", "von")
        return "about" if preposition else "object", DATIVE if self.option("dative") else ACCUSATIVE, preposition


class Determiner(NamedTuple):
    """A determiner: its English form for one thing and for more, its German stem and the kind of its endings."""

    english: str
    english_plural: str
    german: str
    endings: str  # "der", "dies", "ein", "viel" or "none"


class Pronoun(NamedTuple):
    """A pronoun: its English forms as a subject and an object, its German cases, and what verbs agree with."""

    english: tuple[str, str]
    german: Forms
    agreement: int = SINGULAR


def _entries(table: str) -> Iterator[tuple[list[str], tuple[str, ...]]]:
    for line in table.splitlines():
        kinds, entries = line.split(": ")
        for entry in entries.split(", "):
            yield entry.split(), tuple(kinds.split())


def _noun(kinds: tuple[str, ...], english: str, *forms: str) -> Noun:
    plural, article, german, german_plural = forms if len(forms) == 4 else ("", *forms, "")
    return Noun(english, plural, german, german_plural, {"der": "m", "die": "f", "das": "n"}[article], kinds)


def _verb(line: str) -> Verb:
    (base, third, past, *particle), german, *lists = (tuple(column.split()) for column in line.split("|"))
    prefix, _, infinitive = german[0].rpartition("-")
    english = base, (base, third, base), (past, past, past), " ".join(particle)
    return Verb(*english, (infinitive[:-1], german[1], infinitive), infinitive, german[2], prefix, *lists)


NOUNS = {forms[0]: _noun(kinds, *forms) for forms, kinds in _entries(_NOUNS)}
ADJECTIVES = {english: (german, kinds) for (english, german), kinds in _entries(_ADJECTIVES)}
VERBS = {f"{verb.base} {verb.particle}".strip(): verb for verb in map(_verb, _VERBS.splitlines())}
BE = Verb("be", ("am", "is", "are"), ("was", "was", "were"), "", ("bin", "ist", "sind"), options=("stative",))
MODALS = {
    "can": Verb("can", ("can", "can", "can"), ("", "", ""), "", ("kann", "kann", "können")),
    "should": Verb("should", ("should", "should", "should"), ("", "", ""), "", ("sollte", "sollte", "sollten")),
    "will": Verb("will", ("will", "will", "will"), ("", "", ""), "", ("werde", "wird", "werden")),
    "want": Verb("want", ("want", "wants", "want"), ("", "", ""), "to", ("will", "will", "wollen")),
    "have": Verb("have", ("have", "has", "have"), ("", "", ""), "to", ("muss", "muss", "müssen")),
}

THE, THIS = Determiner("the", "the", "d", "der"), Determiner("this", "these", "dies", "dies")
A, BARE = Determiner("a", "", "ein", "ein"), Determiner("", "", "", "none")
EVERY = Determiner("every", "", "jed", "dies")
NO = Determiner("a", "", "kein", "ein")  # an indefinite object in a negated clause
_POSSESSIVES = {"my": "mein", "his": "sein", "her": "ihr", "our": "unser", "their": "ihr"}
POSSESSIVES = {english: Determiner(english, english, german, "ein") for english, german in _POSSESSIVES.items()}
_AMOUNTS = {"two": ("zwei", "none"), "ten": ("zehn", "none"), "many": ("viel", "viel"), "some": ("einig", "viel")}
AMOUNTS = {english: Determiner("", english, *german) for english, german in _AMOUNTS.items()}

PRONOUNS = {
    "I": Pronoun(("I", "me"), ("ich", "mich", "mir"), FIRST),
    "he": Pronoun(("he", "him"), ("er", "ihn", "ihm")),
    "she": Pronoun(("she", "her"), ("sie", "sie", "ihr")),
    "we": Pronoun(("we", "us"), ("wir", "uns", "uns"), PLURAL),
    "they": Pronoun(("they", "them"), ("sie", "sie", "ihnen"), PLURAL),
}
_IT = {"m": ("er", "ihn", "ihm"), "f": ("sie", "sie", "ihr"), "n": ("es", "es", "ihm")}
IT = {gender: Pronoun(("it", "it"), german) for gender, german in _IT.items()}
WHO, WHAT = Pronoun(("who", "whom"), ("wer", "wen", "wem")), Pronoun(("what", "what"), ("was", "was", ""))

# English preposition, German preposition, its case, and the kind of the nouns behind it.
PLACES = {
    "at": (("in", "in", DATIVE, "inside"), ("behind", "hinter", DATIVE, "goal")),
    "to": (("to", "zu", DATIVE, "goal"), ("into", "in", ACCUSATIVE, "inside")),
    "from": (("from", "aus", DATIVE, "inside"),),
}
TIMES = {
    "present": {"now": "jetzt", "today": "heute", "every day": "jeden Tag", "in winter": "im Winter"},
    "past": {"yesterday": "gestern", "last week": "letzte Woche", "on Monday": "am Montag", "in winter": "im Winter"},
    "modal": {"tomorrow": "morgen", "next week": "nächste Woche", "on Sunday": "am Sonntag", "today": "heute"},
}
LINKS = {"because": "weil", "although": "obwohl", "if": "wenn", "that": "dass", "and": "und", "but": "aber"}
