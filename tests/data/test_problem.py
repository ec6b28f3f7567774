import gzip
from pathlib import Path

import pytest
from support.vocabularies import vocabulary_paths

from t2t_lite.data.generation.generate import generate
from t2t_lite.data.generation.sources import check_obtainable, find_or_fetch
from t2t_lite.data.pipeline import batches
from t2t_lite.data.problem import Example, Problem, Source, get_problem
from t2t_lite.data.text_files import read_lines, read_parallel
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.files import file_sha256
from t2t_lite.registry import PROBLEMS


@PROBLEMS.register
class CountInWords(Problem):
    """Digits in, words out: the minimum that a new problem needs."""

    vocab_size = 60
    byte_fallback = False
    num_shards = 2

    def examples(self, split, files):
        words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
        for number in {"train": range(100, 180), "dev": range(200, 206), "test": range(300, 304)}[split]:
            yield Example(" ".join(str(number)), " ".join(words[int(digit)] for digit in str(number)))


def texts_of(problem, data_dir, split):
    """The pairs of a split from the pipeline, as texts, sorted."""
    vocabulary = open_vocabulary(vocabulary_paths(data_dir, problem)[1])
    found = []
    for batch in batches(problem, data_dir, split, batch_tokens=200, max_length=100):
        found += zip(*(vocabulary.decode(batch[side]) for side in ("inputs", "targets")))
    return sorted(found)


@pytest.mark.slow
def test_a_ten_line_problem_is_registered_and_generated(tmp_path):
    problem = get_problem("count_in_words")
    assert (problem.name, problem.metric, problem.decode_hparams.beam_size) == ("count_in_words", "bleu", 4)
    generate(problem, tmp_path, tmp_path / "none", say=lambda line: None)
    for split in ("train", "dev", "test"):
        assert texts_of(problem, tmp_path, split) == sorted(problem.examples(split, {}))
    assert texts_of(problem, tmp_path, "test")[1] == ("3 0 1", "three zero one")


@pytest.mark.slow
def test_rev_swaps_the_sides_and_uses_the_same_files(tmp_path, snapshot):
    forward, reverse = get_problem("count_in_words"), get_problem("count_in_words_rev")
    assert (reverse.name, reverse.data_name, reverse.is_reversed) == ("count_in_words_rev", "count_in_words", True)
    generate(forward, tmp_path, tmp_path / "none", say=lambda line: None)
    before = snapshot(tmp_path)
    said = []
    generate(reverse, tmp_path, tmp_path / "none", say=said.append)
    assert snapshot(tmp_path) == before and "nothing to do" in said[0]
    swapped = sorted((targets, inputs) for inputs, targets in texts_of(forward, tmp_path, "dev"))
    assert texts_of(reverse, tmp_path, "dev") == swapped
    assert (tmp_path / reverse.text_filename("test", "targets")).read_text().startswith("three zero zero\n")


@pytest.mark.parametrize(
    ("metric", "message"), [("blue", "'blue' is unknown; did you mean 'bleu'"), ("loss", "'loss' scores no outputs")]
)
def test_a_metric_that_cannot_score_a_problems_outputs_is_an_error(registered, metric, message):
    registered(PROBLEMS, "scored_otherwise", type("ScoredOtherwise", (Problem,), {"metric": metric}))
    with pytest.raises(UserError, match=f"problem 'scored_otherwise': metric={message}"):
        get_problem("scored_otherwise")


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["text", "text.gz"])
@pytest.mark.parametrize(
    "content, lines",
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\n\n b \n", ["a", "", " b "]),
        (b"a\r\nb\r\n\r\n", ["a", "b", ""]),
        (b"\xef\xbb\xbfa\r\nb\r\n", ["a", "b"]),
        (b"a\rb\n\tc\n", ["a\rb", "\tc"]),
        ("a\u2028b\u2029c\x0cd\x0be\x85f\x1cg\n".encode(), ["a\u2028b\u2029c\x0cd\x0be\x85f\x1cg"]),
        ("ä\u00a0ß\n世界 😀\n".encode(), ["ä\u00a0ß", "世界 😀"]),
    ],
)
def test_lines_end_at_line_ends_only(tmp_path, name, content, lines):
    assert list(read_lines(write(tmp_path / name, content))) == lines


@pytest.mark.parametrize("name", ["text", "text.gz"])
def test_text_that_is_not_utf_8_is_an_error_that_names_the_file_and_line(tmp_path, name):
    path = write(tmp_path / name, "gut\nschön\n".encode("latin-1"))
    lines = read_lines(path)
    assert next(lines) == "gut"
    with pytest.raises(UserError, match="line 2: not UTF-8") as caught:
        next(lines)
    assert str(path) in str(caught.value)


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


@pytest.mark.parametrize("left, right", [(3, 2), (2, 3), (0, 1), (1, 0)])
def test_files_with_unequal_numbers_of_lines_are_both_named(tmp_path, left, right):
    inputs, targets = write(tmp_path / "inputs", b"x\n" * left), write(tmp_path / "targets", b"y\n" * right)
    with pytest.raises(UserError) as caught:
        list(read_parallel(inputs, targets))
    longer, shorter = (inputs, targets) if left > right else (targets, inputs)
    assert str(caught.value).startswith(f"{longer} has more lines than {shorter} ({min(left, right)})")


@pytest.fixture
def published(tmp_path):
    """A published file and a problem that reads it."""
    original = write(tmp_path / "server.txt", b"published\n")

    class OneFile(Problem):
        sources = (Source("file.txt", original.as_uri(), file_sha256(original)),)

    return original, OneFile()


def test_an_existing_file_is_used_and_nothing_is_written(tmp_path, published, snapshot):
    original, problem = published
    (tmp_path / "tmp").mkdir()
    write(tmp_path / "tmp" / "file.txt", original.read_bytes())
    original.unlink()
    before = snapshot(tmp_path / "tmp")
    assert find_or_fetch(problem, tmp_path / "tmp") == {"file.txt": tmp_path / "tmp" / "file.txt"}
    assert snapshot(tmp_path / "tmp") == before


def test_a_missing_file_is_fetched(tmp_path, published):
    original, problem = published
    files = find_or_fetch(problem, tmp_path / "new" / "tmp")
    assert files["file.txt"].read_bytes() == original.read_bytes()
    assert [path.name for path in (tmp_path / "new" / "tmp").iterdir()] == ["file.txt"]


def test_a_damaged_download_is_an_error_and_leaves_no_file(tmp_path, published):
    original, problem = published
    original.write_bytes(b"publi")
    with pytest.raises(UserError) as caught:
        find_or_fetch(problem, tmp_path / "tmp")
    assert "file.txt" in str(caught.value) and str(tmp_path / "tmp") in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [path.name for path in (tmp_path / "tmp").iterdir()] == []


@pytest.mark.parametrize("url", ["http://no-such-host.invalid/file.txt", "http://127.0.0.1:9/file.txt"])
def test_a_file_that_cannot_be_fetched_is_an_error_with_a_remedy(tmp_path, url):
    start = url.rpartition("/")[0]

    class TwoFiles(Problem):
        sources = tuple(Source(name, f"{start}/{name}", "0" * 64) for name in ("file.txt", "other.txt"))

    with pytest.raises(UserError) as caught:
        check_obtainable(TwoFiles(), tmp_path / "tmp")
    assert str(caught.value).startswith(f"cannot reach {start.removeprefix('http://')} to fetch the sources of")
    assert f"place by hand in {tmp_path / 'tmp'} (`tmp_dir`): file.txt, other.txt (from {start}/)" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "tmp").exists()


@pytest.mark.parametrize(
    ("old", "new"), [("flaw", "drop_reason"), ("remarks", "notes"), ("check_given", "check_options")]
)
def test_a_problem_with_an_old_method_name_is_an_error_with_the_new_name(old, new, registered):
    problem = type("OldProblemForTest", (Problem,), {old: lambda self, *arguments: None})
    registered(PROBLEMS, "old_problem_for_test", problem)
    with pytest.raises(UserError, match=f"the method {old} became {new} in version 0.2; rename it"):
        get_problem("old_problem_for_test")


def test_the_file_of_an_imported_vocabulary_has_the_name_of_earlier_versions():
    problem = Problem()
    problem.vocab_file = "mine.model"
    assert problem.vocab_filename("targets", 100) == "vocab.problem.given.subwords"
