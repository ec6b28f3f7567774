import itertools
import os
from pathlib import Path

import pytest
from support.resumable_runs import (
    BLOCK,
    BLOCKS,
    LINES,
    MADE_BY,
    answers_to,
    names_in,
    partial_of,
    spoil,
    start,
    text_of,
    undisturbed,
    work,
)

from t2t_lite.bin.decoder.outputs import ResumableWriter
from t2t_lite.errors import UserError

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


def test_each_of_two_files_has_its_own_lines(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    paths = [tmp_path / "out", tmp_path / "elsewhere" / "links"]
    work(paths)
    assert [path.read_bytes() for path in paths] == [text_of(LINES, 0), text_of(LINES, 1)]
    assert names_in(tmp_path) == ["elsewhere", "out"]
    assert names_in(tmp_path / "elsewhere") == ["links"]


@NAMES
@pytest.mark.parametrize("blocks", range(BLOCKS + 1))
def test_a_run_stopped_after_any_block_resumes_to_the_same_bytes(tmp_path, names, blocks):
    paths = [tmp_path / name for name in names]
    work(paths, blocks=blocks)
    for path in paths if blocks < BLOCKS else ():  # half a block more than is recorded
        with open(partial_of(path), "ab") as file:
            file.write(b"\x1f\x8bhalf of wh")
    _, rest, _ = start(paths)
    assert list(rest) == LINES[blocks * BLOCK :]
    work(paths)
    assert [path.read_bytes() for path in paths] == undisturbed(tmp_path, names)
    assert names_in(tmp_path) == sorted([*names, "undisturbed"])


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


def test_a_device_is_written_to_directly():
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
def test_a_file_beside_a_device_is_always_regenerated(tmp_path, place):
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
def test_a_directory_is_refused_as_output(tmp_path, place):
    paths = [tmp_path / "out", tmp_path / "out2"]
    paths[place] = tmp_path / "folder"
    paths[place].mkdir()
    with pytest.raises(UserError, match=r"folder is a directory"):
        ResumableWriter(paths, MADE_BY)
    assert names_in(tmp_path) == ["folder"]


def test_the_same_file_twice_is_an_error(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    for other in (tmp_path / "." / "out", tmp_path / "link" / "out"):
        with pytest.raises(UserError, match=r"out is named twice"):
            ResumableWriter([tmp_path / "out", other], MADE_BY)
    assert names_in(tmp_path) == ["link"]


def test_a_resumed_run_reports_the_line_and_the_file(tmp_path):
    paths = [tmp_path / "out", tmp_path / "links"]
    lines = [str(number) for number in range(1500)]
    files, rest, said = start(paths, lines)
    block = list(itertools.islice(rest, 1234))
    files.append(block, answers_to(block, 2))
    assert said == []
    assert work(paths, lines) == [
        f"resuming after line 1,234: the output up to there is in {tmp_path / 'out.incomplete'}"
    ]


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


def test_lines_may_be_rows_of_several_inputs(tmp_path):
    path, rows = tmp_path / "out", [("a", "x"), ("b", ""), ("c", "z")]
    for stop in (1, None):
        files = ResumableWriter([path], MADE_BY)
        for row in itertools.islice(files.rest_of(lambda: iter(rows), lambda line: None), stop):
            files.append([row], [["-".join(row)]])
    assert files.lines == 3
    files.finish()
    assert path.read_text() == "a-x\nb-\nc-z\n"
