"""A language model and a classifier, which the example plug-in brings, through training, evaluation and decoding."""

import json
import math
import random

import pytest

import t2t_lite as t2t
from t2t_lite.data.problem import Example, Problem, get_problem
from t2t_lite.errors import UserError
from t2t_lite.registry import PROBLEMS

pytestmark = pytest.mark.heavy

TINY = {"hidden_size": 32, "filter_size": 64, "num_heads": 2, "batch_tokens": 512, "residual_dropout": 0.0}
TINY |= {"learning_rate_warmup_steps": 60, "learning_rate_constant": 1.0}
ALPHABET = "abcdefghij"


@pytest.fixture(scope="module", autouse=True)
def letters():
    """Texts without inputs: letters in the order of the alphabet, from a random one on."""

    class Letters(Problem):
        """Letters in order."""

        has_inputs = False
        vocab_kind = "words"

        def examples(self, split, files):
            generator = random.Random(split)
            for _ in range(600 if split == "train" else 40):
                start = generator.randrange(len(ALPHABET))
                yield Example("", " ".join(ALPHABET[(start + i) % len(ALPHABET)] for i in range(6)))

    PROBLEMS.register(Letters)
    yield
    PROBLEMS.unregister("letters")


def training(folder, problem, hparams_set, **settings):
    """The flags of a training in a folder, without the number of steps."""
    hparams = ",".join(f"{name}={value}" for name, value in (TINY | settings).items())
    flags = (f"--problem={problem}", f"--hparams_set={hparams_set}", f"--hparams={hparams}", "--peak_tflops=1")
    return ("trainer", *flags, f"--data_dir={folder / 'data'}", f"--output_dir={folder / 'run'}")


@pytest.fixture(scope="module")
def language_model(example, tmp_path_factory):
    """A trained run directory; the training was stopped in between."""
    folder = tmp_path_factory.mktemp("language")
    flags = training(folder, "letters", "language_model_small", num_decoder_layers=2)
    example(*flags, "--generate_data", "--train_steps=60")
    assert "resuming from" in example(*flags, "--train_steps=120")
    return folder / "run"


@pytest.fixture(scope="module")
def writer(language_model):
    return t2t.Translator.from_run_dir(language_model, xla_compile=False)


def test_the_language_model_learns_what_follows_and_only_tokens_are_scored(example, language_model):
    evaluations = json.loads((language_model / "evaluations.json").read_text())
    # Only the first letter is open: log(10) nats for 7 tokens, the end symbol included.
    assert evaluations["120"]["perplexity"] < 1.05 * math.exp(math.log(10) / 7)
    assert evaluations["120"]["perplexity"] < evaluations["60"]["perplexity"]
    flags = ("eval", f"--output_dir={language_model}", "--split=dev")
    (found,) = json.loads(example(*flags, "--json"))["runs"]
    figures = {figure["name"]: figure["score"] for figure in found["figures"]}
    assert set(figures) == {"loss", "nll_loss", "perplexity", "accuracy", "perplexity_per_word"}
    assert figures["perplexity"] == pytest.approx(evaluations["120"]["perplexity"], rel=1e-3)
    assert figures["perplexity_per_word"] == pytest.approx(figures["perplexity"])  # a word is a token
    assert "perplexity per word" in example(*flags)
    with pytest.raises(UserError, match="'letters' has no outputs to score"):
        t2t.score_split(language_model, "dev", metrics=["bleu"])


def test_lines_are_continued_and_given_texts_have_the_scores_of_the_search(writer, example, language_model, tmp_path):
    assert writer.translate(["c d", "a"], beam_size=1) == ["c d e f g h", "a b c d e f"]
    decoder = ("decoder", f"--output_dir={language_model}")
    assert example(*decoder, "--xla_compile=False", stdin=b"g\n") == "g h i j a b\n"
    (beams,) = writer.n_best([""], beam_size=4)
    log_probs = pytest.approx([each.log_prob for each in beams], abs=1e-4)
    scored = writer.score([""] * len(beams), [each.text for each in beams])
    assert [each.log_prob for each in scored] == log_probs
    (tmp_path / "texts").write_text("".join(f"{each.text}\n" for each in beams))
    said = example(*decoder, f"--score_file={tmp_path / 'texts'}")
    assert [float(line.split("\t")[0]) for line in said.splitlines()] == log_probs


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda writer: writer.translate(["a"], prefixes=["b"]), "pass the beginnings of outputs as lines"),
        (lambda writer: writer.translate(["a"], coverage_penalty=0.2), "LanguageModel has no cross-attention"),
        (lambda writer: writer.align(["a"], ["b"]), "LanguageModel has no cross-attention"),
        (lambda writer: writer.attention("a", "b", "decoder", 0), "LanguageModel does not return its attention wei"),
        (lambda writer: get_problem("letters_rev"), "has no inputs, so it cannot be reversed"),
    ],
)
def test_what_needs_inputs_is_refused(writer, ask, message):
    with pytest.raises(UserError, match=message):
        ask(writer)


@pytest.fixture(scope="module")
def classifier(example, tmp_path_factory):
    """The folder of a classifier of texts that do or do not contain a word; its data and its run."""
    folder = tmp_path_factory.mktemp("classifier")
    generator, words = random.Random(1), ["red", "green", "blue", "round", "square"]
    for split, number in (("train", 1500), ("dev", 100), ("test", 100)):
        texts = [generator.choices(words, k=generator.randint(3, 9)) for _ in range(number)]
        lines = [f"{' '.join(text)}\t{'yes' if 'red' in text else 'no'}\n" for text in texts]
        (folder / f"{split}.tsv").write_text("".join(lines))
    files = [f"--{split}_tsv={folder / split}.tsv" for split in ("train", "dev", "test")]
    example("datagen", "--problem=labelled_text", *files, "--vocab_size=300", f"--data_dir={folder / 'data'}")
    flags = training(folder, "labelled_text", "text_classifier_small", num_encoder_layers=1)
    example(*flags, "--train_steps=80")
    example(*flags, "--train_steps=160")
    return folder


def test_the_classifier_is_right_far_more_often_than_the_majority_and_its_labels_are_decoded(classifier, example):
    labels = [line.split("\t")[1] for line in (classifier / "test.tsv").read_text().splitlines()]
    majority = 100 * max(map(labels.count, set(labels))) / len(labels)
    result = t2t.evaluate(classifier / "run", classifier / "data", split="test", decode_hparams={"beam_size": 1})
    assert result.scores["exact_match"] > majority + 15
    kept = t2t.score_split(classifier / "run", decode_hparams={"beam_size": 1}, xla_compile=False)
    assert kept.scores["exact_match"] == result.scores["exact_match"] and "bleu" not in kept.scores
    # A label and an end symbol, which is certain.
    assert result.accuracy == pytest.approx((1 + result.scores["exact_match"] / 100) / 2, abs=1e-6)
    said = example("decoder", f"--output_dir={classifier / 'run'}", "--xla_compile=False", stdin=b"red blue\nblue\n")
    assert said == "yes\nno\n"
