"""Commands that only calculate: t2t-lite-params and t2t-lite-benchmark --cost."""

import re
from xml.etree import ElementTree

import pytest

from t2t_lite.registry import HPARAMS
from t2t_lite.reproduce.paper import PAPER_FIGURES

pytestmark = pytest.mark.slow


def successful(command, *flags, **environment):
    result = command(*flags, **environment)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


@pytest.fixture(scope="module")
def table(command):
    """The table of all sets as rows of words, printed to a narrow pipe."""
    output = successful(command, "params", COLUMNS="80")
    rows = {line.split()[0]: line.split()[1:] for line in output.splitlines() if line.split()[0] in HPARAMS}
    assert list(rows) == HPARAMS.names() and "…" not in output and "\x1b" not in output
    return rows


def test_the_parts_of_every_set_add_up_and_the_papers_figure_is_beside_them(table):
    for name, row in table.items():
        *parts, total = map(float, row[:9])
        assert len(parts) == 8 and abs(sum(parts) - total) < 0.05, name
    printed = {name: figures.parameters for name, figures in PAPER_FIGURES.items() if figures.parameters}
    assert {name: int(row[9]) for name, row in table.items() if len(row) > 9} == printed
    assert table["transformer_base"][8:] == ["63.05", "65", "-3.0%"]
    assert table["transformer_big"][8:] == ["214.17", "213", "+0.6%"]


def test_several_sets_are_printed_and_drawn_side_by_side(command, tmp_path):
    pytest.importorskip("matplotlib")
    names, file = ("transformer_base", "transformer_tiny"), tmp_path / "sets.svg"
    output = successful(command, "params", f"--hparams_set={','.join(names)}", f"--plot_file={file}")
    assert output.endswith(f"plot: {file}\n") and "--vocab_size=41100" not in output
    rows = {line.split()[0]: line.split() for line in output.splitlines() if line.strip()}
    assert rows["transformer_base"][-2:] == ["65", "-3.0%"]
    svg, root = "{http://www.w3.org/2000/svg}", ElementTree.parse(file).getroot()
    shown = {text.text.strip() for text in root.iter(f"{svg}text")}
    assert {f"{name}: {rows[name][9]} million parameters" for name in names} <= shown
    assert {"embeddings", "encoder self-attention", "decoder feed-forward", "learning rate", "step"} <= shown
    schedules = next(group for group in root.iter(f"{svg}g") if group.get("id") == "axes_2")
    lines = [group for group in schedules if group.get("id", "").startswith("line2d")]
    assert sum(group.find(f"{svg}path") is not None for group in lines) == 2


def test_the_costs_of_table_2(command):
    output = successful(command, "benchmark", "--cost")
    base, big, note = output.split("\n\n")
    assert base.startswith("transformer_base, 100,000 steps\n") and big.startswith("transformer_big, 300,000 steps\n")
    assert re.search(r"training time +12\.0 h .*\n +estimate +3\.3e18 FLOPs.*\n +table 2 +3\.3e18 FLOPs", base)
    assert "3.0e18 at the rounded 0.4 s per step" in base
    assert re.search(r"training time +84\.0 h .*\n +estimate +2\.3e19 FLOPs.*\n +table 2 +2\.3e19 FLOPs", big)
    for cost in (base, big):
        estimate, counted = (
            float(re.search(rf"^  {word} +(\S+) FLOPs", cost, re.M)[1]) for word in ("estimate", "counted")
        )
        utilisation = int(re.search(r"utilisation +(\d+)%", cost)[1])
        assert abs(counted / estimate - utilisation / 100) < 0.02
        shares = re.findall(r"([\d.]+)%$", cost.split("utilisation")[0], flags=re.MULTILINE)
        assert len(shares) == 6 and abs(sum(map(float, shares)) - 100) < 0.5
    assert "matrix products" in note


def test_the_time_on_another_machine_is_assumed_without_step_seconds(command):
    flags = ("benchmark", "--cost", "--hparams_set=transformer_base", "--device=M40", "--num_devices=2")
    without = successful(command, *flags)
    assert "pass --step_seconds=S" in without and "estimate   " not in without and "counted" in without
    timed = successful(command, *flags, "--step_seconds=2", "--train_steps=1000")
    assert "2.4e16 FLOPs: time x 2 x 6 TFLOPS (M40, sustained in float32)" in timed  # 2000 s x 2 x 6e12
    assert "table 2" not in timed


@pytest.mark.parametrize(("device", "tflops"), [("12.5", 12.5), ("a100", 312), ("RTX 4090", 165), ("tpu-v5e", 197)])
def test_an_assumed_time_is_the_counted_work_at_30_to_50_percent_of_the_rate(command, device, tflops):
    flags = ("--hparams_set=transformer_base", "--train_steps=1000000", f"--device={device}", "--num_devices=4")
    printed = successful(command, "benchmark", "--cost", *flags)
    assert "30% to 50% of the devices' rate is used, which is assumed, not measured" in printed
    assert f"4 x {tflops:g} TFLOPS" in printed
    hours = [float(number) for number in re.search(r"time +([\d.]+) to ([\d.]+) h", printed).groups()]
    counted = float(re.search(r"counted +(\S+) FLOPs", printed)[1])
    assert hours == pytest.approx([counted / share / (4 * tflops * 1e12) / 3600 for share in (0.5, 0.3)], rel=0.06)
