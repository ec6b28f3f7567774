"""An interrupted or killed generation ends with the same data as an uninterrupted one; lost files are regenerated."""

import collections

import pytest
from support.letters import Letters, contents_of, names_in, silent, texts_of

from t2t_lite.data.generation.generate import generate
from t2t_lite.data.manifest import check_data
from t2t_lite.data.problem import SPLITS
from t2t_lite.errors import UserError


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The data of Letters, generated without interruption."""
    data_dir = tmp_path_factory.mktemp("whole")
    generate(Letters(), data_dir, data_dir / "none", say=silent)
    return data_dir


class Stop(Exception):
    """The exception that interrupts a generation."""


# The vocabulary takes the first pass over train, the shards the second; text files take another pass over dev, test.
@pytest.mark.parametrize(
    "split, index, which_pass, error",
    [
        *(("train", 150, 1, Stop), ("train", 150, 2, Stop), ("dev", 0, 1, Stop), ("dev", 4, 1, Stop)),
        *(("dev", 4, 2, Stop), ("test", 4, 1, Stop), ("test", 4, 2, Stop), ("test", 4, 2, KeyboardInterrupt)),
    ],
)
def test_an_interrupted_run_resumes_and_ends_with_the_same_bytes(whole, tmp_path, split, index, which_pass, error):
    class Interrupted(Letters):
        data_name = "letters"
        passes = 0

        def visit(self, at_split, at_index):
            self.passes += (at_split, at_index) == (split, index)
            if (at_split, at_index) == (split, index) and self.passes == which_pass:
                raise error

    with pytest.raises(error):
        generate(Interrupted(), tmp_path, tmp_path / "none", say=silent)
    with pytest.raises(UserError, match="t2t-lite-datagen --problem=letters"):
        check_data(tmp_path, Letters())
    generate(Letters(), tmp_path, tmp_path / "none", say=silent)
    assert contents_of(tmp_path) == contents_of(whole)


@pytest.mark.parametrize(
    "left_over",
    [
        "letters-train-00002-of-00003.incomplete",
        "letters-train.0123456789abcdef.work/chunk-000000.arrow",
        "manifest.letters.json.01234567.incomplete",
    ],
)
@pytest.mark.parametrize("lost", [["letters-train-00002-of-00003"], []])
def test_leftovers_of_a_run_killed_between_two_files_are_removed(whole, tmp_path, left_over, lost):
    for name, content in contents_of(whole).items():
        if name not in [*lost, "manifest.letters.json"]:
            (tmp_path / name).write_bytes(content)
    (tmp_path / left_over).parent.mkdir(exist_ok=True)
    (tmp_path / left_over).write_bytes(b"half of something")
    generate(Letters(), tmp_path, tmp_path / "none", say=silent)
    assert contents_of(tmp_path) == contents_of(whole)


@pytest.mark.parametrize("finished", [True, False])
def test_a_changed_vocabulary_size_never_keeps_shards_of_the_old_vocabulary(tmp_path, finished):
    class Letters45(Letters):
        data_name = "letters"
        vocab_size = 45

    generate(Letters(), tmp_path, tmp_path / "none", say=silent)
    if not finished:  # the files that a run leaves that was interrupted at the test split
        for name in names_in(tmp_path):
            if name.startswith(("manifest", "letters-test")):
                (tmp_path / name).unlink()
    try:
        generate(Letters45(), tmp_path, tmp_path / "none", say=silent)
    except UserError as error:
        assert str(tmp_path) in str(error)
        return
    for split in SPLITS:
        source = collections.Counter(tuple(pair) for pair in Letters().examples(split, {}))
        assert collections.Counter(texts_of(Letters45(), tmp_path, split)) == source
