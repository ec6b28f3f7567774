"""WMT 2014 from a small data set in the format of tensorflow-datasets, stored under its name, and from text files."""

import collections
import gzip
import itertools
import json
import shutil

import pytest
import tensorflow as tf
import tensorflow_datasets
from support.letters import records_of
from support.vocabularies import vocabulary_paths

from t2t_lite.data.generation.generate import generate
from t2t_lite.data.manifest import read_manifest
from t2t_lite.data.problem import SIDES, get_problem
from t2t_lite.data.text_files import read_lines
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.errors import UserError

SIZES = {"train": 2000, "validation": 60, "test": 3003}


@pytest.fixture(scope="module")
def pairs(multi30k_dir):
    """English and German or French lines of each split: {"de": {"train": [(en, de), ...], ...}, ...}."""
    english, *others = (read_lines(multi30k_dir / f"train.{language}.gz") for language in ("en", "de", "fr"))
    english = list(english)
    found = {language: zip(english, lines) for language, lines in zip(("de", "fr"), others)}
    return {
        language: {split: list(itertools.islice(both, size)) for split, size in SIZES.items()}
        for language, both in found.items()
    }


@pytest.fixture(scope="module")
def prepared(pairs, tmp_path_factory):
    """A --tmp_dir with both language pairs as tensorflow-datasets prepares them."""
    folder = tmp_path_factory.mktemp("tfds")
    for language, splits in pairs.items():
        sides = {split: dict(zip(("en", language), map(list, zip(*splits[split])))) for split in splits}
        tensorflow_datasets.dataset_builders.store_as_tfds_dataset(
            name="wmt14_translate",
            config=f"{language}-en",
            version="1.0.0",
            features=tensorflow_datasets.features.Translation(languages=(language, "en")),
            split_datasets={split: tf.data.Dataset.from_tensor_slices(texts) for split, texts in sides.items()},
            data_dir=folder,
        )
    return folder


def made(name, data_dir, tmp_dir):
    said = []
    generate(get_problem(name), data_dir, tmp_dir, say=said.append)
    return "\n".join(said)


def lines(path):
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def texts_of(data_dir, name, split):
    """All pairs of the shards of a split."""
    problem = get_problem(name)
    records = records_of(problem, data_dir, split)
    vocabularies = map(open_vocabulary, vocabulary_paths(data_dir, problem))
    sides = ([record[side] for record in records] for side in SIDES)
    return list(zip(*(vocabulary.decode(rows) for vocabulary, rows in zip(vocabularies, sides))))


@pytest.mark.heavy
@pytest.mark.parametrize("language", ["de", "fr"])
def test_a_prepared_data_set_is_used_unchanged(pairs, prepared, tmp_path, snapshot, language):
    name, before = f"wmt_en{language}", snapshot(prepared)
    said = made(name, tmp_path, prepared)
    assert snapshot(prepared) == before
    # The vocabulary encodes runs of blanks as one, and none at the ends; the text files have all of them.
    normal = [tuple(" ".join(side.split()) for side in pair) for pair in pairs[language]["train"]]
    assert collections.Counter(texts_of(tmp_path, name, "train")) == collections.Counter(normal)
    for split, theirs in (("dev", "validation"), ("test", "test")):
        text = zip(*(lines(tmp_path / f"{name}-{split}.{side}.txt") for side in ("inputs", "targets")))
        assert collections.Counter(text) == collections.Counter(pairs[language][theirs])
    published = {"de": 4_508_785, "fr": 40_836_715}[language]
    assert f"{name}: train: has 2,000 pairs, {published - 2000:,} fewer than published" in said
    assert f"{name}: dev: has 60 pairs, 2,940 fewer than published" in said
    assert f"{name}: test: 3003 pairs" in said
    manifest = read_manifest(tmp_path, get_problem(name))
    assert list(manifest.sources) == [f"wmt14_translate/{language}-en"]
    kind, asked = {"de": ("subwords", 37_000), "fr": ("wordpieces", 32_000)}[language]
    size = manifest.vocabulary["size"]
    assert manifest.vocabulary["file"] == f"vocab.{name}.{size}.{kind}"
    learned = f"{name}: learned {size:,} tokens from inputs and targets, not {asked:,} (`vocab_size`)"
    assert size == asked or learned in said
    assert len(manifest.splits["train"]["shards"]) == 100


def test_the_newest_complete_version_is_used(prepared, tmp_path):
    from t2t_lite.data.generation.sources import find_or_fetch

    for version in ("1.0.0", "0.0.9", "0.0.10", "incomplete.XYZ_2.0.0"):
        (tmp_path / "wmt14_translate" / "de-en" / version).mkdir(parents=True)
        (tmp_path / "wmt14_translate" / "de-en" / version / "dataset_info.json").write_text("{}")
    (found,) = find_or_fetch(get_problem("wmt_ende"), tmp_path).values()
    assert found == tmp_path / "wmt14_translate" / "de-en" / "1.0.0"


@pytest.fixture(scope="module")
def placed(pairs, tmp_path_factory):
    """A --tmp_dir with text files, some of them gzip."""
    folder = tmp_path_factory.mktemp("placed")
    for split, name in (("train", "train"), ("validation", "newstest2013"), ("test", "newstest2014")):
        for side, language in enumerate(("en", "de")):
            text = "".join(pair[side] + "\n" for pair in pairs["de"][split]).encode()
            if split == "train":
                (folder / f"{name}.de-en.{language}.gz").write_bytes(gzip.compress(text))
            else:
                (folder / f"{name}.de-en.{language}").write_bytes(text)
    return folder


def test_text_files_placed_by_hand_are_used_unchanged(pairs, placed, tmp_path, snapshot):
    before = snapshot(placed)
    placed.chmod(0o555)
    try:
        made("wmt_ende_rev", tmp_path, placed)
    finally:
        placed.chmod(0o755)
    assert snapshot(placed) == before
    assert lines(tmp_path / "wmt_ende-test.inputs.txt") == [english for english, _ in pairs["de"]["test"]]
    assert lines(tmp_path / "wmt_ende-test.targets.txt") == [german for _, german in pairs["de"]["test"]]
    assert read_manifest(tmp_path, get_problem("wmt_ende")).splits["train"]["examples"] == 2000


def copy_of(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


@pytest.mark.parametrize("change", [-1, 1])
def test_a_test_set_with_another_size_than_newstest2014_is_refused(placed, tmp_path, change):
    folder = copy_of(placed, tmp_path)
    for language in ("en", "de"):
        path = folder / f"newstest2014.de-en.{language}"
        text = path.read_text().split("\n")[:-1]
        path.write_text("\n".join(text[:-1] if change < 0 else [*text, "more"]) + "\n")
    said = f"{3003 + change:,} pairs, 1 {'fewer' if change < 0 else 'more'} than published"
    with pytest.raises(UserError, match=said):
        made("wmt_ende", tmp_path / "data", folder)
    assert "test" not in read_manifest(tmp_path / "data", get_problem("wmt_ende")).splits


@pytest.mark.slow
def test_a_changed_data_set_is_detected_by_its_checksum(prepared, tmp_path):
    folder, data_dir = copy_of(prepared, tmp_path), tmp_path / "data"
    made("wmt_ende", data_dir, folder)
    (data_dir / "wmt_ende-train-00007-of-00100").unlink()  # so that there is something to generate
    (shard,) = folder.glob("wmt14_translate/de-en/1.0.0/*-train.tfrecord-*")
    shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"de-en/1\.0\.0 is not the source that the data .* was made from"):
        made("wmt_ende", data_dir, folder)


def flip_a_bit(folder):
    (shard,) = folder.glob("*-train.tfrecord-*")
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)


def leave_out_a_split(folder):
    info = folder / "dataset_info.json"
    content = json.loads(info.read_text())
    content["splits"] = [split for split in content["splits"] if split["name"] != "validation"]
    info.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "message"),
    [(flip_a_bit, "is damaged .*; prepare it again"), (leave_out_a_split, "has no validation split")],
)
def test_a_damaged_data_set_is_a_one_line_error(prepared, tmp_path, change, message):
    folder = copy_of(prepared, tmp_path)
    change(folder / "wmt14_translate" / "de-en" / "1.0.0")
    with pytest.raises(UserError, match=message) as caught:
        made("wmt_ende", tmp_path / "data", folder)
    assert "\n" not in str(caught.value) and str(folder / "wmt14_translate" / "de-en" / "1.0.0") in str(caught.value)
