import gzip
import itertools
import json
import os
from pathlib import Path

import pytest

from t2t_lite.decoding.resumable_writer import ResumableWriter
from t2t_lite.errors import UserError

MADE_BY = {"model": "a", "beam": 4}
LINES = ["one", "", "drei ä", "one", "five \ud800", "6\r", "seven\u2028", "", "nine", "ten"]
BLOCK = 3
BLOCKS = 4  # the last of them is one line
ANSWERS = (lambda line: f"{line.strip()}!", lambda line: " ".join(f"{i}-{i}" for i in range(len(line))))


def start(paths, lines=LINES, made_by=MADE_BY):
    """Returns the files, the lines that they do not answer yet, and what was said."""
    said = []
    files = ResumableWriter(paths, made_by)
    return files, files.rest_of(lambda: iter(lines), said.append), said


def answers_to(lines, how_many):
    return [[answer(line) for line in lines] for answer in ANSWERS[:how_many]]


def work(paths, lines=LINES, blocks=None, made_by=MADE_BY):
    """Answers the lines; stops after so many blocks as a killed process does. Returns what was said."""
    files, rest, said = start(paths, lines, made_by)
    for _ in itertools.count() if blocks is None else range(blocks):
        block = list(itertools.islice(rest, BLOCK))
        if not block:
            break
        files.append(block, answers_to(block, len(paths)))
    if blocks is None:
        files.finish()
    return said


def text_of(lines, which=0):
    return "".join(ANSWERS[which](line) + "\n" for line in lines).encode(errors="replace")


def undisturbed(folder, names, lines=LINES):
    """Returns the files' contents after a run without interruption."""
    (folder / "undisturbed").mkdir(exist_ok=True)
    paths = [folder / "undisturbed" / name for name in names]
    work(paths, lines)
    return [path.read_bytes() for path in paths]


def partial_of(path):
    return path.with_name(path.name + ".incomplete")


def progress_of(path):
    return path.with_name(path.name + ".progress")


def spoil(path):
    """Changes what a partial file holds but not its size: a run that goes on with it ends with other bytes."""
    partial = partial_of(path)
    partial.write_bytes(b"#" * partial.stat().st_size)


def names_in(directory):
    return sorted(path.name for path in directory.iterdir())


NAMES = pytest.mark.parametrize("names", [["out"], ["out.gz"], ["out", "links"], ["out.gz", "links"], ["a", "b.gz"]])


def test_a_file_appears_only_at_finish(tmp_path):
    path = tmp_path / "out"
    files, rest, _ = start([path])
    for line in rest:
        files.append([line], [[line.strip()]])
        assert not path.exists()
        assert names_in(path.parent) == ["out.incomplete", "out.progress"]
    files.finish()
    assert path.read_bytes() == "".join(line.strip() + "\n" for line in LINES).encode(errors="replace")
    assert names_in(path.parent) == ["out"]


def test_two_files_have_the_lines_of_their_own(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    paths = [tmp_path / "out", tmp_path / "elsewhere" / "links"]
    work(paths)
    assert [path.read_bytes() for path in paths] == [text_of(LINES, 0), text_of(LINES, 1)]
    assert names_in(tmp_path) == ["elsewhere", "out"]
    assert names_in(tmp_path / "elsewhere") == ["links"]


def test_it_knows_how_many_lines_it_answers(tmp_path):
    files, _, _ = start([tmp_path / "out"])
    assert files.lines == 0
    files.append(LINES[:3], answers_to(LINES[:3], 1))
    assert files.lines == 3
    files.append(LINES[3:5], answers_to(LINES[3:5], 1))
    assert files.lines == 5
    files, rest, _ = start([tmp_path / "out"])
    assert files.lines == 5
    assert list(rest) == LINES[5:]


def test_an_empty_input_makes_an_empty_file(tmp_path):
    paths = [tmp_path / "out", tmp_path / "out.gz"]
    work(paths, lines=[])
    assert paths[0].read_bytes() == b""
    with gzip.open(paths[1]) as file:
        assert file.read() == b""
    assert names_in(tmp_path) == ["out", "out.gz"]


def test_as_many_answers_as_files_are_wanted(tmp_path):
    files, _, _ = start([tmp_path / "out", tmp_path / "links"])
    with pytest.raises(ValueError):
        files.append(["a"], [["b"]])


@NAMES
@pytest.mark.parametrize("blocks", range(BLOCKS + 1))
def test_a_run_stopped_after_any_block_goes_on_to_the_same_bytes(tmp_path, names, blocks):
    paths = [tmp_path / name for name in names]
    work(paths, blocks=blocks)
    _, rest, _ = start(paths)
    assert list(rest) == LINES[blocks * BLOCK :]
    work(paths)
    assert [path.read_bytes() for path in paths] == undisturbed(tmp_path, names)
    assert names_in(tmp_path) == sorted([*names, "undisturbed"])


@NAMES
@pytest.mark.parametrize("blocks", range(BLOCKS))
def test_half_a_block_beyond_the_recorded_size_is_left_out(tmp_path, names, blocks):
    paths = [tmp_path / name for name in names]
    work(paths, blocks=blocks)
    for path in paths:
        with open(partial_of(path), "ab") as file:
            file.write(b"\x1f\x8bhalf of wh")
    work(paths)
    assert [path.read_bytes() for path in paths] == undisturbed(tmp_path, names)


@NAMES
def test_a_run_stopped_after_each_of_its_blocks_ends_with_the_same_bytes(tmp_path, names):
    paths = [tmp_path / name for name in names]
    for _ in range(BLOCKS):
        work(paths, blocks=1)
    work(paths)
    assert [path.read_bytes() for path in paths] == undisturbed(tmp_path, names)


@pytest.mark.parametrize("blocks", range(BLOCKS))
def test_a_block_that_only_one_of_two_files_has_is_answered_again(tmp_path, blocks):
    def interrupted():
        yield "half"
        raise KeyboardInterrupt

    paths = [tmp_path / "out", tmp_path / "links.gz"]
    work(paths, blocks=blocks)
    files, rest, _ = start(paths)
    block = list(itertools.islice(rest, BLOCK))
    with pytest.raises(KeyboardInterrupt):
        files.append(block, [answers_to(block, 1)[0], interrupted()])
    work(paths)
    assert [path.read_bytes() for path in paths] == undisturbed(tmp_path, ["out", "links.gz"])


@pytest.mark.parametrize("stopped_at", [0, 1])
def test_a_run_stopped_within_finish_ends_with_the_same_bytes(tmp_path, stopped_at):
    paths = [tmp_path / "out", tmp_path / "links"]
    work(paths, blocks=BLOCKS)
    for path in paths[: stopped_at + 1]:
        os.replace(partial_of(path), path)
    work(paths)
    assert [path.read_bytes() for path in paths] == undisturbed(tmp_path, ["out", "links"])
    assert names_in(tmp_path) == ["links", "out", "undisturbed"]


def test_what_is_gone_on_with_is_not_written_again(tmp_path):
    path = tmp_path / "out"
    work([path], blocks=2)
    spoil(path)
    size = partial_of(path).stat().st_size
    work([path])
    assert path.read_bytes() == b"#" * size + text_of(LINES[2 * BLOCK :])


DAMAGED = {
    "empty": b"",
    "half": b'{"made_by": {"model": "a", "be',
    "zeros": bytes(100),
    "not UTF-8": b"\xff\xfe",
    "null": b"null",
    "a number": b"3",
    "a text": b'"text"',
    "a list": b"[1, 2]",
    "another object": b"{}",
}


@pytest.mark.parametrize("content", [None, *DAMAGED.values()], ids=["missing", *DAMAGED])
def test_without_a_whole_progress_file_it_starts_anew(tmp_path, content):
    path = tmp_path / "out"
    work([path], blocks=2)
    spoil(path)
    if content is None:
        progress_of(path).unlink()
    else:
        progress_of(path).write_bytes(content)
    assert work([path]) == []
    assert path.read_bytes() == text_of(LINES)
    assert names_in(tmp_path) == ["out"]


@pytest.mark.parametrize("sizes", [None, [], [0, 0], ["0"], "0", 0])
def test_sizes_that_are_not_those_of_the_files_make_it_start_anew(tmp_path, sizes):
    path = tmp_path / "out"
    work([path], blocks=2)
    spoil(path)
    state = json.loads(progress_of(path).read_text())
    progress_of(path).write_text(json.dumps(state | {"sizes": sizes}))
    work([path])
    assert path.read_bytes() == text_of(LINES)


@pytest.mark.parametrize("other", [{"model": "b", "beam": 4}, {"model": "a"}, None, "a"])
def test_what_was_made_by_something_else_is_made_anew(tmp_path, other):
    path = tmp_path / "out"
    work([path], blocks=2, made_by=other)
    spoil(path)
    work([path])
    assert path.read_bytes() == text_of(LINES)


@pytest.mark.parametrize("made_by", [None, 1.1, "ä", ["x", [1, None]], {"b": {"c": [True]}, "a": 1}])
def test_what_was_made_by_the_same_is_gone_on_with_whatever_json_it_is(tmp_path, made_by):
    path = tmp_path / "out"
    work([path], blocks=2, made_by=made_by)
    _, rest, _ = start([path], made_by=made_by)
    assert list(rest) == LINES[2 * BLOCK :]


@pytest.mark.parametrize("changed", range(2 * BLOCK))
def test_another_line_before_the_recorded_one_makes_it_start_anew(tmp_path, changed):
    paths = [tmp_path / "out", tmp_path / "links"]
    work(paths, lines=[*LINES[:changed], "another", *LINES[changed + 1 :]], blocks=2)
    work(paths)
    assert [path.read_bytes() for path in paths] == [text_of(LINES, 0), text_of(LINES, 1)]


@pytest.mark.parametrize("changed", range(2 * BLOCK, len(LINES)))
def test_another_line_after_the_recorded_one_is_answered_when_it_goes_on(tmp_path, changed):
    path = tmp_path / "out"
    work([path], blocks=2)
    spoil(path)
    size = partial_of(path).stat().st_size
    lines = [*LINES[:changed], "another", *LINES[changed + 1 :]]
    work([path], lines=lines)
    assert path.read_bytes() == b"#" * size + text_of(lines[2 * BLOCK :])


def test_lines_that_are_only_cut_elsewhere_are_another_input(tmp_path):
    path = tmp_path / "out"
    work([path], lines=["ab", "c", "d", "e"], blocks=1)
    work([path], lines=["a", "bc", "d", "e"])
    assert path.read_bytes() == b"a!\nbc!\nd!\ne!\n"


@pytest.mark.parametrize("length", range(2 * BLOCK))
def test_an_input_shorter_than_the_recorded_line_makes_it_start_anew(tmp_path, length):
    path = tmp_path / "out"
    work([path], blocks=2)
    work([path], lines=LINES[:length])
    assert path.read_bytes() == text_of(LINES[:length])


def test_an_input_cut_at_the_recorded_line_is_whole_at_once(tmp_path):
    path = tmp_path / "out"
    work([path], blocks=2)
    work([path], lines=LINES[: 2 * BLOCK])
    assert path.read_bytes() == text_of(LINES[: 2 * BLOCK])


@NAMES
@pytest.mark.parametrize("which", [0, -1])
def test_a_partial_file_shorter_than_recorded_makes_it_start_anew(tmp_path, names, which):
    paths = [tmp_path / name for name in names]
    work(paths, blocks=2)
    os.truncate(partial_of(paths[which]), partial_of(paths[which]).stat().st_size - 1)
    _, rest, said = start(paths)
    assert (list(rest), said) == (LINES, [])
    work(paths)
    assert [path.read_bytes() for path in paths] == undisturbed(tmp_path, names)


@pytest.mark.parametrize("which", [0, 1])
def test_a_missing_partial_file_makes_it_start_anew(tmp_path, which):
    paths = [tmp_path / "out", tmp_path / "links"]
    work(paths, blocks=2)
    partial_of(paths[which]).unlink()
    work(paths)
    assert [path.read_bytes() for path in paths] == [text_of(LINES, 0), text_of(LINES, 1)]


def test_another_number_of_files_makes_it_start_anew(tmp_path):
    paths = [tmp_path / "out", tmp_path / "links"]
    work(paths[:1], blocks=2)
    spoil(paths[0])
    work(paths)
    assert [path.read_bytes() for path in paths] == [text_of(LINES, 0), text_of(LINES, 1)]


def test_a_compressed_file_has_all_blocks(tmp_path):
    path = tmp_path / "out.gz"
    work([path], blocks=2)
    work([path])
    with gzip.open(path) as file:
        assert file.read() == text_of(LINES)


def test_a_compressed_file_does_not_tell_when_it_was_made(tmp_path):
    path = tmp_path / "out.gz"
    work([path])
    assert path.read_bytes()[4:8] == bytes(4)  # the time in the header (RFC 1952)


def test_a_device_is_written_to_as_it_is():
    before = os.stat("/dev/null")
    assert work([Path("/dev/null")]) == []
    assert work([Path("/dev/null")], blocks=1) == []
    assert os.stat("/dev/null").st_rdev == before.st_rdev
    assert not {"null.incomplete", "null.progress"} & set(os.listdir("/dev"))


def test_a_pipe_that_stays_open_gets_every_block(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        work([path])
        assert os.read(reader, 10_000) == text_of(LINES)
    finally:
        os.close(reader)
    assert path.is_fifo()
    assert names_in(tmp_path) == ["pipe"]


@pytest.mark.parametrize("place", [0, 1])
def test_a_file_beside_a_device_is_always_made_anew(tmp_path, place):
    path = tmp_path / "out"
    paths = [path, path]
    paths[place] = Path("/dev/null")
    work(paths, blocks=2)
    assert names_in(tmp_path) == ["out.incomplete"]
    spoil(path)
    _, rest, said = start(paths)
    assert (list(rest), said) == (LINES, [])
    work(paths)
    assert path.read_bytes() == text_of(LINES, 1 - place)
    assert names_in(tmp_path) == ["out"]


@pytest.mark.parametrize("place", [0, 1])
def test_a_directory_is_no_output(tmp_path, place):
    paths = [tmp_path / "out", tmp_path / "out2"]
    paths[place] = tmp_path / "folder"
    paths[place].mkdir()
    with pytest.raises(UserError, match=r"folder is a directory"):
        ResumableWriter(paths, MADE_BY)
    assert names_in(tmp_path) == ["folder"]


def test_the_same_file_twice_is_an_error(tmp_path):
    with pytest.raises(UserError, match=r"out is asked for twice"):
        ResumableWriter([tmp_path / "out", tmp_path / "." / "out"], MADE_BY)
    assert names_in(tmp_path) == []


def test_nothing_is_said_when_there_is_nothing_to_go_on_with(tmp_path):
    path = tmp_path / "out"
    assert work([path]) == []
    assert work([path]) == []  # a whole file is made anew


def test_it_says_after_which_line_it_goes_on_and_where_that_is(tmp_path):
    paths = [tmp_path / "out", tmp_path / "links"]
    lines = [str(number) for number in range(1500)]
    files, rest, said = start(paths, lines)
    block = list(itertools.islice(rest, 1234))
    files.append(block, answers_to(block, 2))
    assert said == []
    assert work(paths, lines) == [f"goes on after line 1,234: what is before it is in {tmp_path / 'out.incomplete'}"]


def test_it_says_that_the_input_was_another(tmp_path):
    path = tmp_path / "out"
    work([path], lines=["another", *LINES[1:]], blocks=1)
    assert work([path]) == [f"starts anew: {tmp_path / 'out.incomplete'} was made from another input"]


def test_an_older_file_is_untouched_before_finish(tmp_path):
    paths = [tmp_path / "out", tmp_path / "links.gz"]
    for path in paths:
        path.write_bytes(b"old")
    before = [path.stat() for path in paths]
    for blocks in (0, 1, BLOCKS):
        work(paths, blocks=blocks)
        assert [path.read_bytes() for path in paths] == [b"old", b"old"]
        for path, old in zip(paths, before):
            assert (path.stat().st_mtime_ns, path.stat().st_ino) == (old.st_mtime_ns, old.st_ino)
    work(paths)
    assert [path.read_bytes() for path in paths] == undisturbed(tmp_path, ["out", "links.gz"])


def test_a_run_that_starts_anew_leaves_nothing_that_another_could_go_on_from(tmp_path):
    path = tmp_path / "out"
    work([path], blocks=1)
    start([path], made_by={"model": "b", "beam": 4})  # and is killed before its first block
    assert not progress_of(path).exists()
    assert work([path]) == []
    assert path.read_bytes() == text_of(LINES)


def test_lines_may_be_rows_of_several_inputs(tmp_path):
    path, rows = tmp_path / "out", [("a", "x"), ("b", ""), ("c", "z")]
    for stop in (1, None):
        files = ResumableWriter([path], MADE_BY)
        for row in itertools.islice(files.rest_of(lambda: iter(rows), lambda line: None), stop):
            files.append([row], [["-".join(row)]])
    assert files.lines == 3
    files.finish()
    assert path.read_text() == "a-x\nb-\nc-z\n"


@pytest.mark.parametrize(
    "damage",
    [
        {"lines": "x"},
        {"lines": -1},
        {"lines": None},
        {"sha256": None},
        {"sizes": [-1]},
        {"sizes": [1.5]},
        {"sizes": []},
    ],
    ids=str,
)
def test_damaged_progress_is_no_progress(damage, tmp_path):
    path = tmp_path / "out"
    work([path], blocks=2)
    state = json.loads(progress_of(path).read_text())
    progress_of(path).write_text(json.dumps(state | damage))
    assert work([path]) == []
    assert path.read_bytes() == text_of(LINES)


def test_one_file_by_two_names_is_asked_for_twice(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    with pytest.raises(UserError, match="link/out is asked for twice"):
        ResumableWriter([tmp_path / "folder" / "out", tmp_path / "link" / "out"], MADE_BY)


def test_an_empty_input_gives_a_gzip_file_of_nothing(tmp_path):
    path = tmp_path / "out.gz"
    work([path], lines=[])
    assert path.stat().st_size > 0 and gzip.decompress(path.read_bytes()) == b""


def test_a_pipe_gets_all_blocks(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    work([tmp_path / "pipe"])
    assert os.read(reader, 10_000) == text_of(LINES)
    os.close(reader)
