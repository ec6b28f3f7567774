"""The picture of t2t-lite-params: what is drawn is what is counted, and what the schedules say."""

import re
from xml.etree import ElementTree

import pytest

pytest.importorskip("matplotlib")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def drawn(command, tmp_path):
    """A function of flags that draws sets and returns the root of the SVG and the standard output."""

    def draw(*flags):
        file = tmp_path / "sets.svg"
        result = command("params", *flags, f"--plot_file={file}")
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout.endswith(f"plot: {file}\n")
        return ElementTree.parse(file).getroot(), result.stdout

    return draw


def texts(root):
    return [text.text.strip() for text in root.iter(f"{SVG}text")]


def points_of(root, panel):
    """Returns the points of each line of a panel, in the units of the picture."""
    axes = next(group for group in root.iter(f"{SVG}g") if group.get("id") == f"axes_{panel}")
    paths = [group.find(f"{SVG}path") for group in axes if group.get("id", "").startswith("line2d")]
    return [
        [(float(x), float(y)) for x, y in re.findall(r"[ML] ([\d.]+) ([\d.]+)", path.get("d"))]
        for path in paths
        if path is not None
    ]


def test_several_sets_are_printed_and_drawn_side_by_side(drawn, command):
    root, output = drawn("--hparams_set=transformer_base,transformer_tiny")
    rows = {line.split()[0]: line.split() for line in output.splitlines() if line.strip()}
    shown = texts(root)
    for name in ("transformer_base", "transformer_tiny"):
        assert f"{name}: {rows[name][9]} million parameters" in shown
    assert {"embeddings", "encoder self-attention", "decoder feed-forward", "learning rate", "step"} <= set(shown)
    assert rows["transformer_base"][-2:] == ["65", "-3.0%"] and "--vocab_size=41100" not in output
    assert len(points_of(root, 2)) == 2
