"""Errors of `text_pairs`: wrong flags, too little text, and text that differs from that of existing data."""

import pytest

from t2t_lite.bin.cli.flags import as_flags
from t2t_lite.data.generation.generate import GenerateOptions, generate
from t2t_lite.data.manifest import read_manifest
from t2t_lite.data.problem import SPLITS, get_problem
from t2t_lite.errors import UserError
from t2t_lite.problems.text_pairs import TextPairs


class Stop(Exception):
    """The exception that interrupts a generation."""


def silent(line):
    pass


def some_lines(count, word="line", first=1):
    return "".join(f"{word} {number} is here\n" for number in range(first, first + count))


@pytest.fixture
def flags(tmp_path):
    """The flags for training text of 60 pairs."""
    for side, word in (("source", "line"), ("target", "Zeile")):
        (tmp_path / f"train.{side}").write_text(some_lines(60, word))
    return {f"train_{side}": str(tmp_path / f"train.{side}") for side in ("source", "target")}


@pytest.fixture
def made(tmp_path):
    """Generates the data of `text_pairs`, or of another problem, in a folder and returns its manifest."""

    def make(folder="data", say=silent, problem=None, report=lambda checks: None, **flags):
        problem = problem or get_problem("text_pairs", **flags)
        options = GenerateOptions(num_workers=1, report=report)
        return generate(problem, tmp_path / folder, tmp_path / "none", say, options)

    return make


def contents_of(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def one_line(caught):
    message = as_flags(str(caught.value))
    assert message and "\n" not in message
    return message


# Flags.


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(
    "kinds, named",
    [
        (["source"], ["--{}_source", "--{}_target"]),
        (["target"], ["--{}_source", "--{}_target"]),
        (["source", "tsv"], ["--{}_source"]),
        (["target", "tsv"], ["--{}_target"]),
        (["source", "target", "tsv"], ["--{}_tsv", "--{}_source"]),
    ],
)
def test_incompatible_flags_are_refused(flags, split, kinds, named):
    flags = (flags if split != "train" else {}) | {f"{split}_{kind}": "file" for kind in kinds}
    with pytest.raises(UserError) as caught:
        get_problem("text_pairs", **flags)
    assert caught.value.status == 2
    assert [flag for flag in named if flag.format(split) not in one_line(caught)] == []


@pytest.mark.parametrize("name", ["max_characters", "max_ratio", "held_out", "split_seed"])
@pytest.mark.parametrize("value", ["many", "-1", "1.5", "", "1e3", " ", "²"])
def test_a_value_that_is_not_a_whole_number_is_refused(flags, name, value):
    with pytest.raises(UserError) as caught:
        get_problem("text_pairs", **flags, **{name: value})
    assert caught.value.status == 2
    assert f"--{name}" in one_line(caught) and f"'{value}'" in str(caught.value)


@pytest.mark.parametrize("others", [(), ("dev",), ("dev", "test")])
def test_missing_training_text_is_an_error_that_names_the_flags(made, flags, tmp_path, others):
    files = dict(zip(("source", "target"), flags.values()))
    with pytest.raises(UserError) as caught:
        made(**{f"{split}_{side}": path for split in others for side, path in files.items()})
    assert caught.value.status == 2
    assert all(flag in one_line(caught) for flag in ("--train_source", "--train_target", "--train_tsv"))
    assert read_manifest(tmp_path / "data", TextPairs()) is None


# Text.


def write_tsv(path, pairs):
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    return str(path)


@pytest.mark.parametrize(
    "different, times, held_out, enough",
    [
        (3, 1, None, True),
        (2, 1, None, False),
        (11, 1, 5, True),
        (10, 1, 5, False),
        (11, 3, 5, True),
        (10, 3, 5, False),  # enough pairs to split off, but none left for training
        (4, 30, None, True),  # 5% of the sources, not of the pairs
    ],
)
def test_too_few_pairs_to_split_off_dev_and_test_are_refused(made, tmp_path, different, times, held_out, enough):
    path = write_tsv(tmp_path / "text", [(f"a {number}", f"b {number}") for number in range(different)] * times)
    flags = {"train_tsv": path} | ({"held_out": str(held_out)} if held_out else {})
    if enough:
        manifest = made(**flags)
        each = held_out or 1
        assert {split: manifest.splits[split]["examples"] for split in SPLITS} == {
            "train": (different - 2 * each) * times,
            "dev": each,
            "test": each,
        }
        return
    with pytest.raises(UserError) as caught:
        made(**flags)
    assert str(different * times) in one_line(caught)
    assert "too few" in str(caught.value) or (different, times) == (10, 3)


# Text that changes.


def change(path, how):
    lines = path.read_text().splitlines(keepends=True)
    if how == "truncated":
        path.write_text("".join(lines[:-20]))
    elif how == "changed":
        path.write_text("".join(lines[:40]) + "another 41 is here\n" + "".join(lines[41:]))
    elif how == "longer":
        path.write_text("".join(lines) + some_lines(1, "more"))


@pytest.mark.parametrize(
    ("how", "side", "until"),
    [
        *(("truncated", "source", "train"), ("changed", "target", "train"), ("longer", "source", "dev")),
        *(("truncated", "target", "dev"), ("changed", "source", None), ("longer", "target", None)),
    ],
)
def test_changed_text_is_refused_by_name_and_accepted_when_restored(made, flags, tmp_path, snapshot, how, side, until):
    made("undisturbed", **flags)

    def interrupt(line):
        if line.startswith(f"text_pairs: {until}:"):
            raise Stop

    if until:
        with pytest.raises(Stop):
            made(say=interrupt, **flags)
    else:
        made(**flags)
    before = snapshot(tmp_path / "data")
    path = tmp_path / f"train.{side}"
    original = path.read_bytes()
    change(path, how)
    with pytest.raises(UserError) as caught:
        made(**flags)
    assert str(path) in one_line(caught) and "--data_dir" in one_line(caught) and "`data_dir`" in str(caught.value)
    assert snapshot(tmp_path / "data") == before
    path.write_bytes(original)
    made(**flags)
    assert contents_of(tmp_path / "data") == contents_of(tmp_path / "undisturbed")


def test_the_vocabulary_of_an_interrupted_run_is_not_used_for_other_text(made, flags, tmp_path):
    class Separate(TextPairs):
        data_name = "text_pairs"
        shared_vocabulary = False

    def interrupt(line):
        if line.endswith("tokens from targets"):
            raise Stop

    with pytest.raises(Stop):
        made(say=interrupt, problem=Separate(**flags))
    for path in flags.values():
        (tmp_path / path).write_text(some_lines(60, "quite other text"))
    made("undisturbed", problem=Separate(**flags))
    try:
        made(problem=Separate(**flags))
    except UserError:
        return  # this would also be acceptable
    assert contents_of(tmp_path / "data") == contents_of(tmp_path / "undisturbed")
