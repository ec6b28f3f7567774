"""t2t-lite-decoder --runner: the bytes of the decoder alone; missing parts; errors."""

import gzip
import json
import logging

import pytest

pytest.importorskip("apache_beam", reason="needs apache_beam (pip install -e '.[dev]')")

SMALL = ("--xla_compile=False", "--decode_hparams=beam_size=2,extra_length=5")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A folder with text files: plain, compressed, without lines, and without a line break at the end."""
    folder = tmp_path_factory.mktemp("corpus") / "in"
    folder.mkdir()
    words = ("a dog", "", "the cats", "me")
    lines = [f"the old man sees {word} {number} .\n" for number in range(3) for word in words]
    (folder / "a.txt").write_text("".join(lines[:7]))
    (folder / "b.txt").write_text("".join(lines[3:]).rstrip("\n"))
    (folder / "c.txt.gz").write_bytes(gzip.compress("".join(lines).encode()))
    (folder / "empty.txt").touch()
    (folder / "empty.txt.gz").write_bytes(gzip.compress(b""))
    return folder


@pytest.fixture(scope="module")
def alone(corpus, small_run, command, tmp_path_factory):
    """The bytes that the decoder alone writes for each file, in blocks of five lines."""
    folder, found = tmp_path_factory.mktemp("alone"), {}
    for path in corpus.iterdir():
        flags = (f"--output_dir={small_run}", f"--decode_from_file={path}", f"--decode_to_file={folder / path.name}")
        result = command("decoder", *flags, *SMALL, "--batch_lines=5")
        assert result.returncode == 0, result.stderr
        found[path.name] = (folder / path.name).read_bytes()
    return found


def outputs_in(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "decoded.json"}


@pytest.mark.slow
def test_each_file_has_the_bytes_of_the_decoder_alone_and_is_decoded_once(corpus, alone, small_run, command, tmp_path):
    flags = (f"--output_dir={small_run}", f"--decode_from_file={corpus}/*", f"--decode_to_file={tmp_path}/out")
    flags += (*SMALL, "--runner=direct")
    level = logging.getLogger().level
    out, result = tmp_path / "out", command("decoder", *flags, "--batch_lines=5")
    assert result.returncode == 0, result.stderr
    assert logging.getLogger().level == level
    assert "5 files, 0 of them are already decoded\n" in result.stderr and "28 lines of 5 files in " in result.stderr
    assert outputs_in(out) == alone

    def change_digest(name):
        record = json.loads((out / "decoded.json").read_text())
        record["inputs"][name] = "another digest"
        (out / "decoded.json").write_text(json.dumps(record))

    def leave_block(name, content):
        (out / name).unlink()
        (out / f"{name}.blocks").mkdir()
        (out / f"{name}.blocks" / f"{1:012d}").write_bytes(content)

    # A file whose output is missing goes on after the block of five lines that an interrupted run has left, and one
    # whose output comes from other text is decoded again.
    leave_block("b.txt", b"".join(alone["b.txt"].splitlines(True)[:5]))
    change_digest("a.txt")
    (out / "a.txt").write_text("old\n")
    result = command("decoder", *flags, "--batch_lines=5")
    assert "5 files, 3 of them are already decoded\n" in result.stderr and "11 lines of 2 files" in result.stderr
    assert outputs_in(out) == alone
    # Blocks that an interrupted run has left are not joined with those of another text.
    leave_block("a.txt", b"old\n")
    change_digest("a.txt")
    result = command("decoder", *flags, "--batch_lines=5")
    assert "7 lines of 1 files" in result.stderr and outputs_in(out) == alone
    message = f"error: --decode_to_file={out} has outputs of another model or of other settings; pass another"
    for changes in (["--batch_lines=6"], ["--batch_lines=5", "--checkpoint_path=ckpt-2"]):
        result = command("decoder", *flags, *changes)
        assert result.returncode == 1 and message in result.stderr


@pytest.mark.slow
def test_files_that_cannot_be_decoded_are_an_error_of_one_line(corpus, small_run, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").touch()
    (tmp_path / "z").write_bytes("a\n".encode("utf-16"))
    convert = "--runner=direct: z is in UTF-16; convert it: iconv -f UTF-16 -t UTF-8; run the command again"
    for source, target, said in (
        ("*.txt", "out", "*.txt: there are no such files"),
        (f"{corpus}/*", corpus, f"--decode_to_file={corpus} has the input {corpus}/a.txt; pass another folder"),
        ("*/a.txt", "out", "several files would be written to"),
        ("z", "x/a.txt", "a.txt is a file; with --runner, pass a folder"),
        ("z", "out", convert),
    ):
        assert not (tmp_path / "out").exists()
        flags = (f"--output_dir={small_run}", f"--decode_from_file={source}", f"--decode_to_file={target}")
        refused = command("decoder", *flags, "--runner=nothing")
        assert refused.returncode in (1, 2) and not (tmp_path / "out").exists()
        result = command("decoder", *flags, "--runner=direct")
        assert result.returncode == 1 and said in result.stderr.splitlines()[-1]
