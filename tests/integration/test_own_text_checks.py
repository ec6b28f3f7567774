"""What `t2t-lite-datagen --problem=text_pairs` reports about the user's text, and what it drops.

Overlapping or swapped splits, several files per side, streams, repeated pairs, columns, and vocabularies that the text
does not fill.
"""

import gzip
import json
import os
import random
import re
import subprocess
import threading

import pytest
import tensorflow as tf

WORDS = """the dog cat house runs sees big small red green tree man woman child plays reads book new car road
der Hund Katze Haus rennt sieht gross klein rot gruen Baum Mann Frau Kind spielt liest Buch neu Auto Weg"""
ENGLISH, GERMAN = (line.split() for line in WORDS.splitlines())


def some_pairs(count, seed):
    drawn = random.Random(seed)
    for _ in range(count):
        words = [drawn.randrange(20) for _ in range(drawn.randint(5, 9))]
        yield " ".join(ENGLISH[word] for word in words), " ".join(GERMAN[word] for word in words)


def write(folder, name, pairs):
    sources, targets = zip(*pairs)
    (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in sources))
    (folder / f"{name}.de").write_text("".join(f"{line}\n" for line in targets))
    (folder / f"{name}.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Train text with 300 distinct pairs, 5 of them repeated, 7 also in dev, 3 in test; also split into two files."""
    folder = tmp_path_factory.mktemp("texts")
    train = list(dict.fromkeys(some_pairs(400, 1)))[:300]
    dev = list(some_pairs(33, 2)) + train[:7]
    test = list(some_pairs(17, 3)) + [(source, "anders") for source, _ in train[40:43]]
    for name, pairs in {
        "train": train + train[100:105],
        "dev": dev,
        "test": test,
        "part1": train[:200],
        "part2": train[200:] + train[100:105],
    }.items():
        write(folder, name, pairs)
    return folder


@pytest.fixture
def datagen(command, tmp_path):
    """Runs datagen with flags, whose file names are relative to a folder, and returns its output."""

    def run(folder, stdin=b"", status=0, **flags):
        options = [
            f"--{name}={folder / value if '.' in value else value}" for name, value in flags.items() if value != ""
        ]
        options += [f"--{name}" for name, value in flags.items() if value == ""]
        data = f"--data_dir={tmp_path / 'data'}"
        result = command("datagen", "--problem=text_pairs", data, "--vocab_size=400", *options, stdin=stdin)
        assert result.returncode == status, result.stderr
        assert status == 0 or len(result.stderr.splitlines()) == 1
        return result.stdout if status == 0 else result.stderr

    return run


SIDES = {"train_source": "train.en", "train_target": "train.de"}
OTHERS = {"dev_source": "dev.en", "dev_target": "dev.de", "test_source": "test.en", "test_target": "test.de"}


def row(report, kind):
    """(pairs, share, action, lines) of a finding in the table."""
    found = re.search(rf"^ {re.escape(kind)} +(\d+) +([\d.]+%) +(\w*) *(.*?) *$", report, flags=re.MULTILINE)
    return found and found.groups()


def manifest_of(tmp_path):
    return json.loads((tmp_path / "data" / "manifest.text_pairs.json").read_text())


def records_of(tmp_path):
    """The records of the training shards, sorted."""
    paths = sorted(str(path) for path in (tmp_path / "data").glob("text_pairs-train-*"))
    return sorted(record.numpy() for record in tf.data.TFRecordDataset(paths))


def test_training_pairs_also_in_dev_or_test_are_counted_and_kept(texts, datagen, tmp_path):
    report = datagen(texts, **SIDES, **OTHERS)
    assert row(report, "its source is also in dev") == ("7", "2.30%", "kept", "1, 2, 3, 4, 5, ...")
    assert row(report, "its source is also in test") == ("3", "0.98%", "kept", "41, 42, 43")
    assert row(report, "a repeated pair") == ("5", "1.64%", "kept", "301, 302, 303, 304, 305")
    assert "swapped compared with train" not in report and "more than two columns" not in report
    assert manifest_of(tmp_path)["splits"]["train"]["examples"] == 305


def test_drop_duplicates_removes_them_from_vocabulary_and_training(texts, datagen, tmp_path):
    report = datagen(texts, **SIDES, **OTHERS, drop_duplicates="")
    for kind, count in (("its source is also in dev", 7), ("its source is also in test", 3), ("a repeated pair", 5)):
        assert re.search(rf"^ {kind}.* {count}  .*dropped", report, flags=re.MULTILINE), kind
    made = manifest_of(tmp_path)
    assert made["splits"]["train"]["examples"] == 290 and sum(made["splits"]["train"]["dropped"].values()) == 15
    assert [made["splits"][split]["examples"] for split in ("dev", "test")] == [40, 20]
    again = datagen(texts, **SIDES, **OTHERS, drop_duplicates="True")
    assert "nothing to do" in again
    refused = datagen(texts, **SIDES, **OTHERS, drop_duplicates="False", status=1)
    assert "was made with --drop_duplicates=True, but this run has no --drop_duplicates" in refused


@pytest.mark.parametrize("split", ["dev", "test"])
def test_a_split_with_swapped_source_and_target_is_reported(texts, datagen, split):
    turned = {f"{split}_source": f"{split}.de", f"{split}_target": f"{split}.en"}
    report = datagen(texts, **SIDES, **OTHERS | turned)
    count = {"dev": 40, "test": 20}[split]
    assert row(report, f"in {split}, the sides seem to be swapped")[0] == str(count)
    assert f"In most pairs of {split}, the two languages seem to be swapped compared with train" in report
    assert report.count("swapped compared with train") == 1


def test_what_is_left_of_web_pages_is_counted_with_advice_that_works(texts, datagen, tmp_path):
    clean = (texts / "train.tsv").read_text()
    lines = clean.splitlines()
    changes = {3: "&nbsp;", 7: "&#39;", 20: "&amp; <br>", 30: "<br/>", 41: "\u200b", 42: "\u2060", 44: "\ufeff"}
    for number, added in changes.items():
        place = 0 if number % 2 else len(lines[number - 1])  # on either side
        lines[number - 1] = f"{lines[number - 1][:place]}{added}{lines[number - 1][place:]}"
    lines[49] += " می\u200cخواهم 👩\u200d👩"
    (tmp_path / "web.tsv").write_text("".join(f"{line}\n" for line in lines))
    report = datagen(tmp_path, train_tsv="web.tsv")
    assert row(report, "an HTML entity, such as &amp;") == ("3", "0.98%", "kept", "3, 7, 20")
    assert row(report, "an HTML or XML tag, such as <br>") == ("2", "0.66%", "kept", "20, 30")
    assert row(report, "an invisible character (U+200B, U+2060 or U+FEFF)") == ("3", "0.98%", "kept", "41, 42, 44")
    assert re.search(r"^Line 3 has &nbsp;\. .*decode them .*html\.unescape\.$", report, re.MULTILINE)
    assert re.search(r"^Line 20 has <br>\. .*remove them from all files", report, re.MULTILINE)
    remedy = re.search(r"^Line 41 has U\+200B\. .*: LC_ALL=C sed '(.*)'$", report, re.MULTILINE)[1]
    cleaned = subprocess.run(
        ["sed", remedy, tmp_path / "web.tsv"], capture_output=True, check=True, env=os.environ | {"LC_ALL": "C"}
    ).stdout.decode()
    assert cleaned.splitlines()[40:44] == clean.splitlines()[40:44] and cleaned.splitlines()[49] == lines[49]
    for file in (tmp_path / "data").iterdir():
        file.unlink()
    report = datagen(texts, train_tsv="train.tsv")
    assert "HTML" not in report and "invisible" not in report


def test_a_vocabulary_smaller_than_requested_is_reported_and_named_by_its_real_size(texts, command, tmp_path):
    flags = (f"--train_tsv={texts / 'train.tsv'}", f"--data_dir={tmp_path / 'data'}", "--vocab_size=999999")
    result = command("datagen", "--problem=text_pairs", *flags)
    size = manifest_of(tmp_path)["vocabulary"]["size"]
    assert result.returncode == 0 and size < 5000
    assert f"learned {size:,} tokens from inputs and targets, not 999,999 (--vocab_size)" in result.stdout
    assert [path.name for path in (tmp_path / "data").glob("vocab*")] == [f"vocab.text_pairs.{size}.subwords"]
    assert "nothing to do" in command("datagen", "--problem=text_pairs", *flags).stdout


@pytest.mark.parametrize(
    ("source", "target"),
    [("part1.en,part2.en", "part1.de,part2.de"), ("part?.en", "part?.de"), ("part[12].en", "part1.de,part2.de")],
)
def test_several_files_per_side_are_read_as_one(texts, datagen, tmp_path, source, target):
    source, target = (",".join(str(texts / part) for part in side.split(",")) for side in (source, target))
    datagen(texts, train_source=source, train_target=target, **OTHERS)
    of_parts = records_of(tmp_path)
    for file in (tmp_path / "data").iterdir():
        file.unlink()
    datagen(texts, **SIDES, **OTHERS)
    assert records_of(tmp_path) == of_parts and len(of_parts) == 305


def test_unequal_numbers_of_source_and_target_files_are_refused(texts, datagen):
    message = datagen(texts, train_source="part?.en", train_target="train.de", status=1)
    assert "--train_source has 2 files and --train_target 1; pass one file of translations" in message
    assert "no such file: " in datagen(texts, train_source="nothing*.en", train_target="train.de", status=1)


@pytest.mark.parametrize("ending", ["txt", "gz"])
def test_text_from_a_pipe_is_saved_and_read_from_the_copy(texts, datagen, tmp_path, ending):
    pipe = tmp_path / "pipe.tsv"
    os.mkfifo(pipe)
    (tmp_path / "train_tsv").write_text("mine")
    content = (texts / "train.tsv").read_bytes()
    content = gzip.compress(content) if ending == "gz" else content
    writer = threading.Thread(target=pipe.write_bytes, args=[content])
    writer.start()
    datagen(tmp_path, train_tsv="pipe.tsv", tmp_dir=str(tmp_path))
    writer.join()
    assert (tmp_path / "train_tsv").read_text() == "mine"
    (kept,) = tmp_path.glob("train_tsv.*")
    assert kept.read_bytes() == content and kept.name.startswith("train_tsv.")
    assert list(manifest_of(tmp_path)["sources"]) == [str(kept)]
    assert sum(made["examples"] for made in manifest_of(tmp_path)["splits"].values()) == 305


@pytest.mark.heavy
def test_another_text_from_a_pipe_is_refused_and_does_not_replace_the_first(texts, process, tmp_path):
    content = (texts / "train.tsv").read_bytes()
    flags = ("--problem=text_pairs", f"--data_dir={tmp_path / 'data'}", "--vocab_size=400", "--train_tsv=-")
    made = process("datagen", *flags, stdin=content)
    assert (made.returncode, made.stderr) == (0, "")
    assert sum(split["examples"] for split in manifest_of(tmp_path)["splits"].values()) == 305
    (kept,) = (tmp_path / "data" / "downloads").iterdir()
    other = process("datagen", *flags, stdin=content[:5000])
    assert other.returncode == 1 and "was made with --train_tsv=" in other.stderr
    assert kept.read_bytes() == content
    assert "nothing to do" in process("datagen", *flags, stdin=content).stdout


@pytest.mark.slow
def test_the_place_of_a_missing_line_is_found_by_comparing_lengths(multi30k_dir, datagen, tmp_path):
    sides = [
        gzip.decompress((multi30k_dir / f"train.{language}.gz").read_bytes()).decode().splitlines()[:2400]
        for language in ("en", "de")
    ]
    (tmp_path / "a.en").write_text("\n".join(sides[0][:-1]) + "\n")
    (tmp_path / "a.de").write_text("\n".join(sides[1][:1100] + sides[1][1101:]) + "\n")
    report = datagen(tmp_path, train_source="a.en", train_target="a.de")
    (first, last) = re.search(
        r"^Lines ([\d,]+) to ([\d,]+): the lengths of the two sides", report, re.MULTILINE
    ).groups()
    assert 900 < int(first.replace(",", "")) < 1250 and int(last.replace(",", "")) > 2000
    for file in (tmp_path / "data").rglob("*"):
        file.unlink()
    (tmp_path / "a.de").write_text("\n".join(sides[1][:-1]) + "\n")
    assert "the lengths of the two sides" not in datagen(tmp_path, train_source="a.en", train_target="a.de")


def test_utf_16_and_utf_32_are_refused_with_a_remedy_and_gzip_is_read_under_any_name(texts, datagen, tmp_path):
    text = (texts / "train.tsv").read_text()
    for encoding in ("UTF-16", "UTF-32"):
        (tmp_path / "wide.tsv").write_text(text, encoding=encoding)
        message = f"wide.tsv is in {encoding}; convert it: iconv -f {encoding} -t UTF-8"
        assert message in datagen(tmp_path, train_tsv="wide.tsv", status=1)
    (tmp_path / "bare.tsv").write_bytes(text.encode("utf-16-le"))
    assert "a line with NUL characters, possibly UTF-16" in datagen(tmp_path, train_tsv="bare.tsv", status=1)
    (tmp_path / "packed.tsv").write_bytes(gzip.compress(text.encode()))
    datagen(tmp_path, train_tsv="packed.tsv")
    assert sum(made["examples"] for made in manifest_of(tmp_path)["splits"].values()) == 305


@pytest.mark.slow
def test_damaged_data_is_detected_by_datagen_and_repaired_by_its_advice(
    texts, command, datagen, refused_line, tmp_path
):
    datagen(texts, train_tsv="train.tsv")
    flags = ("--problem=text_pairs", f"--data_dir={tmp_path / 'data'}")
    shard = tmp_path / "data" / "text_pairs-train-00002-of-00010"
    whole = shard.read_bytes()
    # Truncated: detected by size; corrupted: detected when it is read.
    for content, advise in ((whole[:-9], "datagen"), (whole[:40] + b"bent" + whole[44:], "trainer")):
        shard.write_bytes(content)
        if advise == "datagen":
            message = refused_line("datagen", *flags, f"--train_tsv={texts / 'train.tsv'}", "--vocab_size=400")
            assert "nothing to do" not in message and "--vocab_size=400" in message
        else:
            train = ("--hparams_set=transformer_tiny", f"--output_dir={tmp_path / 'run'}", "--train_steps=1")
            message = refused_line(
                "trainer", *flags, *train, "--peak_tflops=1", "--hparams=hidden_size=16,batch_tokens=2000"
            )
        assert f"{shard} " in message and "remove it and run" in message
        shard.unlink()
        assert "is missing; regenerate it" in refused_line("datagen", "--inspect", *flags)
        again = command("datagen", *flags, f"--train_tsv={texts / 'train.tsv'}", "--vocab_size=400")
        assert again.returncode == 0 and shard.read_bytes() == whole


@pytest.fixture
def refused_line(command):
    def run(name, *flags):
        result = command(name, *flags)
        assert result.returncode == 1 and len(result.stderr.splitlines()) == 1, result.stderr
        return result.stderr

    return run
