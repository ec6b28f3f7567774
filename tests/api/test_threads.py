"""Translators in threads of a process, before, during and after a training in it."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.checkpoints import assert_same_content
from support.commands import run_python

import t2t_lite as t2t
from t2t_lite.runs import checkpoints

LINES = ["The dog sleeps.", "She sings.", "The old man sees the small dogs.", "A cat.", "We buy the red house today."]
SETTINGS = {"beam_size": 2, "extra_length": 5}
NUM_THREADS = 8
HPARAMS = {"hidden_size": 32, "filter_size": 64, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}


def outputs_of(translator, number):
    """What one of several users asks for, in an order of his own."""
    lines = LINES[number % len(LINES) :] + LINES[: number % len(LINES)]
    translations = translator.translate(lines)
    return [
        dict(zip(lines, translations)),
        dict(zip(lines, translator.score(lines, translations))),
        dict(zip(lines, translator.align(lines, translations))),
        translator.sample(LINES[0], num_samples=2, random_seed=number),
        translator.attention(LINES[1], translations[0])[0].tolist(),
    ]


@pytest.mark.heavy
def test_eight_threads_translate_while_a_training_runs_as_each_would_alone(small_run, grammar_data, tmp_path):
    alone = t2t.Translator.from_run_dir(small_run, SETTINGS, xla_compile=False)
    expected = [outputs_of(alone, number) for number in range(NUM_THREADS)]
    shared = t2t.Translator.from_run_dir(small_run, SETTINGS, xla_compile=False)
    is_training, is_over = threading.Event(), threading.Event()
    during = []

    class Watch(t2t.Callback):
        def on_step(self, step, figures):
            is_training.set()
            return len(during) >= NUM_THREADS and step >= 6  # once all threads have worked beside the training

    def user(number):
        assert is_training.wait(timeout=300)  # not forever, if the training fails
        # Every second user loads a model of his own, which draws random numbers while the training does.
        translator = t2t.Translator.from_run_dir(small_run, SETTINGS, xla_compile=False) if number % 2 else shared
        found = outputs_of(translator, number)
        during.append(not is_over.is_set())
        return found, outputs_of(shared, number)

    with ThreadPoolExecutor(NUM_THREADS) as threads:
        users = [threads.submit(user, number) for number in range(NUM_THREADS)]
        options = {"data_dir": grammar_data, "output_dir": tmp_path / "run", "callbacks": [Watch()], "peak_tflops": 1.0}
        options |= {"schedule": "train", "save_checkpoints_steps": 6, "keep_checkpoint_max": 100_000}
        hparams = HPARAMS | {"batch_tokens": 512, "max_length": 64}
        result = t2t.train("grammar_ende", "transformer_tiny", hparams=hparams, train_steps=100_000, **options)
        is_over.set()
        found = [each.result() for each in users]
    assert result.ended_by == "callback" and during == [True] * NUM_THREADS
    for number, (first, second) in enumerate(found):
        assert first == expected[number] and second == expected[number]
    assert outputs_of(alone, 3) == expected[3]
    # The training is what it is without company, too.
    assert_same_content(*(checkpoints.read(run / "ckpt-6", "model") for run in (tmp_path / "run", small_run)))


def test_threads_find_problems_that_nobody_has_loaded():
    names = ["grammar_ende", "multi30k_ende", "wmt_ende", "wmt_ende_rev"] * 2
    program = (
        f"import t2t_lite as t2t\nfrom concurrent.futures import ThreadPoolExecutor\n"
        f"with ThreadPoolExecutor(8) as threads: print([x.name for x in threads.map(t2t.get_problem, {names})])"
    )
    assert run_python(program).stdout.strip() == str(names)


@pytest.mark.heavy
def test_many_translators_in_a_process_print_nothing(small_run):
    program = (
        f"import t2t_lite as t2t\nfor _ in range(6):\n"
        f"    translator = t2t.Translator.from_run_dir({str(small_run)!r}, {SETTINGS}, xla_compile=False)\n"
        f"    translator.score('a', 'b'); translator.align('a', 'b'); translator.translate('a')\n"
    )
    result = run_python(program)
    assert (result.stdout, result.stderr) == ("", "")
