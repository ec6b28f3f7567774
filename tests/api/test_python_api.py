"""The functions of `import t2t_lite as t2t`: they do what the commands do, and return what they made."""

import json
import logging
import os
import signal

import numpy as np
import pytest
import sacrebleu
from support.checkpoints import assert_same_content

import t2t_lite as t2t
from t2t_lite.registry import MODELS
from t2t_lite.runs import checkpoints

pytestmark = pytest.mark.slow

SIZES = {"hidden_size": 32, "filter_size": 64, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
HPARAMS = SIZES | {"batch_tokens": 512, "max_length": 64}
QUICK = "beam_size=1,extra_length=3"


def assert_same_weights(*paths):
    first, second = (checkpoints.read(path, "model") for path in paths)
    assert len(first) > 10
    assert_same_content(first, second)


@pytest.fixture(scope="module")
def train(grammar_data, tmp_path_factory):
    """Trains as `small_run` was trained; returns the result."""

    def run(output_dir=None, **options):
        options = {"train_steps": 6, "save_checkpoints_steps": 2, "peak_tflops": 1.0, "hparams": HPARAMS} | options
        output_dir = output_dir or tmp_path_factory.mktemp("run") / "run"
        return t2t.train("grammar_ende", "transformer_tiny", data_dir=grammar_data, output_dir=output_dir, **options)

    return run


@pytest.fixture(scope="module")
def trained(train):
    return train(eval_decode=True, decode_hparams=QUICK)


class Recorder(t2t.Callback):
    """Records all calls, and stops the training at a given step, evaluation or checkpoint."""

    def __init__(self, **stop_at):
        self.steps, self.evaluations, self.checkpoints, self.stop_at = [], [], [], stop_at

    def on_step(self, step, figures):
        self.steps.append((step, figures))
        return step == self.stop_at.get("step")

    def on_evaluation(self, step, figures):
        self.evaluations.append((step, figures))
        return step == self.stop_at.get("evaluation")

    def on_checkpoint(self, step, path):
        self.checkpoints.append((step, path, path.with_name(f"{path.name}.index").exists()))
        return step == self.stop_at.get("checkpoint")


def test_a_training_is_the_commands_training(trained, small_run):
    assert (trained.step, trained.ended_by, trained.signal) == (6, "last step", "")
    assert [path.name for path in trained.checkpoints] == ["ckpt-2", "ckpt-4", "ckpt-6"]
    for path in trained.checkpoints:
        assert_same_weights(path, small_run / path.name)


STOPS = [({"step": 3}, 3, [2]), ({"evaluation": 4}, 4, [2, 4]), ({"checkpoint": 2}, 2, [2])]


@pytest.mark.heavy
@pytest.mark.parametrize(("stop_at", "last", "evaluated"), STOPS)
def test_a_callback_follows_and_stops_a_training(train, stop_at, last, evaluated):
    recorder = Recorder(**stop_at)
    result = train(callbacks=[t2t.Callback(), recorder])
    assert (result.step, result.ended_by) == (last, "callback")
    assert [step for step, _ in recorder.steps] == list(range(1, last + 1))
    assert [step for step, _ in recorder.evaluations] == evaluated == result.evaluations["step"]
    assert all(exists for *_, exists in recorder.checkpoints)
    names = {"loss", "nll_loss", "target_tokens", "gradient_norm", "learning_rate", "epoch", "skipped"}
    assert set(recorder.steps[0][1]) == names and recorder.steps[0][1]["epoch"] == 1
    assert result.history["loss"][0] == pytest.approx(recorder.steps[0][1]["loss"], abs=1e-6)


@pytest.mark.heavy
def test_a_stopped_training_is_resumed_even_if_its_log_is_damaged(train, small_run):
    class Signalled(Recorder):
        def on_step(self, step, figures):
            if step == 3:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().on_step(step, figures)

    stopped = train(callbacks=[Signalled(step=3)])
    run = stopped.output_dir
    assert (stopped.ended_by, stopped.signal) == ("signal", "SIGTERM")  # it ends a program, a callback does not
    with open(run / "log.jsonl", "a") as log:
        log.write('{"time": 1, "part": "tr')  # as a killed process leaves it
    resumed = train(run)
    assert (resumed.step, resumed.ended_by, resumed.history["step"]) == (6, "last step", [1, 4, 6])
    assert_same_weights(resumed.checkpoints[-1], small_run / "ckpt-6")


def test_an_exception_in_a_callback_ends_the_training(train):
    class Broken(t2t.Callback):
        def on_step(self, step, figures):
            raise ZeroDivisionError(step)

    with pytest.raises(ZeroDivisionError, match="1"):
        train(callbacks=[Broken()])


@pytest.mark.heavy
def test_evaluation_has_the_trainings_figures_and_those_of_the_test_split(trained, grammar_data):
    options = {"checkpoint_path": trained.checkpoints[1], "decode_hparams": QUICK}
    result = t2t.evaluate(trained.output_dir, grammar_data, **options, metrics=("chrf", "ter"))
    assert (result.checkpoint, result.step, result.split) == (trained.checkpoints[1], 4, "dev")
    for name in ("loss", "nll_loss", "perplexity", "accuracy", "bleu"):
        assert getattr(result, name) == pytest.approx(trained.evaluations[name][1], rel=1e-6), name
    assert result.f1 is None
    assert result.scores["bleu"] == result.bleu and result.scores["loss"] == result.loss
    translator = t2t.Translator.from_run_dir(trained.output_dir, **options, xla_compile=False)
    files = [grammar_data / f"grammar_ende-dev.{side}.txt" for side in ("inputs", "targets")]
    sources, references = (file.read_text().splitlines() for file in files)
    outputs = translator.translate(sources)
    assert result.scores["chrf"] == pytest.approx(sacrebleu.corpus_chrf(outputs, [references]).score)
    assert result.scores["ter"] == pytest.approx(sacrebleu.corpus_ter(outputs, [references]).score)
    assert result.hypotheses == outputs and result.intervals["chrf"][0] < result.scores["chrf"]
    assert f"{result.checkpoint.name} on dev: BLEU {result.bleu:.2f}, chrF2 " in str(result)
    # The data of the training is the default, and the stored scores answer under both names.
    for again in (t2t.evaluate(trained.output_dir, **options), t2t.score_split(trained.output_dir, "dev", **options)):
        assert not again.decoded_now and again.scores == result.scores and isinstance(again, t2t.EvaluationResult)
    more = t2t.evaluate(trained.output_dir, **options, metrics="exact_match")
    assert more.scored_now and not more.decoded_now and "exact_match" in more.scores
    assert t2t.evaluate(trained.output_dir, **options, again=True).decoded_now
    # Other precisions of the search change the outputs, but not the losses.
    half = t2t.evaluate(trained.output_dir, **options | {"decode_hparams": f"{QUICK},precision=mixed_bfloat16"})
    assert half.decoded_now and half.content["tokens"] == result.content["tokens"]
    test = t2t.evaluate(trained.output_dir, grammar_data, split="test", decode=False)
    assert test.checkpoint == trained.checkpoints[-1] and test.bleu is None and test.loss != result.loss
    assert test.hypotheses == [] and set(test.scores) >= {"loss", "nll_loss", "perplexity", "accuracy"}
    assert not t2t.evaluate(trained.output_dir, split="test", decode=False).decoded_now
    assert t2t.evaluate(trained.output_dir, split="test", decode_hparams=QUICK).loss == test.loss


def test_data_is_generated_from_files_of_text_in_both_directions(tmp_path):
    lines = [f"{number} {word}" for number in range(300) for word in ("red", "blue")]
    for number, part in enumerate((lines[:400], lines[400:])):
        (tmp_path / f"{number}.in").write_text("\n".join(part) + "\n")
        (tmp_path / f"{number}.out").write_text("\n".join(line[::-1] for line in part) + "\n\n" * number)
    sides = {"train_source": [tmp_path / "0.in", tmp_path / "1.in"]}
    sides["train_target"] = [tmp_path / "0.out", tmp_path / "1.out"]
    with pytest.raises(
        t2t.UserError, match=r"1\.out has 201 lines, but .*1\.in has 200; .*, or pass `allow_unequal` to"
    ):
        t2t.generate_data("text_pairs", tmp_path / "data", vocab_size=400, held_out=20, **sides)
    sides["allow_unequal"] = True
    made = t2t.generate_data("text_pairs", tmp_path / "data", vocab_size=400, held_out=20, **sides)
    assert made.pairs == {"train": 560, "dev": 20, "test": 20} and made.text_checks.pairs >= 600
    assert [path.name for path in made.texts["test"]] == ["text_pairs-test.inputs.txt", "text_pairs-test.targets.txt"]
    assert made.vocabularies[0] == made.vocabularies[1] and made.vocabularies[0].exists() and made.manifest.exists()
    texts = {name: ",".join(map(str, sides[name])) for name in ("train_source", "train_target")}
    reverse = t2t.get_problem("text_pairs_rev", **texts, held_out="20", allow_unequal="True")
    again = t2t.generate_data(reverse, tmp_path / "data", vocab_size=400)
    assert again.texts["test"] == made.texts["test"][::-1] and again.text_checks is None


def test_models_are_loaded_from_runs_and_files(trained, tmp_path):
    model = t2t.load_model(trained.output_dir, trained.checkpoints[0])
    inputs, targets = np.array([[5, 6, 7, 1, 0]]), np.array([[8, 9, 1]])
    logits = np.asarray(model(inputs, targets))
    assert type(model) is t2t.models.Transformer and logits.shape == (1, 3, model.vocab_size)
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(t2t.load_model(tmp_path / "model.keras")(inputs, targets), logits)
    (tmp_path / "broken.keras").write_bytes(b"PK")
    for path, message in (
        ("broken.keras", r"broken\.keras cannot be loaded as a Keras model"),
        ("none.keras", r"no such file: .*none\.keras"),
        ("", "is not a run directory"),
    ):
        with pytest.raises(t2t.UserError, match=message):
            t2t.load_model(tmp_path / path)
    for wrong, message in (
        ((inputs, targets.repeat(2, 0)), "`inputs` has 1 rows but `targets` 2; pass as many of each"),
        ((-inputs, targets), "`inputs` takes ids from 0 to [0-9]+ as whole numbers, not int64 from -7 to 0"),
        ((inputs, targets + model.vocab_size), "`targets` takes ids from 0 to"),
        ((inputs * 1.0, targets), "`inputs` takes ids from 0 to [0-9]+ as whole numbers, not float64 from 0.0 to 7.0"),
    ):
        with pytest.raises(t2t.UserError, match=message):
            model(wrong)


class Unattended(t2t.models.Transformer):
    """A plug-in's model whose attention weights cannot be computed."""

    def attention(self, inputs, targets, kind, layer):
        raise RuntimeError("no weights\nhere")


def test_a_model_whose_alignments_cannot_be_measured_is_trained_all_the_same(train, registered, logged):
    registered(MODELS, "unattended", Unattended)
    result = train(train_steps=1, model="unattended", hparams=HPARAMS | {"num_decoder_layers": 2}, schedule="train")
    assert result.step == 1
    assert "the layer for word alignments was not measured: no weights here" in logged()


@pytest.mark.heavy
def test_the_library_prints_nothing_and_logs_what_a_program_can_show(train, capfd, logged):
    logger = logging.getLogger("t2t_lite")
    before = logger.handlers[:], logger.level, logger.propagate
    result = train(train_steps=1)
    assert capfd.readouterr() == ("", "")
    lines = logged()
    assert lines[0].startswith("grammar_ende: 1,500 training pairs") and any("dev loss" in line for line in lines)
    try:
        t2t.log_to_stdout()
        t2t.log_to_stdout()  # a notebook's cell is often run twice
        train(result.output_dir, train_steps=2)
        printed = capfd.readouterr()
        assert printed.out.count("step 2/2  epoch 1  loss") == 1 and printed.err == ""
        t2t.log_to_stdout("WARNING")
        logger.info("progress")
        logger.warning("a warning")
        assert capfd.readouterr() == ("a warning\n", "")
    finally:
        logger.handlers[:], logger.level, logger.propagate = before


def test_samples_depend_on_the_seed_and_the_number_of_the_line(trained):
    translator = t2t.Translator.from_run_dir(trained.output_dir, {"extra_length": 3}, xla_compile=False)
    translator.warm_up(beam_size=2)
    lines = ["The dog sleeps.", "She sings."]
    samples = translator.sample(lines, num_samples=3, sampling_keep_top_k=5, random_seed=4)
    settings = {"sampling_method": "random", "beam_size": 3, "sampling_keep_top_k": 5, "random_seed": 4}
    assert samples == translator.n_best(lines, **settings) and [len(each) for each in samples] == [3, 3]
    second = {"num_samples": 3, "sampling_keep_top_k": 5, "random_seed": 4, "first_line": 2}
    alone = translator.sample(lines[1], **second)
    assert [each.text for each in alone] == [each.text for each in samples[1]]
    assert translator.sample(lines, num_samples=3, sampling_keep_top_k=5, random_seed=5) != samples


TWO_AND_ONE = {"train_source": [__file__, os.__file__], "train_target": [json.__file__]}
MISTAKES = {
    "evaluate": [
        ({"metrics": ("chrf",), "decode": False}, "`metrics` needs `decode=True`"),
        ({"decode_hparams": QUICK, "decode": False}, "`decode_hparams` needs `decode=True`"),
        ({"references": ("x",), "decode": False}, "`references` needs `decode=True`"),
        ({"split": "train"}, "split=train` is out of range: it must be dev or test"),
        ({"metric": ("chrf",)}, "evaluate\\(\\) has no argument 'metric'; did you mean 'metrics'"),
        ({"metrics": ("f1",)}, "'grammar_ende' is scored by bleu"),
        ({"references": ("nothing",)}, "`references`: no such file: nothing"),
    ],
    "train": [
        ({"hparams": {"hiden_size": 3}}, "unknown setting 'hiden_size'; did you mean 'hidden_size'"),
        ({"hparams": {"hidden_size": 0}}, "`hparams`: hidden_size=0 is out of range"),
        ({"hparams": t2t.HParams()}, "`hparams` is complete; remove `hparams_set`"),
        ({"eval_metric": "ter"}, "`eval_metric=ter` needs `eval_decode`"),
        ({"eval_metric": "blue"}, "`eval_metric=blue` is unknown; did you mean 'bleu'"),
        ({"schedule": "eval"}, r"train\(\) cannot evaluate without training"),
        ({"keep_checkpoint_max": 0}, "`keep_checkpoint_max=0` is out of range: it must be at least 1"),
        ({"save_checkpoints_steps": "5"}, "`save_checkpoints_steps` takes a whole number, not '5'"),
        ({"decode_hparams": {"beam_size": 2}}, "`decode_hparams` needs `eval_decode`"),
        ({"free_bytes": 1}, r"train\(\) has no argument 'free_bytes'"),
        ({"num_gpu": 1}, r"train\(\) has no argument 'num_gpu'; did you mean 'num_gpus'"),
        ({"model": "transformator"}, r"unknown model 'transformator' \(`model`\); did you mean 'transformer'"),
        ({"warm_start_from": "none"}, "`warm_start_from=none` is neither a run directory nor a checkpoint in one"),
    ],
    "algorithmic_copy": [
        ({"max_case": 50}, r"generate_data\(\) has no argument 'max_case'; did you mean 'max_cases'"),
        ({"num_shards": 0}, "`num_shards=0` is out of range"),
        ({"max_cases": -5}, "`max_cases=-5` is out of range"),
        ({"vocab_size": "400"}, "`vocab_size` takes a whole number, not '400'"),
        ({"normalize_whitespace": True}, "`normalize_whitespace=True` applies to BPE and WordPiece"),
    ],
    "text_pairs": [
        ({"train_source": (x for x in "ab")}, "`train_source` is of the type generator; pass"),
        ({"train_source": ["a", {}]}, "`train_source` is of the type dict; pass a text, a"),
        (TWO_AND_ONE, "`train_source` has 2 files and `train_target` 1"),
    ],
}


ROWS = [(what, *row) for what, rows in MISTAKES.items() for row in rows]


@pytest.mark.parametrize(("what", "options", "message"), ROWS)
def test_mistakes_are_errors_of_one_line_that_name_arguments(train, small_run, tmp_path, what, options, message):
    with pytest.raises(t2t.UserError, match=message) as caught:
        if what == "train":
            train(tmp_path / "run", **options)
        elif what == "evaluate":
            t2t.evaluate(small_run, **options)
        else:
            t2t.generate_data(what, tmp_path / "data", **options)
    said = str(caught.value)
    assert "\n" not in said and "--" not in said.replace("t2t-lite-trainer --schedule", "")
    assert not (tmp_path / "data").exists() and not (small_run / "scores").exists()
