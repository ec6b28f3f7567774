"""Texts of requests: sentences and languages."""

import random

import pytest

from t2t_lite.serving import languages
from t2t_lite.serving.sentences import MAX_PART, split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Dr. Smith went home.  He slept!", ["Dr. Smith went home.", "He slept!"]),
        ("  First line.\n\n\tSecond line?\r\nThird", ["First line.", "Second line?", "Third"]),
        ("no end, no beginning", ["no end, no beginning"]),
        ("One line\ngoes on here.", ["One line", "goes on here."]),
        ("\ufeffA dog.\n\ufeffA cat.\n\ufeff", ["A dog.", "A cat."]),
        ("", []),
        (" \n \t", []),
    ],
)
def test_a_text_is_split_and_put_together_again(text, sentences):
    split = split_sentences(text, "en")
    assert split.sentences == sentences
    assert split.joined(split.sentences) == text
    wanted = text
    for sentence in sentences:
        wanted = wanted.replace(sentence, sentence.upper(), 1)
    assert split.joined([sentence.upper() for sentence in sentences]) == wanted


# "‖" is where a sentence ends, "⟩" the end of a list number, which stays outside the translation.
ENDS = {
    "en": """
        1. ⟩The woman sleeps.
        10. ⟩The woman sleeps.‖ The dog runs.
        1.1. ⟩The woman sleeps.
        IV. ⟩The woman sleeps.
        A. ⟩The woman sleeps.
        b) ⟩The woman sleeps.
        (3) ⟩the woman sleeps
        2. ⟩open the door
        1. ⟩"I see," she said.‖ He left.
        Go!‖ 1. ⟩Open it.‖ 2. ⟩Close it.
        1. 2. 3.
        Step 3. Open the door.‖ Go in.
        Fig. 1. A dog runs.
        Part II. The dog.
        It is shown in Fig. 1.‖ The dog runs.
        It is approx.
        It is approx. 5 km.‖ He walks.
        Children (incl. Anna) sleep.‖ It rains.
        See vol. 2.‖ It is good.
        His name is Max.‖ He sleeps.
        I see a dog.‖ It runs.
        He was born in 1990.‖ She was born in 1991.
        1990. It was a good year.
        It costs 3.5 dollars.‖ It is cheap.
        He came at 5:30.‖ She left at 6.
        It is 5 p.m. now.‖ It rains.
        Mr. Smith and Dr. Jones sleep.‖ Mrs. Smith runs.
        J. K. Rowling wrote it.‖ He read it.
        We live in the U.S. now.‖ He lives in the U.K.
        We live in the U.S.‖ He lives in France.
        See e.g. the dogs, cats, etc.‖ They run.
        No. 5 is alive.‖ No one knows.
        That is plan B.‖ He likes it.
        World War II.‖ It was bad.
        Wait...‖ He came.‖ Why?!‖ She knows.
        "I see."‖ He went.‖ (He went.)‖ She came.
    """,
    "de": """
        1. ⟩Die Frau schläft.
        10. ⟩Hunde laufen.‖ Katzen schlafen.
        IV. ⟩Die Frau schläft.
        A. ⟩Die Frau schläft.
        a) ⟩die Frau schläft
        1.) ⟩Die Frau schläft.
        Los!‖ 1. ⟩Öffnen.‖ 2. ⟩Schließen.
        1. FC Köln gewinnt.
        Der 1. FC Köln gewinnt.‖ Er jubelt.
        Im 19. Jahrhundert lebte er.‖ Sie auch.
        Seit dem 2. Weltkrieg lebt er hier.
        Die 1. Mannschaft und der 2. Platz.
        Er ist der 2.‖ Sie ist die 1.
        Er kam am 3. Oktober.‖ Dann kam sie.
        3. Oktober 1990
        2. deutsche Auflage
        Am 24. 12. 1990 schlief er.‖ Es war kalt.
        Schritt 3. Öffnen Sie die Tür.
        Abb. 1. Ein Hund.
        Es sind ca. 5 km.‖ Er läuft.
        Er mag bspw. Hunde und z. B. Katzen.‖ Sie nicht.
        Der Preis gilt inkl. Versand.
        D. h. er schläft.
        Er mag Hunde usw.‖ Sie mag Katzen.
        Hunde usw. sind Tiere.
        Er lebte 50 v. Chr.‖ Dann starb er.
        Er traf Friedrich II.‖ Er war König.
        Er wurde 1990 geboren.‖ Sie kam 1991.
        Er ist 19.‖ Sie ist 20.
        Er kam um 15.30 Uhr.‖ Sie kam um 16 Uhr.
        Es kostet 1.000 Euro oder 3,5 %.‖ Er zahlt.
        Dr. Müller und A. Schmidt schlafen.‖ Prof. Meier läuft.
        „Ich gehe.“‖ Er ging.‖ Warum?!‖ Sie blieb...‖ Er kam.
    """,
}
LINES = [(language, line.strip()) for language, lines in ENDS.items() for line in lines.strip().splitlines()]


@pytest.mark.parametrize(("language", "line"), LINES)
def test_numbers_and_abbreviations_end_no_sentence(language, line):
    text = line.translate({ord(mark): None for mark in "‖⟩"})
    split = split_sentences(text, language)
    assert split.sentences == [part.rpartition("⟩")[2].strip() for part in line.split("‖")]
    assert split.joined(split.sentences) == text
    # Of a text to parse, every character is in a sentence.
    together = split_sentences(text, language, apart=False)
    assert together.sentences == [part.replace("⟩", "").strip() for part in line.split("‖")]
    assert together.joined(together.sentences) == text


@pytest.mark.parametrize(
    ("text", "apart", "together"),
    [
        ("It rains. 😀", ["It rains.", "😀"], ["It rains. 😀"]),
        ("😀", ["😀"], ["😀"]),
        ("12\n***", ["12", "***"], ["12", "***"]),
        (
            'He said "I see. " Then he left.',
            ['He said "I see. "', "Then he left."],
            ['He said "I see. "', "Then he left."],
        ),
    ],
)
def test_what_has_no_letters_is_apart_or_joins_its_neighbour(text, apart, together):
    assert split_sentences(text, "en").sentences == apart
    assert split_sentences(text, "en", apart=False).sentences == together


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("language", ["en", "de", "zh", "pt-BR", "", "xx"])
def test_no_character_of_any_text_is_lost(language, apart):
    draw = random.Random(1)
    parts = ["A dog. ", "Dr. ", "\n", "\r\n", "\u2028", "\x00", "😀", "。", "\u00a0", "«Oui!» ", "...", "?!", "\t", "x"]
    parts += ["1. ", "1.1. ", "IV. ", "(a) ", "Step 3. ", "12", "approx. ", "Der 1. ", "FC ", "usw. ", "The "]
    for _ in range(300):
        text = "".join(draw.choices(parts, k=draw.randrange(12)))
        split = split_sentences(text, language, apart)
        assert split.joined(split.sentences) == text
        assert apart or "".join(split.between).isspace() or "".join(split.between) == ""
        assert all(sentence == sentence.strip() != "" and "\n" not in sentence for sentence in split.sentences)


def test_a_long_paragraph_is_cut_between_sentences_and_bounded_without_them():
    sentences = [f"The old man saw {number} dogs." for number in range(2_000)]
    assert split_sentences(" ".join(sentences), "en").sentences == sentences
    for text in ("' " * 60_000, '"' * 60_000, "a" * 30_000 + " b." * 10_000, "5. " * 20_000, "1. a " * 9_000):
        split = split_sentences(text, "en")
        assert split.joined(split.sentences) == text
        # Time is quadratic in the longest part.
        assert max(map(len, split.sentences)) <= MAX_PART


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        # case and underscores
        ("en de", {"EN": "en", "De": "de", "fr": None, "": None, "e": None, "auto": None, "english": None}),
        ("pt-BR zh-Hant", {"pt_br": "pt-BR", "PT-BR": "pt-BR", "zh_HANT": "zh-Hant"}),
        # a region or script that is not there
        ("pt", {"pt": "pt", "pt-BR": None, "pt_PT": None, "pt-Latn": "pt"}),
        ("de", {"de-AT": None, "de-DE": None, "de-1996": None, "de-Cyrl": None}),
        ("zh", {"zh": "zh", "zh-TW": None, "zh_Hant": None, "zt": None, "zh-Hans": "zh", "zh-CN": "zh"}),
        ("sr", {"sr": "sr", "sr-Cyrl": "sr", "sr_Latn": None, "sr-ME": None}),
        # the one asked for, of several
        ("pt pt-BR", {"pt": "pt", "pt_BR": "pt-BR", "pb": "pt-BR", "pt-PT": None}),
        ("zh zh-Hant", {"zh": "zh", "zh-CN": "zh", "zh_Hant": "zh-Hant", "zh-TW": "zh-Hant", "zt": "zh-Hant"}),
        ("zh-TW zh-CN zh-HK", {"zh": "zh-CN", "zh-Hans": "zh-CN", "zt": "zh-TW", "zh-Hant-HK": "zh-HK", "zh-SG": None}),
        ("sr sr-Latn", {"sr": "sr", "sr_Latn": "sr-Latn", "sr-Latn-RS": "sr-Latn", "sh": "sr-Latn", "sr-ME": None}),
        # a code without a region: the only region, or the likely one
        ("pt-BR", {"pt": "pt-BR", "pt-PT": None}),
        ("pt-PT", {"pt": "pt-PT", "pb": None}),
        ("pt-PT pt-BR", {"pt": "pt-BR", "pt-pt": "pt-PT"}),
        ("pt-PT pt-AO", {"pt": None}),
        ("zh-Hant", {"zh": None, "zh-TW": "zh-Hant", "zh-HK": None}),
        # other names of a language; codes of one's own
        ("he no", {"iw": "he", "heb": "he", "nb": None, "no": "no"}),
        ("qq x-own en-x-a-1", {"QQ": "qq", "x_own": "x-own", "x-other": None, "en-X-a-1": "en-x-a-1", "en": None}),
        ("pb zt", {"pb": "pb", "zt": "zt", "pt-BR": None}),
    ],
)
def test_a_code_finds_the_language_that_it_names(known, expected):
    assert {code: languages.nearest(code, known.split()) for code in expected} == expected


def test_codes_and_names_of_languages():
    codes = {"pt_br": "pt-BR", "ZH_hANT_tw": "zh-Hant-TW", "en": "en", "": "", "es-419": "es-419"}
    assert {code: languages.canonical(code) for code in codes} == codes
    names = {"en": "English", "de": "German", "pt-BR": "Portuguese (Brazil)", "qq": "qq"}
    assert {code: languages.language_name(code) for code in names} == names


def test_the_language_of_a_text_is_detected():
    texts = {
        "de": "Ein Mann fährt mit dem Fahrrad über die Straße.",
        "fr": "Un homme fait du vélo dans la rue avec son chien.",
        "en": "A man is riding his bicycle down the street.",
    }
    for code, text in texts.items():
        found = languages.detect(text, ("de", "fr", "en"))[0]
        assert found.language == code and 50 < found.confidence <= 100
    assert languages.detect(texts["de"], ("en", "de-AT"))[0].language == "de-AT"


@pytest.mark.parametrize("text", ["", " \n", "The dog.", "Un homme fait du vélo.", "12 %", "漢字", "\ud800"])
def test_only_the_given_languages_are_detected(text):
    for known in ((), ("en",), ("en", "de"), ("pt-BR", "qq", "zh-Hant"), ("qq",)):
        found = languages.detect(text, known)
        assert {each.language for each in found} <= {*known} and bool(found) == bool(known)
        assert [each.confidence for each in found] == sorted((each.confidence for each in found), reverse=True)
        if not any(map(str.isalpha, text)) or known == ("qq",):
            assert found == [languages.Detected(language, 0.0) for language in known[:1]]
