from pathlib import Path

import pytest

from t2t_lite.errors import UserError
from t2t_lite.files import check_outputs, write_text, written_whole


def names_in(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_block_that_fails_leaves_no_file_and_an_older_one_untouched(tmp_path, error):
    path = tmp_path / "file.txt"
    path.write_text("old")
    before = path.stat()
    for each in (path, tmp_path / "new.txt"):
        with pytest.raises(error), written_whole(each) as partial:
            partial.write_text("half of the new")
            raise error
    assert path.read_text() == "old"
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert names_in(tmp_path) == ["file.txt"]


def test_a_file_appears_when_the_block_ends_and_two_writers_of_it_do_not_interfere(tmp_path):
    path = tmp_path / "file.txt"
    with written_whole(path) as one:
        with written_whole(path) as other:
            assert one != other
            one.write_text("first")
            other.write_text("second")
            assert not path.exists()
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert names_in(tmp_path) == ["file.txt"]


def test_a_partial_file_of_a_killed_process_does_no_harm(tmp_path):
    path = tmp_path / "file.txt"
    with pytest.raises(ValueError), written_whole(path) as partial:
        half_name = partial
        raise ValueError
    half_name.write_text("half, and longer than what comes after")
    write_text(path, "whole")
    assert path.read_text() == "whole"
    assert names_in(tmp_path) == ["file.txt", half_name.name]


def test_a_missing_folder_and_a_folder_as_file_are_errors_that_leave_nothing(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match=r"there is no folder .*new; create it first"):
        write_text(tmp_path / "new" / "file.txt", "text")
    with pytest.raises(UserError, match="is a directory"):
        write_text(tmp_path / "folder", "text")
    assert names_in(tmp_path) == ["folder"]


@pytest.mark.parametrize("how", ["name", "path", "symbolic link", "hard link", "link to a folder", "dangling link"])
def test_an_output_that_is_also_an_input_is_refused(tmp_path, how):
    (tmp_path / "folder").mkdir()
    (tmp_path / "other").symlink_to(tmp_path)
    given, other = tmp_path / "in.txt", tmp_path / "folder" / "out.txt"
    if how != "dangling link":
        given.write_text("lines")
    if how == "hard link":
        other.hardlink_to(given)
    elif how in ("symbolic link", "dangling link"):
        other.symlink_to("../in.txt")
    different = {"path": tmp_path / "folder/../in.txt", "link to a folder": tmp_path / "other/in.txt", "name": given}
    output = different.get(how, other)
    with pytest.raises(UserError) as caught:
        check_outputs({"--to": output}, {"--from": given})
    assert str(caught.value) == f"--to={output} is the same file as --from; use another name"
    with pytest.raises(UserError, match=r"--also=.* is the same file as --to;"):
        check_outputs({"--to": output, "--also": given}, {})


@pytest.mark.parametrize("ending", [".incomplete", ".progress"])
def test_an_output_whose_partial_file_is_an_input_is_refused(tmp_path, ending):
    one, other = tmp_path / "out.txt", tmp_path / f"out.txt{ending}"
    other.write_text("lines")
    for outputs, inputs in (({"--to": one}, {"--from": other}), ({"--also": one, "--to": other}, {})):
        with pytest.raises(UserError, match=r"^--to=.* and --.*: one is the other's partial file"):
            check_outputs(outputs, inputs)
    check_outputs({"--to": other}, {"--from": one})


def test_other_outputs_are_accepted_and_devices_may_be_named_twice(tmp_path):
    for name in ("in.txt", "old.txt"):
        (tmp_path / name).write_text("lines")
    outputs, device = {"--to": tmp_path / "old.txt", "--also": tmp_path / "new.txt"}, Path("/dev/null")
    check_outputs(outputs | {"--third": device}, {"--from": tmp_path / "in.txt", "--with": device})
    check_outputs({"--to": device, "--also": device}, {})
    missing = tmp_path / "no"
    for path, said in ((tmp_path, "is a directory"), (missing / "out", f"there is no folder {missing}")):
        with pytest.raises(UserError, match=f"^--to={path}.*{said}"):
            check_outputs({"--to": path}, {})
