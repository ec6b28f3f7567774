"""The minimum that a problem needs, in both directions, with one vocabulary or with one for each side; its mistakes."""

import json

import pytest
import tensorflow as tf
from support.letters import silent
from support.vocabularies import vocabulary_paths

from t2t_lite.data.generation.generate import generate
from t2t_lite.data.generation.sources import find_or_fetch
from t2t_lite.data.manifest import check_data
from t2t_lite.data.pipeline import batches
from t2t_lite.data.problem import SPLITS, Example, Problem, Source, get_problem
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.files import file_sha256
from t2t_lite.registry import PROBLEMS

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@PROBLEMS.register
class CountInWords(Problem):
    """Digits in, words out: the two sides share no character except the blank."""

    vocab_size = 40
    byte_fallback = False
    num_shards = 2
    passes = 0

    def examples(self, split, files):
        self.passes += split == "train"
        for number in {"train": range(100, 180), "dev": range(200, 206), "test": range(300, 304)}[split]:
            yield Example(" ".join(str(number)), " ".join(WORDS[int(digit)] for digit in str(number)))


class Spelled(CountInWords):
    """The same data with two vocabularies."""

    data_name = "count_in_words"
    shared_vocabulary = False


# The file name has the number of tokens: the inputs do not yield the requested 40.
INPUTS, TARGETS, SHARED = (f"vocab.count_in_words.{name}subwords" for name in ("24.inputs.", "40.targets.", "40."))


def made(problem, data_dir):
    generate(problem, data_dir, data_dir / "none", say=silent)
    return data_dir


@pytest.fixture
def spelled(tmp_path):
    return made(Spelled(), tmp_path)


def test_a_problem_is_registered_with_its_reverse_which_uses_the_same_files(tmp_path, snapshot):
    problem, reverse = get_problem("count_in_words"), get_problem("count_in_words_rev")
    assert (problem.name, problem.metric, problem.decode_hparams.beam_size) == ("count_in_words", "bleu", 4)
    assert (reverse.name, reverse.data_name, reverse.is_reversed) == ("count_in_words_rev", "count_in_words", True)
    before = snapshot(made(problem, tmp_path))
    said = []
    generate(reverse, tmp_path, tmp_path / "none", say=said.append)
    assert snapshot(tmp_path) == before and "nothing to do" in said[0]
    assert (tmp_path / reverse.text_filename("test", "targets")).read_text().startswith("three zero zero\n")


def test_each_side_has_its_own_vocabulary(spelled):
    assert sorted(path.name for path in spelled.glob("vocab*")) == [INPUTS, TARGETS]
    inputs, targets = open_vocabulary(spelled / INPUTS), open_vocabulary(spelled / TARGETS)
    assert inputs.decode(inputs.encode(tf.constant(["1 2"])).to_tensor()) == ["1 2"]
    assert "1" not in targets.decode(targets.encode(tf.constant(["1 2"])).to_tensor())[0]
    assert "one" not in inputs.decode(inputs.encode(tf.constant(["one"])).to_tensor())[0]


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("kind", [CountInWords, Spelled])
def test_ids_decode_back_with_the_vocabulary_of_their_side(tmp_path, kind, is_reversed):
    made(kind(), tmp_path)
    problem = kind(is_reversed)
    vocabularies = list(map(open_vocabulary, problem.in_direction(vocabulary_paths(tmp_path, problem))))
    for split in SPLITS:
        found = []
        for batch in batches(problem, tmp_path, split, batch_tokens=200, max_length=100):
            found += zip(*(vocabulary.decode(batch[side]) for vocabulary, side in zip(vocabularies, batch)))
        assert sorted(found) == sorted(problem.in_direction(pair) for pair in problem.examples(split, {}))


def test_the_manifest_describes_both_vocabularies(spelled):
    for is_reversed in (False, True):
        manifest = check_data(spelled, Spelled(is_reversed))
        for name, described in zip((INPUTS, TARGETS), manifest.vocabularies):
            path = spelled / name
            assert described == {"file": name, "sha256": file_sha256(path), "size": open_vocabulary(path).size}
    assert manifest.vocabulary["file"] == TARGETS


def test_vocabularies_take_one_pass_over_the_text_and_shards_another(tmp_path):
    for problem in (Spelled(), CountInWords()):
        data_dir = made(problem, tmp_path / type(problem).__name__)
        assert problem.passes == 2
    data_dir, problem = tmp_path / "Spelled", Spelled()
    before = (data_dir / INPUTS).read_bytes()
    (data_dir / INPUTS).unlink()
    made(problem, data_dir)
    assert problem.passes == 1 and (data_dir / INPUTS).read_bytes() == before


def test_a_manifest_with_one_vocabulary_is_still_read(tmp_path):
    made(CountInWords(), tmp_path)
    path = tmp_path / "manifest.count_in_words.json"
    content = json.loads(path.read_text())
    del content["inputs_vocabulary"]
    path.write_text(json.dumps(content))
    manifest = check_data(tmp_path, CountInWords())
    assert manifest.inputs_vocabulary is None
    assert [described["file"] for described in manifest.vocabularies] == [SHARED, SHARED]
    assert generate(CountInWords(), tmp_path, tmp_path / "none", say=silent) == manifest


@pytest.mark.parametrize("name", [INPUTS, TARGETS])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_wrong_vocabulary_is_an_error_that_names_it(spelled, name, is_reversed):
    (spelled / name).write_bytes(b"other tokens")
    for said in ("not the vocabulary", "missing"):
        with pytest.raises(UserError, match=said) as caught:
            check_data(spelled, Spelled(is_reversed))
        message = str(caught.value)
        assert str(spelled / name) in message and "t2t-lite-datagen --problem=count_in_words" in message
        assert "\n" not in message
        (spelled / name).unlink(missing_ok=True)


@pytest.mark.parametrize(
    "then, now, said",
    [
        (Spelled(), CountInWords(), "made with a vocabulary for each side"),
        (CountInWords(), Spelled(), "made with one vocabulary for both sides"),
    ],
)
def test_data_with_shared_instead_of_separate_vocabularies_is_refused(tmp_path, then, now, said):
    made(then, tmp_path)
    with pytest.raises(UserError, match=said) as caught:
        check_data(tmp_path, now)
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(UserError, match=said):
        made(now, tmp_path)


@pytest.mark.parametrize(
    ("metric", "message"), [("blue", "'blue' is unknown; did you mean 'bleu'"), ("loss", "'loss' scores no outputs")]
)
def test_a_metric_that_cannot_score_a_problems_outputs_is_an_error(registered, metric, message):
    registered(PROBLEMS, "scored_otherwise", type("ScoredOtherwise", (Problem,), {"metric": metric}))
    with pytest.raises(UserError, match=f"problem 'scored_otherwise': metric={message}"):
        get_problem("scored_otherwise")


def test_a_missing_source_is_fetched_and_a_damaged_one_leaves_no_file(tmp_path):
    (tmp_path / "server.txt").write_bytes(b"published\n")
    problem = Problem()
    problem.sources = (Source("file.txt", (tmp_path / "server.txt").as_uri(), file_sha256(tmp_path / "server.txt")),)
    files = find_or_fetch(problem, tmp_path / "new" / "tmp")
    assert files["file.txt"].read_bytes() == b"published\n"
    assert [path.name for path in (tmp_path / "new" / "tmp").iterdir()] == ["file.txt"]
    (tmp_path / "server.txt").write_bytes(b"publi")
    with pytest.raises(UserError) as caught:
        find_or_fetch(problem, tmp_path / "tmp")
    assert "file.txt" in str(caught.value) and str(tmp_path / "tmp") in str(caught.value)
    assert "\n" not in str(caught.value) and list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("old", "new"), [("flaw", "drop_reason"), ("remarks", "notes"), ("check_given", "check_options")]
)
def test_a_problem_with_an_old_method_name_is_an_error_with_the_new_name(old, new, registered):
    problem = type("OldProblemForTest", (Problem,), {old: lambda self, *arguments: None})
    registered(PROBLEMS, "old_problem_for_test", problem)
    with pytest.raises(UserError, match=f"the method {old} became {new} in version 0.2; rename it"):
        get_problem("old_problem_for_test")
