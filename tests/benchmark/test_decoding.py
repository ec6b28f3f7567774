"""t2t-lite-benchmark --decoding."""

import re
from pathlib import Path

import pytest

PARSING = Path(__file__).resolve().parents[1] / "frozen" / "0.1" / "parsing"


def measured(command, *flags):
    """Runs the command and returns the rows of its table, and all that it prints."""
    result = command("benchmark", "--decoding", *flags)
    assert result.returncode == 0, result.stderr
    lines = [re.split(r" *│ *", line.strip("│ ")) for line in result.stdout.splitlines() if "│" in line]
    return {line[0]: line[1:] for line in lines}, result.stdout


@pytest.mark.heavy
def test_engines_are_measured_in_batches_and_one_by_one(small_run, command, tmp_path):
    (tmp_path / "in.txt").write_text("The dog sleeps.\n\nShe sings.\nA man sees the dog.\n")
    flags = (f"--output_dir={small_run}", "--decode_hparams=extra_length=3,beam_size=2", "--one_by_one=2")
    file = f"--decode_from_file={tmp_path / 'in.txt'}"
    rows, printed = measured(command, *flags, file, "--repeats=2", "--whole_command=False")
    assert list(rows) == ["tensorflow", "uncompiled", "ctranslate2", "ctranslate2_int8"]
    for cold, warm, lines, tokens, single, peak, bleu in rows.values():
        rate, tokens, single = (float(number.replace(",", "")) for number in (lines, tokens, single))
        assert tokens > rate > 0 and single > 0 and {cold, warm, peak, bleu} == {"-"}
    assert re.search(r"2048x2048 float32 product: \d+ GFLOP/s before, \d+ after", printed)
    assert "3 lines, medians of 2 runs" in printed


@pytest.mark.heavy
def test_whole_commands_are_timed_and_scored(small_run, command, tmp_path):
    (tmp_path / "in.txt").write_text("The dog sleeps.\nShe sings.\n")
    flags = (f"--output_dir={small_run}", "--engine=ctranslate2", "--one_by_one=0", "--repeats=1")
    files = (f"--decode_from_file={tmp_path / 'in.txt'}", f"--reference={tmp_path / 'in.txt'}")
    rows, _ = measured(command, *flags, *files, "--decode_hparams=extra_length=3")
    cold, warm, _, _, single, peak, bleu = rows["ctranslate2"]
    assert float(cold) > 0 and float(warm) > 0 and float(peak.replace(",", "")) > 20 and single == "-"
    assert 0 <= float(bleu) <= 100


@pytest.mark.heavy
def test_a_search_constrained_to_trees_can_be_measured(command, tmp_path):
    (tmp_path / "in.txt").write_text("".join((PARSING / "inputs.txt").read_text().splitlines(keepends=True)[:2]))
    flags = (f"--output_dir={PARSING / 'run'}", "--decode_hparams=only_trees=True,beam_size=2", "--one_by_one=0")
    flags += (f"--decode_from_file={tmp_path / 'in.txt'}", "--repeats=1", "--whole_command=False")
    rows, printed = measured(command, *flags, "--engine=tensorflow,ctranslate2")
    assert float(rows["tensorflow"][2]) > 0 and rows["ctranslate2"] == ["-"] * 7
    assert "ctranslate2: " in printed and "only_trees" in printed
