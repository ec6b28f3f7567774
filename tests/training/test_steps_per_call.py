"""Several steps with one call change no result, report, checkpoint or skipped step, and signals work."""

import re
import signal

import numpy as np
import pytest
from support.checkpoints import assert_same_content
from support.models import SMALL_MODEL
from support.signals import SignalAt

from t2t_lite.errors import UserError
from t2t_lite.runs.checkpoint_files import list_checkpoints
from t2t_lite.runs.evaluations import read_log
from t2t_lite.training.calls import CallLength, StepCalls
from t2t_lite.training.options import Callback, Callbacks
from t2t_lite.training.step import TrainStep

HPARAMS = SMALL_MODEL.replace(train_steps=23, residual_dropout=0.3, ema_decay=0.5)
PROBLEM = "grammar_ende"
OPTIONS = {"save_checkpoints_steps": 11, "log_step_count_steps": 6, "schedule": "train"}


def lengths(most, wanted, every, last_step, start=0):
    """The lengths of all calls after a step, if all workers want the same."""
    length, found, step = CallLength(most, every, last_step), [], start
    while step < last_step:
        found.append(length.steps_after(step))
        step += found[-1]
        length.measured(wanted / 3.0)  # a call of 3 seconds
        length.agree(length.wanted)
    return found


def test_a_call_ends_at_reports_and_checkpoints_and_after_three_seconds():
    assert lengths(8, 100.0, (10, 0), 25) == [1, 8, 1, 8, 2, 5]
    assert lengths(8, 100.0, (10, 7), 25, start=5) == [1, 1, 3, 4, 6, 1, 4]
    assert lengths(8, 2.9, (10, 0), 10) == [1, 2, 2, 2, 2, 1]
    assert lengths(8, 0.1, (10, 0), 3) == lengths(1, 100.0, (10, 0), 3) == [1, 1, 1]
    of_workers = CallLength(10, (), 100)
    of_workers.agree((10 + 1.5) / 2)  # they agree on the mean of what they want
    assert of_workers.steps_after(0) == 5


def test_only_callbacks_that_follow_steps_need_each_of_them():
    class Evaluations(Callback):
        def on_evaluation(self, step, figures):
            return True

    class Steps(Callback):
        def on_step(self, step, figures):
            return True

    assert not Callbacks([Evaluations()]).follow_steps and not Callbacks().follow_steps
    assert Callbacks([Evaluations(), Steps()]).follow_steps


@pytest.fixture(scope="module")
def several(run, grammar_data, tmp_path_factory):
    """(directory, lengths of calls) of a run with up to four steps a call."""
    directory, found, start = tmp_path_factory.mktemp("several"), [], StepCalls.start

    def started(calls, step, number, requests):
        found.append(number)
        return start(calls, step, number, requests)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StepCalls, "start", started)
        run(HPARAMS, grammar_data, directory, PROBLEM, steps_per_call=4, **OPTIONS)
    return directory, found


@pytest.mark.slow
def test_it_trains_and_reports_as_with_one_step_a_call(run, several, grammar_data, tmp_path):
    directory, calls = several
    assert sum(calls) == 23 and max(calls) == 4
    run(HPARAMS, grammar_data, tmp_path, PROBLEM, **OPTIONS)
    assert [step for step, _ in list_checkpoints(directory)] == [11, 22, 23]
    for step in (11, 23):
        assert_same_content(directory / f"ckpt-{step}", tmp_path / f"ckpt-{step}", 1e-5)
    logs = [read_log(path).lines for path in (directory, tmp_path)]
    found, expected = ([entry for entry in lines if entry["part"] == "train"] for lines in logs)
    assert [entry["step"] for entry in found] == [1, 6, 12, 18, 23]
    for entry, other in zip(found, expected):
        for name in ("step", "epoch", "learning_rate", "skipped_steps"):
            assert entry[name] == other[name]
        assert entry["loss"] == pytest.approx(other["loss"], rel=1e-5)
        assert 0.0 <= entry["input_wait_share"] < 1.0


@pytest.mark.slow
def test_stopped_twice_and_resumed_it_ends_with_the_same_weights(run, several, grammar_data, tmp_path):
    for reported in (6, 18):
        ending = run(HPARAMS, grammar_data, tmp_path, PROBLEM, display=SignalAt(reported), steps_per_call=4, **OPTIONS)
        assert ending.reason == "signal" and ending.signal == signal.SIGTERM
        assert reported < ending.step <= reported + 5
    run(HPARAMS, grammar_data, tmp_path, PROBLEM, steps_per_call=3, **OPTIONS)
    assert_same_content(tmp_path / "ckpt-23", several[0] / "ckpt-23")


@pytest.mark.heavy
def test_the_batch_of_the_last_skipped_step_is_kept(run, grammar_data, tmp_path, monkeypatch):
    hparams, errors, kept = HPARAMS.replace(learning_rate_constant=1e30, train_steps=50), [], []
    used, start = [], TrainStep.start

    def started(step, batch, requests):
        used.append(batch)
        return start(step, batch, requests)

    monkeypatch.setattr(TrainStep, "start", started)  # with several steps a call, it only gets what is traced
    for number in (1, 8):
        directory = tmp_path / str(number)
        with pytest.raises(UserError, match="5 steps in a row") as caught:
            run(hparams, grammar_data, directory, PROBLEM, steps_per_call=number, save_checkpoints_steps=100)
        errors.append(str(caught.value).replace(str(directory), ""))
        (path,) = directory.glob("not-finite-*.npz")
        kept.append(dict(np.load(path)))
        if number == 1:
            last = used[int(re.search(r"up to step (\d+)", errors[0])[1]) - 1]
    assert errors[0] == errors[1] and "were not finite" in errors[0] and "\n" not in errors[0]
    for side in ("inputs", "targets"):
        np.testing.assert_array_equal(kept[0][side], last[side])
        np.testing.assert_array_equal(kept[0][side], kept[1][side])
