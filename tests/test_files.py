import hashlib

import pytest

from t2t_lite.errors import UserError
from t2t_lite.files import sha256_of, write_text, written_whole


def names_in(directory):
    return sorted(path.name for path in directory.iterdir())


def test_a_file_appears_when_the_block_has_ended(tmp_path):
    path = tmp_path / "new" / "folder" / "file.txt"
    with written_whole(path) as partial:
        partial.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"
    assert names_in(path.parent) == ["file.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_block_that_fails_leaves_no_file(tmp_path, error):
    with pytest.raises(error), written_whole(tmp_path / "file.txt") as partial:
        partial.write_text("half")
        raise error
    assert names_in(tmp_path) == []


def test_a_block_that_fails_before_it_writes_raises_its_own_error(tmp_path):
    with pytest.raises(ValueError, match="own"), written_whole(tmp_path / "file.txt"):
        raise ValueError("own")
    assert names_in(tmp_path) == []


def test_a_block_that_fails_leaves_the_older_file_untouched(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    before = path.stat()
    with pytest.raises(ValueError), written_whole(path) as partial:
        partial.write_text("half of the new")
        assert path.read_text() == "old"
        raise ValueError
    assert path.read_text() == "old"
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert names_in(tmp_path) == ["file.txt"]


def test_a_block_that_ends_replaces_the_older_file(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    write_text(path, "neu: ä\n")
    assert path.read_bytes() == "neu: ä\n".encode()
    assert names_in(tmp_path) == ["file.txt"]


def test_a_half_file_left_by_a_killed_process_is_written_over(tmp_path):
    path = tmp_path / "file.txt"
    with pytest.raises(ValueError), written_whole(path) as partial:
        half_name = partial
        raise ValueError
    half_name.write_text("half, and longer than what comes after")
    write_text(path, "whole")
    assert path.read_text() == "whole"
    assert names_in(tmp_path) == ["file.txt"]


def test_a_final_name_that_is_a_folder_is_an_error_that_leaves_no_half_file(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="is a directory"):
        write_text(tmp_path / "folder", "text")
    assert names_in(tmp_path) == ["folder"]


def test_the_checksum_is_sha256(tmp_path):
    content = bytes(range(256)) * 10_000
    (tmp_path / "file").write_bytes(content)
    assert sha256_of(tmp_path / "file") == hashlib.sha256(content).hexdigest()
    (tmp_path / "file").write_bytes(b"")
    assert sha256_of(tmp_path / "file") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
