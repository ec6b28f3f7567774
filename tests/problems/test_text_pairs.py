"""The user's own text: what is read, kept and split off, and what is refused."""

import gzip
import random

import pytest
from support.letters import contents_of, records_of
from support.vocabularies import vocabulary_paths

from t2t_lite.bin.cli.flags import as_flags
from t2t_lite.data.generation.generate import GenerateOptions, generate
from t2t_lite.data.manifest import read_manifest
from t2t_lite.data.problem import SIDES, SPLITS, get_problem
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.problems.text_pairs import TextPairs

EMPTY = "an empty side"


def some_pairs(first, last):
    return [(f"line {number} is here", f"Zeile {number} ist hier") for number in range(first, last + 1)]


DEV, TEST = some_pairs(901, 903), some_pairs(951, 952)


def write(path, lines, end="\n", start="", last_end=True):
    """Writes lines as bytes, gzip if the path has that suffix, and returns the path as a flag value."""
    content = (start + end.join(lines) + (end if last_end else "")).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


@pytest.fixture
def given(tmp_path):
    """Writes pairs of splits to files and returns the flags that name them: given(train=[...], dev=[...])."""

    def flags(**pairs):
        return {
            f"{split}_{side}": write(tmp_path / f"{split}.{side}.txt", texts)
            for split, its_pairs in pairs.items()
            for side, texts in zip(("source", "target"), zip(*its_pairs))
        }

    return flags


@pytest.fixture
def made(tmp_path):
    """Generates the data of `text_pairs`, or of another problem, in a folder and returns its manifest."""

    def make(folder="data", say=lambda line: None, kind=TextPairs, **flags):
        problem = get_problem("text_pairs", **flags) if kind is TextPairs else kind(**flags)
        return generate(problem, tmp_path / folder, tmp_path / "none", say, GenerateOptions(num_workers=1))

    return make


@pytest.fixture
def texts(tmp_path):
    """Reads the pairs of a split out of the shards, sorted."""

    def read(split):
        problem, data_dir = get_problem("text_pairs"), tmp_path / "data"
        vocabulary = open_vocabulary(vocabulary_paths(data_dir, problem)[0])
        records = records_of(problem, data_dir, split)
        return sorted(zip(*(vocabulary.decode([record[side] for record in records]) for side in SIDES)))

    return read


@pytest.mark.parametrize("ending", [".txt", ".gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("start", ["", "\ufeff"], ids=["", "BOM"])
@pytest.mark.parametrize("kind", ["two files", "tsv"])
def test_text_is_read_in_every_supported_format(tmp_path, made, texts, ending, end, start, kind):
    splits = {"train": some_pairs(1, 30), "dev": DEV, "test": TEST}
    flags = {}
    for split, pairs in splits.items():
        last_end = split != "dev"  # one file has no line end after its last line
        files = {"source": [pair[0] for pair in pairs], "target": [pair[1] for pair in pairs]}
        if kind == "tsv":
            files = {"tsv": ["\t".join(pair) for pair in pairs[:-1]] + ["\t".join([*pairs[-1], "a third column"])]}
        for name, lines in files.items():
            flags[f"{split}_{name}"] = write(tmp_path / f"{split}.{name}{ending}", lines, end, start, last_end)
    manifest = made(**flags)
    assert {split: texts(split) for split in SPLITS} == {split: sorted(pairs) for split, pairs in splits.items()}
    assert set(manifest.sources) == set(flags.values())
    for side, lines in zip(SIDES, zip(*DEV)):
        content = (tmp_path / "data" / f"text_pairs-dev.{side}.txt").read_bytes()
        assert content.decode() == "".join(f"{line}\n" for line in lines)


def test_unusable_lines_are_dropped_from_every_split_and_counted(tmp_path, made, texts):
    good = b"one\teins\ntwo\tzwei\n"
    bad = b"three\nfour\t\n \tfive\n\nsix\tcaf\xe9\nseven\tsieben\tmore\n"
    for split in SPLITS:
        (tmp_path / split).write_bytes(good + bad)
    manifest = made(**{f"{split}_tsv": str(tmp_path / split) for split in SPLITS})
    for split in SPLITS:
        assert texts(split) == [("one", "eins"), ("seven", "sieben"), ("two", "zwei")]
        assert manifest.splits[split]["dropped"] == {"a line without a tab": 1, EMPTY: 3, "a line that is not UTF-8": 1}


@pytest.mark.parametrize(
    "flags, kept, dropped",
    [
        ({}, [(2000, 2000), (2000, 400), (400, 2000)], [(2001, 2000), (2000, 2001)]),
        ({}, [(40, 1), (1, 40), (45, 9), (9, 45), (41, 9)], [(41, 8), (8, 41), (46, 9), (9, 46), (2000, 399)]),
        ({"max_ratio": "2"}, [(40, 1), (42, 21), (21, 42)], [(43, 21), (21, 43), (41, 1)]),
        ({"max_characters": "50"}, [(50, 50), (50, 10)], [(51, 51), (50, 51), (51, 50), (2000, 2000), (50, 9)]),
    ],
)
def test_only_long_and_uneven_training_pairs_are_dropped(made, texts, given, flags, kept, dropped):
    # Characters count, not bytes; this letter has two bytes.
    pairs = {sizes: tuple("ä" * (size - 1) + "b" for size in sizes) for sizes in kept + dropped}
    everything = list(pairs.values())
    manifest = made(**given(train=everything, dev=everything, test=everything), **flags)
    assert texts("train") == sorted(pairs[sizes] for sizes in kept)
    assert sum(manifest.splits["train"]["dropped"].values()) == len(dropped)
    for split in ("dev", "test"):
        assert texts(split) == sorted(everything)
        assert manifest.splits[split]["dropped"] == {}


@pytest.mark.parametrize(
    "flags, each", [({}, 10), ({"held_out": "7"}, 7), ({"held_out": "80"}, 80), ({"split_seed": "3"}, 10)]
)
def test_every_usable_pair_is_in_exactly_one_split(made, texts, given, flags, each):
    pairs = some_pairs(1, 200)
    unusable = [("", "leer"), ("a" * 100, "b")]
    manifest = made(**given(train=pairs[:80] + unusable + pairs[80:]), **flags)
    found = {split: texts(split) for split in SPLITS}
    assert {split: len(found[split]) for split in SPLITS} == {"train": 200 - 2 * each, "dev": each, "test": each}
    assert sorted(found["train"] + found["dev"] + found["test"]) == sorted(pairs)
    assert sum(manifest.splits["train"]["dropped"].values()) == 2


def test_repeated_pairs_are_in_one_split_and_dropped_copies_are_counted(made, texts, given):
    times = {pair: 1 + number % 4 for number, pair in enumerate(some_pairs(1, 120))}
    pairs = [pair for pair, count in times.items() for _ in range(count)]
    random.Random(1).shuffle(pairs)
    said = []
    manifest = made(**given(train=pairs), held_out="20", say=said.append)
    found = {split: texts(split) for split in SPLITS}
    held_out = found["dev"] + found["test"]
    assert len(found["dev"]) == len(found["test"]) == 20 and len(set(held_out)) == 40
    assert not set(found["train"]) & set(held_out)
    assert sorted(found["train"]) == sorted(pair for pair in pairs if pair not in set(held_out))
    copies = {split: sum(times[pair] - 1 for pair in found[split]) for split in ("dev", "test")}
    assert manifest.splits["train"]["dropped"] == {f"its source is also in {split}": copies[split] for split in copies}
    assert [line.count("20 pairs of the training text become the") for line in said].count(1) == 2


@pytest.mark.parametrize("tags", [("", ""), ("<2hier> ", "<2da>")])
@pytest.mark.parametrize("flags", [{}, {"drop_duplicates": "True"}, {"held_out": "40"}])
def test_a_source_with_several_targets_is_in_one_split(made, texts, given, flags, tags):
    pairs = [
        (f"{tag}line {number} is here", f"Zeile {number} {word}")
        for number in range(400)
        for tag, word in zip(tags, ("hier", "da"))
    ]
    random.Random(2).shuffle(pairs)
    manifest = made(**given(train=pairs), **flags, symbols=",".join(tags))
    sources = {split: {source.partition(">")[2].strip() or source for source, _ in texts(split)} for split in SPLITS}
    each = int(flags.get("held_out", 20))  # 5% of the sources
    assert {split: len(sources[split]) for split in SPLITS} == {"train": 400 - 2 * each, "dev": each, "test": each}
    assert len(set.union(*sources.values())) == 400
    assert [manifest.splits[split]["examples"] for split in SPLITS] == [800 - 4 * each, each, each]
    assert all(manifest.splits[split]["overlap"] == {} for split in SPLITS)


@pytest.mark.parametrize(
    ("both", "flags", "message"),
    [
        (98, {}, "100 different sources, but 98 of them are also in dev, which leaves too few to hold out 2 for test"),
        (0, {"held_out": "100"}, "100 different sources, too few to hold out 100 each for test; pass `test_source`"),
    ],
)
def test_too_few_sources_to_hold_out_are_an_error_with_the_cause(made, given, both, flags, message):
    dev = some_pairs(1, both) + some_pairs(901, 902)
    with pytest.raises(UserError, match=message):
        made(**given(train=some_pairs(1, 100), dev=dev), **{"held_out": "2"} | flags)


def test_pairs_are_split_off_uniformly_and_in_the_order_of_the_text(given):
    problem = get_problem("text_pairs", **given(train=some_pairs(1, 4000)))
    for split in ("dev", "test"):
        numbers = [int(pair.inputs.split()[1]) for pair in problem.examples(split, {})]
        assert numbers == sorted(numbers) and len(numbers) == 200
        assert all(25 <= sum(number > bound for number in numbers) <= 175 for bound in (1000, 2000, 3000))
        assert abs(sum(numbers) / 200 - 2000) < 4 * 4000 / (12 * 200) ** 0.5


@pytest.mark.parametrize("name", ["text_pairs", "text_mixture"])
def test_the_users_text_may_have_languages(name):
    problem = get_problem(name, languages="en:zh-Hans")
    assert (problem.source_language, problem.output_language) == ("en", "zh-Hans")
    assert problem.options["languages"] == "en:zh-Hans" and get_problem(name).output_language == ""
    for wrong in ("de", "en-", "pt-BR-de", "zh-Hant-en", "en-Chinese!"):
        with pytest.raises(UserError, match="such as"):
            get_problem(name, languages=wrong)


@pytest.mark.parametrize(
    ("source", "target", "languages"),
    [
        ("train.en", "train.de", "en-de"),
        ("a.pt_BR.gz", "a.de.xz", "pt-BR:de"),
        ("x.en,y.en.bz2", "x.fr,y.fr", "en-fr"),
        ("part*.en", "part*.zh-Hans", "en:zh-Hans"),
        ("clean.en", "noisy.en", "en-en"),
        ("train.src", "train.tgt", ""),
        ("train.en", "train.txt", ""),
        ("x.en,y.fr", "x.de,y.de", ""),
        ("en", "de", "en-de"),
        ("train.enx", "train.de", ""),
        ("train.en_v2", "train.de_v2", ""),
        ("train.en-clean", "train.de-clean", ""),
        ("train.es-419", "train.en_GB", "es-419:en-GB"),
    ],
)
def test_the_endings_of_files_name_the_languages(source, target, languages):
    assert get_problem("text_pairs", train_source=source, train_target=target).usual_languages() == languages


def one_line(caught):
    message = as_flags(str(caught.value))
    assert message and "\n" not in message
    return message


@pytest.fixture
def flags(given):
    """The flags for training text of 60 pairs."""
    return given(train=some_pairs(1, 60))


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(
    "kinds, named",
    [
        *((kinds, ["--{}_source", "--{}_target"]) for kinds in (["source"], ["target"])),
        *(([kind, "tsv"], [f"--{{}}_{kind}"]) for kind in ("source", "target")),
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
    path = write(tmp_path / "text", [f"a {number}\tb {number}" for number in range(different)] * times)
    flags = {"train_tsv": path} | ({"held_out": str(held_out)} if held_out else {})
    if enough:
        each, splits = held_out or 1, made(**flags).splits
        assert [splits[split]["examples"] for split in SPLITS] == [(different - 2 * each) * times, each, each]
        return
    with pytest.raises(UserError) as caught:
        made(**flags)
    assert str(different * times) in one_line(caught)
    assert "too few" in str(caught.value) or (different, times) == (10, 3)


CHANGES = {
    "truncated": lambda lines: lines[:-20],
    "changed": lambda lines: [*lines[:40], "another 41 is here\n", *lines[41:]],
    "longer": lambda lines: [*lines, "more 1 is here\n"],
}


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
            raise KeyboardInterrupt

    if until:
        with pytest.raises(KeyboardInterrupt):
            made(say=interrupt, **flags)
    else:
        made(**flags)
    before = snapshot(tmp_path / "data")
    path = tmp_path / f"train.{side}.txt"
    original = path.read_text()
    path.write_text("".join(CHANGES[how](original.splitlines(keepends=True))))
    with pytest.raises(UserError) as caught:
        made(**flags)
    assert str(path) in one_line(caught) and "--data_dir" in one_line(caught) and "`data_dir`" in str(caught.value)
    assert snapshot(tmp_path / "data") == before
    path.write_text(original)
    made(**flags)
    assert contents_of(tmp_path / "data") == contents_of(tmp_path / "undisturbed")


def test_the_vocabulary_of_an_interrupted_run_is_not_used_for_other_text(made, given, tmp_path):
    class Separate(TextPairs):
        data_name = "text_pairs"
        shared_vocabulary = False

    def interrupt(line):
        if line.endswith("tokens from targets"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made(say=interrupt, kind=Separate, **given(train=some_pairs(1, 60)))
    other = given(train=[(f"quite other text {number}",) * 2 for number in range(60)])
    made("undisturbed", kind=Separate, **other)
    try:
        made(kind=Separate, **other)
    except UserError:
        return  # this would also be acceptable
    assert contents_of(tmp_path / "data") == contents_of(tmp_path / "undisturbed")
