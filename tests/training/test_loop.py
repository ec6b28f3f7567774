"""The training loop between steps: evaluations, model selection, reports and reasons to stop."""

import json
import math
import os
import signal
import threading
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from support.models import SMALL_MODEL

import t2t_lite as t2t
from t2t_lite.data.problem import get_problem
from t2t_lite.data.text_files import read_lines
from t2t_lite.decoding.translator import Translator
from t2t_lite.display import Display
from t2t_lite.errors import UserError
from t2t_lite.runs import checkpoints
from t2t_lite.runs.checkpoint_files import list_checkpoints
from t2t_lite.runs.evaluations import best_steps, read_evaluations
from t2t_lite.runs.run_dir import open_run_dir
from t2t_lite.scoring.text_metrics import Bleu, Chrf
from t2t_lite.training.evaluation import evaluate_continuously
from t2t_lite.training.loss import LossSums
from t2t_lite.training.options import TrainOptions
from t2t_lite.training.reports import Throughput
from t2t_lite.training.step import StepReport, TrainStep, step_report

SMALL = SMALL_MODEL.replace(train_steps=6)
PROBLEM = "grammar_ende"


def steps_of(directory):
    return [step for step, _ in list_checkpoints(directory)]


@pytest.fixture(scope="module")
def chosen(run, grammar_data, tmp_path_factory):
    """A run with BLEU and a moving average that keeps the best checkpoint and the last one."""
    directory = tmp_path_factory.mktemp("chosen")
    hparams = SMALL.replace(ema_decay=0.5, train_steps=9)
    options = {"eval_decode": True, "keep_best_n": 1, "eval_metric": "bleu", "keep_checkpoint_max": 1}
    run(hparams, grammar_data, directory, PROBLEM, save_checkpoints_steps=3, log_step_count_steps=4, **options)
    return directory


def test_every_checkpoint_is_evaluated_with_loss_perplexity_and_bleu(chosen):
    evaluations = read_evaluations(chosen)
    assert list(evaluations) == [3, 6, 9]
    for figures in evaluations.values():
        assert figures.keys() == {"loss", "nll_loss", "perplexity", "accuracy", "bleu"}
        assert 0.0 <= figures["accuracy"] <= 1.0 and figures["nll_loss"] != figures["loss"]
        assert figures["perplexity"] == pytest.approx(math.exp(figures["nll_loss"]))
        assert 1.0 < figures["loss"] < 20.0
        assert 0.0 <= figures["bleu"] <= 100.0


def test_the_saved_average_is_the_evaluated_one(chosen, grammar_data):
    assert steps_of(chosen)[-1] == 9
    assert [step for step, _ in list_checkpoints(chosen, "average")] == [9]
    average = checkpoints.read(chosen / "average-9", "model")
    optimizer = checkpoints.read(chosen / "ckpt-9", "optimizer")
    for name, array in average.items():
        np.testing.assert_array_equal(array, optimizer[f"average.{name.replace('.', '_')}"], err_msg=name)
    # The decoder uses the average by default, and reproduces the recorded BLEU.
    translator = Translator.from_run_dir(chosen, xla_compile=False)
    assert translator.checkpoints == [chosen / "average-9"]
    sources, references = (
        list(read_lines(grammar_data / get_problem(PROBLEM).text_filename("dev", side)))
        for side in ("inputs", "targets")
    )
    found = Bleu().score(translator.translate(sources), references)
    assert found == pytest.approx(read_evaluations(chosen)[9]["bleu"])


def test_the_best_checkpoint_outlives_later_ones(chosen):
    assert steps_of(chosen) == sorted({*best_steps(read_evaluations(chosen), "bleu", 1), 9})


@pytest.mark.slow
def test_an_ended_run_has_only_the_best_checkpoints_and_the_last(run, grammar_data, tmp_path):
    options = {"keep_best_n": 2, "keep_checkpoint_max": 2, "save_checkpoints_steps": 2}
    run(SMALL.replace(train_steps=8), grammar_data, tmp_path, PROBLEM, **options)
    evaluations = read_evaluations(tmp_path)
    assert list(evaluations) == [2, 4, 6, 8]
    assert steps_of(tmp_path) == sorted({*best_steps(evaluations, "loss", 2), 6, 8})


def test_the_log_has_a_line_for_each_start_and_report(chosen):
    lines = [json.loads(line) for line in (chosen / "log.jsonl").read_text().splitlines()]
    assert [(line["part"], line["step"]) for line in lines] == [
        ("start", 0),
        ("train", 1),
        ("eval", 3),
        ("train", 4),
        ("eval", 6),
        ("train", 8),
        ("train", 9),
        ("eval", 9),
    ]
    start = lines[0]
    assert (start["t2t_lite"], start["tensorflow"], start["keras"]) == (
        t2t.__version__,
        tf.__version__,
        keras.__version__,
    )
    assert (start["devices"], start["replicas"], start["workers"]) == (["CPU"], 1, 1)
    assert start["parameters"] == sum(array.size for array in checkpoints.read(chosen / "ckpt-9", "model").values())
    wanted = {
        "loss",
        "gradient_norm",
        "learning_rate",
        "target_tokens_per_second",
        "target_tokens_per_second_per_device",
        "padded_target_tokens_per_second",
        "input_wait_share",
        "utilisation",
        "memory_bytes",
        "skipped_steps",
        "steps_per_second",
    }
    last = lines[-2]
    assert wanted <= last.keys()
    assert last["padded_target_tokens_per_second"] >= last["target_tokens_per_second"] > 0.0
    assert 0.0 <= last["input_wait_share"] < 1.0
    assert 0.0 < last["utilisation"] < 1.0
    assert last["gradient_norm"] > 0.0
    assert last["memory_bytes"] > 2**20
    assert last["skipped_steps"] == 0


def test_the_event_files_have_the_same_figures(chosen):
    tags = {
        part: {
            value.tag
            for path in (chosen / part).iterdir()
            if path.is_file()
            for event in tf.compat.v1.train.summary_iterator(str(path))
            for value in event.summary.value
        }
        for part in ("train", "eval")
    }
    assert {"loss", "gradient_norm", "utilisation", "input_wait_share", "target_tokens_per_second"} <= tags["train"]
    assert {"loss", "nll_loss", "perplexity", "accuracy", "bleu", "sample 1", "sample 3"} <= tags["eval"]


def test_each_evaluation_shows_three_dev_lines_with_their_translations(chosen, grammar_data):
    sources, references = (
        (grammar_data / f"grammar_ende-dev.{side}.txt").read_text().splitlines() for side in ("inputs", "targets")
    )
    events = [
        tf.make_ndarray(value.tensor).ravel()[0].decode()
        for path in (chosen / "eval").iterdir()
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
        if value.tag.startswith("sample")
    ]
    logged = [json.loads(line) for line in (chosen / "log.jsonl").read_text().splitlines()]
    logged = [entry["samples"] for entry in logged if entry["part"] == "eval"]
    assert [len(samples) for samples in logged] == [3, 3, 3] and len(events) == 9
    for samples, texts in zip(logged, (events[:3], events[3:6], events[6:])):
        lines = [sources.index(sample["source"]) for sample in samples]
        assert [sample["reference"] for sample in samples] == [references[line] for line in lines]
        assert lines == [3, 9, 15]  # of 20
        for sample, text in zip(samples, texts):
            shown = [line.split(maxsplit=1)[1:] for line in text.splitlines()]
            assert shown == [[value] if value else [] for value in sample.values()]


def test_utilisation_is_relative_to_the_best_measured_peak_and_at_most_one():
    step = StepReport(LossSums(8.0, 6.0, 4.0), 4.0, 1.0, True, np.zeros(2))
    peaks = iter([10.0, 5.0, 20.0, 1e-9, 1e-9])
    meter = Throughput(1, flops_per_token=1e-30, measure=lambda: next(peaks))
    for best in (10.0, 10.0, 20.0):
        meter.measure_peak()
        assert meter.peak == best
    meter.add(step, 0.0)
    figures = meter.figures()
    assert (figures["loss"], figures["nll_loss"]) == (2.0, 1.5) and 0.0 < figures["utilisation"] < 1e-20
    fast = Throughput(1, flops_per_token=1e30, measure=lambda: next(peaks))
    fast.measure_peak()
    fast.add(step, 0.0)
    assert fast.figures()["utilisation"] == 1.0
    given = Throughput(1, flops_per_token=1e30, peak=1.0)
    given.add(step, 0.0)
    assert given.figures()["utilisation"] > 1e20  # a wrong given peak must be visible


@pytest.mark.heavy
def test_an_evaluator_beside_the_training_finds_the_same_figures(run, chosen, grammar_data, tmp_path):
    hparams = SMALL.replace(ema_decay=0.5, train_steps=9)
    run(hparams, grammar_data, tmp_path, PROBLEM, save_checkpoints_steps=3, schedule="train")
    assert not (tmp_path / "evaluations.json").exists()
    options = TrainOptions(schedule="eval", eval_decode=True, eval_wait_secs=0)
    evaluate_continuously(open_run_dir(tmp_path), grammar_data, options)
    found, expected = read_evaluations(tmp_path), read_evaluations(chosen)
    assert found.keys() == expected.keys()
    for step, figures in expected.items():
        assert found[step] == pytest.approx(figures, rel=1e-5)


@pytest.mark.slow
def test_early_stopping_ends_the_run_and_keeps_it_stopped(run, grammar_data, tmp_path, logged):
    hparams = SMALL.replace(learning_rate_constant=1e-30, train_steps=20)  # learns nothing
    options = {"save_checkpoints_steps": 1, "early_stopping_patience": 2}
    run(hparams, grammar_data, tmp_path, PROBLEM, **options)
    assert steps_of(tmp_path) == [1, 2, 3]
    assert "stopped early: 2 evaluations without a better loss than that of ckpt-1" in "\n".join(logged())
    run(hparams, grammar_data, tmp_path, PROBLEM, **options)
    assert steps_of(tmp_path) == [1, 2, 3]
    assert "stopped early" in "\n".join(logged())
    run(hparams, grammar_data, tmp_path, PROBLEM, **options | {"early_stopping_patience": 4})
    assert steps_of(tmp_path) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "has_gpus, expected",
    [
        # A GPU computes while the host reads the figures of the step before.
        (True, ["start", "read", "start", *3 * ["start", "read"], "start", "read", "read"]),
        # On a CPU, the step is over when the call returns. Read later, its time would include that of the next step.
        (False, 6 * ["start", "read"]),
    ],
)
def test_on_a_gpu_figures_are_read_when_the_next_step_has_begun(
    run, grammar_data, tmp_path, monkeypatch, has_gpus, expected
):
    order, start = [], TrainStep.start

    def started(*arguments):
        order.append("start")
        return start(*arguments)

    def read(figures):
        order.append("read")
        return step_report(figures)

    monkeypatch.setattr(TrainStep, "start", started)
    monkeypatch.setattr("t2t_lite.training.calls.step_report", read)
    monkeypatch.setattr("t2t_lite.training.loop.has_gpus", lambda strategy: has_gpus)
    run(SMALL, grammar_data, tmp_path, PROBLEM, schedule="train", steps_per_call=1)
    assert order == expected


@pytest.mark.heavy
def test_a_trace_is_written_on_request(run, grammar_data, tmp_path):
    run(SMALL.replace(train_steps=12), grammar_data, tmp_path, PROBLEM, profile=True, schedule="train")
    (trace,) = (tmp_path / "train").rglob("*.xplane.pb")
    assert trace.stat().st_size > 1000


class SignalAt(Display):
    """Sends this process SIGTERM when an evaluation first shows a line that has all of some words."""

    def __init__(self, *words):
        self._words, self._lock = words, threading.Lock()

    def evaluating(self, line):
        with self._lock:  # several threads decode
            is_now = bool(self._words) and all(word in line for word in self._words)
            self._words = () if is_now else self._words
        if is_now:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.1)  # Python runs the handler in the main thread


# The order of the data that these tests were made for.
STEADY = SMALL.replace(batch_by="targets")


@pytest.fixture(scope="module")
def decoding(run, grammar_data, tmp_path_factory):
    """(options, directory, the result) of a run whose evaluations decode 5 lines; too few to stop early."""
    directory = tmp_path_factory.mktemp("decoding") / "run"
    options = {"save_checkpoints_steps": 2, "eval_decode": True, "eval_lines": 5, "decode_hparams": "extra_length=3"}
    options |= {"eval_metric": "chrf", "early_stopping_patience": 3, "keep_best_n": 1}
    return options, directory, run(STEADY, grammar_data, directory, PROBLEM, **options)


@pytest.mark.heavy
@pytest.mark.parametrize("step, what", [(2, "target tokens"), (4, "lines decoded"), (6, "lines decoded")])
def test_a_signal_ends_an_evaluation_which_is_made_up_for(run, decoding, grammar_data, tmp_path, logged, step, what):
    options, whole, expected = decoding
    ending = run(STEADY, grammar_data, tmp_path, PROBLEM, display=SignalAt(f"step {step}:", what), **options)
    assert ending == (step, "signal", signal.SIGTERM)
    assert f"stopped by SIGTERM during the evaluation of step {step}, which is saved" in "\n".join(logged())
    assert steps_of(tmp_path)[-1] == step and list(read_evaluations(tmp_path)) == [*range(2, step, 2)]
    assert run(STEADY, grammar_data, tmp_path, PROBLEM, **options) == expected
    assert (tmp_path / "evaluations.json").read_text() == (whole / "evaluations.json").read_text()
    assert steps_of(tmp_path) == steps_of(whole)
    last = steps_of(whole)[-1]
    for part in ("model", "optimizer"):
        expected_arrays = checkpoints.read(whole / f"ckpt-{last}", part)
        for name, array in checkpoints.read(tmp_path / f"ckpt-{last}", part).items():
            np.testing.assert_array_equal(array, expected_arrays[name], err_msg=name)
    assert run(STEADY, grammar_data, tmp_path, PROBLEM, **options) == expected
    assert "already trained" in "\n".join(logged())


@pytest.mark.slow
def test_eval_lines_bounds_what_is_decoded(decoding, grammar_data):
    options, directory, _ = decoding
    sources, references = (
        list(read_lines(grammar_data / get_problem(PROBLEM).text_filename("dev", side)))[:5]
        for side in ("inputs", "targets")
    )
    last = steps_of(directory)[-1]
    translator = Translator.from_run_dir(
        directory, options["decode_hparams"], checkpoint_path=f"ckpt-{last}", xla_compile=False
    )
    figure = read_evaluations(directory)[last]["chrf"]
    assert Chrf().score(translator.translate(sources), references) == pytest.approx(figure)
    logged = [json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()]
    shown = [sample["source"] for entry in logged if entry["part"] == "eval" for sample in entry["samples"]]
    assert {*shown} <= {*sources}
    for wrong in ({"eval_lines": 5}, {"eval_lines": 0, "eval_decode": True}, {"eval_lines": "5", "eval_decode": True}):
        with pytest.raises(UserError, match="`eval_lines"):
            TrainOptions(**wrong)
