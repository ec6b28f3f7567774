"""Reports: what they show of frozen, damaged, unfinished and hostile runs, and of trainings; and the curves of runs."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.reports import Report

import t2t_lite as t2t
from t2t_lite.plugins import trust
from t2t_lite.report.charts import plot_curves
from t2t_lite.report.reading import read_run
from t2t_lite.visualization.figures import COLORS, static_text

FROZEN = Path(__file__).resolve().parents[1] / "frozen"
RUNS = sorted(path.parent for path in FROZEN.glob("*/*/run/hparams.json"))
TIED = FROZEN / "0.2/tied"
ATTACKS = ("<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>", "\"'><b>", "$x$ \ud800 \x00 &lt;")


@pytest.fixture
def reported(command, tmp_path):
    """A function of runs that writes a report and returns it."""

    def write(*runs):
        file = tmp_path / "report.html"
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


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS, ids=[f"{run.parent.parent.name}-{run.parent.name}" for run in RUNS])
def test_runs_of_earlier_versions_are_reported_with_what_they_lack(run, reported, snapshot, tmp_path):
    before = snapshot(run)
    report = reported(run)
    assert snapshot(run) == before
    about = json.loads((run / "run.json").read_text())
    assert f"It was made with version {about['version']}; this is {t2t.__version__}." in report.text
    assert about["problem"] in report.text and "The location of the data is not recorded" in report.text
    assert f"t2t-lite-eval --output_dir={run} --split=test" in report.text
    assert "train with --eval_decode" in report.text
    assert {"Loss of training and dev", "Learning rate", "Gradient norm", "Speed"} <= set(report.charts)
    assert "ckpt-300" in report.text and "state complete" in report.text


def test_a_file_needs_no_network_and_its_one_script_shows_attention(evaluated, reported, tmp_path):
    report = reported(evaluated)
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
    report = reported(evaluated)
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
    # An evaluation of an earlier version has no examples, and the report says how to get them.
    run = shutil.copytree(evaluated, tmp_path / "run")
    (run / "scores" / folder.name / "examples.json").unlink()
    report = reported(run)
    assert f"t2t-lite-eval --output_dir={run} --split=dev --again" in report.text
    assert "BLEU by length, dev of text_pairs" in report.charts and "Worst lines" not in report.text


def test_several_runs_are_drawn_over_one_another(reported, tmp_path):
    rows = [{"part": "train", "step": step, "loss": 300 / step, "gradient_norm": 1.0} for step in (100, 200)]
    dev = [{"part": "eval", "step": 200, "loss": 2.5, "bleu": 12.5}]
    for name, log, num_heads in (("one", rows + dev, 4), ("two", rows, 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in log))
        (tmp_path / name / "hparams.json").write_text(json.dumps({"train_steps": 400, "num_heads": num_heads}))
    report = reported(tmp_path / "one", tmp_path / "two", tmp_path / "two" / ".." / "two")  # the same run again
    assert report.charts["Loss of training and dev"] == (
        "Loss of training and dev, by step. one, training: 3 at step 100, 1.5 at step 200; one, dev: 2.5 at step 200; "
        "two, training: 3 at step 100, 1.5 at step 200."
    )
    assert report.charts["BLEU of the dev split"] == "BLEU of the dev split, by step. one: 12.5 at step 200."
    assert "num_heads h 4 2 " in report.text
    legend = re.search(r"<figcaption>Gradient norm</figcaption>.*?</figure>", report.source, re.DOTALL)[0]
    assert ">one</text>" in legend and ">two</text>" in legend


@pytest.fixture
def run(tmp_path):
    """A copy of a frozen run, whose log has losses only."""
    run = shutil.copytree(TIED / "run", tmp_path / "run")
    rows = map(json.loads, (run / "log.jsonl").read_text().splitlines())
    kept = [{name: row[name] for name in ("part", "step", "loss")} for row in rows]
    (run / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
    return run


@pytest.fixture
def scored(run):
    """The same with an evaluation, made by hand, and its folder."""
    folder = run / "scores" / "test.ckpt-300.beam_size=4.alpha=0.6"
    folder.mkdir(parents=True)
    for name in ("inputs", "hypotheses", "references"):
        (folder / f"{name}.txt").write_text("a b\nc d\n")
    (folder / "scores.json").write_text(json.dumps(scores_of()))
    (folder / "examples.json").write_text(json.dumps(examples_of()))
    return folder


def scores_of(text="x"):
    return {
        "format": 1,
        "date": text,
        "checkpoint": {"path": f"/runs/{text}", "members": [], "chosen": text},
        "decoded_by": {"split": "test", "problem": text, "decode_hparams": {"beam_size": text, "alpha": 0.6}},
        "references": [{"file": text, "sha256": text}],
        "lines": 2,
        "lines_per_second": None,
        "figures": [
            {"name": "bleu", "label": text, "meaning": text, "score": 1.0, "signature": text, "metric": "bleu"},
            {"name": "other", "label": text, "meaning": text, "score": None, "low": 1, "high": 2, "metric": ""},
        ],
        "by_length": [{"words": text, "lines": 2, "score": 1.0, "length_ratio": None}],
    }


def examples_of(text="x"):
    line = {"line": 1, "score": 50.0, "alignment": "1-0 0-1"}
    about = {"format": 1, "metric": text, "label": text, "attention": None}
    return about | {"worst": [line], "best": [line | {"line": 2}]}


def report_of(run):
    return Report(t2t.write_report(run, run.parent / "report.html"))


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("hparams.json", None, "hparams.json is missing"),
        ("hparams.json", "{", "hparams.json is damaged"),
        ("hparams.json", "[]", "hparams.json is damaged (not a JSON object)"),
        ("hparams.json", '{"train_steps": "x"}', "hparams.json is damaged (could not convert string to float: 'x')"),
        ("run.json", None, "run.json is missing"),
        ("run.json", "[" * 10**5, "run.json is damaged"),
        ("run.json", "\xff", "run.json is damaged"),
        ("run.json", '{"plugins": "my"}', "run.json is damaged"),
        ("log.jsonl", None, "log.jsonl is missing or empty"),
        ("log.jsonl", '{"part": "train", "step": 1, "loss": 2}\n{"part": "tr', "1 damaged lines were skipped"),
        ("log.jsonl", '{"part": "train", "step": 1, "loss": []}', "log.jsonl is damaged"),
        ("log.jsonl", '{"part": "train", "step": -1}', "log.jsonl is damaged (-1 is not a step)"),
        ("log.jsonl", '{"part": "eval", "step": 1, "samples": [3]}', "log.jsonl is damaged"),
        ("evaluations.json", "{", "evaluations.json is damaged"),
        ("evaluations.json", '{"1": {"loss": "low"}}', "The evaluations cannot be read: could not convert string"),
        ("evaluations.json", '{"1": 2}', "evaluations.json is damaged"),
        ("ckpt-300.index", "x", "The best step by loss is 300"),
        ("average-300.members.json", "[3", "average-300.members.json is damaged"),
    ],
)
def test_a_damaged_file_is_said_and_the_rest_is_shown(run, file, content, said):
    if content is None:
        (run / file).unlink()
    else:
        (run / file).write_text(content, encoding="latin-1")
    report = report_of(run)
    assert said in report.text and "ckpt-200" in report.text
    assert report.charts


def test_attention_is_data_and_only_what_fits_is_shown(run, scored):
    odd = ([float("nan")], ["\ud800"], ["x" * 2_000_000])
    for attention in ({}, [1], *({"sentences": sentences} for sentences in odd)):
        (scored / "examples.json").write_text(json.dumps(examples_of() | {"attention": attention}))
        assert "script" not in {name for name, _ in report_of(run).elements}
    attention = {"sentences": [{"input": ATTACKS[1], "output": ATTACKS[0]}]}
    (scored / "examples.json").write_text(json.dumps(examples_of() | {"attention": attention}))
    report = report_of(run)
    kinds = [attributes.get("type") for name, attributes in report.elements if name == "script"]
    assert kinds == ["application/json", None] and "img" not in {name for name, _ in report.elements}


@pytest.mark.parametrize("value", [None, True, -1, 10**400, "text", [], {}, float("nan"), float("inf"), ["<b>"]])
def test_any_value_may_stand_for_any_other(run, scored, value):
    for file in ("hparams.json", "run.json"):
        content = json.loads((run / file).read_text())
        (run / file).write_text(json.dumps(dict.fromkeys(content, value)))
    rows = [{"part": "start", "step": 0} | dict.fromkeys(("format", "devices", "replicas", "workers", "keras"), value)]
    figures = ("time", "loss", "gradient_norm", "memory_bytes", "epoch")
    row = {"part": "train", "step": 1} | dict.fromkeys(figures, value)
    evaluation = {"part": "eval", "step": 1, "loss": value, "samples": value}
    rows += [row, row | {"step": value}, evaluation, evaluation | {"samples": [value, {"source": value}]}]
    rows += [{"part": value}]
    (run / "log.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    (run / "evaluations.json").write_text(json.dumps({"300": {"loss": value, "bleu": value}}))
    (scored / "scores.json").write_text(json.dumps(scores_of(value)))
    (scored / "examples.json").write_text(json.dumps(examples_of(value)))
    assert "ckpt-300" in report_of(run).text


def test_texts_of_a_hostile_run_stay_texts(run, scored):
    for attack in ATTACKS:
        sample = {"source": attack, "output": attack, "reference": f"{attack}!"}
        rows = [
            {"part": "start", "step": 0, "format": 1, "devices": [attack], "replicas": 1, "tensorflow": attack},
            {"part": "eval", "step": 1, attack: 3.0, "samples": [sample]},
        ]
        (run / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        about = {"problem": attack, "version": attack, "hparams_set": attack, "data_dir": attack, "random_seed": attack}
        (run / "run.json").write_text(json.dumps(about | {"plugins": {attack: [attack, attack]}}))
        (run / "hparams.json").write_text(json.dumps({attack: attack, "model": attack}))
        (scored / "scores.json").write_text(json.dumps(scores_of(attack)))
        (scored / "examples.json").write_text(json.dumps(examples_of(attack)))
        (scored / "hypotheses.txt").write_text("<script> <img>\n<b> </b>\n")
        report = report_of(run)
        names = {name for name, _ in report.elements}
        assert not names & {"script", "img", "b"}
        assert not any(key.startswith("on") for _, attributes in report.elements for key in attributes)
        assert report.text.count(attack[:7].rstrip().split("\ud800")[0]) > 10


def test_code_that_a_run_names_is_not_executed(run, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "plugin"
    folder.mkdir()
    (folder / "code.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    trust(folder)
    plugins = {"problem": ["t2t_usr_dir", str(folder)], "model": ["t2t_usr_dir", str(folder)]}
    about = json.loads((run / "run.json").read_text())
    about |= {"problem": "of_a_plugin", "plugins": plugins, "hparams_set": "mine"}
    (run / "run.json").write_text(json.dumps(about))
    settings = json.loads((run / "hparams.json").read_text())
    (run / "hparams.json").write_text(json.dumps(settings | {"model": "its_model", "its_setting": 7}))
    text = report_of(run).text
    assert not (tmp_path / "executed").exists()
    assert "Not registered here: the problem 'of_a_plugin', the model 'its_model', the hparam set 'mine'." in text
    assert "problem of_a_plugin (from plug-ins: problem, model)" in text and "its_setting 7" in text


def test_a_run_that_has_just_begun_is_a_report(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    for file in ("hparams.json", "run.json"):
        shutil.copy(TIED / "run" / file, run)
    report = report_of(run)
    assert "There is no checkpoint yet." in report.text and "state no steps done" in report.text
    assert "t2t-lite-trainer" in report.text and report.charts == {}


@pytest.mark.parametrize(
    ("flags", "status", "said"),
    [
        ("--output_dir={tmp}/none --report_file={tmp}/x.html", 1, "--output_dir={tmp}/none does not exist"),
        ("--output_dir={tmp} --report_file={tmp}/x.html", 1, "{tmp} is not a run directory: it has none"),
        ("--output_dir={run},{tmp} --report_file={tmp}/x.html", 1, "--output_dir={tmp} is not a run directory"),
        ("--output_dir={run}/run.json --report_file={tmp}/x.html", 1, "run.json is a file; pass a run directory"),
        ("--output_dir={run} --report_file={tmp}/x.pdf", 1, "--report_file={tmp}/x.pdf: reports are HTML"),
        ("--output_dir={run} --report_file={tmp}/no/x.html", 1, "{tmp}/no/x.html: there is no folder"),
        ("--output_dir={run} --report_file={tmp}", 1, "--report_file={tmp} is a directory"),
        ("--output_dir={run}", 2, "--report_file"),
        ("--output_dir={run},, --report_file={tmp}/x.html", 2, "takes paths separated by commas"),
        ("--output_dir={run} --output_file={tmp}/x.html", 2, "unknown flag --output_file"),
    ],
)
def test_mistakes_are_one_line(run, tmp_path, command, flags, status, said):
    result = command("report", *flags.format(run=run, tmp=tmp_path).split())
    assert (result.returncode, result.stdout) == (status, ""), result.stderr
    (line,) = result.stderr.splitlines()
    assert said.format(tmp=tmp_path) in line
    assert not (tmp_path / "x.html").exists()


@pytest.fixture
def trained_here(grammar_data, tmp_path):
    """A function that trains a small model in the folder "api" from Python, with a report."""

    def train(*callbacks, hidden_size=16, **options):
        hparams = {"filter_size": 16, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
        hparams |= {"batch_tokens": 256, "hidden_size": hidden_size}
        options |= {"data_dir": grammar_data, "output_dir": tmp_path / "api", "train_steps": 4, "peak_tflops": 1.0}
        return t2t.train(
            "grammar_ende", "transformer_tiny", hparams=hparams, callbacks=callbacks, report=True, **options
        )

    return train


@pytest.mark.heavy
def test_the_report_of_a_training_follows_it(trained_here, tmp_path):
    seen, file = [], tmp_path / "api" / "report.html"

    class Reader(t2t.Callback):
        def on_step(self, step, figures):
            if step in (2, 3):
                seen.append(Report(file).charts["Loss of training and dev"] if file.exists() else "")

    result = trained_here(Reader(), save_checkpoints_steps=2)
    assert result.step == 4 and seen[0] == "" and "dev: " in seen[1] and seen[1].endswith("at step 2.")
    report = Report(file)
    assert report.charts["Loss of training and dev"].endswith("at step 4.")  # written at the end in any case
    assert "state complete" in report.text and "hparam set transformer_tiny" in report.text
    start = json.loads((tmp_path / "api" / "log.jsonl").read_text().splitlines()[0])
    assert f"parameters {start['parameters']:,} " in report.text and f"TensorFlow {start['tensorflow']}" in report.text
    assert "does not record" not in report.text and "training pairs 1,500" in report.text


@pytest.mark.slow
def test_an_error_that_ends_a_training_leaves_a_report_of_how_far_it_came(trained_here, tmp_path):
    class Failing(t2t.Callback):
        def on_step(self, step, figures):
            if step == 3:
                raise RuntimeError("the end")

    with pytest.raises(RuntimeError, match="the end"):
        trained_here(Failing(), log_step_count_steps=1, save_checkpoints_steps=9)
    file = tmp_path / "api" / "report.html"
    assert Report(file).charts["Loss of training and dev"].endswith("at step 2.")
    # What ends a training before its first step is not news about the run.
    file.write_text("as it was")
    with pytest.raises(t2t.UserError, match="hidden_size"):
        trained_here(hidden_size=32)
    assert file.read_text() == "as it was"


def test_a_missing_package_is_said_before_anything_is_done(command, small_flags, grammar_data, tmp_path, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *more: None if name == "jinja2" else find_spec(name, *more)
    )
    folders = (f"--data_dir={grammar_data}", f"--output_dir={tmp_path / 'run'}")
    result = command("trainer", *small_flags, *folders, "--report")
    assert result.returncode == 1 and not (tmp_path / "run").exists()
    assert re.search(r"a report needs Jinja; run .*pip install -e '.*\[plot\]', or omit --report\n", result.stderr)


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
    with pytest.raises(t2t.UserError, match="nothing to plot"):
        plot_curves([read_run(tmp_path / "nothing", "nothing")], tmp_path / "plot.png")
    with open(runs[0] / "log.jsonl", "a") as log:
        log.write('\n{"part": "train", "step": "x"}\n')
    drawn = command("benchmark", "--curve", f"--output_dir={runs[0]}", f"--plot_file={plot}")
    assert drawn.returncode == 0 and f"{runs[0]}: log.jsonl is damaged (" in drawn.stderr
