"""The rehearsal: synthetic text, its files, and the steps of a small one."""

import collections
import json
import multiprocessing
import shutil
import time

import numpy as np
import pytest
from support.commands import with_flags

from t2t_lite.benchmark.rehearsal import corpus
from t2t_lite.benchmark.rehearsal.synthetic_text import WORDS, block_of_pairs, sentence_lengths, words_of
from t2t_lite.bin.benchmark import main
from t2t_lite.data.generation.sources import find_or_fetch
from t2t_lite.data.problem import get_problem
from t2t_lite.plugins import load_all

# Small blocks, so that there are several of them, and several shards.
PAIRS, BLOCK_SIZE = 2500, 400


def test_the_most_frequent_words_are_as_frequent_as_zipfs_law_says():
    english, _ = block_of_pairs("train", 0)
    counts = collections.Counter(word.strip(".,").lower() for line in english for word in line.split())
    total = sum(counts.values())
    ranks = np.arange(WORDS) + 2.7
    expected = 1 / ranks / (1 / ranks).sum()
    for rank in (0, 1, 9, 99):
        assert counts[words_of("en")[rank]] / total == pytest.approx(expected[rank], rel=0.1)
    assert len(counts) > 50_000
    assert len(set(words_of("en"))) == len(set(words_of("de"))) == WORDS


def test_sentences_have_26_words_on_average_and_a_long_tail():
    lengths = sentence_lengths(np.random.default_rng(1), 200_000)
    assert lengths.mean() == pytest.approx(26, abs=0.5)
    assert np.median(lengths) == pytest.approx(21, abs=1)
    assert lengths.min() >= 1 and lengths.max() > 500
    assert np.mean(lengths > 100) == pytest.approx(0.007, abs=0.002)


def test_the_other_language_is_a_word_by_word_translation():
    translations = dict(zip(words_of("en"), (word.lower() for word in words_of("de"))))
    missing = words = 0
    for english, german in zip(*block_of_pairs("dev", 0, 300)):
        expected = collections.Counter(
            word if word.isdigit() else translations[word]
            for word in english.removesuffix(".").lower().replace(",", "").split()
        )
        found = collections.Counter(german.removesuffix(".").lower().replace(",", "").split())
        assert found and not found - expected
        missing, words = missing + (expected - found).total(), words + expected.total()
    assert 0.02 < missing / words < 0.08


def test_a_block_depends_only_on_its_split_and_number():
    first = block_of_pairs("train", 3, 50)
    assert block_of_pairs("train", 3, 50) == first
    assert len(first[0]) == len(first[1]) == 50
    assert first not in (block_of_pairs("train", 4, 50), block_of_pairs("dev", 3, 50))


def expected_pairs(split, number):
    blocks = (
        block_of_pairs(split, block, min(BLOCK_SIZE, number - block * BLOCK_SIZE))
        for block in range(-(-number // BLOCK_SIZE))
    )
    return [pair for block in blocks for pair in zip(*block)]


def read(problem, folder):
    files = find_or_fetch(problem, folder)
    return {split: list(map(tuple, problem.examples(split, files))) for split in ("train", "dev", "test")}


@pytest.mark.heavy
def test_the_problems_read_both_forms(tmp_path):
    german, french = get_problem("wmt_ende"), get_problem("wmt_enfr")
    corpus.write_tfds(german, PAIRS, tmp_path, BLOCK_SIZE)
    corpus.write_text_files(french, PAIRS, tmp_path, BLOCK_SIZE)
    expected = {split: expected_pairs(split, number) for split, number in corpus.counts_of(german, PAIRS).items()}
    assert {split: len(pairs) for split, pairs in expected.items()} == {"train": PAIRS, "dev": 3000, "test": 3003}
    assert read(german, tmp_path) == expected
    assert read(french, tmp_path) == expected


def write(form, name, folder):
    """Writes a corpus; runs in a process of its own."""
    load_all()
    getattr(corpus, form)(get_problem(name), PAIRS, folder, BLOCK_SIZE)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "form, name, begun",
    [("write_tfds", "wmt_ende", "*-train.*-00001-*"), ("write_text_files", "wmt_enfr", "*.progress")],
)
def test_a_killed_process_leaves_a_corpus_that_is_completed_with_the_same_bytes(form, name, begun, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    process = multiprocessing.get_context("spawn").Process(target=write, args=(form, name, killed))
    process.start()
    while not list(killed.rglob(begun)):
        assert process.is_alive()
        time.sleep(0.001)
    process.kill()
    process.join()
    unfinished = [file.name for file in killed.rglob("*") if file.is_file()]
    for folder in (whole, killed):
        write(form, name, folder)
    contents = [
        {path.relative_to(folder): path.is_file() and path.read_bytes() for path in folder.rglob("*")}
        for folder in (whole, killed)
    ]
    assert contents[0] == contents[1]
    assert len(unfinished) < len(contents[0])


@pytest.mark.parametrize(
    "flags, status, message",
    [
        (["--scale=2"], 2, "takes wmt_ende, wmt_enfr or a number of pairs of at least 1000, not '2'"),
        ([], 2, "--rehearsal needs --output_dir"),
        (["--output_dir={}", "--hparams_set=transformer_tiny"], 1, "needs two sets, separated by a comma"),
    ],
)
def test_wrong_flags_are_refused(flags, status, message, capsys, tmp_path):
    assert main(["--rehearsal", *(flag.format(tmp_path) for flag in flags)]) == status
    assert message in capsys.readouterr().err


FLAGS = (
    "--rehearsal",
    "--scale=20000",
    "--hparams_set=transformer_tiny,transformer_tiny",
    "--hparams=batch_tokens=2000",
    "--train_steps=10",
)


@pytest.mark.slow
def test_a_full_disk_is_noticed_before_anything_is_written(monkeypatch, capsys, tmp_path):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage._replace(free=2**20))
    assert main([*FLAGS, f"--output_dir={tmp_path / 'new'}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "has 0.0 GiB of free space, but the rehearsal needs about 0.5 GiB" in line
    assert not list((tmp_path / "new").iterdir())


@pytest.mark.heavy
def test_a_small_rehearsal_runs_each_step_once(capsys, tmp_path):
    assert main([*FLAGS, f"--output_dir={tmp_path}"]) == 0
    figures = json.loads((tmp_path / "rehearsal.json").read_text())
    progress, bar, rows = capsys.readouterr().out.partition("| step | figure | value |\n")
    assert progress.split() == list(figures)[1:]
    assert figures["data"]["pairs"] == 20_000
    assert figures["pipeline"]["target tokens"] > 400_000
    assert figures["base"]["killed after step"] == 5
    first, last = figures["base"]["loss, first and last"]
    assert last < first
    assert "restart all workers" in figures["workers"]["message"]
    assert "| data | pairs | 20,000 |" in rows
    # The second command has nothing left to do; other settings are refused.
    assert main([*FLAGS, f"--output_dir={tmp_path}"]) == 0
    assert capsys.readouterr().out == bar + rows
    assert main(with_flags(FLAGS, f"--output_dir={tmp_path}", "--scale=30000")) == 1
    assert "is of another rehearsal" in capsys.readouterr().err


def test_a_folder_with_other_files_is_refused_and_not_changed(capsys, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.txt").write_text("text")
    assert main([*FLAGS, f"--output_dir={tmp_path}"]) == 1
    assert "is not empty; pass a new folder" in capsys.readouterr().err
    assert [file.name for file in tmp_path.rglob("*")] == ["data", "mine.txt"]
