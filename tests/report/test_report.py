"""t2t-lite-report on frozen runs and on logs made by hand: what it shows, and what it says is missing."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.reports import Report

import t2t_lite as t2t
from t2t_lite.visualization.figures import static_text

FROZEN = Path(__file__).resolve().parents[1] / "frozen"
RUNS = sorted(path.parent for path in FROZEN.glob("*/*/run/hparams.json"))
TIED = FROZEN / "0.2/tied"


@pytest.fixture(scope="session")
def reported(command):
    """A function of (a file, runs) that writes a report and returns it."""

    def write(file, *runs):
        result = command("report", f"--output_dir={','.join(map(str, runs))}", f"--report_file={file}")
        assert (result.returncode, result.stderr, result.stdout) == (0, "", f"wrote {file}\n")
        return Report(file)

    return write


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory, command):
    """A copy of a frozen run with an average of two checkpoints and an evaluation of dev."""
    run = shutil.copytree(TIED / "run", tmp_path_factory.mktemp("evaluated") / "run")
    assert command("avg", f"--output_dir={run}", "--n=2").returncode == 0
    flags = (f"--data_dir={TIED / 'data'}", "--decode_hparams=beam_size=1", "--xla_compile=False")
    result = command("eval", f"--output_dir={run}", "--split=dev", *flags)
    assert result.returncode == 0, result.stderr
    return run


def run_with_log(folder, rows, **settings):
    """A run directory that consists of a log and settings."""
    folder.mkdir()
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "hparams.json").write_text(json.dumps({"train_steps": 400} | settings))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS, ids=[f"{run.parent.parent.name}-{run.parent.name}" for run in RUNS])
def test_runs_of_earlier_versions_are_reported_with_what_they_lack(run, reported, snapshot, tmp_path):
    before = snapshot(run)
    report = reported(tmp_path / "report.html", run)
    assert snapshot(run) == before
    about = json.loads((run / "run.json").read_text())
    assert f"It was made with version {about['version']}; this is {t2t.__version__}." in report.text
    assert about["problem"] in report.text and "The location of the data is not recorded" in report.text
    assert f"t2t-lite-eval --output_dir={run} --split=test" in report.text
    assert "train with --eval_decode" in report.text
    assert {"Loss of training and dev", "Learning rate", "Gradient norm", "Speed"} <= set(report.charts)
    assert "ckpt-300" in report.text and "state complete" in report.text


def test_a_file_needs_no_network_and_its_one_script_shows_attention(evaluated, reported, tmp_path):
    report = reported(tmp_path / "report.html", evaluated)
    scripts = [attributes.get("type") for name, attributes in report.elements if name == "script"]
    assert scripts == ["application/json", None]
    assert report.source.count(static_text("attention.js")) == 1
    links = [value for _, attributes in report.elements for key, value in attributes.items() if key in ("href", "src")]
    assert links and all(link.startswith("#") for link in links)
    names = {attributes["id"] for _, attributes in report.elements if "id" in attributes}
    assert {link[1:] for link in links} <= names
    assert not re.search(r"url\((?!#)", report.source.replace("url(&quot;#", "url(#"))
    assert len(report.source) < 600_000


@pytest.mark.slow
def test_tensorflow_is_not_imported(evaluated, tmp_path):
    program = (
        "import sys; from t2t_lite.bin.report import main; status = main(sys.argv[1:]); "
        "print(status, *({'tensorflow', 'keras', 'jax'} & set(sys.modules)))"
    )
    flags = [f"--output_dir={evaluated},{RUNS[0]}", f"--report_file={tmp_path / 'x.html'}"]
    done = subprocess.run([sys.executable, "-c", program, *flags], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"wrote {tmp_path / 'x.html'}\n0\n", "")


def test_stored_evaluations_are_shown_with_intervals_and_lines(evaluated, reported, tmp_path):
    report = reported(tmp_path / "report.html", evaluated)
    (folder,) = (evaluated / "scores").iterdir()
    content = json.loads((folder / "scores.json").read_text())
    for figure in content["figures"]:
        digits = f"{figure['score']:.2f}" if figure["metric"] else f"{figure['score']:.4g}"
        interval = f" {figure['low']:.2f} to {figure['high']:.2f}" if figure["low"] is not None else ""
        assert f"{figure['label']} {digits}{interval} " in report.text
    examples = json.loads((folder / "examples.json").read_text())
    texts = {name: (folder / f"{name}.txt").read_text().splitlines() for name in ("inputs", "hypotheses", "references")}
    for line in [*examples["worst"], *examples["best"]]:
        source, output, reference = (lines[line["line"] - 1] for lines in texts.values())
        shown = f"line {line['line']}, {line['score']:.1f} source {source} output {output} reference {reference} alignm"
        assert shown in report.text
        words = [source.split()[int(link.split("-")[0])] for link in line["alignment"].split()]
        assert " ".join(f"{word} ( {other} )" for word, other in zip(output.split(), words)) in report.text
    chart = report.charts["BLEU by length, dev of text_pairs"]
    assert all(f" at {row['words']}" in chart for row in content["by_length"])
    assert "t2t-lite-eval" not in report.text and "no worst and best lines" not in report.text


def test_an_evaluation_of_an_earlier_version_has_no_examples_and_says_how_to_get_them(evaluated, reported, tmp_path):
    run = shutil.copytree(evaluated, tmp_path / "run")
    (file,) = run.glob("scores/*/examples.json")
    file.unlink()
    report = reported(tmp_path / "report.html", run)
    assert f"t2t-lite-eval --output_dir={run} --split=dev --again" in report.text
    assert "BLEU by length, dev of text_pairs" in report.charts and "Worst lines" not in report.text


def test_several_runs_are_drawn_over_one_another(reported, tmp_path):
    rows = [{"part": "train", "step": step, "loss": 300 / step, "gradient_norm": 1.0} for step in (100, 200)]
    dev = [{"part": "eval", "step": 200, "loss": 2.5, "bleu": 12.5}]
    one = run_with_log(tmp_path / "one", rows + dev, num_heads=4)
    two = run_with_log(tmp_path / "two", rows, num_heads=2)
    report = reported(tmp_path / "report.html", one, two, f"{two}/.")  # the same run again
    assert report.charts["Loss of training and dev"] == (
        "Loss of training and dev, by step. one, training: 3 at step 100, 1.5 at step 200; one, dev: 2.5 at step 200; "
        "two, training: 3 at step 100, 1.5 at step 200."
    )
    assert report.charts["BLEU of the dev split"] == "BLEU of the dev split, by step. one: 12.5 at step 200."
    assert "num_heads h 4 2 " in report.text
    legend = re.search(r"<figcaption>Gradient norm</figcaption>.*?</figure>", report.source, re.DOTALL)[0]
    assert ">one</text>" in legend and ">two</text>" in legend
