"""Models of Marian and Hugging Face give the programs' own scores and outputs; what cannot be read is refused."""

import gzip
import io
import itertools
import json
import os
import pickle
import shutil
import struct
import zipfile

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
import yaml
from support.server import Server

import t2t_lite as t2t
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.decoding.engine import Pairs
from t2t_lite.errors import UserError
from t2t_lite.files import file_sha256
from t2t_lite.runs.evaluations import read_evaluations

KINDS = {"spm": "marian", "opus": "marian", "huggingface": "huggingface"}


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


def joined(pieces):
    """The text of pieces separated by blanks, as opus/ has them."""
    return pieces.replace(" ", "").replace("▁", " ").strip() if "▁" in pieces else pieces


@pytest.fixture(scope="module")
def imported(marian_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("imported")
    for name, kind in KINDS.items():
        known = {} if kind == "huggingface" else {"languages": "en-de"}
        t2t.import_model(marian_dir / name, folder / name, kind=kind, **known)
    return folder


@pytest.fixture(scope="module")
def translators(imported):
    return {name: t2t.Translator.from_run_dir(imported / name, xla_compile=False) for name in KINDS}


@pytest.mark.parametrize("name", ["spm", "opus"])
def test_the_hypotheses_of_marian_have_its_log_probabilities(translators, marian_dir, name):
    translator, sources = translators[name], list(map(joined, lines_of(marian_dir / name / "in.txt")))
    ids = {token: id for id, token in enumerate(translator.vocabulary.tokens())}
    rows, outputs, expected = [], [], []
    for line in lines_of(marian_dir / name / "nbest.txt"):
        number, text, of_line, _ = line.split(" ||| ")
        pieces = text.split(" ") if name == "opus" else []
        if len(pieces) < 80:  # longer ones have no end
            rows.append(int(number))
            outputs.append(
                [*(ids[piece] for piece in pieces), 1] if pieces else translator.vocabulary.ids_of([text])[0]
            )
            expected.append(float(of_line.removeprefix("F0= ")))
    assert len(rows) >= 156
    pairs = Pairs(translator.inputs_vocabulary.ids_of([sources[row] for row in rows]), outputs)
    found = [log_prob for _, log_prob in translator.engine.score(pairs, translator.decode_hparams)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_pairs_have_the_log_probabilities_of_hugging_face(translators, marian_dir):
    found = translators["huggingface"].score(lines_of(marian_dir / "spm/in.txt"), lines_of(marian_dir / "spm/ref.txt"))
    expected = list(map(float, lines_of(marian_dir / "huggingface/scores.txt")))
    np.testing.assert_allclose([each.log_prob for each in found], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "file", "settings"),
    [
        ("spm", "beam4.txt", {"beam_size": 4, "alpha": 0.6}),
        ("opus", "beam4.txt", {"beam_size": 4, "alpha": 0.6}),
        ("spm", "greedy.txt", {"beam_size": 1, "alpha": 0.0}),
        ("opus", "greedy.txt", {"beam_size": 1, "alpha": 0.0}),
        ("huggingface", "beam4.txt", {}),  # of the run
    ],
)
def test_searches_have_the_programs_outputs(translators, marian_dir, name, file, settings):
    sources = lines_of(marian_dir / ("spm" if name == "huggingface" else name) / "in.txt")
    expected = list(map(joined, lines_of(marian_dir / name / file)))
    settings = {"extra_length": 60} | settings
    found = translators[name].n_best(list(map(joined, sources)), **settings)
    assert sum(beams[0].text == text for beams, text in zip(found, expected, strict=True)) >= 39
    if file == "beam4.txt":
        listed = [line.split(" ||| ") for line in lines_of(marian_dir / name / "nbest.txt")]
        scores = {(place // 4, joined(row[-3] if len(row) > 2 else row[1])): float(row[-1 if len(row) > 2 else 0])
                  for place, row in enumerate(listed)}  # fmt: skip
        common = [(each.score, scores[key]) for place, beams in enumerate(found) for each in beams
                  if (key := (place, each.text)) in scores]  # fmt: skip
        assert len(common) >= 120
        np.testing.assert_allclose(*zip(*common), rtol=2e-3)


def test_the_settings_of_the_programs_become_those_of_the_run(imported, translators):
    assert vars(translators["huggingface"].decode_hparams) | {
        "beam_size": 4, "length_penalty": "power", "alpha": 1.0, "extra_length": 50, "max_input_length": 512,
    } == vars(translators["huggingface"].decode_hparams)  # fmt: skip
    assert translators["opus"].decode_hparams.beam_size == 12 and translators["opus"].decode_hparams.alpha == 0
    for name in KINDS:
        run = json.loads((imported / name / "run.json").read_text())
        assert (run["source_language"], run["target_language"]) == ("en", "de")


@pytest.mark.parametrize("file", ["pytorch_model.bin", "pytorch_model.legacy.bin"])
def test_the_files_of_torch_have_the_same_weights_as_safetensors(imported, marian_dir, tmp_path, file):
    copied = shutil.copytree(marian_dir / "huggingface", tmp_path / "hub", ignore=shutil.ignore_patterns("*model.*"))
    for name in ("source.spm", "target.spm"):
        shutil.copy(marian_dir / "huggingface" / name, copied)
    shutil.copy(marian_dir / "huggingface" / file, copied / "pytorch_model.bin")
    found = t2t.import_model(copied, tmp_path / "run", kind="huggingface", languages="en-de")
    data = "ckpt-0.data-00000-of-00001"
    assert file_sha256(found.path / data) == file_sha256(imported / "huggingface" / data)


@pytest.mark.parametrize("side", ["inputs", "targets"])
def test_all_lines_have_the_ids_of_sentencepiece_and_the_list(imported, marian_dir, multi30k_dir, side):
    folder = marian_dir / "opus"
    model = sentencepiece.SentencePieceProcessor(str(folder / {"inputs": "source.spm", "targets": "target.spm"}[side]))
    listed = yaml.load((folder / "vocab.yml").read_text(encoding="utf-8"), Loader=yaml.CBaseLoader)
    vocabulary = open_vocabulary(imported / "opus" / f"vocab.text_pairs.imported.{side}.pieces")
    ours = dict(zip(vocabulary.tokens(), itertools.count()))
    lines = [
        line
        for split in ("train", "val", "test_2016_flickr")
        for language in ("en", "de")
        for line in gzip.decompress((multi30k_dir / f"{split}.{language}.gz").read_bytes()).decode().splitlines()
    ]
    assert len(lines) == 2 * 31_014
    pieces = model.encode(lines, out_type=str)
    expected = [[*(ours[each] if each in listed else 2 for each in line), 1] for line in pieces]
    assert vocabulary.ids_of(lines) == expected
    known = [row for row, ids in enumerate(expected) if 2 not in ids]
    assert vocabulary.decode([expected[row] for row in known]) == [model.decode(pieces[row]) for row in known]
    some = [*lines[::100], ">>fra<< a", "  >>fra<<a"]
    assert tf.function(vocabulary.encode)(tf.constant(some)).to_list() == vocabulary.ids_of(some)


@pytest.fixture(scope="module")
def multilingual(marian_dir, tmp_path_factory):
    """A run whose model has two language tokens, in the places of two words; and the vocabulary's list."""
    folder = shutil.copytree(marian_dir / "opus", tmp_path_factory.mktemp("multilingual") / "model")
    text = (folder / "vocab.yml").read_text(encoding="utf-8")
    for word, token in (('"Backsteingebäude"', '">>deu<<"'), ('"Baseballschläger"', '">>fra<<"')):
        assert word in text
        text = text.replace(word, token)
    (folder / "vocab.yml").write_text(text, encoding="utf-8")
    return t2t.import_model(folder, folder.with_name("run"), kind="marian", languages="en-mul").path


def test_a_language_token_is_one_entry_at_the_start_of_a_line(multilingual, command, tmp_path):
    translator = t2t.Translator.from_run_dir(multilingual, "beam_size=2", xla_compile=False)
    vocabulary = translator.inputs_vocabulary
    assert vocabulary.language_tokens == {"deu": ">>deu<<", "fra": ">>fra<<"}
    token, *rest = vocabulary.ids_of([">>fra<< A dog."])[0]
    assert vocabulary.tokens()[token] == ">>fra<<" and [rest] == vocabulary.ids_of(["A dog."])
    lines = ["A man is sleeping.", "", "Two dogs run."]
    french = [f">>fra<< {line}" if line else "" for line in lines]
    expected = translator.translate(french)
    assert translator.to_language("fra").translate(lines) == expected
    to_german = translator.to_language("deu")
    assert to_german.translate(french) == expected  # a line's own token counts
    scores = [each.score(lines[:1], expected[:1])[0].log_prob for each in (translator, to_german)]
    assert scores[1] == pytest.approx(translator.score([f">>deu<< {lines[0]}"], expected[:1])[0].log_prob) != scores[0]
    aligned = translator.to_language("fra").align(lines[:1], expected[:1])
    assert aligned == translator.align(french[:1], expected[:1])
    assert {int(link.split("-")[0]) for link in aligned[0].split()} <= {0, 1, 2, 3}
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines))
    flags = (f"--output_dir={multilingual}", "--decode_hparams=beam_size=2", f"--decode_from_file={tmp_path}/in.txt")
    done = command("decoder", *flags, "--xla_compile=False", "--target_language=fra")
    assert done.stdout.split("\n")[:-1] == expected
    assert "choose one with --target_language: deu, fra" in command("decoder", *flags, "--xla_compile=False").stderr
    # The server and the decoder take only tokens that the model has for those of a language.
    odd = [">>hello<< A man.", "\u00a0>>fra<< A man."]
    assert translator.to_language("deu").translate(odd[:1]) == translator.translate([f">>deu<< {odd[0]}"])
    assert tf.function(vocabulary.encode)(tf.constant([*french, *odd])).to_list() == vocabulary.ids_of([*french, *odd])
    for language in ("fra", "deu"):  # a finished file is made again for another language
        command(
            "decoder",
            *flags,
            "--xla_compile=False",
            f"--decode_to_file={tmp_path}/out.txt",
            f"--target_language={language}",
        )
        expected = translator.to_language(language).translate(lines)
        assert (tmp_path / "out.txt").read_text().split("\n")[:-1] == expected
    wrong = command("decoder", *flags, "--target_language=spa")
    assert wrong.returncode == 2 and "--target_language=spa: the model has deu, fra" in wrong.stderr


@pytest.mark.slow
def test_a_server_lists_the_languages_of_a_model(multilingual):
    french = t2t.Translator.from_run_dir(multilingual, "beam_size=2", xla_compile=False).to_language("fra")
    with Server(f"--output_dir={multilingual}", "--decode_hparams=beam_size=2") as server:
        assert {each["code"]: each["targets"] for each in server.get("/languages").content} == {
            "en": ["de", "fr"], "de": [], "fr": [],
        }  # fmt: skip
        assert [model["name"] for model in server.get("/v1/models").content["models"]] == ["run:deu", "run:fra"]
        text = "A man is sleeping."
        assert server.translate(text, source="en", target="fr") == french.translate(text)
        assert server.translate(f">>deu<< {text}", source="en", target="fr") == french.translate(text)
        asked = {"inputs": [text], "model": "run:fra", "alignments": True}
        (result,) = server.post("/v1/translate", asked).content["results"]
        assert result["hypotheses"][0]["text"] == french.translate(text)
        assert result["hypotheses"][0]["alignment"] == french.align(text, french.translate(text))


@pytest.mark.parametrize("form", ["ctranslate2", "keras", "saved_model"])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.slow
def test_exports_have_the_outputs_of_the_run(imported, translators, marian_dir, tmp_path, name, form):
    if form == "ctranslate2":
        pytest.importorskip("ctranslate2")
    lines = list(map(joined, lines_of(marian_dir / "spm" / "in.txt")))[:12]
    search = {"beam_size": 4, "alpha": 0.6, "extra_length": 20}
    t2t.export(imported / name, tmp_path / "export", format=form, decode_hparams=search)
    expected = translators[name].translate(lines, **search)
    if form == "saved_model":
        found = tf.saved_model.load(str(tmp_path / "export")).signatures["serving_default"](tf.constant(lines))
        outputs = [row[0].decode() for row in found["outputs"].numpy()]
    else:
        outputs = t2t.Translator.from_export(tmp_path / "export").translate(lines)
    assert outputs == expected
    if form == "keras":
        back = t2t.import_model(tmp_path / "export", tmp_path / "back", kind="keras")
        assert t2t.Translator.from_run_dir(back.path, xla_compile=False).translate(lines, **search) == expected


@pytest.mark.heavy
@pytest.mark.parametrize("name", KINDS)
def test_training_goes_on_from_an_imported_model(imported, translators, marian_dir, tmp_path, name):
    """Two thousand pairs of another kind of text; the data gets the model's vocabularies."""
    pairs = list(itertools.islice(t2t.get_problem("grammar_ende").examples("train", {}), 2_200))
    for language, side in zip(("en", "de"), zip(*pairs)):
        (tmp_path / f"my.{language}").write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    problem = t2t.get_problem(
        "text_pairs", train_source=str(tmp_path / "my.en"), train_target=str(tmp_path / "my.de"), held_out="100"
    )
    options = {"data_dir": tmp_path / "data", "warm_start_from": imported / name, "generate_data": True}
    settings = {"batch_tokens": 1000, "learning_rate": 3e-4, "learning_rate_warmup_steps": 10}
    t2t.train(
        problem, hparams=settings, output_dir=tmp_path / "run", train_steps=60, save_checkpoints_steps=20, **options
    )
    losses = [figures["loss"] for _, figures in sorted(read_evaluations(tmp_path / "run").items())]
    assert len(losses) == 3 and losses[0] > losses[1] > losses[2] > 0
    vocabularies = sorted(path.name for path in (tmp_path / "run").glob("vocab.*"))
    assert len(vocabularies) == (1 if name == "spm" else 2)
    settings["learning_rate"] = 1e-12
    t2t.train(problem, hparams=settings, output_dir=tmp_path / "same", train_steps=1, schedule="train", **options)
    lines = list(map(joined, lines_of(marian_dir / "spm" / "in.txt")))
    same, search = t2t.Translator.from_run_dir(tmp_path / "same", xla_compile=False), {"beam_size": 2, "alpha": 0.6}
    assert same.translate(lines, **search) == translators[name].translate(lines, **search)


def softmax(scores):
    shifted = np.exp(scores - scores.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


class MarianInNumPy:
    """A pre-norm model with ReLU, its own vocabulary on each side and its own projection, by Marian's names."""

    HIDDEN, FILTER, HEADS, DEPTHS = 16, 24, 2, {"encoder": 3, "decoder": 1}

    def __init__(self, sizes, seed=0):
        random, hidden, inner = np.random.default_rng(seed), self.HIDDEN, self.FILTER
        shapes = {"encoder_Wemb": (sizes[0], hidden), "decoder_Wemb": (sizes[1], hidden),
                  "decoder_ff_logit_out_W": (hidden, sizes[1]), "decoder_ff_logit_out_b": (1, sizes[1])}  # fmt: skip
        for stack, depth in self.DEPTHS.items():
            shapes |= {f"{stack}_top_ln_{part}": (1, hidden) for part in ("scale", "bias")}
            for layer in range(1, depth + 1):
                scope = f"{stack}_l{layer}"
                for part in ("self", "context")[: 2 if stack == "decoder" else 1]:
                    shapes |= {f"{scope}_{part}_W{name}": (hidden, hidden) for name in "qkvo"}
                    shapes |= {f"{scope}_{part}_b{name}": (1, hidden) for name in "qkvo"}
                    shapes |= {f"{scope}_{part}_Wo_ln_{kind}_pre": (1, hidden) for kind in ("scale", "bias")}
                shapes |= {f"{scope}_ffn_W1": (hidden, inner), f"{scope}_ffn_b1": (1, inner),
                           f"{scope}_ffn_W2": (inner, hidden), f"{scope}_ffn_b2": (1, hidden)}  # fmt: skip
                shapes |= {f"{scope}_ffn_ffn_ln_{kind}_pre": (1, hidden) for kind in ("scale", "bias")}
        self.weights = {name: (0.5 * random.normal(size=shape)).astype(np.float32) for name, shape in shapes.items()}
        self.settings = {
            "type": "transformer", "dim-emb": hidden, "transformer-dim-ffn": inner, "transformer-heads": self.HEADS,
            "enc-depth": 3, "dec-depth": 1, "dim-vocabs": list(sizes), "transformer-ffn-activation": "relu",
            "transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n",
            "tied-embeddings": False, "tied-embeddings-all": False, "tied-embeddings-src": False,
        }  # fmt: skip

    def write(self, path, **changes):
        content = yaml.safe_dump(self.settings | changes).encode()
        np.savez(path, **self.weights, **{"special:model.yml": np.frombuffer(content + b"\0" * 9, np.int8)})

    def norm(self, x, scope, suffix="_pre"):
        centered = x - x.mean(-1, keepdims=True)
        scaled = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-6)
        return scaled * self.weights[f"{scope}_ln_scale{suffix}"] + self.weights[f"{scope}_ln_bias{suffix}"]

    def attend(self, x, scope, memory=None):
        normal = self.norm(x, f"{scope}_Wo")
        sides = {"q": normal, **dict.fromkeys("kv", normal if memory is None else memory)}
        size, mixed = self.HIDDEN // self.HEADS, []
        q, k, v = (sides[name] @ self.weights[f"{scope}_W{name}"] + self.weights[f"{scope}_b{name}"] for name in "qkv")
        for head in range(self.HEADS):
            part = slice(head * size, (head + 1) * size)
            scores = q[:, part] @ k[:, part].T / size**0.5
            if scope.startswith("decoder") and memory is None:
                scores = np.where(np.tri(len(x)) > 0, scores, -np.inf)
            mixed.append(softmax(scores) @ v[:, part])
        return x + np.concatenate(mixed, -1) @ self.weights[f"{scope}_Wo"] + self.weights[f"{scope}_bo"]

    def stack(self, x, stack, memory=None):
        for scope in (f"{stack}_l{layer}" for layer in range(1, self.DEPTHS[stack] + 1)):
            x = self.attend(x, f"{scope}_self")
            x = x if memory is None else self.attend(x, f"{scope}_context", memory)
            inner = self.norm(x, f"{scope}_ffn_ffn") @ self.weights[f"{scope}_ffn_W1"] + self.weights[f"{scope}_ffn_b1"]
            x = x + np.maximum(inner, 0) @ self.weights[f"{scope}_ffn_W2"] + self.weights[f"{scope}_ffn_b2"]
        return self.norm(x, f"{stack}_top", suffix="")

    def embedded(self, vectors):
        half = self.HIDDEN // 2
        angles = np.arange(len(vectors))[:, None] * np.exp(-np.arange(half) * np.log(10000.0) / (half - 1))
        return vectors * self.HIDDEN**0.5 + np.concatenate([np.sin(angles), np.cos(angles)], 1)

    def log_prob(self, source, target):
        memory = self.stack(self.embedded(self.weights["encoder_Wemb"][source]), "encoder")
        before = np.concatenate([np.zeros((1, self.HIDDEN)), self.weights["decoder_Wemb"][target[:-1]]])
        x = self.stack(self.embedded(before), "decoder", memory)
        logits = x @ self.weights["decoder_ff_logit_out_W"] + self.weights["decoder_ff_logit_out_b"]
        return np.log(softmax(logits)[np.arange(len(target)), target]).sum()


@pytest.fixture(scope="module")
def own_models(marian_dir, tmp_path_factory):
    """A folder with a model of random weights, with the SentencePiece models of opus/ as its vocabularies."""
    folder = tmp_path_factory.mktemp("own")
    for side in ("source", "target"):
        model = io.BytesIO()
        lines = [joined(line) for line in lines_of(marian_dir / "opus" / ("in.txt" if side == "source" else "ref.txt"))]
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=model, vocab_size={"source": 90, "target": 110}[side],
            eos_id=0, unk_id=1, bos_id=-1, pad_id=-1, minloglevel=2,
        )  # fmt: skip
        (folder / f"vocab.{side}.spm").write_bytes(model.getvalue())
    model = MarianInNumPy((90, 110))
    model.write(folder / "model.npz")
    return folder, model


def test_a_pre_norm_model_with_two_vocabularies_equals_one_in_numpy(own_models, marian_dir, tmp_path):
    folder, model = own_models
    run = t2t.import_model(folder, tmp_path / "run", kind="marian").path
    translator = t2t.Translator.from_run_dir(run, xla_compile=False)
    pairs = [[joined(line) for line in lines_of(marian_dir / "opus" / name)] for name in ("in.txt", "ref.txt")]
    theirs = [
        [[*processor.encode(line), 0] for line in lines]
        for processor, lines in zip(
            (sentencepiece.SentencePieceProcessor(str(folder / f"vocab.{side}.spm")) for side in ("source", "target")),
            pairs,
        )
    ]
    expected = [model.log_prob(source, target) for source, target in zip(*theirs)]
    np.testing.assert_allclose([each.log_prob for each in translator.score(*pairs)], expected, rtol=1e-5)
    assert translator.model.hparams.tied_embeddings == "none"


REFUSED = {
    "type": ("amun", "type=amun"),
    "transformer-decoder-autoreg": ("rnn", "transformer-decoder-autoreg=rnn"),
    "factors-dim-emb": (8, "factors-dim-emb=8"),
    "transformer-depth-scaling": (True, "transformer-depth-scaling=True"),
    "transformer-tied-layers": ([1, 1], "transformer-tied-layers=[1, 1]"),
    "transformer-preprocess": ("r", "transformer-preprocess, -postprocess and -postprocess-top=r, da, n cannot"),
    "transformer-ffn-activation": ("gelu", "transformer-ffn-activation=gelu"),
    "dim-vocabs": ([90, 120], "the vocabulary of the targets has 110 pieces, but the model in"),
    "dim-emb": (None, "hidden_size takes a whole number, not None"),
    "transformer-dim-ffn": (48, "does not match its settings"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_our_model_cannot_represent_is_refused_by_name(own_models, tmp_path, name):
    folder, model = own_models
    value, message = REFUSED[name]
    copied = shutil.copytree(folder, tmp_path / "model")
    model.write(copied / "model.npz", **{name: value})
    with pytest.raises(UserError, match=message.replace("[", r"\[")) as refused:
        t2t.import_model(copied, tmp_path / "run", kind="marian")
    assert "\n" not in str(refused.value) and not (tmp_path / "run").exists()


class RunsCode:
    def __reduce__(self):
        return (print, ("it ran",))


def with_code(folder):
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"model.shared.weight": RunsCode()}, protocol=2))


def cut(name):
    return lambda folder: os.truncate(folder / name, (folder / name).stat().st_size // 2)


def gone(name):
    return lambda folder: (folder / name).unlink()


def written(name, content="x"):
    return lambda folder: (folder / name).write_text(content)


def config(file="config.json", **changes):
    return lambda folder: (folder / file).write_text(json.dumps(json.loads((folder / file).read_text()) | changes))


def renamed(name, other):
    return lambda folder: (folder / name).rename(folder / other)


def only(name, then=lambda folder: None):
    """The weights are in pytorch_model.bin only, a copy of a file with that `name`."""

    def change(folder):
        (folder / "model.safetensors").unlink()
        (folder / name).replace(folder / "pytorch_model.bin")
        then(folder)

    return change


def two_models(folder):
    shutil.copy(folder / "model.npz", folder / "b.npz")
    (folder / "model.npz.decoder.yml").unlink()


BIN, OLD = "pytorch_model.bin", "pytorch_model.legacy.bin"
BROKEN = [
    ("opus", cut("model.npz"), "is not a model of Marian, or it is damaged"),
    ("opus", written("model.npz"), "is not a model of Marian"),
    ("opus", gone("model.npz"), "must have one model of Marian"),
    ("opus", two_models, "several: b.npz, model.npz; pass one of them"),
    ("opus", written("model.npz.decoder.yml", "["), "decoder.yml is damaged"),
    ("opus", written("model.npz.decoder.yml", "beam-size: x"), "ValueError: invalid literal"),
    ("opus", written("model.npz.decoder.yml", "beam-size: 0"), "beam_size=0 is out of range"),
    ("opus", written("model.npz.decoder.yml", "vocabs: [[x]]"), "is damaged, or not a model of this kind"),
    ("opus", written("source.spm", ""), "the SentencePiece model of the vocabulary is damaged"),
    ("opus", gone("source.spm"), "there is no source.spm beside"),
    ("opus", renamed("source.spm", "source.bpe"), r"subword-nmt \(source.bpe\)"),
    ("opus", written("target.spm"), "the SentencePiece model of the vocabulary is damaged"),
    ("opus", written("vocab.yml", "a: 0\nb: 2\n"), "has no id for each piece"),
    ("opus", written("vocab.yml", '"</s>": 0\n"<unk>": 1\n'), "has other pieces than the vocabulary"),
    ("opus", gone("vocab.yml"), "there is no .*vocab.yml; copy"),
    ("spm", written("vocab.spm"), "vocab.spm is missing or not a SentencePiece model"),
    ("huggingface", cut("model.safetensors"), "is damaged"),
    ("huggingface", only(BIN, cut(BIN)), "is damaged"),
    ("huggingface", only(OLD, cut(BIN)), "is damaged"),
    (
        "huggingface",
        only(BIN, with_code),
        "names '__builtin__.print' beside tensors, so it is not read",
    ),
    ("huggingface", only(BIN, gone(BIN)), "has neither model.safetensors nor"),
    ("huggingface", gone("config.json"), "there is no .*config.json"),
    ("huggingface", written("config.json"), "config.json is damaged"),
    ("huggingface", config(model_type="bart"), "model_type=bart"),
    ("huggingface", config(activation_function="gelu"), "only swish or silu or relu"),
    ("huggingface", config(normalize_before=True), "normalize_before=True"),
    ("huggingface", config(decoder_start_token_id=0), "decoder_start_token_id=0"),
    ("huggingface", config("generation_config.json", bad_words_ids=[[7]]), "bad_words_ids"),
    ("huggingface", written("vocab.json", '{"a": 0}'), "has no <pad>"),
    ("huggingface", config(encoder_layers=3), "lacks the weights encoder_l3"),
    ("huggingface", config(decoder_layers=1), "weights that our model lacks"),
    ("huggingface", config("generation_config.json", length_penalty="x"), "ValueError: could not convert"),
    ("huggingface", config("generation_config.json", num_beams=0), "beam_size=0 is out of range"),
    ("huggingface", config(d_model=256), "is damaged, or not a model of this kind|does not match"),
    ("huggingface", config(encoder_layers="2"), "num_encoder_layers takes a whole number"),
    ("huggingface", config(decoder_ffn_dim=512), "decoder_ffn_dim=512"),
]


@pytest.mark.parametrize(("name", "breaks", "message"), BROKEN)
def test_damaged_files_are_one_line_and_nothing_is_written(marian_dir, tmp_path, capfd, name, breaks, message):
    copied = shutil.copytree(marian_dir / name, tmp_path / "model")
    breaks(copied)
    with pytest.raises(UserError, match=message) as refused:
        t2t.import_model(copied, tmp_path / "run", kind=KINDS[name])
    assert "\n" not in str(refused.value) and not (tmp_path / "run").exists()
    assert "it ran" not in capfd.readouterr().out


def test_sources_are_prepared_as_by_preprocess_sh_if_asked(marian_dir, tmp_path, capfd):
    run = t2t.import_model(marian_dir / "opus", tmp_path / "run", kind="marian", moses_punctuation="en").path
    vocabulary = t2t.Translator.from_run_dir(run, xla_compile=False).inputs_vocabulary
    plain, odd = "A man's dog ... runs.", "A man’s dog … runs。"
    assert vocabulary.ids_of([odd]) == vocabulary.ids_of([plain])
    assert vocabulary.ids_of([f">>x<<{odd}"]) != vocabulary.ids_of([odd])
    with pytest.raises(UserError, match="does not work in graphs; export with --format=keras"):
        t2t.export(run, tmp_path / "export", format="saved_model")


def test_torchs_storages_are_read_with_their_offsets_and_types(tmp_path):
    """What the fixtures lack: half precision, views of one storage, and tensors that lie outside of it."""
    from t2t_lite.importing.torch_weights import read_weights

    def written(kind, content, size, offset, shape, strides):
        class Tensor:
            def __reduce__(self):
                return (STUB["_rebuild_tensor_v2"], (Storage(), offset, shape, strides, False, {}))

        class Storage:
            pass

        class Pickler(pickle._Pickler):  # the one in Python can write the names of classes that are not there
            def persistent_id(self, found):
                return ("storage", STUB[kind], "0", "cpu", size) if isinstance(found, Storage) else None

            def save_global(self, found, name=None):
                module = "torch._utils" if found is STUB["_rebuild_tensor_v2"] else "torch"
                self.write(b"c" + f"{module}\n{found.__name__}\n".encode())

            dispatch = {**pickle._Pickler.dispatch, type: save_global, type(lambda: 0): save_global}

        data = io.BytesIO()
        Pickler(data, 2).dump({"w": Tensor()})
        path = tmp_path / "weights.bin"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a/data.pkl", data.getvalue())
            archive.writestr("a/data/0", content)
        return path

    def _rebuild_tensor_v2():
        pass

    STUB = {"_rebuild_tensor_v2": _rebuild_tensor_v2} | {
        kind: type(kind, (), {}) for kind in ("HalfStorage", "BFloat16Storage", "FloatStorage")
    }
    half = struct.pack("<6e", *range(6))
    np.testing.assert_array_equal(
        read_weights(written("HalfStorage", half, 6, 1, (2, 2), (1, 2)))["w"], [[1, 3], [2, 4]]
    )
    bfloat = struct.pack("<2H", 0x3F80, 0xC000)
    np.testing.assert_array_equal(read_weights(written("BFloat16Storage", bfloat, 2, 0, (2,), (1,)))["w"], [1, -2])
    outside = (5, (2,), (1,)), (0, (2, 3), (4, 1)), (0, (2,), (-1,)), (-1, (2,), (1,)), (0, (9**9,), (0,))
    for offset, shape, strides in outside:
        with pytest.raises(ValueError, match="not in its storage"):
            read_weights(written("HalfStorage", half, 6, offset, shape, strides))
