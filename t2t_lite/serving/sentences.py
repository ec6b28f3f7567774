"""Splits texts into sentences, and joins their translations with the original blanks and line breaks.

sentencex finds the ends of sentences. The rules of this module correct it where a dot belongs to a number or an
abbreviation: "1. FC Köln", "Step 3.", "approx. 5 km". `split_sentences` lists them.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sentencex import segment  # type: ignore[attr-defined]  compiled

from t2t_lite.decoding.translator import has_letters

# Each line of a text is a paragraph: no sentence continues on the next line.
_LINES = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
# The rules for quotation marks take quadratic time, in which no other thread runs. So longer paragraphs are first cut
# into parts of at most this many characters.
MAX_PART = 10_000
# Where a part ends if possible: after the last sentence, else after the last blank.
_PART_ENDS = [re.compile(pattern, re.DOTALL) for pattern in (r".*[.!?…。！？]['\"”’»)\]]{0,3}\s", r".*\s")]

_ROMAN = r"(?=[IVXL])(?:XL|L?X{0,3})(?:IX|IV|V?I{0,3})"
_NUMBER = rf"(?:(?P<digits>\d{{1,3}}(?:\.\d{{1,3}})*)|(?P<roman>{_ROMAN}|{_ROMAN.lower()})|(?P<letter>[A-Za-z]))"
# The number of a list item, with the blanks around it: "1. ", "1.2. ", "IV. ", "A. ", "b) ", "(c) ".
_LIST_NUMBER = re.compile(rf"\s*(?P<open>\()?{_NUMBER}(?:\.\)|(?P<dot>\.)|\))(?:\s+|\Z)")
_WORD = re.compile(r"[^\W\d_]+")
# The last word or number of a piece, if a dot follows it, and the word before it. It is near the end.
_TAIL = 80
_LAST = re.compile(r"(?P<before>[^\W\d_]*)(?:\W*?[ \xa0])?(?<!\w)(?P<last>\w+(?:\.\w+)*)\.\s*\Z")


class _Rules(NamedTuple):
    """What a language's rules know about words. All words are in lower case."""

    abbreviations: frozenset[str] = frozenset()  # they end no sentence
    before_numbers: frozenset[str] = frozenset()  # abbreviations that end no sentence if a digit follows
    labels: frozenset[str] = frozenset()  # "Step 3." is the beginning of a sentence
    openers: frozenset[str] = frozenset()  # words that, in upper case, begin a sentence and nothing else
    before_ordinals: frozenset[str] = frozenset()  # words before an ordinal number, where a dot makes ordinals
    ends: re.Pattern[str] | None = None  # more ends of sentences, if one of `openers` follows


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_RULES = {
    "en": _Rules(
        abbreviations=_words("approx avg e.g excl i.e incl misc std viz"),
        before_numbers=_words(
            "ave ch chap chs cl col dia eq eqs est ext fig figs lb lbs max min nos op oz p par para pp sec secs "
            "ser tab tel temp ver vol vols"
        ),
        labels=_words(
            "act app appendix art article ch chap chapter day eq equation ex example exercise fig figure item "
            "lesson level no note number p page para paragraph part phase point question round rule scene sec "
            "section stage step tab table task unit verse vol volume week"
        ),
        openers=_words(
            "a after all although an and as at because but by for from he her here his how i if in it its many "
            "most my no not now on one our she so some that the their then there these they this those to we what "
            "when where who why with you your"
        ),
        ends=re.compile(r"[.!?]\)\s+"),
    ),
    "de": _Rules(
        abbreviations=_words(
            "allg bspw bzgl ca ehem einschl entspr evtl exkl geb gem gest ggf inkl insb mind sek sog urspr versch "
            "vgl vorauss wg zzgl"
        ),
        before_numbers=_words("abb abs art bd gl hausnr kap max min nr op pos s str tab tel ver ziff"),
        labels=_words(
            "abb abbildung abs absatz abschnitt akt anhang art artikel aufgabe band bd beispiel bsp einheit frage "
            "gleichung kap kapitel lektion nr nummer paragraf phase punkt regel runde s schritt seite stufe szene "
            "tab tabelle tag teil übung woche"
        ),
        openers=_words(
            "aber alle als also am an auch auf aus bei da damals danach dann daher darum das dem den denn der des "
            "deshalb die dies diese dieser dieses doch dort du ein eine einem einen einer er es für hier ich ihr "
            "ihre im in jede jeder jedes jetzt kein keine man mein meine mit nach nicht nun nur oder ob sein "
            "seine seit sie so und unser vom von vor warum was weil wenn wer wie wir wo zu zum zur"
        ),
        before_ordinals=_words(
            "am an ans auf beim das dem den der des die diese diesem diesen dieser dieses ein eine einem einen "
            "einer eines fürs ihr ihre ihrem ihren ihrer im in ins jede jedem jeden jeder jedes kein mein meine "
            "meinem meinen meiner nach oder pro sein seine seinem seinen seiner seit und unser unsere unserem "
            "unseren vom von vor zu zum zur"
        ),
        ends=re.compile(
            rf"(?:[.!?]\)|(?<!\.)(?<!\.\s)\b(?:usw|etc|[A-Z]|{_ROMAN})\.|\b[uU]\.\s?[aAäÄ]\.|\b[vn]\.\s?Chr\.)\s+(?!\d)"
            # sentencex ends no sentence before a digit.
            r"|(?:(?<=[a-zäöüß]{4})(?<!str)(?<!nr)(?<!schn)\.|[!?])\s+(?=\d{1,3}\.\s)"
        ),
    ),
}
# Languages that write an ordinal number with a dot.
_WITH_ORDINALS = _words("bs cs da de et fi fo hr hu is lb lv nb nn no pl sk sl sr tr")


class SplitText(NamedTuple):
    """A text split into sentences, with the blanks and list numbers before, between and after them."""

    sentences: list[str]  # without surrounding blanks
    between: list[str]  # blanks, line breaks and list numbers; one entry more than `sentences`

    def joined(self, sentences: Sequence[str]) -> str:
        first, *others = self.between
        return first + "".join(sentence + blanks for sentence, blanks in zip(sentences, others, strict=True))


class _Piece(NamedTuple):
    text: str  # with the blanks around it
    is_outside: bool = False  # whether it is no part of a sentence: the number of a list item, or a byte order mark


def split_sentences(text: str, language: str, apart: bool = True) -> SplitText:
    """Splits a text of any number of lines. Every sentence has at most `MAX_PART` characters.

    sentencex finds the ends of sentences, except:

    - The number of a list item ("1.", "1.2.", "IV.", "A.", "b)", "(c)") at the start of a line or sentence is not part
      of the sentence but of `between`. "1. FC" and, in languages whose ordinal numbers have a dot, "3. Oktober" are no
      list numbers; "J. Smith" and "z. B." neither.
    - A piece without letters but with digits joins the piece before it, or after it at the start of a line. A piece
      without letters and digits, such as an emoji, is a sentence of its own.
    - In English and German, a label with its number ("Step 3.", "Abb. 1.") and an abbreviation that sentencex does not
      know ("approx.", "vol. 2") join the next piece. In German, an ordinal number after an article or a preposition
      ("Im 19. Jahrhundert") joins the next piece, unless that begins with a pronoun, an article or the like.

    A `language` of "" is unknown and gets the rules of English. List numbers and pieces without letters are apart from
    sentences, as for translation. If not `apart`, they join their neighbours, as for parsing: each of their characters
    is then part of a sentence.
    """
    primary = re.split("[-_]", language)[0].lower() or "en"
    sentences: list[str] = []
    between: list[list[str]] = [[]]
    pieces: list[_Piece] = []
    end = 0
    for breaks in _LINES.finditer(text):
        pieces += [*_of_line(text[end : breaks.start()], primary, apart), _Piece(breaks.group())]
        end = breaks.end()
    for piece in (*pieces, *_of_line(text[end:], primary, apart)):
        sentence = "" if piece.is_outside else piece.text.strip()
        if not sentence:
            between[-1].append(piece.text)
            continue
        start = piece.text.index(sentence)
        between[-1].append(piece.text[:start])
        sentences.append(sentence)
        between.append([piece.text[start + len(sentence) :]])
    return SplitText(sentences, list(map("".join, between)))


def _of_line(line: str, language: str, apart: bool) -> Iterator[_Piece]:
    if marks := len(line) - len(line.lstrip("\ufeff")):  # byte order marks, also of files that cat joined
        yield _Piece(line[:marks], is_outside=True)
        line = line[marks:]
    if not line or line.isspace():
        yield _Piece(line)
        return
    rules = _RULES.get(language, _Rules())
    parts: list[str] = []  # of the sentence that may go on
    length = 0
    is_start = False  # whether the sentence has no word yet
    found = list(_cut(line, language, rules))
    for text, after in zip(found, [*found[1:], ""]):
        fits = bool(parts) and length + len(text) <= MAX_PART
        is_wordless = not has_letters(text) and (not apart or any(map(str.isdigit, text)))
        is_number = _is_list_number(text, after, language, rules)
        if fits and (is_start or _continues(parts, text, rules) or (is_wordless and not is_number)):
            is_start &= is_wordless
        else:
            if parts:
                yield _Piece("".join(parts))
            parts, length = [], 0
            is_start = is_wordless or is_number
        if is_number and apart and not parts:
            yield _Piece(text, is_outside=True)
            continue
        parts.append(text)
        length += len(text)
    if parts:
        yield _Piece("".join(parts))


def _cut(line: str, language: str, rules: _Rules) -> Iterator[str]:
    """Yields the pieces of a line before the rules that join them; the number of a list item is a piece."""
    number = _LIST_NUMBER.match(line)
    # Of ordinal numbers, sentencex knows more: it does not cut after the 3 of "3. Oktober".
    if number and not (number["digits"] and number["dot"] and language in _WITH_ORDINALS):
        after = line[number.end() : number.end() + MAX_PART]
        if _is_list_number(number.group(), after, language, rules, is_cut=False):
            yield number.group()
            line = line[number.end() :]
    for piece in _segmented(line, language):
        start = 0
        for end in rules.ends.finditer(piece) if rules.ends else ():
            if piece[end.end() : end.end() + 1].isdigit() or _opens(piece[end.end() : end.end() + _TAIL], rules):
                yield piece[start : end.end()]
                start = end.end()
        if start < len(piece):
            yield piece[start:]


def _segmented(paragraph: str, language: str) -> Iterator[str]:
    while paragraph:
        part = paragraph[:MAX_PART]
        if len(part) < len(paragraph):
            part = part[: next((found.end() for pattern in _PART_ENDS if (found := pattern.match(part))), MAX_PART)]
        pieces = segment(language, part)
        yield from pieces if "".join(pieces) == part else [part]  # keep every character
        paragraph = paragraph[len(part) :]


def _is_list_number(text: str, after: str, language: str, rules: _Rules, is_cut: bool = True) -> bool:
    """Returns whether a text is the number of a list item that begins with `after`.

    `is_cut` tells whether sentencex ends a sentence after it, which it does not after the initial of a name.
    """
    number = _LIST_NUMBER.fullmatch(text)
    word = _WORD.match(after.lstrip("\"'“„«‚‘¿¡(["))
    if number is None or not has_letters(after):
        return False
    if not number["dot"]:
        return True
    if word is None:
        return bool(number["digits"])
    is_capital = word.group()[:1].isupper() or not word.group().islower()
    if number["digits"]:
        return language not in _WITH_ORDINALS or (is_capital and not _is_name(after))
    if number["letter"] or len(number["roman"]) == 1:  # not an initial, or the first letter of "z. B."
        return is_cut or _opens(after, rules)
    return is_capital


def _is_name(text: str) -> bool:
    """Returns whether a text begins with an abbreviation in capitals, such as FC: an ordinal number precedes it."""
    word = _WORD.match(text)
    return word is not None and len(word.group()) > 1 and word.group().isupper()


def _opens(text: str, rules: _Rules) -> bool:
    word = _WORD.match(text.lstrip("\"'“„«‚‘("))
    is_initial = word is not None and len(word.group()) == 1 and text[word.end() : word.end() + 1] == "."
    return word is not None and not is_initial and word.group()[0].isupper() and word.group().lower() in rules.openers


def _continues(parts: Sequence[str], text: str, rules: _Rules) -> bool:
    """Returns whether a piece continues the sentence that the pieces `parts` begin."""
    if (ends := _LAST.search(parts[-1][-_TAIL:])) is None:
        return False
    last, previous, start = ends["last"].lower(), ends["before"].lower(), text.lstrip()[:1]
    is_alone = len(parts) == 1 and len(parts[0]) <= _TAIL and len(parts[0].split()) <= 1 + bool(previous)
    if last in rules.abbreviations or (last in rules.before_numbers and start.isdigit()):
        return is_alone or not _opens(text, rules)
    is_roman = bool(re.fullmatch(_ROMAN, ends["last"]))
    if previous in rules.labels and is_alone:
        return is_roman or len(last) == 1 or last.replace(".", "").isdigit()
    if start.islower():
        return is_roman and len(last) > 1
    is_ordinal = last.isdigit() and len(last) <= 3 and bool(rules.before_ordinals)
    return is_ordinal and not _opens(text, rules) and (previous in rules.before_ordinals or _is_name(text))
