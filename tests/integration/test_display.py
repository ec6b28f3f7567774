"""What commands show: a bar on a terminal, lines elsewhere, flags instead of arguments, and a user's text as it is."""

import io
import sys
import time

import pytest

from t2t_lite.bin.cli.display import CommandDisplay
from t2t_lite.bin.cli.flags import as_flags


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("output", [io.StringIO, Terminal])
def test_lines_figures_and_text_of_a_training(output, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", output())
    display = CommandDisplay()
    display.say("before, with `data_dir=x`")
    display.start_training(2, 10)
    display.after_step(3)
    display.report(3, 10, "loss 7.1", "0:00:09 left")
    display.LINE_SECONDS = 0.0
    display.report(4, 10, "loss 7.1", "0:00:08 left")
    display.after_step(5)  # so long after the last line that another one is due
    display.start_evaluation()
    display.evaluating("9 of 10")
    time.sleep(0.3)  # the bar is drawn ten times a second
    display.say("raise `train_steps` to continue")
    display.end_evaluation()
    display.text("a text with `code`, [brackets] and `n=3`")
    display.end_training()
    display.say("after")
    shown = sys.stdout.getvalue()
    for line in ("before, with --data_dir=x", "9 of 10", "raise --train_steps to continue", "after"):
        assert line in shown
    assert "`code`, [brackets] and `n=3`" in shown
    assert "step 3/10  loss 7.1  0:00:09 left\n" in shown and "step 5/10" in shown
    assert output is Terminal or ("step 5/10\n" in shown and "step 3/10\n" not in shown)


def test_only_arguments_in_the_first_line_become_flags():
    message = "`output_dir=a b`: 2 `hparams`, not `Names` or `x y`\nFile `code` and `n`"
    assert as_flags(message) == "--output_dir=a b: 2 --hparams, not `Names` or `x y`\nFile `code` and `n`"
