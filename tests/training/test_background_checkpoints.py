"""Checkpoints that are written while the training goes on."""

import os
import signal
import threading

from support.models import SMALL_MODEL

from t2t_lite.display import Display
from t2t_lite.runs.checkpoint_files import list_checkpoints
from t2t_lite.system.locks import locked


def test_a_run_that_is_stopped_beside_a_checkpoint_waits_until_it_is_written(run, grammar_data, tmp_path):
    released = threading.Event()

    def hold_the_disk():
        with locked(tmp_path / "ckpt.lock", wait=True):
            held.set()
            released.wait()

    class SignalAtStep(Display):
        """Sends SIGTERM when step 2, after which a checkpoint is due, is reported; it is written a little later."""

        def report(self, step, last_step, line, left):
            if step == 2:
                os.kill(os.getpid(), signal.SIGTERM)
                threading.Timer(0.5, released.set).start()

    held, holder = threading.Event(), threading.Thread(target=hold_the_disk)
    holder.start()
    held.wait()
    hparams = SMALL_MODEL.replace(train_steps=6)
    options = {"save_checkpoints_steps": 2, "log_step_count_steps": 1, "schedule": "train"}
    assert run(hparams, grammar_data, tmp_path, "grammar_ende", display=SignalAtStep(), **options)[:2] == (2, "signal")
    holder.join()
    assert [step for step, _ in list_checkpoints(tmp_path)] == [2]
