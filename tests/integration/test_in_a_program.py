"""Commands called from Python: `main(argv)` returns a status and restores the state of the process."""

import gc
import json
import logging
import os
import signal
import warnings

import pytest
from support.commands import run_python

from t2t_lite.bin import avg, decoder, score, trainer

# A process like a notebook kernel: its output is not a text file, and it has its own signal handlers and logging.
NOTEBOOK = """
import gc, json, logging, os, signal, sys, warnings

class OutStream:
    '''As ipykernel's: it can be written to and flushed, and no more.'''
    encoding = "UTF-8"
    def __init__(self): self.text = ""
    def write(self, text): self.text += text; return len(text)
    def writelines(self, lines): self.text += "".join(lines)
    def flush(self): pass
    def isatty(self): return False

def state():
    loggers = [logging.getLogger(name) for name in ("", "tensorflow", "absl")]
    return [
        dict(os.environ), list(map(str, warnings.filters)), gc.get_threshold(),
        [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)],
        [(logger.level, list(map(str, logger.handlers)), logger.propagate) for logger in loggers],
    ]

signal.signal(signal.SIGTERM, lambda number, frame: None)
logging.getLogger().setLevel(logging.INFO)
kernel, sys.stdout, sys.stderr, sys.argv = sys.stdout, OutStream(), OutStream(), ["ipykernel_launcher.py", "-f", "x"]
from t2t_lite.bin import trainer, decoder
before = state()
statuses = [main(flags) for main, flags in ((trainer.main, {trainer}), (decoder.main, {decoder}), (decoder.main, []))]
kernel.write(json.dumps([statuses, sys.stdout.text, sys.stderr.text, state() == before]))
"""


@pytest.mark.heavy
def test_a_notebook_trains_and_decodes_without_changing_its_process_state(small_flags, grammar_data, tmp_path):
    run = f"--output_dir={tmp_path / 'run'}"
    (tmp_path / "in.txt").write_text("The dog sleeps.\nShe sings.\n")
    training = [*small_flags, f"--data_dir={grammar_data}", run]
    decoding = [run, "--xla_compile=False", f"--decode_from_file={tmp_path / 'in.txt'}"]
    program = NOTEBOOK.replace("{trainer}", repr(training)).replace("{decoder}", repr(decoding))
    result = run_python(program, XDG_CACHE_HOME=str(tmp_path))
    statuses, printed, complained, is_as_it_was = json.loads(result.stdout)
    assert statuses == [0, 0, 2]
    assert "step 6: dev loss" in printed and len(printed.splitlines()) > 4
    assert complained.splitlines()[-1].startswith("t2t-lite-decoder: error: ")
    assert is_as_it_was


def process_state():
    handlers, logger = map(signal.getsignal, (signal.SIGINT, signal.SIGTERM)), logging.getLogger("tensorflow")
    of_process = (dict(os.environ), warnings.filters[:], gc.get_threshold(), *handlers)
    return (*of_process, logger.level, logger.handlers[:])


STATUSES = [(trainer.main, ["--help"], 0), (trainer.main, ["--registry_help"], 0), (trainer.main, [], 2)]
STATUSES += [(avg.main, ["--output_dir=none"], 1), (decoder.main, ["--output_dir=none", "--beam=3"], 2)]
STATUSES += [(score.main, ("--hypothesis=none", "--reference=none"), 1)]


@pytest.mark.parametrize(("main", "flags", "status"), STATUSES)
def test_main_returns_a_status_and_restores_the_process_state(main, flags, status, capsys):
    before = process_state()
    assert main(flags) == status
    assert process_state() == before
    printed = capsys.readouterr()
    assert bool(printed.out) == (status == 0) and len(printed.err.splitlines()) == (status != 0)
    if main is avg.main:
        with pytest.raises(Exception, match="none is not a run directory"):
            main([*flags, "--debug"])
        assert process_state() == before
