"""t2t-lite-reproduce: plans, and a run that is stopped and gone on with."""

import csv
import json
import shlex
import signal
import subprocess
import time

import pytest
from support.commands import program, user_environment

from t2t_lite.cost import cost_of
from t2t_lite.registry import HPARAMS


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
