"""The files of `ResumableWriter`: after any interruption the same bytes, and what makes a run start over."""

import itertools
import json
import os
from pathlib import Path

import pytest

from t2t_lite.bin.decoder.outputs import ResumableWriter
from t2t_lite.errors import UserError

MADE_BY = {"model": "a", "beam": 4}
LINES = ["one", "", "drei ä", "one", "five \ud800", "6\r", "seven\u2028", "", "nine", "ten"]
BLOCK = 3
BLOCKS = 4  # the last of them is one line
OUTPUTS = (lambda line: f"{line.strip()}!", lambda line: " ".join(f"{i}-{i}" for i in range(len(line))))
NAMES = pytest.mark.parametrize("names", [["out"], ["out.gz"], ["out", "links"], ["a", "b.gz"]])


def start(paths, lines=LINES, made_by=MADE_BY):
    """Returns the files, the lines that they do not answer yet, and what was said."""
    said = []
    files = ResumableWriter(paths, made_by)
    return files, files.rest_of(lambda: iter(lines), said.append), said


def answers_to(lines, how_many):
    return [[answer(line) for line in lines] for answer in OUTPUTS[:how_many]]


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
    return "".join(OUTPUTS[which](line) + "\n" for line in lines).encode(errors="replace")


def assert_as_undisturbed(paths, lines=LINES):
    """The files, alone in their folder, are those of a run without interruption."""
    folder = paths[0].parent
    assert names_in(folder) == sorted(path.name for path in paths)
    (folder / "undisturbed").mkdir()
    others = [folder / "undisturbed" / path.name for path in paths]
    work(others, lines)
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in others]


def beside(path, ending):
    return path.with_name(path.name + ending)


def spoil(path):
    """Changes what a partial file holds but not its size: a run that goes on with it ends with other bytes."""
    partial = beside(path, ".incomplete")
    partial.write_bytes(b"#" * partial.stat().st_size)


def names_in(directory):
    return sorted(path.name for path in directory.iterdir())


def test_a_file_appears_only_at_finish_and_an_older_one_is_untouched_before(tmp_path):
    new, old = tmp_path / "new", tmp_path / "old.gz"
    old.write_bytes(b"old")
    before = old.stat()
    for blocks in (0, 1, BLOCKS):
        work([new, old], blocks=blocks)
        assert old.read_bytes() == b"old"
        assert (old.stat().st_mtime_ns, old.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
        progress = ["new.progress"] if blocks else []
        assert names_in(tmp_path) == ["new.incomplete", *progress, "old.gz", "old.gz.incomplete"]
    work([new, old])
    assert new.read_bytes() == text_of(LINES)
    assert_as_undisturbed([new, old])


@NAMES
@pytest.mark.parametrize("blocks", range(BLOCKS + 1))
def test_a_run_stopped_after_any_block_resumes_to_the_same_bytes(tmp_path, names, blocks):
    paths = [tmp_path / name for name in names]
    work(paths, blocks=blocks)
    for path in paths if blocks < BLOCKS else ():  # half a block more than is recorded
        with open(beside(path, ".incomplete"), "ab") as file:
            file.write(b"\x1f\x8bhalf of wh")
    _, rest, _ = start(paths)
    assert list(rest) == LINES[blocks * BLOCK :]
    work(paths)
    assert_as_undisturbed(paths)


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
    assert_as_undisturbed(paths)


@pytest.mark.parametrize("renamed", [1, 2])
def test_a_run_stopped_within_finish_ends_with_the_same_bytes(tmp_path, renamed):
    paths = [tmp_path / "out", tmp_path / "links"]
    work(paths, blocks=BLOCKS)
    for path in paths[:renamed]:
        os.replace(beside(path, ".incomplete"), path)
    work(paths)
    assert_as_undisturbed(paths)


def test_devices_and_pipes_are_written_to_directly(tmp_path):
    device, pipe = Path("/dev/null"), tmp_path / "pipe"
    before = os.stat(device)
    assert work([device], blocks=1) == work([device]) == []
    assert os.stat(device).st_rdev == before.st_rdev
    assert not {"null.incomplete", "null.progress"} & set(os.listdir("/dev"))
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    work([pipe])
    assert os.read(reader, 10_000) == text_of(LINES)  # every block, so it stayed open
    os.close(reader)
    assert pipe.is_fifo() and names_in(tmp_path) == ["pipe"]


@pytest.mark.parametrize("place", [0, 1])
def test_a_file_beside_a_device_is_always_regenerated(tmp_path, place):
    path = tmp_path / "out"
    paths = [path, path]
    paths[place] = Path("/dev/null")
    work(paths, blocks=2)
    assert names_in(tmp_path) == ["out.incomplete"]
    spoil(path)
    assert work(paths) == []
    assert path.read_bytes() == text_of(LINES, 1 - place)
    assert names_in(tmp_path) == ["out"]


def test_a_folder_and_the_same_file_twice_are_refused(tmp_path):
    out, folder, link = (tmp_path / name for name in ("out", "folder", "link"))
    folder.mkdir()
    link.symlink_to(tmp_path)
    for paths in ([out, folder], [folder, out], [out, tmp_path / "." / "out"], [out, link / "out"]):
        with pytest.raises(UserError, match="folder is a directory" if folder in paths else "out is named twice"):
            ResumableWriter(paths, MADE_BY)
    assert names_in(tmp_path) == ["folder", "link"]


def test_a_resumed_run_reports_the_line_and_the_file(tmp_path):
    path, lines = tmp_path / "out", [str(number) for number in range(1500)]
    files, rest, said = start([path], lines)
    files.append(block := list(itertools.islice(rest, 1234)), answers_to(block, 1))
    assert said == []
    assert work([path], lines) == [f"resuming after line 1,234: the output up to there is in {path}.incomplete"]


def test_lines_may_be_rows_of_several_inputs(tmp_path):
    path, rows = tmp_path / "out", [("a", "x"), ("b", ""), ("c", "z")]
    for stop in (1, None):
        files = ResumableWriter([path], MADE_BY)
        for row in itertools.islice(files.rest_of(lambda: iter(rows), lambda line: None), stop):
            files.append([row], [["-".join(row)]])
    assert files.lines == 3
    files.finish()
    assert path.read_text() == "a-x\nb-\nc-z\n"


DAMAGED = [b"", b'{"made_by": {"model": "a", "be', bytes(100), b"\xff\xfe", b"null", b"3", b'"text"', b"[1, 2]", b"{}"]
# The same for single values of a good one.
WRONG = [{"lines": lines} for lines in ("x", -1, None)] + [{"sha256": None}]
WRONG += [{"sizes": sizes} for sizes in (None, [], [0, 0], ["0"], "0", 0, [-1], [1.5])]
WRONG += [{"made_by": other} for other in ({"model": "b", "beam": 4}, {"model": "a"}, None, "a")]


@pytest.mark.parametrize("change", [None, *DAMAGED, *WRONG], ids=str)
def test_missing_damaged_or_other_progress_makes_it_start_over(tmp_path, change):
    path = tmp_path / "out"
    work([path], blocks=2)
    spoil(path)
    progress = beside(path, ".progress")
    if change is None:
        progress.unlink()
    elif isinstance(change, bytes):
        progress.write_bytes(change)
    else:
        progress.write_text(json.dumps(json.loads(progress.read_text()) | change))
    assert work([path]) == []
    assert path.read_bytes() == text_of(LINES)
    assert names_in(tmp_path) == ["out"]


@pytest.mark.parametrize("made_by", [None, 1.1, "ä", ["x", [1, None]], {"b": {"c": [True]}, "a": 1}])
def test_output_made_with_the_same_settings_is_resumed_for_any_json(tmp_path, made_by):
    work([tmp_path / "out"], blocks=2, made_by=made_by)
    _, rest, _ = start([tmp_path / "out"], made_by=made_by)
    assert list(rest) == LINES[2 * BLOCK :]


@pytest.mark.parametrize("changed", range(len(LINES)))
def test_only_a_changed_line_before_the_recorded_one_makes_it_start_over(tmp_path, changed):
    path = tmp_path / "out"
    work([path], blocks=2)
    spoil(path)
    done = beside(path, ".incomplete").read_bytes()
    lines = [*LINES[:changed], "another", *LINES[changed + 1 :]]
    (said,) = work([path], lines=lines)
    starts_over = changed < 2 * BLOCK
    assert path.read_bytes() == (text_of(lines) if starts_over else done + text_of(lines[2 * BLOCK :]))
    assert said.startswith("starting over: " if starts_over else "resuming after line 6: ")


@pytest.mark.parametrize("length", range(2 * BLOCK))
def test_an_input_shorter_than_the_recorded_line_makes_it_start_over(tmp_path, length):
    work([tmp_path / "out"], blocks=2)
    work([tmp_path / "out"], lines=LINES[:length])
    assert (tmp_path / "out").read_bytes() == text_of(LINES[:length])


@NAMES
@pytest.mark.parametrize("which", [0, -1])
def test_a_partial_file_shorter_than_recorded_makes_it_start_over(tmp_path, names, which):
    paths = [tmp_path / name for name in names]
    work(paths, blocks=2)
    partial = beside(paths[which], ".incomplete")
    os.truncate(partial, partial.stat().st_size - 1)
    assert work(paths) == []
    assert_as_undisturbed(paths)
