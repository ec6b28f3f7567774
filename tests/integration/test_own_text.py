"""A user's own text, from files to translations: what `t2t-lite-datagen --problem=text_pairs` reports and drops.

Defects of every kind, overlapping or swapped splits, several files per side, streams, repeated pairs, columns,
vocabularies that the text does not fill, and inspection of shards.
"""

import gzip
import json
import os
import random
import re
import shutil
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
        yield tuple(" ".join(language[word] for word in words) for language in (ENGLISH, GERMAN))


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Train text with 300 distinct pairs, 5 of them repeated, 7 also in dev, 3 in test; also split into two files."""
    folder = tmp_path_factory.mktemp("texts")
    train = list(dict.fromkeys(some_pairs(400, 1)))[:300]
    dev = list(some_pairs(33, 2)) + train[:7]
    test = list(some_pairs(17, 3)) + [(source, "anders") for source, _ in train[40:43]]
    parts = {"part1": train[:200], "part2": train[200:] + train[100:105]}
    for name, pairs in {"train": train + train[100:105], "dev": dev, "test": test, **parts}.items():
        sources, targets = zip(*pairs)
        (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in sources))
        (folder / f"{name}.de").write_text("".join(f"{line}\n" for line in targets))
        (folder / f"{name}.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    return folder


@pytest.fixture
def datagen(command, tmp_path):
    """Runs datagen with flags, whose file names are relative to a folder, and returns its output."""

    def run(folder, status=0, **flags):
        options = [f"--{name}={folder / value if '.' in value else value}" for name, value in flags.items()]
        data = f"--data_dir={tmp_path / 'data'}"
        result = command("datagen", "--problem=text_pairs", data, "--vocab_size=400", *options)
        assert result.returncode == status, result.stderr
        assert status == 0 or len(result.stderr.splitlines()) == 1
        return result.stdout if status == 0 else result.stderr

    return run


def lines_of(path, count):
    return gzip.decompress(path.read_bytes()).split(b"\n")[:count]


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
    report = datagen(texts, **SIDES, **OTHERS, drop_duplicates="True")
    for kind, count in (("its source is also in dev", 7), ("its source is also in test", 3), ("a repeated pair", 5)):
        assert re.search(rf"^ {kind}.* {count}  .*dropped", report, flags=re.MULTILINE), kind
    splits = manifest_of(tmp_path)["splits"]
    assert [splits[split]["examples"] for split in ("train", "dev", "test")] == [290, 40, 20]
    assert sum(splits["train"]["dropped"].values()) == 15
    assert "nothing to do" in datagen(texts, **SIDES, **OTHERS, drop_duplicates="True")
    refused = datagen(texts, **SIDES, **OTHERS, drop_duplicates="False", status=1)
    assert "was made with --drop_duplicates=True, but this run has no --drop_duplicates" in refused


@pytest.mark.parametrize(("split", "count"), [("dev", "40"), ("test", "20")])
def test_a_split_with_swapped_source_and_target_is_reported(texts, datagen, split, count):
    turned = {f"{split}_source": f"{split}.de", f"{split}_target": f"{split}.en"}
    report = datagen(texts, **SIDES, **OTHERS | turned)
    assert row(report, f"in {split}, the sides seem to be swapped")[0] == count
    assert f"In most pairs of {split}, the two languages seem to be swapped compared with train" in report
    assert report.count("swapped compared with train") == 1


def test_what_is_left_of_web_pages_is_counted_with_advice_that_works(texts, datagen, tmp_path):
    clean = (texts / "train.tsv").read_text().splitlines()
    lines = [*clean]
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
    run = {"capture_output": True, "check": True, "text": True, "env": os.environ | {"LC_ALL": "C"}}
    cleaned = subprocess.run(["sed", remedy, tmp_path / "web.tsv"], **run).stdout.splitlines()
    assert cleaned[40:44] == clean[40:44] and cleaned[49] == lines[49]
    shutil.rmtree(tmp_path / "data")
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
    shutil.rmtree(tmp_path / "data")
    datagen(texts, **SIDES, **OTHERS)
    assert records_of(tmp_path) == of_parts and len(of_parts) == 305


def test_unequal_numbers_of_source_and_target_files_are_refused(texts, datagen):
    message = datagen(texts, train_source="part?.en", train_target="train.de", status=1)
    assert "--train_source has 2 files and --train_target 1; pass one file of translations" in message
    assert "no such file: " in datagen(texts, train_source="nothing*.en", train_target="train.de", status=1)


def test_unequal_dev_files_and_a_column_of_numbers_are_said(texts, datagen, tmp_path):
    for name in ("train.en", "train.de", "dev.en"):
        shutil.copy(texts / name, tmp_path)
    (tmp_path / "dev.de").write_text("eins\n")
    message = datagen(tmp_path, status=1, **SIDES, dev_source="dev.en", dev_target="dev.de")
    assert f"{tmp_path}/dev.en has 40 lines, but {tmp_path}/dev.de has 1; line n of one must be" in message
    lines = (texts / "train.tsv").read_text().splitlines(keepends=True)
    (tmp_path / "train.tsv").write_text("".join(f"{number}\t{line}" for number, line in enumerate(lines)))
    report = datagen(tmp_path, train_tsv="train.tsv", max_ratio="50")
    assert row(report, "the source is only a number") == ("305", "100.00%", "kept", "1, 2, 3, 4, 5, ...")
    assert "Line 1 has 0. Every source is only a number. If these are line numbers or IDs, remove the column" in report


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
    english, german = (lines_of(multi30k_dir / f"train.{language}.gz", 2400) for language in ("en", "de"))
    (tmp_path / "a.en").write_bytes(b"\n".join(english[:-1]) + b"\n")
    (tmp_path / "a.de").write_bytes(b"\n".join(german[:1100] + german[1101:]) + b"\n")
    files = {"train_source": "a.en", "train_target": "a.de"}
    report = datagen(tmp_path, **files)
    found = re.search(r"^Lines ([\d,]+) to ([\d,]+): the lengths of the two sides", report, re.MULTILINE).groups()
    first, last = (int(number.replace(",", "")) for number in found)
    assert 900 < first < 1250 and last > 2000
    (tmp_path / "a.en").write_bytes(b"\n".join(english) + b"\n")
    shutil.rmtree(tmp_path / "data")
    message = datagen(tmp_path, status=1, **files)
    assert f"{tmp_path}/a.en has 2,400 lines, but {tmp_path}/a.de has 2,399, and the lengths of the two" in message
    assert f"are uncorrelated from about line {found[0]} on: a line may be missing before it; line n of" in message
    assert "allow_unequal" not in message  # it would keep the wrong pairs
    (tmp_path / "a.en").write_bytes(b"\n".join(english[:-1]) + b"\n")
    (tmp_path / "a.de").write_bytes(b"\n".join(german[:-1]) + b"\n")
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
def test_damaged_data_is_detected_by_datagen_and_repaired_by_its_advice(texts, command, datagen, tmp_path):
    def refused_line(name, *more):
        result = command(name, *flags, *more)
        assert result.returncode == 1 and len(result.stderr.splitlines()) == 1, result.stderr
        return result.stderr

    datagen(texts, train_tsv="train.tsv")
    flags = ("--problem=text_pairs", f"--data_dir={tmp_path / 'data'}")
    text = (f"--train_tsv={texts / 'train.tsv'}", "--vocab_size=400")
    train = ("--hparams_set=transformer_tiny", f"--output_dir={tmp_path / 'run'}", "--train_steps=1", "--peak_tflops=1")
    shard = tmp_path / "data" / "text_pairs-train-00002-of-00010"
    whole = shard.read_bytes()
    # Truncated: detected by size; corrupted: detected when it is read.
    for content, command_line in (
        (whole[:-9], ("datagen", *text)),
        (whole[:40] + b"bent" + whole[44:], ("trainer", *train, "--hparams=hidden_size=16,batch_tokens=2000")),
    ):
        shard.write_bytes(content)
        message = refused_line(*command_line)
        assert f"{shard} " in message and "remove it and run" in message and "nothing to do" not in message
        assert "--vocab_size=400" in message or "trainer" in command_line
        shard.unlink()
        assert "is missing; regenerate it" in refused_line("datagen", "--inspect")
        again = command("datagen", *flags, *text)
        assert again.returncode == 0 and shard.read_bytes() == whole


DEFECTS = 5  # of each kind: 1% of 500 pairs
TINY = "--hparams=hidden_size=32,filter_size=64,num_heads=2,num_encoder_layers=1,num_decoder_layers=1,batch_tokens=512"
# A kind of defect: what is done to a pair, given another one
CHANGES = {
    "an empty side": lambda pair, other: (pair[0], b" \t"),
    "a line that is not UTF-8": lambda pair, other: (pair[0] + b" caf\xe9", pair[1]),
    "a side of more than 2000 characters": lambda pair, other: (b"very " * 500, pair[1]),
    "one side more than 5 times as long as the other": lambda pair, other: (pair[0], pair[1] * 8),
    "a repeated pair": lambda pair, other: other,
    "both sides are the same": lambda pair, other: (pair[0], pair[0]),
    "the sides seem to be swapped": lambda pair, other: (pair[1], pair[0]),
}
KEPT = ("a repeated pair", "both sides are the same", "the sides seem to be swapped")


@pytest.fixture(scope="module")
def own_text(multi30k_dir, tmp_path_factory, command):
    """A folder with data of text with defects, the lines that have each kind, from 1, and what datagen said."""
    folder = tmp_path_factory.mktemp("own")
    pairs = list(zip(*(lines_of(multi30k_dir / f"train.{language}.gz", 500) for language in ("en", "de"))))
    places = random.Random(3).sample(range(250, 490), DEFECTS * len(CHANGES))
    lines = {kind: sorted(places[i * DEFECTS : (i + 1) * DEFECTS]) for i, kind in enumerate(CHANGES)}
    for kind, chosen in lines.items():
        for line in chosen:
            pairs[line] = CHANGES[kind](pairs[line], pairs[line - 250])
    inputs, targets = zip(*pairs)
    (folder / "my.en").write_bytes(b"\n".join(inputs) + b"\n")
    (folder / "my.de").write_bytes(b"\r\n".join(targets[:495]) + b"\r\n")
    lines["a line that the other file does not have"] = range(495, 500)
    flags = (f"--train_source={folder / 'my.en'}", f"--train_target={folder / 'my.de'}", "--vocab_size=8000")
    refused = command("datagen", "--problem=text_pairs", *flags, f"--data_dir={folder / 'data'}")
    assert refused.returncode == 1 and "my.en has 500 lines, but " in refused.stderr
    assert "pass --allow_unequal to drop the last lines" in refused.stderr and not (folder / "data").exists()
    result = command("datagen", "--problem=text_pairs", *flags, "--allow_unequal", f"--data_dir={folder / 'data'}")
    assert result.returncode == 0, result.stderr
    return folder, lines, result.stdout


def test_every_kind_of_defect_is_reported_with_count_and_lines_without_an_error(own_text):
    _, lines, report = own_text
    for kind, chosen in lines.items():
        shown = ", ".join(str(line + 1) for line in chosen)
        assert row(report, kind) == (str(DEFECTS), "1.00%", "kept" if kind in KEPT else "dropped", shown)
    assert re.search(r"^ inputs +500 ", report, re.MULTILINE) and re.search(r"^ targets +495 ", report, re.MULTILINE)
    assert "different numbers of lines" in report
    assert report.index("finding") < report.index("learning")
    for split in ("dev", "test"):
        assert f"no {split} files: 23 pairs of the training text become the {split} split" in report


@pytest.mark.slow
def test_a_model_trains_on_own_text_and_translates(own_text, command):
    folder, *_ = own_text
    run = f"--output_dir={folder / 'run'}"
    flags = ("--problem=text_pairs", "--hparams_set=transformer_tiny", TINY, "--train_steps=3", "--peak_tflops=1")
    trained = command("trainer", *flags, f"--data_dir={folder / 'data'}", run)
    assert trained.returncode == 0, trained.stderr
    assert json.loads((folder / "run" / "run.json").read_text())["target_language"] == "de"  # by the file's name
    decoded = command("decoder", run, "--xla_compile=False", stdin=b"A man.\nTwo dogs.\n")
    assert decoded.returncode == 0 and len(decoded.stdout.splitlines()) == 2


def test_inspect_shows_examples_lengths_and_dropped_pairs(own_text, command):
    data = own_text[0] / "data"
    split = command("datagen", "--inspect", "--problem=text_pairs", f"--data_dir={data}")
    shard = command("datagen", f"--inspect={data / 'text_pairs-train-00003-of-00010'}")
    for result in (split, shard):
        assert result.returncode == 0, result.stderr
        assert f"{DEFECTS} (a line that is not UTF-8)" in result.stdout
        assert re.search(r"because a side is too long: \d+ with max_length=64", result.stdout)
        assert result.stdout.count("  inputs   ") == result.stdout.count("  targets  ") == 3
    made = json.loads((data / "manifest.text_pairs.json").read_text())["splits"]["train"]
    assert f"text_pairs, train, 10 shards: {made['examples']:,} examples" in split.stdout
    assert "text_pairs, train, text_pairs-train-00003-of-00010: " in shard.stdout
    for side in ("inputs", "targets"):
        lengths = {int(n): times for n, times in made["lengths"][side].items()}
        tokens = sum(n * times for n, times in lengths.items())
        of_8000 = r"[\d,]+ \(vocab\.text_pairs\.8000\.subwords\)"
        figures = rf"{tokens:,} +{tokens / made['examples']:.1f} +\d+ +\d+ +{max(lengths)} "
        assert re.search(rf"{side} +{of_8000} +{figures}", split.stdout)


@pytest.mark.heavy
def test_the_trainer_accepts_the_flags_of_own_text_only_with_generate_data(command, tmp_path):
    flags = ["--problem=text_pairs", "--hparams_set=transformer_tiny", TINY, "--train_steps=1", "--peak_tflops=1"]
    flags += [f"--train_tsv={tmp_path}/my.tsv", f"--data_dir={tmp_path}/data", f"--output_dir={tmp_path}/run"]
    (tmp_path / "my.tsv").write_text("".join(f"number {i}\tZahl {i}\n" for i in range(300)))
    refused = command("trainer", *flags)
    assert refused.returncode == 2 and "--train_tsv applies to data generation" in refused.stderr
    trained = command("trainer", *flags, "--generate_data")
    assert trained.returncode == 0, trained.stderr
    assert "finding" in trained.stdout
