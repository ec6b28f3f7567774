"""The verbs of the `grammar_ende` problem, with the kinds of their subjects and objects."""

from dataclasses import dataclass
from typing import Any

from t2t_lite.problems.grammar_words import ACCUSATIVE, DATIVE


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb in both languages.

    `english` has the base form, third person, past and particle; `german` has the infinitive, third person and
    participle. The object is in `case`, after `preposition` if there is one. `places` names the group of prepositions
    for place phrases.
    """

    english: tuple[str, str, str, str]
    german: tuple[str, str, str]
    subjects: tuple[str, ...] = ("person",)
    objects: tuple[str, ...] = ()
    case: int = ACCUSATIVE
    preposition: str = ""
    prefix: str = ""
    auxiliary: str = "haben"
    places: str = ""
    manners: tuple[str, ...] = ()
    to: bool = False  # takes a recipient
    company: bool = False  # can be done with somebody
    favour: bool = False  # can be done for somebody
    stative: bool = False  # no modal verbs, no time phrases
    first: str = ""  # German first person if it differs from the infinitive without its n
    plural: str = ""  # German plural if it differs from the infinitive
    preterite: str = ""  # German preterite (singular) if it is used instead of the perfect


@dataclass(frozen=True, slots=True)
class Modal:
    """A modal verb. `english` has the plain and third-person forms; `to` is set if an infinitive with "to" follows."""

    english: tuple[str, str]
    german: tuple[str, str, str]  # first person, third person, plural
    to: bool = False


def _verb(english: str, german: str, subjects: str = "person", objects: str = "", **options: Any) -> Verb:
    """Parses a verb from "base third past [particle]" and "[prefix|]infinitive third participle"."""
    base, third, past, *particle = english.split(maxsplit=3)
    prefix, _, forms = german.rpartition("|")
    infinitive, third_german, participle = forms.split()
    forms_english = (base, third, past, particle[0] if particle else "")
    return Verb(
        forms_english,
        (infinitive, third_german, participle),
        tuple(subjects.split()),
        tuple(objects.split()),
        prefix=prefix,
        **options,
    )


BE = _verb("be is was", "sein ist gewesen", "person animal", first="bin", plural="sind", preterite="war", stative=True)
_BEING = "person animal"
_SIGHT = "person animal vehicle sight"
VERBS = (
    _verb("see sees saw", "sehen sieht gesehen", _BEING, _SIGHT, places="at"),
    _verb("find finds found", "finden findet gefunden", objects="animal small clothing", places="at"),
    _verb("look looks looked for", "suchen sucht gesucht", objects="person animal small", places="at"),
    _verb("draw draws drew", "zeichnen zeichnet gezeichnet", objects="person animal thing place", favour=True),
    _verb("hear hears heard", "hören hört gehört", _BEING, _BEING, places="at"),
    _verb("love loves loved", "lieben liebt geliebt", objects=_BEING, stative=True),
    _verb("need needs needed", "brauchen braucht gebraucht", objects="thing food dish drink", stative=True),
    _verb("buy buys bought", "kaufen kauft gekauft", objects="thing food dish drink", places="at", favour=True),
    _verb("sell sells sold", "verkaufen verkauft verkauft", objects="thing food dish drink", places="at"),
    _verb("eat eats ate", "essen isst gegessen", objects="food dish", places="at"),
    _verb("drink drinks drank", "trinken trinkt getrunken", objects="drink", places="at"),
    _verb("cook cooks cooked", "kochen kocht gekocht", objects="pot", favour=True),
    _verb("write writes wrote", "schreiben schreibt geschrieben", objects="writing", places="at"),
    _verb("carry carries carried", "tragen trägt getragen", objects="small furniture"),
    _verb("wash washes washed", "waschen wäscht gewaschen", objects="clothing vehicle"),
    _verb("repair repairs repaired", "reparieren repariert repariert", objects="vehicle device furniture", favour=True),
    _verb("clean cleans cleaned", "putzen putzt geputzt", objects="fixture room"),
    _verb("open opens opened", "öffnen öffnet geöffnet", objects="fixture container"),
    _verb("close closes closed", "schließen schließt geschlossen", objects="fixture"),
    _verb("visit visits visited", "besuchen besucht besucht", objects="person sight"),
    _verb("meet meets met", "treffen trifft getroffen", objects="person", places="at"),
    _verb("understand understands understood", "verstehen versteht verstanden", objects="person"),
    _verb("call calls called", "an|rufen ruft angerufen", objects="person"),
    _verb("invite invites invited", "ein|laden lädt eingeladen", objects="person"),
    _verb("pick picks picked up", "auf|heben hebt aufgehoben", objects="small"),
    _verb("throw throws threw away", "weg|werfen wirft weggeworfen", objects="small clothing"),
    _verb("bring brings brought along", "mit|bringen bringt mitgebracht", objects="small food dish drink"),
    _verb("turn turns turned on", "ein|schalten schaltet eingeschaltet", objects="device"),
    _verb("turn turns turned off", "aus|schalten schaltet ausgeschaltet", objects="device"),
    _verb("look looks looked at", "an|sehen sieht angesehen", _BEING, "person animal thing place"),
    _verb("give gives gave", "geben gibt gegeben", objects="small food", to=True),
    _verb("show shows showed", "zeigen zeigt gezeigt", objects="animal small place", to=True),
    _verb("send sends sent", "schicken schickt geschickt", objects="small clothing", to=True),
    _verb("bring brings brought", "bringen bringt gebracht", objects="small food dish drink", to=True),
    _verb("lend lends lent", "leihen leiht geliehen", objects="small vehicle clothing", to=True),
    _verb("help helps helped", "helfen hilft geholfen", objects=_BEING, case=DATIVE, places="at"),
    _verb("thank thanks thanked", "danken dankt gedankt", objects="person", case=DATIVE),
    _verb("follow follows followed", "folgen folgt gefolgt", _BEING, _BEING, case=DATIVE, auxiliary="sein"),
    _verb("listen listens listened to", "zu|hören hört zugehört", objects="person", case=DATIVE),
    _verb("wait waits waited for", "warten wartet gewartet", _BEING, "person", preposition="auf", places="at"),
    _verb("think thinks thought of", "denken denkt gedacht", objects="person place", preposition="an"),
    _verb(
        "dream dreams dreamed of",
        "träumen träumt geträumt",
        objects="person place thing",
        preposition="von",
        case=DATIVE,
    ),
    _verb("sleep sleeps slept", "schlafen schläft geschlafen", _BEING, places="at"),
    _verb("work works worked", "arbeiten arbeitet gearbeitet", places="at", manners=("quickly",), company=True),
    _verb("play plays played", "spielen spielt gespielt", _BEING, places="at", manners=("quietly",), company=True),
    _verb("sing sings sang", "singen singt gesungen", places="at", manners=("loudly", "quietly"), company=True),
    _verb("dance dances danced", "tanzen tanzt getanzt", places="at", manners=("slowly",), company=True),
    _verb("laugh laughs laughed", "lachen lacht gelacht", places="at", manners=("loudly", "quietly"), company=True),
    _verb("get gets got up", "auf|stehen steht aufgestanden", _BEING, auxiliary="sein", manners=("quickly", "slowly")),
    _verb("fall falls fell asleep", "ein|schlafen schläft eingeschlafen", _BEING, auxiliary="sein", places="at"),
    _verb("come comes came back", "zurück|kommen kommt zurückgekommen", _BEING, auxiliary="sein", places="from"),
    _verb("go goes went", "gehen geht gegangen", auxiliary="sein", places="to", manners=("slowly",), company=True),
    _verb("run runs ran", "laufen läuft gelaufen", _BEING, auxiliary="sein", places="to", manners=("quickly",)),
    _verb(
        "drive drives drove",
        "fahren fährt gefahren",
        auxiliary="sein",
        places="drive",
        company=True,
        manners=("quickly", "slowly"),
    ),
)
SAYING_VERBS = (
    _verb("say says said", "sagen sagt gesagt"),
    _verb("believe believes believed", "glauben glaubt geglaubt"),
    _verb("know knows knew", "wissen weiß gewusst", first="weiß", preterite="wusste"),
    _verb("hope hopes hoped", "hoffen hofft gehofft"),
)
MODALS = (
    Modal(("can", "can"), ("kann", "kann", "können")),
    Modal(("should", "should"), ("sollte", "sollte", "sollten")),
    Modal(("will", "will"), ("werde", "wird", "werden")),
    Modal(("want", "wants"), ("will", "will", "wollen"), to=True),
    Modal(("have", "has"), ("muss", "muss", "müssen"), to=True),
)
