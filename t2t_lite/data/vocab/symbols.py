"""Ids and characters with a meaning of their own, shared by the vocabularies in Python and in graphs."""

import functools
import re
import unicodedata
from collections.abc import Callable

PAD_ID = 0
EOS_ID = 1
UNKNOWN_ID = 2
UNKNOWN_TEXT = "⁇"
# The characters with Unicode's White_Space property; Python's own definition has four more.
WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
SYMBOLS = ("<pad>", "</s>", "<unk>")  # the names of ids 0 to 2 in lists of tokens
# The token that names the target language, at the start of a source line, as in OPUS-MT's multilingual models.
LANGUAGE_TOKEN = re.compile(f"[{WHITE_SPACE}]*(>>[^<>{WHITE_SPACE}]+<<)")
# Word pieces (`wordpiece.py`): ids of bytes and tokens, and the beginning of tokens that continue a word.
FIRST_BYTE = len(SYMBOLS)
FIRST_TOKEN = FIRST_BYTE + 256
JOINER = "##"
# The last token of TensorFlow's tokenizer, whose id therefore equals the number of tokens.
UNKNOWN_WORD = "[UNK]"
# Letters, marks and digits, as Unicode blocks with few other characters. Exact classes such as \p{L} slow down
# TensorFlow's regular expressions threefold, and encoding should be as fast as with byte-pair tokens.
_LETTERS = (
    ("0", "9"), ("A", "Z"), ("a", "z"), (0xAA, 0xAA), (0xB5, 0xB5), (0xBA, 0xBA), (0xC0, 0xD6), (0xD8, 0xF6),
    (0xF8, 0x1FFF), (0x2C00, 0x2DFF), (0x3040, 0xFEFE), (0xFF10, 0xFF19), (0xFF21, 0xFF3A), (0xFF41, 0xFF5A),
    (0xFF66, 0x1CFFF), (0x20000, 0x10FFFF),
)  # fmt: skip
# One or more blanks, for Python's and TensorFlow's regular expressions.
BLANKS = f"[{WHITE_SPACE}]+"
# tensor2tensor's subwords (`t2t.py`).
END_OF_RUN = "_"
NO_CHARACTER = "\u3013"  # replaces an escape whose number is not a valid code point


def parts_pattern(of_code_point: Callable[[int], str]) -> str:
    """Returns the regular expression for the parts of a text; `of_code_point` writes a character in its dialect.

    A part is a word or any other single character, each with the space before it; or a space on its own.
    """
    letters = "".join(
        f"{first}-{last}" if isinstance(first, str) else f"{of_code_point(first)}-{of_code_point(int(last))}"
        for first, last in _LETTERS
    )
    return rf" ?[{letters}]+| ?[^{letters} ]| "


@functools.lru_cache(10_000)
def is_alphanumeric(character: str) -> bool:
    return bool(character) and unicodedata.category(character)[0] in "LN"
