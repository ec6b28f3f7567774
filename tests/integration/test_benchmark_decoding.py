"""t2t-lite-benchmark --decoding."""

import re
from pathlib import Path

PARSING = Path(__file__).resolve().parents[1] / "frozen" / "0.1" / "parsing"


def test_the_decoding_speed_is_reported_for_batches_and_single_lines(small_run, command, tmp_path):
    (tmp_path / "in.txt").write_text("The dog sleeps.\n\nShe sings.\nA man sees the dog.\n")
    flags = (f"--output_dir={small_run}", "--decode_hparams=extra_length=3,beam_size=2", "--one_by_one=2")
    result = command("benchmark", "--decoding", *flags, f"--decode_from_file={tmp_path / 'in.txt'}", "--repeats=2")
    assert result.returncode == 0, result.stderr
    batches, single = (re.split(r" *│ *", line.strip("│ ")) for line in result.stdout.splitlines() if "│" in line)
    assert (batches[:2], single[:2]) == (["batches of 1024", "3"], ["one by one", "2"])
    for row in (batches, single):
        rate, tokens, first, least, most = (
            float(number.replace(",", "")) for number in (*row[2:5], *row[5].split(" to "))
        )
        assert tokens > rate > 0 and 0 <= least <= most and first > 0
    assert re.search(r"2048x2048 float32 product: \d+ GFLOP/s before, \d+ after", result.stdout)
    assert "ckpt-6; medians of 2 runs" in result.stdout


def test_missing_flags_and_empty_text_are_errors(small_run, command, tmp_path):
    result = command("benchmark", "--decoding", f"--output_dir={small_run}")
    assert result.returncode == 2 and "--decoding needs --output_dir and --decode_from_file" in result.stderr
    (tmp_path / "empty.txt").write_text("\n \n")
    flags = (f"--output_dir={small_run}", f"--decode_from_file={tmp_path / 'empty.txt'}")
    result = command("benchmark", "--decoding", *flags)
    assert result.returncode == 1 and "empty.txt has no line with text" in result.stderr


def test_a_search_constrained_to_trees_can_be_measured(command, tmp_path):
    (tmp_path / "in.txt").write_text("".join((PARSING / "inputs.txt").read_text().splitlines(keepends=True)[:2]))
    flags = (f"--output_dir={PARSING / 'run'}", "--decode_hparams=only_trees=True,beam_size=2", "--one_by_one=0")
    result = command("benchmark", "--decoding", *flags, f"--decode_from_file={tmp_path / 'in.txt'}", "--repeats=1")
    assert result.returncode == 0 and "batches of 1024" in result.stdout, result.stderr
