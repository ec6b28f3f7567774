import bz2
import gzip
import io
import lzma
import os
import random
import re
import subprocess
import sys

import pytest

from t2t_lite.data import text_files
from t2t_lite.data.text_files import lenient_lines, read_lines, read_parallel, read_tsv
from t2t_lite.errors import UserError


def read(content):
    """Returns the lines and the warnings."""
    warnings = []
    return list(lenient_lines(io.BytesIO(content), "input", warnings.append)), warnings


CONTROLS = "".join(chr(code) for code in [*range(32), *range(127, 160)] if chr(code) != "\n")


def random_bytes(rng):
    """Returns random bytes, many of which are line ends or parts of a character."""
    parts = [b"\n", b"\r", b"\r\n", b"a", b" ", b"\0", b"\xef\xbb\xbf", "ä€😀".encode(), b"\xe2\x82", b"\xff"]
    parts += [bytes([rng.randrange(256)]) for _ in range(5)]
    return b"".join(rng.choices(parts, k=rng.randrange(40)))


# Lines end at LF or CR LF only.
LINES = [
    *((b"", []), (b"\n", [""]), (b"\n\n", ["", ""]), (b"a", ["a"]), (b"a\n", ["a"]), (b"a\nb", ["a", "b"])),
    *((b"a\r\nb\r\n", ["a", "b"]), (b"a\r\nb\n\r\n", ["a", "b", ""]), (b"a\n\n\nb\n", ["a", "", "", "b"])),
    *((b"\n\na", ["", "", "a"]), (b"a\n ", ["a", " "]), (b" a \t\n", [" a \t"])),
    # A lone carriage return is part of its line.
    *((b"a\rb\nc\n", ["a\rb", "c"]), (b"\ra\n", ["\ra"]), (b"a\r\r\n", ["a\r"]), (b"\r\n\r", ["", "\r"])),
    (b"a\r", ["a\r"]),
    # So are the other line separators of Python, and control characters.
    *((f"a{sign}b\n{sign}\nc{sign}", [f"a{sign}b", sign, f"c{sign}"]) for sign in "\x85\u2028\u2029\v\f\x1c\x1d\x1e"),
    (f"{CONTROLS}\nnext\n", [CONTROLS, "next"]),
    # A byte-order mark at the start is removed, also in files that cat joined, but not within a line.
    *((b"\xef\xbb\xbfa\nb\n", ["a", "b"]), (b"\xef\xbb\xbf\nb\n", ["", "b"]), (b"\xef\xbb\xbf", [""])),
    ("\ufeffa\n\ufeffb\n\ufeff\n\ufeff\ufeffc", ["a", "b", "", "c"]),
    ("a\ufeff\nb\ufeffc\n", ["a\ufeff", "b\ufeffc"]),
]


@pytest.mark.parametrize(("content", "lines"), LINES, ids=ascii)
def test_a_text_has_these_lines(content, lines, tmp_path):
    content = content.encode() if isinstance(content, str) else content
    assert read(content) == (lines, [])
    # A file whose lines all end with CR is refused, see below.
    for packed in (bytes, gzip.compress, bz2.compress, lzma.compress) if b"\n" in content or not lines else ():
        (tmp_path / "text").write_bytes(packed(content))
        assert list(read_lines(tmp_path / "text")) == lines


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_training_text_that_is_not_utf_8_is_an_error_that_names_the_file_and_line(tmp_path, packed):
    (tmp_path / "text").write_bytes(packed("gut\nschön\n".encode("latin-1")))
    lines = read_lines(tmp_path / "text")
    assert next(lines) == "gut"
    with pytest.raises(UserError, match=rf"{tmp_path}/text, line 2: not UTF-8"):
        next(lines)


def damaged_gzips():
    whole = gzip.compress("".join(f"line {number * 7919 % 1000}\n" for number in range(5000)).encode())
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    flipped[len(whole) // 2 + 1] ^= 0xFF
    return {
        "cut short": whole[: len(whole) // 2],
        "without its end": whole[:-4],
        "no gzip at all": b"plain text\n",
        "with changed bytes": bytes(flipped),
        "with a wrong checksum": whole[:-8] + b"\0\0\0\0" + whole[-4:],
    }


@pytest.mark.parametrize("damage", damaged_gzips())
def test_a_damaged_gzip_file_is_an_error_that_names_it(tmp_path, damage):
    path = tmp_path / "text.gz"
    path.write_bytes(damaged_gzips()[damage])
    with pytest.raises(UserError) as caught:
        list(read_lines(path))
    assert str(path) in str(caught.value)


LONG = "".join(f"line {number * 7919 % 1000}\n" for number in range(5000)).encode()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text", bz2.compress(LONG)[:-500], "is a damaged bzip2 file"),
        ("text", bz2.compress(LONG)[:300] + b"x" * 300, "is a damaged bzip2 file"),
        ("text", lzma.compress(LONG)[:-500], "is a damaged xz file"),
        ("text.bz2", LONG, "is a damaged bzip2 file"),
        ("text.xz", LONG, "is a damaged xz file"),
        ("text", b"\x28\xb5\x2f\xfd" + LONG, "is compressed, but .*; unpack it first: zstd -d"),
        ("text.gz", b"PK\3\4" + LONG, "is compressed, but .*; unpack it first: unzip"),
        ("text", b"7z\xbc\xaf\x27\x1c" + LONG, "unpack it first: 7z x"),
        ("text", b"\4\x22\x4d\x18" + LONG, "unpack it first: lz4 -d"),
        ("text", "ä\n".encode("utf-16"), "is in UTF-16; convert it: iconv -f UTF-16 -t UTF-8"),
        ("text", gzip.compress("ä\n".encode("utf-32")), "is in UTF-32"),
        ("text", b"one\rtwo\rthree", r"end with CR only, as on old Macs; convert it: tr '\\r' '\\n'"),
        ("text.csv", b"a,b\n", "is CSV, but a file must have one sentence per line; convert it to tab-separated"),
        ("text.JSONL.gz", gzip.compress(b"{}\n"), "is JSON, .*; write its fields as text"),
    ],
)
def test_another_format_is_an_error_that_says_what_to_do(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"{tmp_path}/{name}.* {message}"):
        list(read_lines(tmp_path / name))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '{"en": "a", "de": "b"}\n' * 3,
            "no line of .* has a tab between the two sides; it looks like JSON: write its fields",
        ),
        (
            'en,de\n"a, c",b\n',
            "has a tab between the two sides; if it is CSV, convert it to tab-separated columns: python -c",
        ),
        ("one\ntwo\n", "no line of .* has a tab between the two sides; if it is CSV"),
    ],
)
def test_pairs_in_another_format_are_an_error_that_says_what_to_do(content, message, tmp_path):
    (tmp_path / "my.tsv").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        list(read_tsv(tmp_path / "my.tsv"))


def test_the_command_for_csv_writes_the_columns_with_tabs():
    command = text_files._TO_TSV.replace("python", sys.executable)
    written = subprocess.run(command, shell=True, input='"a, c",b\nd,"e ""f"""\n', capture_output=True, text=True)
    assert written.stdout == 'a, c\tb\nd\te "f"\n'


@pytest.mark.parametrize("left, right", [(3, 2), (2, 3), (0, 1), (1, 0)])
def test_files_with_unequal_numbers_of_lines_are_both_named(tmp_path, left, right):
    inputs, targets = tmp_path / "inputs", tmp_path / "targets"
    inputs.write_bytes(b"x\n" * left)
    targets.write_bytes(b"y\n" * right)
    with pytest.raises(UserError) as caught:
        list(read_parallel(inputs, targets))
    longer, shorter = (inputs, targets) if left > right else (targets, inputs)
    assert str(caught.value).startswith(f"{longer} has more lines than {shorter} ({min(left, right)})")


WRONG = {b"\xff": "\ufffd", b"a\xe4b": "a\ufffdb", b"a\x80": "a\ufffd", b"\xe2\x82": "\ufffd"}
WRONG |= {b"\xc0\xaf": "\ufffd\ufffd", b"\xed\xa0\x80": "\ufffd\ufffd\ufffd"}


@pytest.mark.parametrize(("raw", "text"), WRONG.items())
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_bytes_that_are_not_utf8_are_replaced_and_reported_with_their_line(raw, text, end):
    lines, warnings = read("ä\n\n".encode() + raw + end)
    assert lines == ["ä", "", text]
    (warning,) = warnings
    assert warning.startswith("input, line 3: not UTF-8 (")
    assert warning.endswith("); invalid bytes become U+FFFD")


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("length", [9, 10, 15, 16, 17, 24, 100])
def test_a_line_that_is_too_long_is_cut_and_the_next_is_complete(monkeypatch, length, end):
    monkeypatch.setattr(text_files, "MAX_BYTES", 8)
    long = ("0123456789" * 10)[:length]
    lines, warnings = read(b"first\n" + long.encode() + end + b"next\n\nlast")
    assert lines == ["first", "01234567", "next", "", "last"]
    (warning,) = warnings
    assert warning.startswith("input, line 2: ")
    assert warning.endswith(" bytes beyond the first 8 are left out")


@pytest.mark.parametrize("max_bytes", [1, 2, 4, 7, 2**20])
def test_there_are_as_many_lines_as_line_ends(monkeypatch, max_bytes):
    monkeypatch.setattr(text_files, "MAX_BYTES", max_bytes)
    rng = random.Random(max_bytes)
    for _ in range(500):
        content = random_bytes(rng)
        unfinished = bool(content) and not content.endswith(b"\n")
        lines, _ = read(content)
        assert len(lines) == content.count(b"\n") + unfinished, content
        assert not any("\n" in line for line in lines), content


def test_random_bytes_give_the_same_lines_as_a_split_at_line_ends():
    rng = random.Random(0)
    for _ in range(1000):
        content = random_bytes(rng)
        *ended, last = re.sub(rb"(?m)^(?:\xef\xbb\xbf)+", b"", content).split(b"\n")
        raw = [line.removesuffix(b"\r") for line in ended]
        raw += [last] if content and not content.endswith(b"\n") else []
        lines, warnings = read(content)
        assert lines == [line.decode(errors="replace") for line in raw], content
        wrong = [number for number, line in enumerate(raw, 1) if line.decode(errors="ignore").encode() != line]
        assert [warning.partition(": ")[0] for warning in warnings] == [f"input, line {n}" for n in wrong], content


def test_a_line_of_a_pipe_is_read_before_the_next_is_written():
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as stream, os.fdopen(writer, "wb", buffering=0) as output:
        lines = lenient_lines(stream, "pipe", pytest.fail)
        output.write(b"a\n")
        assert next(lines) == "a"
        output.write(b"b\r\nc\n")
        assert [next(lines), next(lines)] == ["b", "c"]
        output.write(b"d")
        output.close()
        assert list(lines) == ["d"]


@pytest.mark.parametrize(
    "content, expected",
    [
        (b"01234567\nnext\n", ["01234567", "next"]),
        (b"0123456\r\nnext\n", ["0123456", "next"]),
        (b"01234567\r\nnext\n", ["01234567", "next"]),
        (b"0123456\r", ["0123456\r"]),
        ("0123456ä\n".encode(), ["0123456"]),
    ],
)
def test_a_line_of_exactly_the_limit_is_not_cut_and_no_character_is_split(content, expected, monkeypatch):
    monkeypatch.setattr(text_files, "MAX_BYTES", 8)
    lines, warnings = read(content)
    assert lines == expected and len(warnings) == ("ä".encode() in content)
