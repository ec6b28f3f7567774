import gzip
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
    progress_of,
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


def test_the_number_of_answered_lines_is_known(tmp_path):
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


def test_the_number_of_answers_must_be_the_number_of_files(tmp_path):
    files, _, _ = start([tmp_path / "out", tmp_path / "links"])
    with pytest.raises(ValueError):
        files.append(["a"], [["b"]])


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


def test_a_resumed_run_does_not_rewrite_the_existing_part(tmp_path):
    path = tmp_path / "out"
    work([path], blocks=2)
    spoil(path)
    size = partial_of(path).stat().st_size
    work([path])
    assert path.read_bytes() == b"#" * size + text_of(LINES[2 * BLOCK :])


def test_a_compressed_file_has_no_timestamp(tmp_path):
    path = tmp_path / "out.gz"
    work([path])
    assert path.read_bytes()[4:8] == bytes(4)  # the time in the header (RFC 1952)


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


def test_nothing_is_reported_when_there_is_nothing_to_resume(tmp_path):
    path = tmp_path / "out"
    assert work([path]) == []
    assert work([path]) == []  # a complete file is written again from the start


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


def test_a_changed_input_is_reported(tmp_path):
    path = tmp_path / "out"
    work([path], lines=["another", *LINES[1:]], blocks=1)
    assert work([path]) == [f"starting over: {tmp_path / 'out.incomplete'} was made from another input"]


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


def test_a_run_that_starts_over_leaves_nothing_to_resume_from(tmp_path):
    path = tmp_path / "out"
    work([path], blocks=1)
    start([path], made_by={"model": "b", "beam": 4})  # this run is killed before its first block
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
