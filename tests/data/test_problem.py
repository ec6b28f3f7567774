import pytest

from t2t_lite.data.generation.sources import check_obtainable, find_or_fetch
from t2t_lite.data.problem import Problem, Source, get_problem
from t2t_lite.errors import UserError
from t2t_lite.files import file_sha256
from t2t_lite.registry import PROBLEMS


@pytest.mark.parametrize(
    ("metric", "message"), [("blue", "'blue' is unknown; did you mean 'bleu'"), ("loss", "'loss' scores no outputs")]
)
def test_a_metric_that_cannot_score_a_problems_outputs_is_an_error(registered, metric, message):
    registered(PROBLEMS, "scored_otherwise", type("ScoredOtherwise", (Problem,), {"metric": metric}))
    with pytest.raises(UserError, match=f"problem 'scored_otherwise': metric={message}"):
        get_problem("scored_otherwise")


@pytest.fixture
def published(tmp_path):
    """A published file and a problem that reads it."""
    original = tmp_path / "server.txt"
    original.write_bytes(b"published\n")

    class OneFile(Problem):
        sources = (Source("file.txt", original.as_uri(), file_sha256(original)),)

    return original, OneFile()


def test_an_existing_file_is_used_and_nothing_is_written(tmp_path, published, snapshot):
    original, problem = published
    (tmp_path / "tmp").mkdir()
    original.rename(tmp_path / "tmp" / "file.txt")
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
