"""A problem with `shared_vocabulary = False`: one vocabulary for each side, kept apart in every direction."""

import json

import pytest
import tensorflow as tf
from support.vocabularies import vocabulary_paths

from t2t_lite.data.generation.generate import generate
from t2t_lite.data.manifest import check_data
from t2t_lite.data.pipeline import batches
from t2t_lite.data.problem import Example, Problem
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.files import file_sha256

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
# The file name has the number of tokens: the inputs do not yield the requested 40.
INPUTS, TARGETS, SHARED = (f"vocab.spelled.{name}subwords" for name in ("24.inputs.", "40.targets.", "40."))


class Spelled(Problem):
    """Digits in, words out: the two sides share no character except the blank."""

    vocab_size = 40
    byte_fallback = False
    num_shards = 2
    shared_vocabulary = False

    def __init__(self, is_reversed=False):
        super().__init__(is_reversed)
        self.passes = []

    def examples(self, split, files):
        self.passes.append(split)
        for number in {"train": range(100, 180), "dev": range(200, 206), "test": range(300, 304)}[split]:
            yield Example(" ".join(str(number)), " ".join(WORDS[int(digit)] for digit in str(number)))


class SpelledTogether(Spelled):
    """The same data with one vocabulary."""

    data_name = "spelled"
    shared_vocabulary = True


def silent(line):
    pass


def made(problem, data_dir):
    generate(problem, data_dir, data_dir / "none", say=silent)
    return data_dir


@pytest.fixture
def spelled(tmp_path):
    return made(Spelled(), tmp_path)


def texts_of(problem, data_dir, split, vocabularies):
    """The pairs of a split from the pipeline, decoded with (inputs', targets') vocabularies, sorted."""
    found = []
    for batch in batches(problem, data_dir, split, batch_tokens=200, max_length=100):
        found += zip(*(vocabulary.decode(batch[side]) for vocabulary, side in zip(vocabularies, batch)))
    return sorted(found)


def test_each_side_has_its_own_vocabulary(spelled):
    assert sorted(path.name for path in spelled.glob("vocab*")) == [INPUTS, TARGETS]
    inputs, targets = open_vocabulary(spelled / INPUTS), open_vocabulary(spelled / TARGETS)
    assert inputs.decode(inputs.encode(tf.constant(["1 2"])).to_tensor()) == ["1 2"]
    assert "1" not in targets.decode(targets.encode(tf.constant(["1 2"])).to_tensor())[0]
    assert "one" not in inputs.decode(inputs.encode(tf.constant(["one"])).to_tensor())[0]


@pytest.mark.parametrize("split", ["train", "dev", "test"])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_ids_decode_back_with_the_vocabulary_of_their_side(spelled, split, is_reversed):
    problem = Spelled(is_reversed)
    vocabularies = list(map(open_vocabulary, problem.in_direction(vocabulary_paths(spelled, problem))))
    pairs = sorted(problem.in_direction(pair) for pair in problem.examples(split, {}))
    assert texts_of(problem, spelled, split, vocabularies) == pairs


def test_the_manifest_describes_both_vocabularies(spelled):
    for is_reversed in (False, True):
        manifest = check_data(spelled, Spelled(is_reversed))
        for name, described in zip((INPUTS, TARGETS), manifest.vocabularies):
            path = spelled / name
            assert described == {"file": name, "sha256": file_sha256(path), "size": open_vocabulary(path).size}
    assert manifest.vocabulary["file"] == TARGETS


def test_vocabularies_take_one_pass_over_the_text_and_shards_another(tmp_path):
    for problem in (Spelled(), SpelledTogether()):
        data_dir = made(problem, tmp_path / type(problem).__name__)
        assert problem.passes.count("train") == 2
    data_dir = tmp_path / "Spelled"
    problem, before = Spelled(), (data_dir / INPUTS).read_bytes()
    (data_dir / INPUTS).unlink()
    made(problem, data_dir)
    assert problem.passes == ["train"]
    assert (data_dir / INPUTS).read_bytes() == before


def test_a_manifest_with_one_vocabulary_is_still_read(tmp_path):
    made(SpelledTogether(), tmp_path)
    path = tmp_path / "manifest.spelled.json"
    content = json.loads(path.read_text())
    del content["inputs_vocabulary"]
    path.write_text(json.dumps(content))
    manifest = check_data(tmp_path, SpelledTogether())
    assert manifest.inputs_vocabulary is None
    assert [described["file"] for described in manifest.vocabularies] == [SHARED, SHARED]
    assert generate(SpelledTogether(), tmp_path, tmp_path / "none", say=silent) == manifest


@pytest.mark.parametrize("name", [INPUTS, TARGETS])
@pytest.mark.parametrize("content", [b"other tokens", None], ids=["other", "missing"])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_wrong_vocabulary_is_an_error_that_names_it(spelled, name, content, is_reversed):
    if content is None:
        (spelled / name).unlink()
    else:
        (spelled / name).write_bytes(content)
    with pytest.raises(UserError) as caught:
        check_data(spelled, Spelled(is_reversed))
    message = str(caught.value)
    assert str(spelled / name) in message and "t2t-lite-datagen --problem=spelled" in message and "\n" not in message
    assert ("missing" if content is None else "not the vocabulary") in message


@pytest.mark.parametrize(
    "then, now, said",
    [
        (Spelled(), SpelledTogether(), "made with a vocabulary for each side"),
        (SpelledTogether(), Spelled(), "made with one vocabulary for both sides"),
    ],
)
def test_data_with_shared_instead_of_separate_vocabularies_is_refused(tmp_path, then, now, said):
    made(then, tmp_path)
    with pytest.raises(UserError, match=said) as caught:
        check_data(tmp_path, now)
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(UserError, match=said):
        made(now, tmp_path)
