"""Outputs with line breaks and other ends of lines are stored, and read as they were written."""

import json
import shutil
from pathlib import Path

import pytest

from t2t_lite.data.text_files import read_lines
from t2t_lite.evaluation.stored import HYPOTHESES, write_lines

FROZEN = Path(__file__).parents[1] / "frozen" / "0.1" / "bytes"
SAMPLING = "sampling_method=random,sampling_temp=8.0,beam_size=1,random_seed={}"


@pytest.fixture
def byte_run(tmp_path):
    """A copy of a small run whose tokens are bytes."""
    return shutil.copytree(FROZEN, tmp_path / "bytes")


@pytest.mark.heavy
def test_outputs_with_line_breaks_are_stored_as_the_decoder_writes_them(byte_run, command, tmp_path):
    run, data, broken = byte_run / "run", byte_run / "data", 0
    inputs = data / "text_pairs-dev.inputs.txt"
    for seed in range(1, 4):
        flags = (f"--output_dir={run}", f"--decode_hparams={SAMPLING.format(seed)}", "--xla_compile=False")
        scored = command("eval", *flags, f"--data_dir={data}", "--json")
        assert scored.returncode == 0, scored.stderr
        (found,) = json.loads(scored.stdout)["runs"]
        assert found["lines"] == 6
        decoded = command("decoder", *flags, f"--decode_from_file={inputs}", f"--decode_to_file={tmp_path / 'out.txt'}")
        assert decoded.returncode == 0, decoded.stderr
        stored = (Path(found["path"]) / HYPOTHESES).read_bytes()
        assert stored == (tmp_path / "out.txt").read_bytes() and stored.count(b"\n") == 6
        again = command("eval", *flags, f"--data_dir={data}", "--metric=exact_match", "--json")
        (rescored,) = json.loads(again.stdout)["runs"]
        assert not rescored["decoded_now"]
        assert [each for each in rescored["figures"] if each["metric"] != "exact_match"] == found["figures"]
        broken += len(stored.decode().splitlines()) > 6
    assert broken  # some outputs have what other programs take for the end of a line


def test_all_ends_of_lines_are_read_as_they_were_written(tmp_path):
    texts = ["a\x85b", "c\u2028d\u2029", "\x0be\x0c", "\x1cf\x1d\x1e", "", " ", "g"]
    write_lines(tmp_path / "texts", texts)
    assert list(read_lines(tmp_path / "texts")) == texts
    write_lines(tmp_path / "texts", ["a\nb", "c\r", "d\r\ne", "\n"])
    assert list(read_lines(tmp_path / "texts")) == ["a b", "c ", "d  e", " "]
