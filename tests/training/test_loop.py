"""The training loop between steps: evaluations, model selection, reports and reasons to stop."""

import math
import signal
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
from support.checkpoints import assert_same_content
from support.models import SMALL_MODEL
from support.signals import SignalAt

import t2t_lite as t2t
from t2t_lite.data.problem import get_problem
from t2t_lite.data.text_files import read_lines
from t2t_lite.decoding.translator import Translator
from t2t_lite.display import Display
from t2t_lite.errors import UserError
from t2t_lite.runs import checkpoints
from t2t_lite.runs.checkpoint_files import list_checkpoints
from t2t_lite.runs.evaluations import best_steps, read_evaluations, read_log
from t2t_lite.runs.run_dir import open_run_dir
from t2t_lite.scoring.text_metrics import Bleu, Chrf
from t2t_lite.system.locks import locked
from t2t_lite.training.evaluation import evaluate_continuously
from t2t_lite.training.loss import LossSums
from t2t_lite.training.options import TrainOptions
from t2t_lite.training.reports import Progress, Throughput
from t2t_lite.training.step import StepReport, TrainStep, step_report

SMALL = SMALL_MODEL.replace(train_steps=6)
PROBLEM = "grammar_ende"


def steps_of(directory):
    return [step for step, _ in list_checkpoints(directory)]


def dev_lines(grammar_data):
    """The lines of both sides of the dev split."""
    problem = get_problem(PROBLEM)
    return [list(read_lines(grammar_data / problem.text_filename("dev", side))) for side in ("inputs", "targets")]


def events_of(directory):
    """The values in a directory of event files, in order."""
    files = [str(path) for path in directory.iterdir() if path.is_file()]
    events = [event for file in files for event in tf.compat.v1.train.summary_iterator(file)]
    return [value for event in events for value in event.summary.value]


@pytest.fixture(scope="module")
def chosen(run, grammar_data, tmp_path_factory):
    """A run with BLEU and a moving average that keeps the two best checkpoints and the last one."""
    directory = tmp_path_factory.mktemp("chosen")
    hparams = SMALL.replace(ema_decay=0.5, train_steps=9)
    options = {"eval_decode": True, "keep_best_n": 2, "eval_metric": "bleu", "keep_checkpoint_max": 1}
    run(hparams, grammar_data, directory, PROBLEM, save_checkpoints_steps=3, log_step_count_steps=4, **options)
    return directory


def test_every_checkpoint_is_evaluated_with_loss_perplexity_and_bleu_and_the_best_ones_stay(chosen):
    evaluations = read_evaluations(chosen)
    assert list(evaluations) == [3, 6, 9]
    for figures in evaluations.values():
        assert figures.keys() == {"loss", "nll_loss", "perplexity", "accuracy", "bleu"}
        assert 0.0 <= figures["accuracy"] <= 1.0 and 0.0 <= figures["bleu"] <= 100.0
        assert figures["perplexity"] == pytest.approx(math.exp(figures["nll_loss"]))
        assert 1.0 < figures["loss"] < 20.0 and figures["nll_loss"] != figures["loss"]
    assert steps_of(chosen) == sorted({*best_steps(evaluations, "bleu", 2), 9})


def test_the_saved_average_is_the_evaluated_one(chosen, grammar_data):
    assert [step for step, _ in list_checkpoints(chosen, "average")] == [9]
    average = checkpoints.read(chosen / "average-9", "model")
    optimizer = checkpoints.read(chosen / "ckpt-9", "optimizer")
    for name, array in average.items():
        np.testing.assert_array_equal(array, optimizer[f"average.{name.replace('.', '_')}"], err_msg=name)
    # The decoder uses the average by default, and reproduces the recorded BLEU.
    translator = Translator.from_run_dir(chosen, xla_compile=False)
    assert translator.checkpoints == [chosen / "average-9"]
    sources, references = dev_lines(grammar_data)
    found = Bleu().score(translator.translate(sources), references)
    assert found == pytest.approx(read_evaluations(chosen)[9]["bleu"])


def test_the_log_has_a_line_for_each_start_and_report_and_the_event_files_have_the_same_figures(chosen):
    lines = read_log(chosen).lines
    parts = ["start 0", "train 1", "eval 3", "train 4", "eval 6", "train 8", "train 9", "eval 9"]
    assert [f"{line['part']} {line['step']}" for line in lines] == parts
    start, versions = lines[0], {"t2t_lite": t2t.__version__, "tensorflow": tf.__version__, "keras": keras.__version__}
    assert versions.items() <= start.items()
    assert (start["devices"], start["replicas"], start["workers"]) == (["CPU"], 1, 1)
    assert start["parameters"] == sum(array.size for array in checkpoints.read(chosen / "ckpt-9", "model").values())
    last = lines[-2]
    assert {"loss", "learning_rate", "target_tokens_per_second_per_device", "steps_per_second"} <= last.keys()
    assert last["padded_target_tokens_per_second"] >= last["target_tokens_per_second"] > 0.0
    assert 0.0 <= last["input_wait_share"] < 1.0 and 0.0 < last["utilisation"] < 1.0
    assert last["gradient_norm"] > 0.0 and last["memory_bytes"] > 2**20 and last["skipped_steps"] == 0
    tags = {part: {value.tag for value in events_of(chosen / part)} for part in ("train", "eval")}
    assert {"loss", "gradient_norm", "utilisation", "input_wait_share", "target_tokens_per_second"} <= tags["train"]
    assert {"loss", "nll_loss", "perplexity", "accuracy", "bleu", "sample 1", "sample 3"} <= tags["eval"]


def test_each_evaluation_shows_three_dev_lines_with_their_translations(chosen, grammar_data):
    sources, references = dev_lines(grammar_data)
    tensors = [value.tensor for value in events_of(chosen / "eval") if value.tag.startswith("sample")]
    events = [tf.make_ndarray(tensor).ravel()[0].decode() for tensor in tensors]
    logged = [entry["samples"] for entry in read_log(chosen).lines if entry["part"] == "eval"]
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


# A GPU computes while the host reads the figures of the step before. On a CPU, the step is over when the call returns;
# read later, its time would include that of the next step.
ORDERS = {
    True: ["start", "read", "start", *3 * ["start", "read"], "start", "read", "read"],
    False: 6 * ["start", "read"],
}


@pytest.mark.parametrize("has_gpus", ORDERS)
def test_on_a_gpu_figures_are_read_when_the_next_step_has_begun(run, grammar_data, tmp_path, monkeypatch, has_gpus):
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
    assert order == ORDERS[has_gpus]


@pytest.mark.heavy
def test_a_trace_is_written_on_request(run, grammar_data, tmp_path):
    # Steps 6 to 10 of twelve are traced; four steps are too few.
    run(SMALL.replace(train_steps=4), grammar_data, tmp_path, PROBLEM, profile=True, schedule="train")
    assert not list(tmp_path.rglob("*.xplane.pb"))
    run(SMALL.replace(train_steps=16), grammar_data, tmp_path, PROBLEM, profile=True, schedule="train")
    (trace,) = (tmp_path / "train").rglob("*.xplane.pb")
    assert trace.stat().st_size > 1000


def test_a_run_that_is_stopped_beside_a_checkpoint_waits_until_it_is_written(run, grammar_data, tmp_path):
    held, released = threading.Event(), threading.Event()

    def hold_the_disk():
        with locked(tmp_path / "ckpt.lock", wait=True):
            held.set()
            released.wait()

    holder = threading.Thread(target=hold_the_disk)
    holder.start()
    held.wait()
    options = {"save_checkpoints_steps": 2, "log_step_count_steps": 1, "schedule": "train"}
    # A checkpoint is due after step 2; it is written a little later.
    display = SignalAt(2, then=threading.Timer(0.5, released.set).start)
    assert run(SMALL, grammar_data, tmp_path, PROBLEM, display=display, **options)[:2] == (2, "signal")
    holder.join()
    assert steps_of(tmp_path) == [2]


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
    ending = run(STEADY, grammar_data, tmp_path, PROBLEM, display=SignalAt(words=(f"step {step}:", what)), **options)
    assert ending == (step, "signal", signal.SIGTERM)
    assert f"stopped by SIGTERM during the evaluation of step {step}, which is saved" in "\n".join(logged())
    assert steps_of(tmp_path)[-1] == step and list(read_evaluations(tmp_path)) == [*range(2, step, 2)]
    assert run(STEADY, grammar_data, tmp_path, PROBLEM, **options) == expected
    assert (tmp_path / "evaluations.json").read_text() == (whole / "evaluations.json").read_text()
    assert steps_of(tmp_path) == steps_of(whole)
    last = steps_of(whole)[-1]
    assert_same_content(tmp_path / f"ckpt-{last}", whole / f"ckpt-{last}")
    assert run(STEADY, grammar_data, tmp_path, PROBLEM, **options) == expected
    assert "already trained" in "\n".join(logged())


@pytest.mark.slow
def test_eval_lines_bounds_what_is_decoded(decoding, grammar_data):
    options, directory, _ = decoding
    sources, references = (lines[:5] for lines in dev_lines(grammar_data))
    last = steps_of(directory)[-1]
    settings = options["decode_hparams"]
    translator = Translator.from_run_dir(directory, settings, checkpoint_path=f"ckpt-{last}", xla_compile=False)
    figure = read_evaluations(directory)[last]["chrf"]
    assert Chrf().score(translator.translate(sources), references) == pytest.approx(figure)
    logged = [entry["samples"] for entry in read_log(directory).lines if entry["part"] == "eval"]
    assert {sample["source"] for samples in logged for sample in samples} <= {*sources}
    for wrong in ({"eval_lines": 5}, {"eval_lines": 0, "eval_decode": True}, {"eval_lines": "5", "eval_decode": True}):
        with pytest.raises(UserError, match="`eval_lines"):
            TrainOptions(**wrong)


@pytest.mark.parametrize("value", [3.4e38, 1e30, 7.25, math.nan])
def test_figures_of_a_diverged_training_are_printed_briefly_and_recorded(tmp_path, logged, value):
    figures = dict.fromkeys(("loss", "nll_loss", "gradient_norm", "learning_rate"), value)
    figures |= {"epoch": 1.0, "input_wait_share": 0.0, "memory_bytes": 1.0, "skipped_steps": 0.0}
    rates = ("steps_per_second", "target_tokens_per_second", "padded_target_tokens_per_second")
    figures |= dict.fromkeys(rates, 1.0)
    with Progress(tmp_path, 0, 10, Display()) as progress:
        progress.report(1, figures)
        progress.after_evaluation(1, {"loss": value, "nll_loss": value, "perplexity": value, "accuracy": 0.0})
    lines = logged()
    assert len(lines) == 2 and max(map(len, lines)) < 200
    shown = {3.4e38: "3.4e+38", 1e30: "1e+30", 7.25: "7.250"}.get(value, "nan")
    assert f"loss {shown}  " in lines[0] and f"dev loss {shown}, " in lines[1]
    assert [line["loss"] for line in read_log(tmp_path).lines] == [value if value == value else None] * 2
