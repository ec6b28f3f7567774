"""The lexicon of the `grammar_ende` problem: English words and their German translations.

Words have kinds ("person", "food", ...), which limit the subjects and objects of a verb and the adjectives of a noun,
so that sentences are plausible. Some kinds have another meaning: "he" and "she" nouns take that pronoun, "kin" nouns
usually have a possessive, "free" nouns never have one, and "state" adjectives can be predicates. The English alone must
determine the German, so the lexicon omits English words with two common translations, and verbs with the same form in
the present and the past ("read").
"""

from dataclasses import dataclass

NOMINATIVE, ACCUSATIVE, DATIVE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun in both languages. `gender` is m, f or n. `weak` adds -n in the singular accusative and dative."""

    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: str
    kinds: tuple[str, ...]  # the first is its class: person, animal, thing, food, dish, drink or place
    weak: bool = False

    @property
    def countable(self) -> bool:
        """Whether the noun has a plural."""
        return bool(self.english_plural)


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective. `german` is its predicate form, `stem` its form before endings. It describes nouns of `kinds`."""

    english: str
    german: str
    stem: str
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Determiner:
    """A determiner. `declension` names its German endings (der, dies, ein, many or none)."""

    english: str
    english_plural: str
    german: str
    declension: str


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A pronoun: its English subject and object forms, and its German nominative, accusative and dative."""

    english: tuple[str, str]
    german: tuple[str, str, str]
    person: int = 3
    plural: bool = False


@dataclass(frozen=True, slots=True)
class Adverbial:
    """A fixed phrase. `tenses` are the tenses that allow it; `middle` says whether English puts it before the verb."""

    english: str
    german: str
    tenses: tuple[str, ...] = ()
    middle: bool = False


@dataclass(frozen=True, slots=True)
class Preposition:
    """A preposition with the German case it governs and the kinds of nouns it takes."""

    english: str
    german: str
    case: int
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """A conjunction. `order` is the word order of the German clause after it (main, final, infinitive)."""

    english: str
    german: str
    order: str = "final"
    english_comma: bool = False
    german_comma: bool = True


def _noun(english: str, german: str, gender: str, kinds: str, weak: bool = False) -> Noun:
    """Makes a noun from "singular/plural" pairs. A noun without a plural is uncountable."""
    return Noun(*_pair(english), *_pair(german), gender, tuple(kinds.split()), weak)


def _pair(forms: str) -> tuple[str, str]:
    first, _, second = forms.partition("/")
    return first, second


def _adjective(english: str, german: str, kinds: str, stem: str = "") -> Adjective:
    return Adjective(english, german, stem or german, tuple(kinds.split()))


NOUNS = (
    _noun("man/men", "Mann/Männer", "m", "person he elder free"),
    _noun("woman/women", "Frau/Frauen", "f", "person she elder free"),
    _noun("child/children", "Kind/Kinder", "n", "person youth"),
    _noun("boy/boys", "Junge/Jungen", "m", "person he youth free", weak=True),
    _noun("girl/girls", "Mädchen/Mädchen", "n", "person she youth free"),
    _noun("brother/brothers", "Bruder/Brüder", "m", "person he youth kin"),
    _noun("sister/sisters", "Schwester/Schwestern", "f", "person she youth kin"),
    _noun("uncle/uncles", "Onkel/Onkel", "m", "person he elder kin"),
    _noun("aunt/aunts", "Tante/Tanten", "f", "person she elder kin"),
    _noun("son/sons", "Sohn/Söhne", "m", "person he youth kin"),
    _noun("daughter/daughters", "Tochter/Töchter", "f", "person she youth kin"),
    _noun("teacher/teachers", "Lehrer/Lehrer", "m", "person he elder"),
    _noun("doctor/doctors", "Arzt/Ärzte", "m", "person he elder"),
    _noun("neighbor/neighbors", "Nachbar/Nachbarn", "m", "person he elder", weak=True),
    _noun("dog/dogs", "Hund/Hunde", "m", "animal"),
    _noun("cat/cats", "Katze/Katzen", "f", "animal"),
    _noun("horse/horses", "Pferd/Pferde", "n", "animal"),
    _noun("bird/birds", "Vogel/Vögel", "m", "animal"),
    _noun("cow/cows", "Kuh/Kühe", "f", "animal"),
    _noun("rabbit/rabbits", "Kaninchen/Kaninchen", "n", "animal"),
    _noun("book/books", "Buch/Bücher", "n", "thing small writing"),
    _noun("letter/letters", "Brief/Briefe", "m", "thing small writing"),
    _noun("picture/pictures", "Bild/Bilder", "n", "thing small"),
    _noun("key/keys", "Schlüssel/Schlüssel", "m", "thing small"),
    _noun("bag/bags", "Tasche/Taschen", "f", "thing small container"),
    _noun("ball/balls", "Ball/Bälle", "m", "thing small"),
    _noun("cup/cups", "Tasse/Tassen", "f", "thing small"),
    _noun("bottle/bottles", "Flasche/Flaschen", "f", "thing small container"),
    _noun("gift/gifts", "Geschenk/Geschenke", "n", "thing small container"),
    _noun("coat/coats", "Mantel/Mäntel", "m", "thing clothing"),
    _noun("shirt/shirts", "Hemd/Hemden", "n", "thing clothing"),
    _noun("table/tables", "Tisch/Tische", "m", "thing furniture"),
    _noun("chair/chairs", "Stuhl/Stühle", "m", "thing furniture"),
    _noun("lamp/lamps", "Lampe/Lampen", "f", "thing device"),
    _noun("radio/radios", "Radio/Radios", "n", "thing device"),
    _noun("car/cars", "Auto/Autos", "n", "thing vehicle"),
    _noun("bicycle/bicycles", "Fahrrad/Fahrräder", "n", "thing vehicle"),
    _noun("door/doors", "Tür/Türen", "f", "thing fixture"),
    _noun("window/windows", "Fenster/Fenster", "n", "thing fixture"),
    _noun("apple/apples", "Apfel/Äpfel", "m", "food"),
    _noun("egg/eggs", "Ei/Eier", "n", "food pot"),
    _noun("potato/potatoes", "Kartoffel/Kartoffeln", "f", "food pot"),
    _noun("cake/cakes", "Kuchen/Kuchen", "m", "food"),
    _noun("bread", "Brot", "n", "dish"),
    _noun("cheese", "Käse", "m", "dish"),
    _noun("soup", "Suppe", "f", "dish pot"),
    _noun("water", "Wasser", "n", "drink"),
    _noun("milk", "Milch", "f", "drink"),
    _noun("tea", "Tee", "m", "drink"),
    _noun("coffee", "Kaffee", "m", "drink"),
    _noun("garden/gardens", "Garten/Gärten", "m", "place inside"),
    _noun("park/parks", "Park/Parks", "m", "place inside goal free"),
    _noun("kitchen/kitchens", "Küche/Küchen", "f", "place inside room"),
    _noun("room/rooms", "Zimmer/Zimmer", "n", "place inside room"),
    _noun("house/houses", "Haus/Häuser", "n", "place inside landmark room"),
    _noun("city/cities", "Stadt/Städte", "f", "place inside sight wide"),
    _noun("village/villages", "Dorf/Dörfer", "n", "place inside sight wide"),
    _noun("forest/forests", "Wald/Wälder", "m", "place inside free wide"),
    _noun("school/schools", "Schule/Schulen", "f", "place inside goal landmark"),
    _noun("museum/museums", "Museum/Museen", "n", "place inside sight goal landmark free"),
    _noun("church/churches", "Kirche/Kirchen", "f", "place inside sight goal landmark free"),
    _noun("hotel/hotels", "Hotel/Hotels", "n", "place inside goal landmark free"),
    _noun("station/stations", "Bahnhof/Bahnhöfe", "m", "place goal landmark free"),
    _noun("river/rivers", "Fluss/Flüsse", "m", "place goal shore free"),
    _noun("tree/trees", "Baum/Bäume", "m", "place landmark shade"),
)

NAMES = (
    _noun("Anna", "Anna", "f", "person she name"),
    _noun("Maria", "Maria", "f", "person she name"),
    _noun("Julia", "Julia", "f", "person she name"),
    _noun("Peter", "Peter", "m", "person he name"),
    _noun("Paul", "Paul", "m", "person he name"),
    _noun("Thomas", "Thomas", "m", "person he name"),
)

ADJECTIVES = (
    _adjective("old", "alt", "elder animal thing place"),
    _adjective("young", "jung", "elder kin animal"),
    _adjective("new", "neu", "thing state"),
    _adjective("small", "klein", "youth animal thing food place"),
    _adjective("big", "groß", "animal thing food place"),
    _adjective("good", "gut", "food dish drink state"),
    _adjective("beautiful", "schön", "person animal thing place"),
    _adjective("famous", "berühmt", "person"),
    _adjective("friendly", "freundlich", "person animal state"),
    _adjective("tired", "müde", "person animal state", "müd"),
    _adjective("hungry", "hungrig", "person animal state"),
    _adjective("sick", "krank", "person animal state"),
    _adjective("happy", "glücklich", "person state"),
    _adjective("sad", "traurig", "person state"),
    _adjective("strong", "stark", "person animal"),
    _adjective("clever", "klug", "person animal"),
    _adjective("red", "rot", "thing"),
    _adjective("blue", "blau", "thing"),
    _adjective("black", "schwarz", "animal thing"),
    _adjective("white", "weiß", "animal thing"),
    _adjective("cheap", "billig", "thing food dish drink state"),
    _adjective("expensive", "teuer", "thing food dish drink state", "teur"),
    _adjective("dirty", "schmutzig", "animal thing state"),
    _adjective("fresh", "frisch", "food dish state"),
    _adjective("cold", "kalt", "dish drink state"),
    _adjective("warm", "warm", "dish drink state"),
    _adjective("dark", "dunkel", "place", "dunkl"),
)

THE = Determiner("the", "the", "", "der")
A = Determiner("a", "", "ein", "ein")
NO = Determiner("no", "no", "kein", "ein")  # used only in German, for indefinite objects of negated sentences
BARE = Determiner("", "", "", "none")
THIS = Determiner("this", "these", "dies", "dies")
EVERY = Determiner("every", "", "jed", "dies")
POSSESSIVES = tuple(
    Determiner(english, english, german, "ein")
    for english, german in (("my", "mein"), ("his", "sein"), ("her", "ihr"), ("our", "unser"), ("their", "ihr"))
)
AMOUNTS = (
    Determiner("", "two", "zwei", "none"),
    Determiner("", "three", "drei", "none"),
    Determiner("", "ten", "zehn", "none"),
    Determiner("", "many", "viel", "many"),
    Determiner("", "some", "einig", "many"),
)

HE = Pronoun(("he", "him"), ("er", "ihn", "ihm"))
SHE = Pronoun(("she", "her"), ("sie", "sie", "ihr"))
WE = Pronoun(("we", "us"), ("wir", "uns", "uns"), person=1, plural=True)
THEY = Pronoun(("they", "them"), ("sie", "sie", "ihnen"), plural=True)
PRONOUNS = (Pronoun(("I", "me"), ("ich", "mich", "mir"), person=1), HE, SHE, WE, THEY)
IT = {
    "m": Pronoun(("it", "it"), HE.german),
    "f": Pronoun(("it", "it"), SHE.german),
    "n": Pronoun(("it", "it"), ("es", "es", "ihm")),
}
WHO = Pronoun(("who", "whom"), ("wer", "wen", "wem"))
WHAT = Pronoun(("what", "what"), ("was", "was", ""))

_ANY = ("present", "past", "modal")
TIMES = (
    Adverbial("today", "heute", _ANY),
    Adverbial("in the evening", "am Abend", _ANY),
    Adverbial("on Monday", "am Montag", ("past", "modal")),
    Adverbial("on Sunday", "am Sonntag", ("past", "modal")),
    Adverbial("yesterday", "gestern", ("past",)),
    Adverbial("last week", "letzte Woche", ("past",)),
    Adverbial("tomorrow", "morgen", ("modal",)),
    Adverbial("next week", "nächste Woche", ("modal",)),
    Adverbial("now", "jetzt", ("present",)),
    Adverbial("every day", "jeden Tag", ("present", "past")),
    Adverbial("in winter", "im Winter", ("present", "past")),
    Adverbial("often", "oft", ("present", "past"), middle=True),
    Adverbial("always", "immer", ("present", "past"), middle=True),
    Adverbial("sometimes", "manchmal", ("present", "past"), middle=True),
    Adverbial("never", "nie", ("present", "past"), middle=True),
)
MANNERS = {
    english: Adverbial(english, german)
    for english, german in (("quickly", "schnell"), ("slowly", "langsam"), ("loudly", "laut"), ("quietly", "leise"))
}
WHERE, WHERE_TO = Adverbial("where", "wo"), Adverbial("where", "wohin")
WHEN, WHY = Adverbial("when", "wann"), Adverbial("why", "warum")

PREPOSITIONS = {
    "at": (
        Preposition("in", "in", DATIVE, ("inside",)),
        Preposition("behind", "hinter", DATIVE, ("landmark",)),
        Preposition("in front of", "vor", DATIVE, ("landmark",)),
        Preposition("at", "an", DATIVE, ("shore",)),
        Preposition("under", "unter", DATIVE, ("shade",)),
    ),
    "to": (Preposition("to", "zu", DATIVE, ("goal",)), Preposition("into", "in", ACCUSATIVE, ("inside",))),
    "drive": (Preposition("to", "zu", DATIVE, ("goal",)), Preposition("into", "in", ACCUSATIVE, ("wide",))),
    "from": (Preposition("from", "aus", DATIVE, ("inside",)),),
}
WITH = Preposition("with", "mit", DATIVE, ("person",))
FOR = Preposition("for", "für", ACCUSATIVE, ("person",))

BECAUSE, ALTHOUGH = Link("because", "weil"), Link("although", "obwohl")
IF, WHEN_EVER, WHILE = Link("if", "wenn"), Link("when", "wenn"), Link("while", "während")
THAT, IN_ORDER = Link("that", "dass"), Link("to", "um", "infinitive")
AND = Link("and", "und", "main", english_comma=True, german_comma=False)
BUT = Link("but", "aber", "main", english_comma=True)
