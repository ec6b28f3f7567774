"""A run directory stands for a row only if training and data are the row's; commands one after the other, and kills."""

import csv
import dataclasses
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.commands import program, user_environment

from t2t_lite.config import HParams
from t2t_lite.cost import cost_of
from t2t_lite.data.generation.generate import generate
from t2t_lite.errors import UserError
from t2t_lite.problems import grammar
from t2t_lite.registry import HPARAMS
from t2t_lite.reproduce.paper import PAPER_FIGURES
from t2t_lite.reproduce.runs import SCALES, TIMES, Command, Runner, paper_changes, planned_runs, spent
from t2t_lite.reproduce.tables import read_results
from t2t_lite.runs.run_dir import data_digests, open_run_dir


@pytest.fixture
def planned(tmp_path):
    return planned_runs(3, SCALES["tiny"], ["base"], 1, tmp_path, {}, {})[0]


@pytest.fixture
def run(small_run, grammar_data, tmp_path):
    """The small run as the training of a row, with a copy of its data."""
    (row,) = planned_runs(3, SCALES["tiny"], ["base"], 1, tmp_path, {"data_dir": str(tmp_path / "data")}, {})
    shutil.copytree(grammar_data, tmp_path / "data")
    shutil.copytree(small_run, row.directory)
    hparams, tiny = (dataclasses.asdict(each) for each in (open_run_dir(small_run).hparams, HParams()))
    names = {name for name, value in hparams.items() if value != tiny[name]} - {"model", "batch_by"}
    changes = {name: hparams[name] for name in names}
    row = dataclasses.replace(row, hparams_set="transformer_tiny", changes=changes)
    assert row.hparams.replace(batch_by="both") == open_run_dir(small_run).hparams
    return row


def test_another_training_in_the_place_of_a_run_is_refused(small_run, planned):
    assert read_results([planned]) == []
    shutil.copytree(small_run, planned.directory)
    with pytest.raises(UserError, match=r"was not trained with the settings of this row .*hidden_size"):
        read_results([planned])


@pytest.mark.parametrize("steps", [4, 8])
def test_a_training_of_another_length_is_refused(run, steps):
    assert run.is_trained()
    other = dataclasses.replace(run, changes={**run.changes, "train_steps": steps})
    expected = rf"not trained with the settings of this row \(train_steps: 6, not {steps}\); remove it, or pass another"
    with pytest.raises(UserError, match=expected):
        other.is_trained()
    # As a run that was continued, and whose settings were set back by a shorter training, which made no step.
    (run.directory / "hparams.json").write_text(other.hparams.to_json())
    if steps < 6:
        with pytest.raises(UserError, match=expected):
            read_results([other])
    else:
        assert not other.is_trained()  # it goes on


def test_the_number_of_averaged_checkpoints_counts_where_they_are_averaged(run):
    averages = run.hparams.average_checkpoints + 1
    other = dataclasses.replace(run, changes={**run.changes, "average_checkpoints": averages})
    assert other.is_trained()
    with pytest.raises(UserError, match=rf"average_checkpoints: {averages - 1}, not {averages}"):
        dataclasses.replace(other, averages=True).is_trained()


class GrammarEnde(grammar.GrammarEnde):
    """The same training pairs and vocabulary, and fewer dev pairs."""

    num_examples = {"train": 1500, "dev": 10, "test": 20}


def test_other_data_is_refused(run, tmp_path):
    generate(GrammarEnde(), tmp_path / "other", tmp_path / "none", say=lambda line: None)
    (recorded,) = data_digests(run.directory)
    other = dataclasses.replace(run, data_flags={"data_dir": str(tmp_path / "other")})
    with pytest.raises(UserError, match=r"was not trained on the data in .*other \(checksum: (\w{12}), not \w+"):
        other.is_trained()
    about = run.directory / "run.json"
    content = json.loads(about.read_text())
    assert content.pop("data_sha256") == [recorded]
    about.write_text(json.dumps(content))  # as before version 0.9
    assert run.is_trained() and other.is_trained()  # the vocabulary is the same
    manifest = tmp_path / "other" / "manifest.grammar_ende.json"
    about_data = json.loads(manifest.read_text())
    about_data["vocabulary"]["sha256"] = "0" * 64
    manifest.write_text(json.dumps(about_data))
    expected = r"checksum: \w{12}\+\w{12}, not 0{12}\+0{12}\); pass the data of the run with `data_dir`"
    with pytest.raises(UserError, match=expected):
        other.is_trained()
    shutil.rmtree(tmp_path / "other")
    assert other.is_trained()  # the data may be gone


@pytest.mark.slow
def test_an_evaluation_of_other_texts_is_not_the_rows(run, command, tmp_path):
    flags = (f"--output_dir={run.directory}", "--split=dev", f"--decode_hparams={run.search}", "--xla_compile=False")
    done = command("eval", *flags, f"--data_dir={run.data_flags['data_dir']}", "--checkpoint_path=last")
    assert done.returncode == 0, done.stderr
    ((found, figures),) = read_results([run])
    assert found == run and figures["bleu"] >= 0.0
    text = tmp_path / "data" / "grammar_ende-dev.targets.txt"
    text.write_text(text.read_text().replace(".", "!"))
    assert read_results([run]) == []
    text.unlink()
    assert len(read_results([run])) == 1


@pytest.mark.heavy
def test_a_run_records_all_data_it_was_trained_on(small_run, grammar_data, command, small_flags, tmp_path):
    mine = shutil.copytree(small_run, tmp_path / "run")
    generate(GrammarEnde(), tmp_path / "other", tmp_path / "none", say=lambda line: None)
    flags = [flag for flag in small_flags if not flag.startswith("--train_steps")]
    for steps, data_dir in ((7, tmp_path / "other"), (8, grammar_data)):
        more = (f"--train_steps={steps}", f"--data_dir={data_dir}", f"--output_dir={mine}", "--schedule=train")
        assert command("trainer", *flags, *more).returncode == 0
    first, second = data_digests(mine)
    assert [first] == data_digests(small_run) and first != second


@pytest.mark.parametrize("row", PAPER_FIGURES)
def test_at_the_papers_scale_a_row_is_its_set(row):
    changed = HPARAMS["transformer_base"]().replace(**paper_changes(row, SCALES["paper"]))
    wanted = HPARAMS[row]()
    assert dataclasses.replace(changed, max_length=wanted.max_length) == wanted


@pytest.mark.parametrize("scale", ["tiny", "small"])
def test_rows_keep_their_ratios(scale):
    scale = SCALES[scale]
    base = HPARAMS[scale.base]()
    rows = {row: base.replace(**paper_changes(row, scale)) for row in PAPER_FIGURES}
    assert rows["transformer_base"] == base
    assert rows["transformer_h1"].num_heads == 1 and rows["transformer_h16"].num_heads == 16
    assert rows["transformer_dk16"].attention_key_size * 4 == base.hidden_size // base.num_heads
    assert rows["transformer_l2"].num_decoder_layers * 3 == base.num_decoder_layers
    assert rows["transformer_l8"].num_encoder_layers * 3 == base.num_encoder_layers * 4
    assert rows["transformer_ff4096"].filter_size == 2 * base.filter_size
    assert rows["transformer_hs256"].hidden_size * 2 == base.hidden_size
    assert rows["transformer_big"].train_steps == 3 * base.train_steps
    assert rows["transformer_dr0"].residual_dropout == 0.0
    assert rows["transformer_learned_positions"].position_encoding == "learned"
    assert rows["transformer_parsing"].max_length == 512
    # Every row but the base itself differs from it.
    assert [row for row, hparams in rows.items() if hparams == base] == ["transformer_base"]


# Programs in the place of the package's commands.
PROGRAMS = {
    "works": "import sys; print('done', *sys.argv[1:])",
    "fails": "import sys; print('first line'); sys.exit('the reason')",
    # As the trainer: it ends at SIGTERM.
    "waits": """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
print("ready", flush=True)
time.sleep(99)
""",
    "computes": "import time\nend = time.process_time() + 1.5\nwhile time.process_time() < end: pass",
}


def runner(folder, budget=None, say=lambda line: None):
    return Runner(folder, budget, lambda name: [sys.executable, "-c", PROGRAMS[name]], say)


@pytest.mark.slow
def test_output_goes_to_a_log_and_time_is_recorded(tmp_path, planned):
    said = []
    ours = runner(tmp_path, say=said.append)
    assert ours.execute(planned, Command("works", ("--a=1",)))
    assert ours.execute(planned, Command("computes", ()))
    assert said == [f"{planned.name}: works", f"{planned.name}: computes"]
    log = tmp_path / f"{planned.name}.log"
    assert log.read_text().splitlines()[1:3] == ["$ t2t-lite-works --a=1", "done --a=1"]
    taken = spent(tmp_path)[planned.name]
    assert taken.seconds >= 1.5
    assert 1.5 <= taken.cpu_seconds < 10


@pytest.mark.slow
def test_a_failure_is_one_line_and_a_command_is_told_to_stop_when_the_time_is_over(tmp_path, planned):
    with pytest.raises(UserError, match=f"{planned.name}: fails failed: the reason .full output: .*log"):
        runner(tmp_path).execute(planned, Command("fails", ()))
    ours = runner(tmp_path, budget=1 / 60)
    assert not ours.is_over
    assert not ours.execute(planned, Command("waits", ())) and ours.is_over


def test_a_kill_loses_at_most_the_last_record_of_the_time(tmp_path):
    entries = [
        {"run": "a", "command": "trainer", "start": 1.0, "seconds": 20.0, "cpu_seconds": 30.0},
        {"run": "a", "command": "trainer", "start": 1.0, "seconds": 40.0, "cpu_seconds": 60.0},
        {"run": "a", "command": "trainer", "start": 100.0, "seconds": 5.0, "cpu_seconds": 6.0},
        {"run": "b", "command": "eval", "start": 200.0, "seconds": 1.0, "cpu_seconds": 2.0},
    ]
    (tmp_path / TIMES).write_text("".join(f"{json.dumps(entry)}\n" for entry in entries) + '{"run": "b", "sta')
    assert spent(tmp_path) == {"a": (45.0, 66.0), "b": (1.0, 2.0)}
    assert spent(tmp_path, "eval") == {"b": (1.0, 2.0)}
    assert spent(tmp_path / "nothing") == {}


SCRIPT = f"""
import sys
from pathlib import Path
from t2t_lite.reproduce.runs import SCALES, Command, Runner, planned_runs
folder = Path(sys.argv[1])
run = planned_runs(3, SCALES["tiny"], ["base"], 1, folder, {{}}, {{}})[0]
print(run.directory.with_name(run.name + ".log"), flush=True)
program = [sys.executable, "-c", {PROGRAMS["waits"]!r}]
Runner(folder, None, lambda name: program, print).execute(run, Command("waits", ()))
"""


def test_a_signal_is_passed_on_to_the_running_command(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, tmp_path], stdout=subprocess.PIPE, text=True)
    log = Path(process.stdout.readline().strip())
    while not (log.exists() and "ready" in log.read_text()):
        assert process.poll() is None
        time.sleep(0.05)
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 128 + signal.SIGTERM
    assert "stopping after SIGTERM; run the same command again to continue" in process.stdout.read()
    with pytest.raises(ProcessLookupError):
        os.kill(int(child), 0)


def flags_of(line):
    name, *flags = shlex.split(line)
    return name, dict(flag.removeprefix("--").split("=", 1) for flag in flags if "=" in flag)


def test_a_dry_run_shows_runs_time_disk_and_commands_and_changes_nothing(command, tmp_path):
    flags = ("--table=3", "--rows=base,l2", "--seeds=2", "--dry_run", f"--output_dir={tmp_path / 'out'}")
    done = command("reproduce", *flags)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("small.")]
    names = [f"small.multi30k_ende.{row}.seed{seed}" for seed in (1, 2) for row in ("base", "l2")]
    assert [row[0] for row in rows] == names
    base = HPARAMS["transformer_base_small"]()
    assert rows[0][3] == f"{sum(cost_of(base, 6000).parameter_parts().values()):,}"
    assert "4 of 4 runs to do" in done.stdout and "GiB are free" in done.stdout
    commands = [flags_of(line) for line in done.stdout.splitlines() if line.startswith("t2t-lite-")]
    assert [name for name, _ in commands] == ["t2t-lite-trainer", "t2t-lite-eval"] * 4
    trainer, evaluation = commands[2][1], commands[3][1]
    assert trainer["hparams"] == "num_encoder_layers=1,num_decoder_layers=1"
    assert trainer["random_seed"] == "1" and commands[4][1]["random_seed"] == "2"
    # Table 3 is of the dev split and the last checkpoint, with the paper's search settings.
    assert evaluation["split"] == "dev" and evaluation["checkpoint_path"] == "last"
    assert evaluation["decode_hparams"] == "beam_size=4,alpha=0.6,min_length=0"
    assert evaluation["output_dir"] == trainer["output_dir"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_papers_scale_prints_the_papers_commands_and_costs(command, tmp_path):
    done = command("reproduce", "--table=2", "--scale=paper", f"--output_dir={tmp_path}")
    assert done.returncode == 0, done.stderr
    commands = [flags_of(line) for line in done.stdout.splitlines() if line.startswith("t2t-lite-")]
    trainers = [flags for name, flags in commands if name == "t2t-lite-trainer"]
    assert [flags["problem"] for flags in trainers] == ["wmt_ende", "wmt_enfr"] * 2
    sets = ["transformer_base", "transformer_base", "transformer_big", "transformer_big_enfr"]
    assert [flags["hparams_set"] for flags in trainers] == sets
    assert [flags["keep_checkpoint_max"] for flags in trainers] == ["5", "5", "20", "20"]
    assert all(flags["save_checkpoints_secs"] == "600" and "hparams" not in flags for flags in trainers)
    assert "8 P100" in done.stdout
    evaluations = [flags for name, flags in commands if name == "t2t-lite-eval"]
    assert {flags["split"] for flags in evaluations} == {"test"}
    assert {flags["checkpoint_path"] for flags in evaluations} == {"average"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.heavy
def test_a_stopped_reproduction_goes_on_and_writes_the_table(command, grammar_data, tmp_path):
    flags = ["--table=3", "--scale=tiny", "--rows=base", "--seeds=1", f"--data_dir={grammar_data}"]
    flags.append(f"--output_dir={tmp_path}")
    started = subprocess.Popen([program("reproduce"), *flags], env=user_environment(), stdout=subprocess.DEVNULL)
    run = tmp_path / "tiny.grammar_ende.base.seed1"
    while not list(run.glob("ckpt-*.index")):
        assert started.poll() is None
        time.sleep(0.2)
    started.send_signal(signal.SIGTERM)
    assert started.wait() == 128 + signal.SIGTERM
    assert not (tmp_path / "table3.tiny.md").exists()
    done = command("reproduce", *flags)
    assert done.returncode == 0, done.stderr
    assert f"{run.name}: trainer" in done.stdout and f"{run.name}: eval" in done.stdout
    log = (tmp_path / f"{run.name}.log").read_text()
    assert log.count("$ t2t-lite-trainer") == 2 and "stopped by SIGTERM" in log
    (row,) = csv.DictReader((tmp_path / "table3.tiny.csv").read_text().splitlines())
    assert row["set"] == "base" and row["N"] == "3" and row["paper: BLEU"] == "25.8" and row["PPL (dev) ±"] == ""
    # The figures are those of t2t-lite-eval, which answers the same question from what is stored.
    before = list((run / "scores").iterdir())
    paper = "--decode_hparams=min_length=0"
    asked = command("eval", f"--output_dir={run}", "--split=dev", "--checkpoint_path=last", paper, "--json")
    assert asked.returncode == 0, asked.stderr
    assert list((run / "scores").iterdir()) == before
    (stored,) = json.loads(asked.stdout)["runs"]
    scores = {figure["name"]: figure["score"] for figure in stored["figures"]}
    assert float(row["sacreBLEU (dev)"]) == scores["bleu"] > 0
    assert float(row["PPL (dev)"]) == scores["perplexity"] < 100
    again = command("reproduce", *flags)
    assert again.returncode == 0 and f"{run.name}: " not in again.stdout
    assert "1 runs took" in again.stdout
