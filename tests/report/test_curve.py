"""The curves of runs, read from files that are written by hand."""

import json
import re
from xml.etree import ElementTree

import pytest

from t2t_lite.errors import UserError
from t2t_lite.report.charts import plot_curves
from t2t_lite.report.reading import read_run
from t2t_lite.visualization.figures import COLORS


@pytest.fixture
def make_run(tmp_path):
    """A function that writes a run's log and evaluations, and returns its folder."""

    def make(name, losses, bleus):
        run = tmp_path / name
        run.mkdir()
        rows = [
            {"part": "train", "step": step, "loss": loss, "learning_rate": 1e-4 * step, "target_tokens_per_second": 900}
            for step, loss in losses
        ]
        rows.insert(1, {"part": "eval", "step": 1, "loss": 77.0})
        (run / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"part": "tr')
        figures = {
            str(step): {"loss": 2.0, "perplexity": 5.0, "accuracy": 0.5} | ({"bleu": bleu} if bleu is not None else {})
            for step, bleu in bleus.items()
        }
        (run / "evaluations.json").write_text(json.dumps(figures))
        return run

    return make


def texts_of(svg):
    """The texts of a drawing, in its order."""
    return [text.text for text in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_reports_that_a_resumed_training_repeats_are_left_out(make_run):
    run = make_run("run", [(1, 9.0), (10, 8.0), (20, 7.0), (30, 6.0), (20, 6.5), (30, float("nan"))], {30: 1.0})
    stored = read_run(run, "run")
    assert [row["step"] for row in stored.reports] == [1, 10, 20, 30]
    losses = [row["loss"] for row in stored.reports]
    assert losses[:3] == [9.0, 8.0, 6.5] and losses[3] != 6.0
    assert list(stored.evaluations) == [1, 30] and stored.evaluations[30]["bleu"] == 1.0


def test_the_plot_names_the_runs_and_shows_training_beside_evaluations(make_run, command, tmp_path):
    runs = [
        make_run("first", [(step, 9 - step / 10) for step in range(1, 60, 2)], {20: 3.5, 40: 4.25}),
        make_run("_other $x$", [(1, 9.0), (40, 5.0)], {40: None}),
    ]
    plot = tmp_path / "curves.svg"
    flags = ("--curve", f"--output_dir={runs[0]},{runs[1]}", f"--plot_file={plot}")
    result = command("benchmark", *flags)
    assert (result.returncode, result.stderr) == (0, "")
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert lines[0] == "first:" and lines[4] == "_other $x$:"
    assert lines[3].split() == ["40", "2.000", "5.000", "0.500", "4.250"]
    texts = texts_of(plot)
    panels = ["training loss (smoothed)", "learning rate", "dev loss", "dev perplexity", "dev BLEU"]
    assert [text for text in texts if text in panels] == panels and "dev accuracy" not in texts
    # The speed depends on what else the machine does.
    assert not [text for text in texts if "tokens" in text] and "target_tokens" not in result.stdout
    assert [text.strip() for text in texts][-2:] == ["first", "_other $x$"]
    # Two colours, in the legend and in each panel; the other run has no BLEU.
    drawn = set(re.findall(r"stroke: (#[0-9a-f]{6}); stroke-width: 1.[16]", plot.read_text()))
    drawn |= set(re.findall(r"stroke-dasharray: [^;]*; stroke-dashoffset: 0; stroke: (#[0-9a-f]{6})", plot.read_text()))
    assert drawn == {color.lower() for color in COLORS[:2]}


def test_a_run_without_evaluations_is_named_and_plotted(make_run, command, tmp_path):
    runs = [make_run(name, [(1, 9.0), (40, 5.0)], {40: 1.0}) for name in ("run", "other")]
    (runs[1] / "evaluations.json").unlink()
    result = command("benchmark", "--curve", f"--output_dir={runs[0]},{runs[1]}")
    assert (result.returncode, result.stdout) == (1, "")
    assert f"{runs[1]} has no evaluations.json; evaluate it with" in result.stderr
    plot = tmp_path / "curves.svg"
    drawn = command("benchmark", "--curve", f"--output_dir={runs[1]},{runs[1]}/", f"--plot_file={plot}")
    assert drawn.returncode == 0, drawn.stderr
    assert drawn.stdout == "none of its checkpoints was evaluated\n"  # one run, although it is given twice
    assert "learning rate" in texts_of(plot)
    (tmp_path / "nothing").mkdir()
    (tmp_path / "nothing/hparams.json").write_text("{}")
    with pytest.raises(UserError, match="nothing to plot"):
        plot_curves([read_run(tmp_path / "nothing", "nothing")], tmp_path / "plot.png")
    with open(runs[0] / "log.jsonl", "a") as log:
        log.write('\n{"part": "train", "step": "x"}\n')
    drawn = command("benchmark", "--curve", f"--output_dir={runs[0]}", f"--plot_file={plot}")
    assert drawn.returncode == 0 and f"{runs[0]}: log.jsonl is damaged (" in drawn.stderr
