"""Which terms of a glossary a line contains, and translations that contain those of the terms."""

from collections import Counter

import pytest

from t2t_lite.decoding.glossary import Glossary
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError

TERMS = {"dog": "Hund", "hot dog": "Wurst", "New York": "N", "York City Hall": "YCH", "API": "S", "IT": "EDV"}
TERMS |= {"猫": "Katze", "été": "Sommer", "e\u0301t": "x", "C++": "C"}
FOUND = {
    "A dog and a Hot DOG": ["Hund", "Wurst"],  # the longest one; a lower-case term in any case
    "dogs, endogenous hotdog": [],  # whole words
    "the dog-dog's dog": ["Hund", "Hund", "Hund"],  # as often as it occurs
    "New York City Hall": ["YCH"],  # of two that overlap, the longer one
    "new york, New York": ["N"],  # another term only as it is written
    "it and IT": ["EDV"],
    "黑猫在使用API时": ["Katze", "S"],  # anywhere, since the script has no blanks
    "L'Été, étés": ["Sommer"],
    "e\u0301te\u0301": [],  # a combining mark belongs to its letter
    "C++ or C+++": ["C", "C"],
    "": [],
}


@pytest.mark.parametrize(("line", "phrases"), FOUND.items())
def test_a_line_has_these_terms(line, phrases):
    assert Glossary(TERMS).phrases_in(line) == phrases


def test_a_file_and_other_glossaries_and_phrases_of_a_line(tmp_path):
    (tmp_path / "terms.tsv").write_text("\ufeffdog\t Hund \n\nDog house\tHütte\r\n", encoding="utf-8")
    glossary = Glossary(tmp_path / "terms.tsv")
    assert glossary.terms == {"dog": "Hund", "Dog house": "Hütte"}
    assert (glossary | Glossary([("dog", "Köter")])).terms == {"dog": "Köter", "Dog house": "Hütte"}
    # An equal phrase of the line stands for one of the term's.
    assert glossary.added_to([["Hund", "x"], []], ["dog dog", "Dog house"]) == [["Hund", "x", "Hund"], ["Hütte"]]
    assert glossary.added_to(None, ["a dog"]) == [["Hund"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("dog\tHund\ndog Hund\n", "line 2: found 0 tabs instead of 1; write TERM<tab>TRANSLATION"),
        ("dog\tHund\tm\n", "line 1: found 2 tabs"),
        ("dog\t \n", "line 1: a term and its translation must not be blank"),
        ("dog\tHund\n\ndog\tKöter\n", "line 3: 'dog' has two translations, 'Hund' and 'Köter'; keep one"),
    ],
)
def test_a_file_that_is_no_glossary_is_an_error_that_names_the_line(content, message, tmp_path):
    (tmp_path / "terms.tsv").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=rf"terms\.tsv, {message}"):
        Glossary(tmp_path / "terms.tsv")


@pytest.mark.slow
def test_translations_contain_the_translations_of_terms(small_run, caplog):
    translator = Translator.from_run_dir(small_run, "extra_length=20", xla_compile=False)
    lines, terms = ["The old man sees the dog and the dog.", "I sleep."], {"dog": "Hund", "old man": "alte Mann"}
    found, plain = translator.translate(lines, terms=terms), translator.translate(lines)
    words = Counter(found[0].replace(".", "").split())
    assert words["Hund"] >= 2 and "alte Mann" in found[0] and found[1] == plain[1]
    assert translator.translate(lines[0], terms=Glossary(terms)) == found[0]
    assert all("Hund" in each.text for each in translator.n_best(lines[0], terms={"dog": "Hund"}))
    wanted = [["Hund", "Hund", "alte Mann"], []]
    assert translator.translate(lines, phrases=wanted) == found
    for settings in ({"sampling_method": "random"}, {"diverse_beam_groups": 2}):  # even if no line has a term
        with pytest.raises(UserError, match="does not work with phrases"):
            translator.translate(["I sleep."], terms=terms, **settings)
