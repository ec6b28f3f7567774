"""The picture of t2t-lite-params: what is drawn is what is counted, and what the schedules say."""

import re
from xml.etree import ElementTree

import pytest

from t2t_lite.config import HParams
from t2t_lite.registry import HPARAMS, LEARNING_RATE_SCHEDULES
from t2t_lite.schedules import learning_rate

pytest.importorskip("matplotlib")
SVG = "{http://www.w3.org/2000/svg}"


def stairs(step, hparams):
    return 0.1 if step <= hparams.train_steps // 2 else 0.025


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


@pytest.mark.heavy
@pytest.mark.parametrize("schedule", ["inverse_sqrt", "cosine", "linear", "constant", "stairs"])
def test_the_learning_rate_of_every_schedule_is_drawn(drawn, registered, schedule):
    registered(LEARNING_RATE_SCHEDULES, "stairs", stairs)
    registered(HPARAMS, "_$x$", lambda: HParams(hidden_size=32, filter_size=32, num_heads=2, train_steps=2000))
    changes = f"learning_rate_schedule={schedule},learning_rate_warmup_steps=500"
    if LEARNING_RATE_SCHEDULES.fact(schedule, "needs_decay_steps", False):
        changes += ",learning_rate_decay_steps=1500"
    root, _ = drawn("--hparams_set=_$x$", f"--hparams={changes}", "--vocab_size=100")
    assert any(text.startswith("_$x$: ") for text in texts(root))
    (points,) = points_of(root, 2)
    hparams = HPARAMS["_$x$"]().override(changes)
    peak = max(float(learning_rate(step, hparams)) for step in range(1, 2001))
    # From the picture's units to steps and rates: the line begins at step 1 and ends at step 2000.
    (first, start), (last, end) = points[0], points[-1]
    top = min(y for _, y in points)
    of_start, of_end = (float(learning_rate(step, hparams)) for step in (1, 2000))
    low, of_low = (start, of_start) if of_start < of_end else (end, of_end)
    for x, y in points:
        step = round(1 + (x - first) / (last - first) * 1999)
        rate = of_low + (low - y) / (low - top) * (peak - of_low)
        # A picture has few pixels; where a rate jumps, it is that of the step before or after.
        nearby = [float(learning_rate(each, hparams)) for each in range(max(1, step - 2), min(2000, step + 2) + 1)]
        assert min(nearby) - 0.01 * peak <= rate <= max(nearby) + 0.01 * peak, step
