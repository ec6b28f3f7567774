"""Shards of tensor2tensor become data as they are, and imported runs are trained further on them or on new text."""

import collections
import gzip
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from support.commands import with_flags

import t2t_lite as t2t
from t2t_lite.data.manifest import manifest_of_file
from t2t_lite.data.problem import SIDES
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.runs.run_dir import open_run_dir

NAME = "translate30k_small"
SPLITS = {"train-00000-of-00002": (0, 500), "train-00001-of-00002": (500, 800), "dev-00000-of-00001": (800, 1014)}


def records_of(path):
    return [record.numpy() for record in tf.data.TFRecordDataset(str(path))]


def lines_of(path):
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return list(lines)


def write(path, records):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)


def example(**features):
    feature = {name: tf.train.Feature(int64_list=tf.train.Int64List(value=ids)) for name, ids in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def ids_of(record, side):
    return list(tf.train.Example.FromString(record).features.feature[side].int64_list.value)


@pytest.fixture(scope="module")
def source(t2t_dir, tmp_path_factory):
    """A data_dir of tensor2tensor: the records and the vocabulary are its own, the records of dev in three shards."""
    folder = tmp_path_factory.mktemp("t2t_data")
    (vocabulary,) = (t2t_dir / "data").glob("vocab.*")
    shutil.copyfile(vocabulary, folder / vocabulary.name)
    (shard,) = (t2t_dir / "data").glob("*-dev-*")
    for ending, (start, end) in SPLITS.items():
        write(folder / f"{NAME}-{ending}", records_of(shard)[start:end])
    return folder


@pytest.fixture(scope="module")
def data(source, tmp_path_factory):
    return t2t.import_data(source, tmp_path_factory.mktemp("data") / "data")


@pytest.fixture(scope="module")
def run(t2t_dir, tmp_path_factory):
    return t2t.import_model(t2t_dir / "v3", tmp_path_factory.mktemp("imported") / "run", data_dir=t2t_dir / "data").path


def test_records_are_copied_and_counted(data, source):
    assert data.pairs == {"train": 800, "dev": 214, "test": 0}
    for ending in SPLITS:
        assert (data.data_dir / f"text_pairs-{ending}").read_bytes() == (source / f"{NAME}-{ending}").read_bytes()
    manifest = manifest_of_file(data.manifest)
    for split in ("train", "dev"):
        records = [record for path in sorted(source.glob(f"*-{split}-*")) for record in records_of(path)]
        lengths = [[len(ids_of(record, side)) for record in records] for side in SIDES]
        for side, counts in zip((*SIDES, "longer"), (*lengths, np.max(lengths, axis=0).tolist())):
            assert manifest.splits[split]["lengths"][side] == collections.Counter(map(str, counts))


def test_texts_are_lines_of_multi30k_and_are_encoded_to_the_ids_of_the_shards(data, source, multi30k_dir):
    texts = [path.read_text(encoding="utf-8").splitlines() for path in data.texts["dev"]]
    pairs = set(zip(*(map(str.strip, lines_of(multi30k_dir / f"val.{language}.gz")) for language in ("en", "de"))))
    assert len(texts[0]) == 214 and pairs >= set(zip(*texts))
    vocabulary = open_vocabulary(data.vocabularies[0])
    records = records_of(source / f"{NAME}-dev-00000-of-00001")
    for side, lines in zip(SIDES, texts):
        assert vocabulary.ids_of(lines) == [ids_of(record, side) for record in records]


def test_shards_of_bytes_need_no_file_of_a_vocabulary(tmp_path):
    pairs = [("Hé.", "Tag"), ("a b", "ÿ"), ("one", "eins")]
    source = tmp_path / "source"
    source.mkdir()
    # As ByteTextEncoder numbers them: the byte + 2.
    ids = [[[*(byte + 2 for byte in text.encode()), 1] for text in pair] for pair in pairs]
    records = [example(**dict(zip(SIDES, pair))) for pair in ids]
    for split in ("train", "dev"):
        write(source / f"{NAME}-{split}-00000-of-00001", records)
    with pytest.raises(UserError, match=r"no file vocab.+ pass `vocab_file=bytes`"):
        t2t.import_data(source, tmp_path / "data")
    made = t2t.import_data(source, tmp_path / "data", vocab_file="bytes")
    assert list(zip(*(path.read_text(encoding="utf-8").splitlines() for path in made.texts["dev"]))) == pairs


@pytest.mark.heavy
def test_an_imported_run_is_trained_further_with_its_settings(data, run, tmp_path, command):
    tuned = tmp_path / "tuned"
    flags = ["--problem=text_pairs", f"--data_dir={data.data_dir}", f"--output_dir={tuned}", "--schedule=train"]
    # Its weights are changed by a tiny step, so that what it was trained to is still there.
    more = ["--train_steps=2", "--hparams=learning_rate=1e-6,batch_tokens=512"]
    result = command("trainer", *flags, f"--warm_start_from={run}", *more)
    assert result.returncode == 0 and "66 of 66 weights loaded" in result.stdout, result.stderr
    old, new = (open_run_dir(path).hparams for path in (run, tuned))
    assert new == old.replace(train_steps=2, learning_rate=1e-6, batch_tokens=512)
    before, after = (
        t2t.evaluate(path, data_dir=data.data_dir, split="dev", decode=False).nll_loss for path in (run, tuned)
    )
    assert after == pytest.approx(before, abs=1e-3) and before < 3.5
    with pytest.raises(UserError, match="was imported without a test split"):
        t2t.evaluate(run, data_dir=data.data_dir, split="test", decode=False)
    with pytest.raises(UserError, match="was imported without a test split"):  # before the training
        folders = {"data_dir": data.data_dir, "output_dir": tmp_path / "other"}
        t2t.train("text_pairs", warm_start_from=run, recipe="paper", **folders)
    assert not (tmp_path / "other").exists()
    # It goes on without the run that it began with.
    more = ["--train_steps=3", more[1], "--generate_data"]
    result = command("trainer", *flags, f"--warm_start_from={tmp_path / 'elsewhere'}", *more)
    assert result.returncode == 0 and "resuming from" in result.stdout, result.stderr


def commands_of_page(heading):
    """The command lines, as lists of words, from a heading of the page on."""
    page = Path(__file__).resolve().parents[2] / "docs" / "from-tensor2tensor.md"
    _, _, text = page.read_text(encoding="utf-8").partition(f"## {heading}\n")
    lines = "".join(re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)).replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines if line.startswith("t2t-lite-")]


@pytest.mark.heavy
def test_the_page_leads_from_a_model_of_tensor2tensor_to_one_that_is_trained_further(
    source, t2t_dir, multi30k_dir, tmp_path, command, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(source, "t2t_data")
    shutil.copytree(t2t_dir / "v3", "t2t_train/ende", copy_function=shutil.copyfile)
    for name, lines in (
        ("in.txt", (t2t_dir / "in.txt").read_text(encoding="utf-8").splitlines(keepends=True)[:4]),
        *((f"my.{end}", lines_of(multi30k_dir / f"train.{end}.gz")[:300]) for end in ("en", "de")),
    ):
        Path(name).write_text("".join(lines), encoding="utf-8")
    for program, *flags in commands_of_page("Models"):
        name = program.removeprefix("t2t-lite-").replace("import", "import_model")
        result = command(name, *(flag.replace("--train_steps=2000", "--train_steps=2") for flag in flags))
        assert result.returncode == 0 and "diverges" not in result.stdout + result.stderr, (flags, result.stderr)
    outputs = (t2t_dir / "v3" / "beam4.txt").read_text(encoding="utf-8").splitlines()[:4]
    assert Path("out.txt").read_text(encoding="utf-8").splitlines() == outputs
    assert Path("tuned/ckpt-2.index").exists() and Path("mine/ckpt-2.index").exists()
    assert next(Path("my_data").glob("vocab.*")).read_bytes() == next(Path("run").glob("vocab.*")).read_bytes()


def damaged(folder):
    path = folder / f"{NAME}-train-00001-of-00002"
    path.write_bytes(path.read_bytes()[:-20])


def with_vocabulary(changed):
    def change(folder):
        (path,) = folder.glob("vocab.*")
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(changed(lines)), encoding="utf-8")

    return change


def fewer(lines):
    alphabet = [line for line in lines[2:] if len(line) == len("'a'\n")]
    return [line for line in lines if line not in alphabet][: 1000 - len(alphabet)] + alphabet


def with_record(record):
    name = f"{NAME}-dev-00000-of-00001"
    return lambda folder: write(folder / name, [*records_of(folder / name)[:2], record])


def remove(pattern):
    return lambda folder: [path.unlink() for path in folder.glob(pattern)]


def copy_as(old, new):
    return lambda folder: [
        shutil.copyfile(path, path.with_name(path.name.replace(old, new))) for path in folder.glob(f"*{old}*")
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (remove("*"), "shards of these problems: none; the files must be named NAME-train-00000-of-00100 and so on"),
        (remove("*train*"), f"has no train shards of {NAME}; copy {NAME}-train-00000-of-... there"),
        (remove("*-00001-of-00002"), f"lacks {NAME}-train-00001-of-00002; copy it, too"),
        (remove("vocab.*"), "has no file vocab.*; pass it with `vocab_file`"),
        (copy_as(".2048.", ".4096."), f"vocab.{NAME}.4096.subwords; pass it with `vocab_file`"),
        (copy_as(NAME, "other"), f"has shards of these problems: other, {NAME}; choose one with `t2t_problem`"),
        (copy_as("-of-00002", "-of-00003"), f"has two sets of train shards of {NAME} with different totals; keep only"),
        (damaged, "train-00001-of-00002 is damaged"),
        (with_vocabulary(fewer), "but vocab.text_pairs.given.subwords has only 1,000 tokens; pass the vocabulary"),
        (
            with_vocabulary(lambda lines: lines[:2] + lines[:1:-1]),
            "vocab.text_pairs.given.subwords encodes the texts in",
        ),
        (with_record(b"text"), "dev-00000-of-00001 is damaged or does not contain tf.train.Example records"),
        (with_record(example(inputs=[5, 1])), "record 3 has no targets"),
        (with_record(example(inputs=[5, 1], targets=[5, 6])), "record 3: its targets must be one text"),
        (with_record(example(inputs=[5, 1, 7, 1], targets=[5, 1])), "record 3: its inputs must be one text"),
        (with_record(example(inputs=[5, 0, 1], targets=[5, 1])), "record 3: its inputs must be one text"),
        (with_record(example(inputs=[5, -2, 1], targets=[5, 1])), "has the id -2 in its inputs"),
    ],
)
def test_what_cannot_be_imported_is_refused_in_a_line(source, tmp_path, change, message):
    copy = shutil.copytree(source, tmp_path / "source")
    change(copy)
    with pytest.raises(UserError) as caught:
        t2t.import_data(copy, tmp_path / "data")
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "data").exists()


def test_the_command_takes_one_of_several_problems_and_leaves_other_data_alone(source, tmp_path, command):
    copy = shutil.copytree(source, tmp_path / "source")
    copy_as(NAME, "other")(copy)
    flags = ["--problem=text_pairs", f"--tmp_dir={copy}", f"--data_dir={tmp_path / 'data'}", "--from=t2t"]
    result = command("datagen", *flags, "--t2t_problem=other")
    assert result.returncode == 0 and "text_pairs: train: 800 pairs" in result.stdout
    again = command("datagen", *flags, "--t2t_problem=other")
    assert again.returncode == 1 and "already has data of 'text_pairs'; pass another folder" in again.stderr
    for wrong, message in (
        (["--num_shards=3"], "--from=t2t uses the shards unchanged; remove --num_shards"),
        (["--tmp_dir="], "--from=t2t needs --tmp_dir"),
    ):
        refused = command("datagen", *with_flags(flags, *wrong))
        assert refused.returncode == 2 and message in refused.stderr
    # Data that is there is used; what is missing cannot be made from text.
    plain = ["--problem=text_pairs", f"--data_dir={tmp_path / 'data'}"]
    assert "already in" in command("datagen", *plain).stdout
    refused = command("datagen", *plain, f"--train_source={copy}", f"--train_target={copy}")
    assert refused.returncode == 1 and f"was imported, but this run sets --train_source={copy}" in refused.stderr
    next((tmp_path / "data").glob("*-train-*")).unlink()
    remedy = "regenerate it with: t2t-lite-datagen --problem=text_pairs --from=t2t --tmp_dir=T2T_DATA --data_dir=NEW"
    train = ["trainer", "--hparams_set=transformer_tiny", f"--output_dir={tmp_path / 'run'}"]
    for line, message in ((["datagen"], "; remove manifest.text_pairs.json"), (train, remedy)):
        refused = command(*line, *plain)
        assert refused.returncode == 1 and message in refused.stderr
