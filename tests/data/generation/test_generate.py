"""What a generation writes, also after an interruption; checked sources; errors that say how to fix damaged data."""

import collections
import itertools
import json
import os

import pytest
import sentencepiece
import tensorflow as tf
from support.letters import COUNTS, Letters, contents_of, names_in, records_of, silent, texts_of

from t2t_lite.data.generation.generate import GenerateOptions, generate
from t2t_lite.data.manifest import check_data, read_manifest
from t2t_lite.data.problem import SPLITS, Example, Problem, Source, get_problem
from t2t_lite.data.text_files import read_parallel
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.files import file_sha256


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The data of Letters, generated without interruption."""
    data_dir = tmp_path_factory.mktemp("whole")
    generate(Letters(), data_dir, data_dir / "none", say=silent)
    return data_dir


def test_generate_writes_exactly_these_files(whole):
    ends = ("-00000-of-00001", ".inputs.txt", ".targets.txt")
    held_out = [f"letters-{split}{end}" for split in ("dev", "test") for end in ends]
    shards = [f"letters-train-0000{shard}-of-00003" for shard in range(3)]
    others = ["letters-train.index.npy", "manifest.letters.json", "vocab.letters.60.subwords"]
    assert names_in(whole) == held_out + shards + others


def test_the_shards_hold_all_pairs_shuffled_and_neighbours_are_separated(whole):
    for split in SPLITS:
        source = [tuple(pair) for pair in Letters().examples(split, {})]
        found = texts_of(Letters(), whole, split)
        assert sorted(found) == sorted(source) and found != source
    paths = [str(whole / Letters().shard_filename("train", shard)) for shard in range(3)]
    sizes = [sum(1 for _ in tf.data.TFRecordDataset(path)) for path in paths]
    assert sum(sizes) == 300 and min(sizes) > 60
    numbers = [int(targets.split()[0]) for _, targets in texts_of(Letters(), whole, "train")]
    neighbours = sum(abs(first - second) == 1 for first, second in itertools.pairwise(numbers))
    assert neighbours < 15


def test_dev_and_test_are_also_written_as_text_in_source_order(whole):
    for split in ("dev", "test"):
        for side, lines in zip(("inputs", "targets"), zip(*Letters().examples(split, {}))):
            text = (whole / f"letters-{split}.{side}.txt").read_text(encoding="utf-8")
            assert text == "".join(line + "\n" for line in lines)


def test_the_manifest_describes_the_data(whole):
    manifest = json.loads((whole / "manifest.letters.json").read_text(encoding="utf-8"))
    path = whole / "vocab.letters.60.subwords"
    described = {"file": path.name, "sha256": file_sha256(path), "size": open_vocabulary(path).size}
    assert (manifest["problem"], manifest["sources"], manifest["vocabulary"]) == ("letters", {}, described)
    assert sorted(manifest["splits"]) == ["dev", "test", "train"]
    for split, described in manifest["splits"].items():
        records = records_of(Letters(), whole, split)
        assert described["examples"] == len(records) == COUNTS[split]
        shards = whole.glob(f"letters-{split}-*")
        assert described["shards"] == {path.name: path.stat().st_size for path in shards}
        for side in ("inputs", "targets"):
            assert described["lengths"][side] == collections.Counter(str(len(record[side])) for record in records)


def test_a_second_run_changes_nothing_and_reports_it(whole, snapshot):
    before = snapshot(whole)
    said = []
    generate(Letters(), whole, whole / "none", say=said.append)
    assert snapshot(whole) == before
    assert said == [f"letters: already in {whole}, nothing to do"]


def test_two_problems_share_a_data_directory(whole, tmp_path):
    class Numerals(Letters):
        pass

    generate(Letters(), tmp_path, tmp_path / "none", say=silent)
    generate(Numerals(), tmp_path, tmp_path / "none", say=silent)
    assert {name: data for name, data in contents_of(tmp_path).items() if "letters" in name} == contents_of(whole)
    assert check_data(tmp_path, Numerals()).problem == "numerals"


@pytest.mark.parametrize("split", SPLITS)
def test_a_split_without_pairs_is_an_error_that_names_it(tmp_path, split):
    class Hollow(Letters):
        def examples(self, at_split, files):
            return iter(()) if at_split == split else super().examples(at_split, files)

    with pytest.raises(UserError, match=f"'hollow' has no {split} examples"):
        generate(Hollow(), tmp_path, tmp_path / "none", say=silent)
    with pytest.raises(UserError, match="t2t-lite-datagen --problem=hollow"):
        check_data(tmp_path, Hollow())


def test_a_text_that_contains_a_line_end_is_refused(tmp_path):
    class Broken(Letters):
        def examples(self, split, files):
            for inputs, targets in super().examples(split, files):
                yield Example(inputs + "\nmore", targets)

    with pytest.raises(UserError, match="line"):
        generate(Broken(), tmp_path, tmp_path / "none", say=silent)


# The vocabulary takes the first pass over train, the shards the second; text files take another pass over dev, test.
@pytest.mark.parametrize(
    "split, index, which_pass, error",
    [
        *(
            ("train", 150, 1, RuntimeError),
            ("train", 150, 2, RuntimeError),
            ("dev", 0, 1, RuntimeError),
            ("dev", 4, 1, RuntimeError),
        ),
        *(
            ("dev", 4, 2, RuntimeError),
            ("test", 4, 1, RuntimeError),
            ("test", 4, 2, RuntimeError),
            ("test", 4, 2, KeyboardInterrupt),
        ),
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


@pytest.mark.parametrize("lost", [["letters-train-00002-of-00003"], []])
def test_leftovers_of_a_run_killed_between_two_files_are_removed(whole, tmp_path, lost):
    for name, content in contents_of(whole).items():
        if name not in [*lost, "manifest.letters.json"]:
            (tmp_path / name).write_bytes(content)
    chunk = tmp_path / "letters-train.0123456789abcdef.work" / "chunk-000000.arrow"
    chunk.parent.mkdir()
    for left_over in (chunk, *(tmp_path / f"{name}.incomplete" for name in (SHARD, f"{MANIFEST}.01234567"))):
        left_over.write_bytes(b"half of something")
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
        assert sorted(texts_of(Letters45(), tmp_path, split)) == sorted(Letters().examples(split, {}))


class Files(Problem):
    """Reads two files with one sentence per line for every split."""

    vocab_size = 60
    byte_fallback = False
    num_shards = 2

    def __init__(self, folder):
        super().__init__()
        paths = (folder / "a.txt", folder / "b.txt")
        self.sources = tuple(Source(path.name, path.as_uri(), file_sha256(path)) for path in paths)

    def examples(self, split, files):
        return read_parallel(files["a.txt"], files["b.txt"])


@pytest.fixture
def sources(tmp_path):
    folder = tmp_path / "sources"
    folder.mkdir()
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text("".join(f"{name} line {number}\n" for number in range(40)))
    return folder


def test_sources_are_recorded_with_checksums_and_may_be_in_a_read_only_folder(tmp_path, sources, snapshot):
    before = snapshot(sources)
    sources.chmod(0o555)
    try:
        generate(Files(sources), tmp_path / "data", sources, say=silent)
    finally:
        sources.chmod(0o755)
    assert snapshot(sources) == before
    manifest = read_manifest(tmp_path / "data", Files(sources))
    assert manifest.sources == {name: file_sha256(sources / name) for name in ("a.txt", "b.txt")}


@pytest.mark.parametrize(
    "content, said",
    [(b"one line\n", "has more lines than"), (b"good\n" * 4 + b"caf\xe9\n" * 36, "line 5: not UTF-8")],
    ids=["another length", "not UTF-8"],
)
def test_bad_source_text_is_an_error_that_names_the_file_and_nothing_is_written(tmp_path, sources, content, said):
    (sources / "b.txt").write_bytes(content)
    with pytest.raises(UserError) as caught:
        generate(Files(sources), tmp_path / "data", sources, say=silent)
    assert said in str(caught.value) and str(sources / "b.txt") in str(caught.value)
    assert "\n" not in str(caught.value) and "INTERNAL" not in str(caught.value)
    assert not (tmp_path / "data").exists() or names_in(tmp_path / "data") == []


def test_the_blanks_of_new_data_are_normalized_and_those_of_earlier_data_stay(tmp_path, sources):
    for name in ("a.txt", "b.txt"):
        (sources / name).write_text("".join(f" {n}\u00a0\u3000b {n} \n{n} b {n}\n" for n in range(20)))
    data_dir, problem = tmp_path / "data", Files(sources)
    generate(problem, data_dir, sources, say=silent)
    vocabulary = open_vocabulary(data_dir / read_manifest(data_dir, problem).vocabulary["file"])
    assert len({*map(tuple, vocabulary.ids_of([" 7\u00a0\u3000b 7 ", "7 b 7"]))}) == 1
    keeps = GenerateOptions(normalize_whitespace=False)
    with pytest.raises(UserError, match="was made with `normalize_whitespace=True`, but this run has `normal"):
        generate(keeps.applied_to(problem), data_dir, sources, say=silent, options=keeps)
    # As an earlier version left it: complete data is used unchanged, and missing data is made with all blanks.
    manifest = data_dir / "manifest.files.json"
    content = json.loads(manifest.read_text())
    del content["settings"]["normalize_whitespace"]
    manifest.write_text(json.dumps(content))
    generate(problem, data_dir, sources, say=silent)
    (data_dir / read_manifest(data_dir, problem).vocabulary["file"]).unlink()
    with pytest.raises(UserError, match=r"is not the vocabulary that the data in .* was made with"):
        generate(problem, data_dir, sources, say=silent)
    generate(keeps.applied_to(problem), tmp_path / "kept", sources, say=silent, options=keeps)
    kept = open_vocabulary(tmp_path / "kept" / read_manifest(tmp_path / "kept", problem).vocabulary["file"])
    assert kept.decode(kept.ids_of([" 7\u00a0\u3000b 7 "])) == [" 7\u00a0\u3000b 7 "]


def test_the_languages_of_finished_data_may_be_named_later(tmp_path):
    (tmp_path / "my.tsv").write_text("".join(f"a {n}\tb {n}\n" for n in range(40)))
    for languages in ({}, {"languages": "en-zh"}, {}):
        problem = get_problem("text_pairs", train_tsv=str(tmp_path / "my.tsv"), held_out="2", **languages)
        problem.vocab_size = 300
        settings = generate(problem, tmp_path / "data", tmp_path, say=silent).settings
    assert settings["languages"] == "en-zh" and read_manifest(tmp_path / "data", problem).settings == settings
    assert (problem.source_language, problem.target_language) == ("en", "zh")
    own = {"train_tsv": str(tmp_path / "my.tsv"), "held_out": "2"}
    with pytest.raises(UserError, match="was made with `languages=en-zh`, but this run has `languages=en-fr`; omit it"):
        other = get_problem("text_pairs", **own, languages="en-fr")
        other.vocab_size = 300
        generate(other, tmp_path / "data", tmp_path, say=silent)
    # Data of an early version, which recorded no settings, stays as it is, however often it is used.
    manifest = tmp_path / "data" / "manifest.text_pairs.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"settings": {}}))
    for _ in range(2):
        problem = get_problem("text_pairs", **own, languages="en-zh")
        assert generate(problem, tmp_path / "data", tmp_path, say=silent).settings == {}


def test_a_vocabulary_whose_words_are_named_like_symbols_is_said(tmp_path, caplog):
    (tmp_path / "my.tsv").write_text("".join(f"a {n}\tb {n}\n" for n in range(40)))
    own = {"user_defined_symbols": ["<pad>", "</s>", "<2de>"], "pad_id": -1, "eos_id": -1, "bos_id": -1}
    texts = iter((tmp_path / "my.tsv").read_text().splitlines())
    with open(tmp_path / "spm.model", "wb") as model:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=texts, model_writer=model, vocab_size=40, hard_vocab_limit=False, minloglevel=2, **own
        )
    problem = get_problem("text_pairs", train_tsv=str(tmp_path / "my.tsv"), held_out="2")
    problem.vocab_file = str(tmp_path / "spm.model")
    generate(problem, tmp_path / "data", tmp_path, say=silent)
    said = f"{problem.vocab_file} has the names of the symbols <pad> and </s> a second time: models with it cannot be"
    assert [message[: len(said)] for message in caplog.messages] == [said]


SHARD, MANIFEST, VOCABULARY = "letters-train-00001-of-00003", "manifest.letters.json", "vocab.letters.60.subwords"
# what: (the file, its damaged content)
DAMAGE = {
    "cut short": (SHARD, lambda content: content[:-10]),
    "empty": (SHARD, lambda content: b""),
    "missing": (SHARD, lambda content: None),
    "manifest": (MANIFEST, lambda content: b'{"problem": "letters"'),
    "manifest of another version": (MANIFEST, lambda content: b'{"problem": "letters", "new": 1}'),
    "manifest not UTF-8": (MANIFEST, lambda content: b"\xff\xff"),
    "manifest without shards": (MANIFEST, lambda content: content.replace(b'"shards"', b'"shreds"')),
    "vocabulary": (VOCABULARY, lambda content: b"other"),
    "no vocabulary": (VOCABULARY, lambda content: None),
}


@pytest.mark.parametrize(("named", "damaged"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_data_is_an_error_that_names_the_file_and_the_remedy(whole, tmp_path, named, damaged, snapshot):
    contents = contents_of(whole)
    for name, content in (contents | {named: damaged(contents[named])}).items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
    before = snapshot(tmp_path)
    with pytest.raises(UserError) as caught:
        check_data(tmp_path, Letters())
    assert str(tmp_path / named) in str(caught.value)
    assert "t2t-lite-datagen" in str(caught.value) and "\n" not in str(caught.value)
    assert snapshot(tmp_path) == before


def test_a_folder_without_data_is_an_error_with_the_command_that_generates_it(tmp_path, whole):
    command = "t2t-lite-datagen --problem=letters --data_dir="
    for folder in (tmp_path / "none", tmp_path):
        with pytest.raises(UserError) as caught:
            check_data(folder, Letters())
        assert f"{command}{folder}" in str(caught.value)
    with pytest.raises(UserError, match="has no data for 'multi30k_ende'"):
        check_data(whole, get_problem("multi30k_ende"))


@pytest.mark.heavy
def test_multi30k_is_complete_and_its_source_folder_is_not_changed(multi30k_data, multi30k_dir, snapshot, tmp_path):
    problem = get_problem("multi30k_ende")
    before = snapshot(multi30k_dir)
    manifest = read_manifest(multi30k_data, problem)
    assert [manifest.splits[split]["examples"] for split in SPLITS] == [29_000, 1014, 1000]
    assert manifest.vocabulary["size"] == 6000
    assert manifest.sources == {source.name: source.sha256 for source in problem.sources}
    files = {source.name: multi30k_dir / source.name for source in problem.sources}
    generate(problem, tmp_path, multi30k_dir, say=silent)
    for split in SPLITS:
        # The vocabulary encodes runs of blanks as one, and none at the ends.
        expected = [tuple(" ".join(side.split()) for side in pair) for pair in problem.examples(split, files)]
        assert sorted(texts_of(problem, tmp_path, split)) == sorted(expected)
    assert contents_of(tmp_path) == contents_of(multi30k_data)
    assert snapshot(multi30k_dir) == before
    assert not [name for name in os.listdir(tmp_path) if ".incomplete" in name or ".spill" in name]


class Overlapping(Problem):
    """Sources by number: 7 of train are also in dev, 2 of train in test, 1 of dev in test."""

    vocab_size = 60
    before = dict.fromkeys(SPLITS, "")
    byte_fallback = False
    num_shards = 2
    numbers = {"train": range(50), "dev": range(43, 53), "test": [10, 11, 50, 60]}

    def examples(self, split, files):
        for number in self.numbers[split]:
            yield Example(f"{self.before[split]}{number:b}", f"{split} {number}")


class TaggedOverlapping(Overlapping):
    """The same with tags, which do not count. "1" is a symbol, too, but only the start of other words."""

    data_name = "overlapping"
    symbols = ("<2>", "<2de>", "1")
    before = {"train": "<2de> ", "dev": "<2>", "test": "<2de><2> "}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "runner"), [(Overlapping, ""), (TaggedOverlapping, ""), (TaggedOverlapping, "direct")]
)
def test_sources_in_several_splits_are_counted_and_reported(tmp_path, runner, problem):
    said = []
    generate(problem(), tmp_path, tmp_path / "none", said.append, GenerateOptions(runner=runner))
    splits = json.loads((tmp_path / "manifest.overlapping.json").read_text())["splits"]
    assert [splits[split]["overlap"] for split in SPLITS] == [{"dev": 7, "test": 2}, {}, {"dev": 1}]
    assert [line for line in said if "also in" in line] == [
        f"overlapping: {split}: the sources of {count} pairs are also in {other}"
        for split, count, other in (("train", 7, "dev"), ("train", 2, "test"), ("test", 1, "dev"))
    ]


def test_a_problem_may_keep_files_of_its_own_in_tmp_dir(tmp_path):
    class Fetching(Letters):
        def examples(self, split, files):
            self.tmp_dir.mkdir(exist_ok=True)
            (self.tmp_dir / f"{split}.txt").write_text("fetched")
            return super().examples(split, files)

    generate(Fetching(), tmp_path / "data", tmp_path / "tmp", say=silent)
    assert names_in(tmp_path / "tmp") == ["dev.txt", "test.txt", "train.txt"]
