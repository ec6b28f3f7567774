"""When a run resumes from the files of an earlier run, and when it starts over."""

import json
import os

import pytest
from support.resumable_runs import (
    BLOCK,
    LINES,
    names_in,
    partial_of,
    progress_of,
    spoil,
    start,
    text_of,
    undisturbed,
    work,
)

NAMES = pytest.mark.parametrize("names", [["out"], ["out.gz"], ["out", "links"], ["out.gz", "links"], ["a", "b.gz"]])


DAMAGED = [b"", b'{"made_by": {"model": "a", "be', bytes(100), b"\xff\xfe", b"null", b"3", b'"text"', b"[1, 2]", b"{}"]
# The same for single values of a good one.
WRONG = [{"lines": lines} for lines in ("x", -1, None)] + [{"sha256": None}]
WRONG += [{"sizes": sizes} for sizes in (None, [], [0, 0], ["0"], "0", 0, [-1], [1.5])]
OTHERS = [{"made_by": other} for other in ({"model": "b", "beam": 4}, {"model": "a"}, None, "a")]


@pytest.mark.parametrize("change", [None, *DAMAGED, *WRONG, *OTHERS], ids=str)
def test_missing_damaged_or_other_progress_makes_it_start_over(tmp_path, change):
    path = tmp_path / "out"
    work([path], blocks=2)
    spoil(path)
    if change is None:
        progress_of(path).unlink()
    elif isinstance(change, bytes):
        progress_of(path).write_bytes(change)
    else:
        progress_of(path).write_text(json.dumps(json.loads(progress_of(path).read_text()) | change))
    assert work([path]) == [] or change in OTHERS
    assert path.read_bytes() == text_of(LINES)
    assert names_in(tmp_path) == ["out"]


@pytest.mark.parametrize("made_by", [None, 1.1, "ä", ["x", [1, None]], {"b": {"c": [True]}, "a": 1}])
def test_output_made_with_the_same_settings_is_resumed_for_any_json(tmp_path, made_by):
    path = tmp_path / "out"
    work([path], blocks=2, made_by=made_by)
    _, rest, _ = start([path], made_by=made_by)
    assert list(rest) == LINES[2 * BLOCK :]


@pytest.mark.parametrize("changed", range(2 * BLOCK))
def test_a_changed_line_before_the_recorded_one_makes_it_start_over(tmp_path, changed):
    paths = [tmp_path / "out", tmp_path / "links"]
    work(paths, lines=[*LINES[:changed], "another", *LINES[changed + 1 :]], blocks=2)
    work(paths)
    assert [path.read_bytes() for path in paths] == [text_of(LINES, 0), text_of(LINES, 1)]


@pytest.mark.parametrize("changed", range(2 * BLOCK, len(LINES)))
def test_a_changed_line_after_the_recorded_one_is_answered_on_resuming(tmp_path, changed):
    path = tmp_path / "out"
    work([path], blocks=2)
    spoil(path)
    size = partial_of(path).stat().st_size
    lines = [*LINES[:changed], "another", *LINES[changed + 1 :]]
    work([path], lines=lines)
    assert path.read_bytes() == b"#" * size + text_of(lines[2 * BLOCK :])


@pytest.mark.parametrize("length", range(2 * BLOCK))
def test_an_input_shorter_than_the_recorded_line_makes_it_start_over(tmp_path, length):
    path = tmp_path / "out"
    work([path], blocks=2)
    work([path], lines=LINES[:length])
    assert path.read_bytes() == text_of(LINES[:length])


@NAMES
@pytest.mark.parametrize("which", [0, -1])
def test_a_partial_file_shorter_than_recorded_makes_it_start_over(tmp_path, names, which):
    paths = [tmp_path / name for name in names]
    work(paths, blocks=2)
    os.truncate(partial_of(paths[which]), partial_of(paths[which]).stat().st_size - 1)
    _, rest, said = start(paths)
    assert (list(rest), said) == (LINES, [])
    work(paths)
    assert [path.read_bytes() for path in paths] == undisturbed(tmp_path, names)
