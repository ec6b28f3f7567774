"""Models of OpenNMT-tf give its scores and outputs, alone and through CTranslate2; what cannot be read is refused."""

import gzip
import itertools
import os
import re
import shutil

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
import yaml

import t2t_lite as t2t
from t2t_lite.data.vocab import open_vocabulary
from t2t_lite.errors import UserError
from t2t_lite.runs.evaluations import read_evaluations
from t2t_lite.runs.run_dir import open_run_dir

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def run(opennmt_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("imported") / "run"
    said = []
    t2t.import_model(opennmt_dir / "tiny", path, kind="opennmt_tf", languages="en-de", warn=said.append)
    (note,) = said
    assert "--hparams=" in note and "learning_rate_constant=2.0,learning_rate_warmup_steps=400" in note
    return path


@pytest.fixture(scope="module")
def translator(run):
    return t2t.Translator.from_run_dir(run, xla_compile=False)


@pytest.fixture(scope="module")
def export(run, tmp_path_factory):
    return t2t.export(run, tmp_path_factory.mktemp("exports") / "ctranslate2", format="ctranslate2").path


@pytest.fixture(scope="module")
def scores(opennmt_dir):
    return [-float(line.split(" ||| ")[0]) for line in lines_of(opennmt_dir / "tiny/scores.txt")]


def test_pairs_have_the_log_probabilities_of_opennmt_tf(translator, export, opennmt_dir, scores):
    sources, references = (lines_of(opennmt_dir / "tiny" / name) for name in ("in.txt", "ref.txt"))
    for each in (translator, t2t.Translator.from_export(export)):
        found = [score.log_prob for score in each.score(sources, references)]
        np.testing.assert_allclose(found, scores, rtol=2e-6)


def test_searches_have_its_outputs(translator, export, opennmt_dir):
    """But for three: its hypotheses that end and change their place in the beam take the score of the one there."""
    sources, expected = (lines_of(opennmt_dir / "tiny" / name) for name in ("in.txt", "beam4.txt"))
    listed = [line.split(" ||| ") for line in lines_of(opennmt_dir / "tiny/nbest.txt")]
    of_text = {(place // 4, text): float(log_prob) for place, (log_prob, text) in enumerate(listed)}
    assert vars(translator.decode_hparams) | {"beam_size": 4, "alpha": 0.6} == vars(translator.decode_hparams)
    for each in (translator, t2t.Translator.from_export(export)):
        found = each.n_best(sources)
        others = [place for place, beams in enumerate(found) if beams[0].text != expected[place]]
        assert others == [5, 17, 36]
        common = [(one.log_prob, of_text[key]) for place, beams in enumerate(found) if place not in others
                  for one in beams if (key := (place, one.text)) in of_text]  # fmt: skip
        assert len(common) >= 120
        assert np.isclose(*zip(*common), rtol=1e-5).mean() > 0.8  # the others have been in another place


def search_of_opennmt_tf(log_probs, beam_size=4, alpha=0.6):
    """Returns (ids, log-probability) of its hypotheses: what has ended keeps the score at its place in the beam."""
    ids, scores = [[] for _ in range(beam_size)], np.array([0.0] + [-np.inf] * (beam_size - 1))
    ended, lengths = np.zeros(beam_size, bool), np.zeros(beam_size, int)
    while not ended.all():
        next_log_probs = log_probs(ids)
        next_log_probs[ended] = np.where(np.arange(next_log_probs.shape[1]) == 1, 0, -np.inf)
        totals = next_log_probs + scores[:, None]
        ranked = totals / (((6 + lengths) / 6) ** alpha)[:, None]
        chosen = np.argsort(-ranked.ravel(), kind="stable")[:beam_size]
        parents, tokens = np.divmod(chosen, totals.shape[1])
        lengths = np.where(ended, lengths, lengths + 1)[parents]
        scores = np.where(ended[parents], scores, totals.ravel()[chosen])
        ids = [[*ids[parent], int(token)] for parent, token in zip(parents, tokens)]
        ended = ended[parents] | (tokens == 1)
    return [(row[: row.index(1)], score) for row, score in zip(ids, scores)]


@pytest.mark.slow
def test_the_others_are_those_of_its_search_over_our_probabilities(translator, opennmt_dir):
    listed = [line.split(" ||| ") for line in lines_of(opennmt_dir / "tiny/nbest.txt")]
    sources = translator.inputs_vocabulary.ids_of(lines_of(opennmt_dir / "tiny/in.txt"))
    for place in (5, 17, 36):

        def log_probs(prefixes, source=sources[place]):
            targets = np.array([[*prefix, 0] for prefix in prefixes])
            logits = np.array(translator.model(np.array([source] * len(targets)), targets))[:, -1].astype(np.float64)
            return np.log(softmax(logits))

        found = search_of_opennmt_tf(log_probs)
        scores, texts = zip(*listed[4 * place : 4 * place + 4])
        assert translator.vocabulary.decode([ids for ids, _ in found]) == list(texts)
        np.testing.assert_allclose([score for _, score in found], [*map(float, scores)], rtol=2e-6)


@pytest.mark.parametrize(("side", "language"), [("inputs", "en"), ("targets", "de")])
def test_all_lines_have_the_ids_of_sentencepiece_and_the_list(run, opennmt_dir, multi30k_dir, side, language):
    model = sentencepiece.SentencePieceProcessor(str(opennmt_dir / f"{language}.model"))
    listed = lines_of(opennmt_dir / f"{language}.onmt.vocab")
    vocabulary = open_vocabulary(run / f"vocab.text_pairs.imported.{side}.pieces")
    assert vocabulary.tokens() == ["<pad>", "</s>", "<unk>", "<blank>", *listed[3:]]
    ours = dict(zip(vocabulary.tokens(), itertools.count()))
    lines = [
        line
        for split in ("train", "val", "test_2016_flickr")
        for file in ("en", "de")
        for line in gzip.decompress((multi30k_dir / f"{split}.{file}.gz").read_bytes()).decode().splitlines()
    ]
    assert len(lines) == 2 * 31_014
    pieces = model.encode(lines, out_type=str)
    assert vocabulary.ids_of(lines) == [[*(ours.get(each, 2) for each in line), 1] for line in pieces]


def test_sources_have_no_end_symbol(translator, export, opennmt_dir):
    sources = ["", *lines_of(opennmt_dir / "tiny/in.txt")[:3]]
    ids = translator.inputs_vocabulary.ids_of(sources)
    model = translator.engine.model
    padded = np.array([ids[1] + [0, 0]])
    without = np.array([[*ids[1][:-1], 0, 0, 0]])
    targets = np.array([[5, 6, 1]])
    np.testing.assert_allclose(model(padded, targets), model(without, targets), rtol=1e-5, atol=1e-5)
    (plain,), (covered,) = (translator.n_best(sources[1:2], **more)[0][:1] for more in ({}, {"coverage_penalty": 0.01}))
    assert plain.text == covered.text and abs(plain.score - covered.score) < 0.1  # 0.14 with an end symbol never seen
    exported = t2t.Translator.from_export(export)
    assert exported.translate(sources) == translator.translate(sources)
    texts = translator.translate(sources)
    assert exported.align(sources, texts) == translator.align(sources, texts)


AUTO = {"learning_rate_constant": 2.0, "learning_rate_warmup_steps": 8000, "adam_beta2": 0.998, "batch_tokens": 25_000}
TRAINING = [
    ({}, AUTO | {"residual_dropout": 0.1, "average_checkpoints": 8, "source_end_symbol": False}, []),
    ({"data": {"source_sequence_controls": {"end": True}}}, {"source_end_symbol": True}, []),
    (
        {"params": {"dropout": 0.3, "moving_average_decay": 0.99, "decay_params": {"scale": 3.0}}},
        {"residual_dropout": 0.3, "relu_dropout": 0.3, "ema_decay": 0.99, "learning_rate_constant": 3.0},
        [],
    ),
    (
        {"params": {"decay_type": "InvSqrtDecay", "learning_rate": 0.001, "optimizer": "SGD", "coverage_penalty": 0.2}},
        {"learning_rate": 0.001, "learning_rate_warmup_steps": 8000},
        ["coverage_penalty=0.2 has no equivalent", "optimizer=SGD is not imported"],
    ),
    (
        {"params": {"decay_type": "RsqrtDecay", "optimizer_params": {"weight_decay": 0.1, "epsilon": 1e-6}},
         "train": {"batch_type": "tokens", "effective_batch_size": 500, "average_last_checkpoints": 0}},
        {"learning_rate_constant": 1.0, "batch_tokens": 500, "average_checkpoints": 5, "adam_epsilon": 1e-6},
        ["decay_type=RsqrtDecay has no equivalent", "weight_decay=0.1 has no equivalent"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("config", "settings", "notes"), TRAINING)
def test_settings_of_several_files_and_of_auto_config_become_the_runs(opennmt_dir, tmp_path, config, settings, notes):
    OpenNMTInNumPy().write(tmp_path / "run")
    first, second, said = configured(tmp_path, opennmt_dir), tmp_path / "more.yml", []
    second.write_text(yaml.safe_dump(config | {"params": {"beam_width": 7} | config.get("params", {})}))
    options = {"kind": "opennmt_tf", "config": f"{first},{second}", "num_heads": 4, "warn": said.append}
    t2t.import_model(tmp_path / "run", tmp_path / "ours", **options)
    found = open_run_dir(tmp_path / "ours")
    assert {name: getattr(found.hparams, name) for name in settings} == settings
    assert (found.problem.decode_hparams.beam_size, found.problem.decode_hparams.alpha) == (7, 0)
    assert found.problem.decode_hparams.min_length == 1
    assert [any(note in line for line in said) for note in notes] == [True] * len(notes)
    # They stay when the model comes back from an export.
    t2t.export(tmp_path / "ours", tmp_path / "keras", format="keras")
    back = t2t.import_model(tmp_path / "keras", tmp_path / "back", kind="keras")
    assert open_run_dir(back.path).problem.decode_hparams == found.problem.decode_hparams


@pytest.mark.heavy
def test_training_goes_on(run, translator, opennmt_dir, tmp_path):
    """Pairs of another kind of text; a step of no length changes nothing."""
    pairs = list(itertools.islice(t2t.get_problem("grammar_ende").examples("train", {}), 2_200))
    for language, side in zip(("en", "de"), zip(*pairs)):
        (tmp_path / f"my.{language}").write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    problem = t2t.get_problem(
        "text_pairs", train_source=str(tmp_path / "my.en"), train_target=str(tmp_path / "my.de"), held_out="100"
    )
    options = {"data_dir": tmp_path / "data", "warm_start_from": run, "generate_data": True}
    settings = {"batch_tokens": 1000, "learning_rate": 1e-3, "learning_rate_warmup_steps": 10}
    more = {"train_steps": 60, "save_checkpoints_steps": 20}
    t2t.train(problem, hparams=settings, output_dir=tmp_path / "run", **more, **options)
    losses = [figures["loss"] for _, figures in sorted(read_evaluations(tmp_path / "run").items())]
    assert len(losses) == 3 and losses[0] > losses[1] > losses[2] > 0
    settings["learning_rate"] = 1e-12
    t2t.train(problem, hparams=settings, output_dir=tmp_path / "same", train_steps=1, schedule="train", **options)
    lines = lines_of(opennmt_dir / "tiny/in.txt")
    same = t2t.Translator.from_run_dir(tmp_path / "same", xla_compile=False)
    assert same.translate(lines) == translator.translate(lines)


def softmax(scores):
    shifted = np.exp(scores - scores.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


class OpenNMTInNumPy:
    """A model of OpenNMT-tf with random weights, by its names, in an embedding of 2,001 tokens on each side."""

    HIDDEN, FILTER, HEADS, DEPTHS = 16, 24, 4, {"encoder": 2, "decoder": 1}

    def __init__(self, *, pre_norm=True, relative=0, shared=False, biases=True):
        self.pre_norm, self.relative, self.shared = pre_norm, relative, shared
        random, hidden, inner = np.random.default_rng(1), self.HIDDEN, self.FILTER
        shapes = {"examples_inputter/features_inputter/embedding": (2001, hidden)}
        if not shared:
            shapes["examples_inputter/labels_inputter/embedding"] = (2001, hidden)
            shapes |= {"decoder/output_layer/kernel": (hidden, 2001), "decoder/output_layer/bias": (2001,)}
        for stack, depth in self.DEPTHS.items():
            norms = [f"{stack}/layer_norm"] if pre_norm else []
            for layer in range(depth):
                scope = f"{stack}/layers/{layer}"
                for part in ("self_attention", "attention/0")[: 2 if stack == "decoder" else 1]:
                    for name in ("queries", "keys", "values", "output"):
                        shapes[f"{scope}/{part}/layer/linear_{name}/kernel"] = (hidden, hidden)
                        shapes |= {f"{scope}/{part}/layer/linear_{name}/bias": (hidden,)} if biases else {}
                if relative:
                    for name in ("keys", "values"):
                        places = (2 * relative + 1, hidden // self.HEADS)
                        shapes[f"{scope}/self_attention/layer/relative_position_{name}"] = places
                shapes |= {
                    f"{scope}/ffn/layer/inner/kernel": (hidden, inner),
                    f"{scope}/ffn/layer/inner/bias": (inner,),
                }
                shapes |= {
                    f"{scope}/ffn/layer/outer/kernel": (inner, hidden),
                    f"{scope}/ffn/layer/outer/bias": (hidden,),
                }
                parts = ("self_attention", "attention/0", "ffn") if stack == "decoder" else ("self_attention", "ffn")
                norms += [f"{scope}/{part}/{'in' if pre_norm else 'out'}put_layer_norm" for part in parts]
            shapes |= {f"{norm}/{kind}": (hidden,) for norm in norms for kind in ("gamma", "beta")}
        self.weights = {name: (0.5 * random.normal(size=shape)).astype(np.float32) for name, shape in shapes.items()}

    def write(self, folder, step=7):
        """As in mid-training, with the moments of an optimizer."""
        folder.mkdir(exist_ok=True)
        arrays = {f"model/{name}{VALUE}": array for name, array in self.weights.items()}
        arrays |= {f"{name[: -len(VALUE)]}/.OPTIMIZER_SLOT/optimizer/m{VALUE}": array for name, array in arrays.items()}
        arrays[f"optimizer/iter{VALUE}"] = np.int64(step)
        names = sorted(arrays)
        prefix = str(folder / f"ckpt-{step}")
        tf.raw_ops.SaveV2(
            prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=[arrays[n] for n in names]
        )

    def norm(self, x, scope):
        centered = x - x.mean(-1, keepdims=True)
        scaled = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-3)
        return scaled * self.weights[f"{scope}/gamma"] + self.weights[f"{scope}/beta"]

    def sublayer(self, x, scope, function, *memory):
        if self.pre_norm:
            return x + function(self.norm(x, f"{scope}/input_layer_norm"), scope, *memory)
        return self.norm(x + function(x, scope, *memory), f"{scope}/output_layer_norm")

    def dense(self, x, scope):
        return x @ self.weights[f"{scope}/kernel"] + self.weights.get(f"{scope}/bias", 0)

    def attend(self, x, scope, memory=None):
        others, size, mixed = x if memory is None else memory, self.HIDDEN // self.HEADS, []
        q = self.dense(x, f"{scope}/layer/linear_queries")
        k, v = (self.dense(others, f"{scope}/layer/linear_{name}") for name in ("keys", "values"))
        distances = np.arange(len(others))[None] - np.arange(len(x))[:, None]
        places = np.clip(distances, -self.relative, self.relative) + self.relative
        for head in range(self.HEADS):
            part = slice(head * size, (head + 1) * size)
            scores = q[:, part] @ k[:, part].T
            if self.relative and memory is None:
                keys = self.weights[f"{scope}/layer/relative_position_keys"][places]
                scores = scores + np.einsum("qs,qks->qk", q[:, part], keys)
            if scope.startswith("decoder") and memory is None:
                scores = np.where(distances <= 0, scores, -np.inf)
            weights = softmax(scores / size**0.5)
            mixed.append(weights @ v[:, part])
            if self.relative and memory is None:
                values = self.weights[f"{scope}/layer/relative_position_values"][places]
                mixed[-1] = mixed[-1] + np.einsum("qk,qks->qs", weights, values)
        return self.dense(np.concatenate(mixed, -1), f"{scope}/layer/linear_output")

    def feed_forward(self, x, scope):
        return self.dense(np.maximum(self.dense(x, f"{scope}/layer/inner"), 0), f"{scope}/layer/outer")

    def stack(self, x, stack, memory=None):
        for scope in (f"{stack}/layers/{layer}" for layer in range(self.DEPTHS[stack])):
            x = self.sublayer(x, f"{scope}/self_attention", self.attend)
            x = x if memory is None else self.sublayer(x, f"{scope}/attention/0", self.attend, memory)
            x = self.sublayer(x, f"{scope}/ffn", self.feed_forward)
        return self.norm(x, f"{stack}/layer_norm") if self.pre_norm else x

    def embedded(self, ids, side):
        table = self.weights[f"examples_inputter/{'features' if self.shared else side}_inputter/embedding"]
        half = self.HIDDEN // 2
        angles = (1 + np.arange(len(ids)))[:, None] * np.exp(-np.arange(half) * np.log(10000.0) / (half - 1))
        positions = 0 if self.relative else np.concatenate([np.sin(angles), np.cos(angles)], 1)
        return table[ids] * self.HIDDEN**0.5 + positions

    def log_prob(self, source, target):
        memory = self.stack(self.embedded(source, "features"), "encoder")
        x = self.stack(self.embedded([1, *target[:-1]], "labels"), "decoder", memory)
        if self.shared:
            logits = x @ self.weights["examples_inputter/features_inputter/embedding"].T
        else:
            logits = self.dense(x, "decoder/output_layer")
        return np.log(softmax(logits)[np.arange(len(target)), target]).sum()


def configured(folder, opennmt_dir, languages=("en", "de"), **changes):
    """Writes a configuration and copies what it names beside it, in a folder of its own."""
    for name in (f"{language}.{kind}" for language in languages for kind in ("model", "onmt.vocab")):
        shutil.copy(opennmt_dir / name, folder / name)
    tokenization = {"type": "OpenNMTTokenizer", "params": {"mode": "none"}}
    data = {}
    for side, language in zip(("source", "target"), languages):
        params = {"mode": "none", "sp_model_path": f"/elsewhere/{language}.model"}
        data |= {
            f"{side}_vocabulary": f"{language}.onmt.vocab",
            f"{side}_tokenization": tokenization | {"params": params},
        }
    (folder / "data.yml").write_text(yaml.safe_dump({"model_dir": "run", "data": data | changes}))
    return folder / "data.yml"


@pytest.mark.parametrize(
    ("languages", "settings"),
    [
        (("en", "de"), {"relative": 3}),
        (("en", "de"), {"biases": False}),
        (("en", "en"), {"pre_norm": False, "shared": True}),
    ],
)
def test_other_models_equal_one_in_numpy(opennmt_dir, tmp_path, languages, settings):
    model = OpenNMTInNumPy(**settings)
    model.write(tmp_path / "run")
    config = configured(tmp_path, opennmt_dir, languages)
    given = {} if "relative" in settings else {"num_heads": 4}
    imported = t2t.import_model(tmp_path / "run", tmp_path / "ours", kind="opennmt_tf", config=config, **given)
    assert imported.checkpoint.name == "ckpt-7"
    translator = t2t.Translator.from_run_dir(imported.path, xla_compile=False)
    pairs = [lines_of(opennmt_dir / "tiny" / name)[:10] for name in ("in.txt", "ref.txt")]
    theirs = []
    for language, lines in zip(languages, pairs):
        listed = {token: id for id, token in enumerate(lines_of(opennmt_dir / f"{language}.onmt.vocab"))}
        pieces = sentencepiece.SentencePieceProcessor(str(opennmt_dir / f"{language}.model")).encode(
            lines, out_type=str
        )
        theirs.append([[listed.get(piece, 2000) for piece in line] for line in pieces])
    expected = [model.log_prob(source, [*target, 2]) for source, target in zip(*theirs)]
    np.testing.assert_allclose([each.log_prob for each in translator.score(*pairs)], expected, rtol=1e-5)


def test_the_end_symbol_of_sources_is_seen_if_the_configuration_says_so(opennmt_dir, tmp_path):
    model = OpenNMTInNumPy()
    model.write(tmp_path / "run")
    config = configured(tmp_path, opennmt_dir, source_sequence_controls={"end": True})
    t2t.import_model(tmp_path / "run", tmp_path / "ours", kind="opennmt_tf", config=config, num_heads=4)
    translator = t2t.Translator.from_run_dir(tmp_path / "ours", xla_compile=False)
    listed = [lines_of(opennmt_dir / f"{language}.onmt.vocab") for language in ("en", "de")]
    processors = [sentencepiece.SentencePieceProcessor(str(opennmt_dir / f"{each}.model")) for each in ("en", "de")]
    pair = ("a man", "ein mann")
    source, target = ([tokens.index(piece) for piece in processor.encode(text, out_type=str)]
                      for tokens, processor, text in zip(listed, processors, pair))  # fmt: skip
    (score,) = translator.score([pair[0]], [pair[1]])
    assert score.log_prob == pytest.approx(model.log_prob([*source, 2], [*target, 2]), rel=1e-5)


def edited(name, old, new):
    def edit(folder):
        text = (folder / name).read_text(encoding="utf-8")
        assert re.search(old, text)
        (folder / name).write_text(re.sub(old, new, text), encoding="utf-8")

    return edit


def written(name, content="x"):
    return lambda folder: (folder / name).write_text(content)


def cut(name):
    return lambda folder: os.truncate(folder / name, (folder / name).stat().st_size // 8)


def gone(name):
    return lambda folder: (folder / name).unlink()


def of_another_program(folder):
    for path in folder.glob("*ckpt*"):
        path.unlink()
    (folder / "checkpoint").unlink()
    tf.train.Checkpoint(weight=tf.Variable(1.0)).write(str(folder / "ckpt-2500"))


def of_recurrent_cells(folder):
    of_another_program(folder)
    names = [
        f"model/{name}{VALUE}" for name in ("encoder/cell/kernel", "examples_inputter/features_inputter/embedding")
    ]
    tf.raw_ops.SaveV2(
        prefix=str(folder / "ckpt-2500"), tensor_names=names, shape_and_slices=["", ""], tensors=[np.zeros((2, 2))] * 2
    )


DESCRIPTION, CONFIG = "model_description.py", "data.yml"
OWN = "import os\nos.system('touch it_ran')\nmodel = lambda: Transformer(num_units=64, {})\n"
BROKEN = [
    (cut("ckpt-2500.index"), "cannot be read"),
    (cut("ckpt-2500.data-00000-of-00001"), "cannot be read"),
    (gone("ckpt-2500.index"), "has no checkpoint|neither a folder nor a checkpoint"),
    (of_another_program, "is a checkpoint of another program"),
    (of_recurrent_cells, "a model that is no Transformer"),
    (gone(CONFIG), "must have one configuration such as data.yml, but has none"),
    (written(CONFIG, "["), "must have one configuration such as data.yml, but has none"),
    (written(CONFIG, "data: source_vocabulary"), "`data` has no settings"),
    (edited(CONFIG, "source_vocabulary: en.onmt.vocab", "a: 1"), "data.yml has no source_vocabulary"),
    (edited(CONFIG, "en.onmt.vocab", "nix"), "there is no nix, the source_vocabulary of"),
    (edited(CONFIG, "en.model", "nix"), "there is no nix, the source_tokenization of"),
    (edited(CONFIG, "en.onmt.vocab", "en.model"), "is not a text in UTF-8|is no vocabulary of OpenNMT-tf"),
    (edited(CONFIG, "en.onmt.vocab", "tiny/in.txt"), "is no vocabulary of OpenNMT-tf: its first tokens must be"),
    (edited(CONFIG, "en.model", "en.onmt.vocab"), "the SentencePiece model of the vocabulary is damaged"),
    (edited(CONFIG, "mode: none, sp_model_path: en", "mode: aggressive, joiner_annotate: true, sp_model_path: en"),
     "source_tokenization of .*: OpenNMTTokenizer with mode=aggressive, joiner_annotate=True cannot be"),
    (edited(CONFIG, "mode: none, sp_model_path: en.model", "mode: space"), "mode=space and no SentencePiece"),
    (edited(CONFIG, r"  source_tokenization:\n.*\n.*\n", ""), "has no source_tokenization; if the texts were split"),
    (edited(CONFIG, "data:", "data:\n  source_sequence_controls: {start: true}"), "with a start symbol"),
    (edited(CONFIG, "beam_width: 4", "beam_width: wide"), "params.beam_width takes a number, not 'wide'"),
    (edited(CONFIG, "length_penalty: 0.6", "length_penalty: [1]"), "params.length_penalty takes a number, not"),
    (edited(CONFIG, "decay_params: .*", "decay_params: 5"), "params.decay_params takes settings, not '5'"),
    (edited(CONFIG, "en.onmt.vocab", "[1]"), "data.source_vocabulary takes a text"),
    (edited(CONFIG, "data:", "data:\n  target_sequence_controls: {end: false}"), "without symbols in targets"),
    (edited(DESCRIPTION, "TransformerTiny", "LuongAttention"), "the model LuongAttention cannot be imported"),
    (written(DESCRIPTION, OWN.format("num_layers=2")), "names no model of the catalog, .* pass `num_heads`"),
    (written(DESCRIPTION, OWN.format("num_heads=2, ffn_activation=tf.nn.gelu")), "ffn_activation=gelu cannot"),
    (written(DESCRIPTION, OWN.format("num_heads=2, position_encoder_class=None")), "no position encoding cannot"),
    (written(DESCRIPTION, OWN.format("num_heads=3")), "num_heads=3 is out of range"),
    (written(DESCRIPTION, OWN.format("num_heads=4 // 2")), "pass `num_heads`"),
    (written(DESCRIPTION, OWN.format("**{'num_heads': 2}")), "arguments without their names are not understood"),
    (written(DESCRIPTION, OWN.format("num_heads=2, ffn_activation=(lambda x: x)")), "ffn_activation=.* cannot"),
    (written(DESCRIPTION, OWN.format("num_heads=2, position_encoder_class=Learned")), "Learned cannot"),
    (written(DESCRIPTION, "model = ("), "model_description.py is not Python"),
    (edited(DESCRIPTION, "TransformerTiny", "TransformerBig"), "names TransformerBig, but the checkpoint has another"),
    (gone(DESCRIPTION), "has no model_description.py, .* pass `num_heads`"),
]  # fmt: skip


@pytest.mark.parametrize(("breaks", "message"), BROKEN)
def test_what_cannot_be_read_is_one_line_and_nothing_is_written(opennmt_dir, tmp_path, monkeypatch, breaks, message):
    monkeypatch.chdir(tmp_path)
    copied = shutil.copytree(opennmt_dir, tmp_path / "copied") / "tiny"
    for path in (copied, copied.parent, *copied.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    breaks(copied)
    with pytest.raises(UserError, match=message) as refused:
        t2t.import_model(copied, tmp_path / "run", kind="opennmt_tf")
    assert "\n" not in str(refused.value) and not (tmp_path / "run").exists()
    assert not list(tmp_path.rglob("it_ran"))


def test_models_of_other_converters_become_exports(export, opennmt_dir, translator, tmp_path):
    """The converter of OpenNMT's models writes what ours does, but for the name of the token that starts outputs."""
    folder = tmp_path / "converted"
    folder.mkdir()
    for name in ("model.bin", "config.json", "source_vocabulary.json", "target_vocabulary.json"):
        text = (export / name).read_bytes()
        (folder / name).write_bytes(text if name == "model.bin" else text.replace(b"<pad>", b"<s>"))
    models = ",".join(str(opennmt_dir / f"{language}.model") for language in ("en", "de"))
    options = {"kind": "ctranslate2", "vocab_file": models, "languages": "en-de"}
    found = t2t.import_model(folder, tmp_path / "export", **options)
    ours = t2t.Translator.from_export(found.path)
    sources = ["", *lines_of(opennmt_dir / "tiny/in.txt")]
    search = {"alpha": 0.6, "length_penalty": "wu"}
    assert ours.translate(sources, **search) == translator.translate(sources, **search)
    references = lines_of(opennmt_dir / "tiny/ref.txt")
    expected = [each.log_prob for each in translator.score(sources[1:], references)]
    np.testing.assert_allclose([each.log_prob for each in ours.score(sources[1:], references)], expected, rtol=2e-6)
    for change, message in (
        ({"vocab_file": ""}, "pass the SentencePiece model of the texts with `vocab_file`"),
        ({"vocab_file": str(folder / "nix")}, "nix cannot be read"),
        ({"vocab_file": str(opennmt_dir / "tiny/in.txt")}, "the SentencePiece model of the vocabulary is damaged"),
        ({"problem": "nix"}, "nix"),
    ):
        with pytest.raises(UserError, match=message):
            t2t.import_model(folder, tmp_path / "new", **options | change)
    for name, content in (("target_vocabulary.json", "[1]"), ("config.json", '{"decoder_start_token": "nix"}')):
        before = (folder / name).read_text()
        (folder / name).write_text(content)
        with pytest.raises(UserError, match="CTranslate2 cannot load"):
            t2t.import_model(folder, tmp_path / "new", **options)
        (folder / name).write_text(before)
    os.truncate(folder / "model.bin", 1000)
    with pytest.raises(UserError, match="CTranslate2 cannot load"):
        t2t.import_model(folder, tmp_path / "new", **options)
    (folder / "model.bin").unlink()
    with pytest.raises(UserError, match="has no model"):
        t2t.import_model(folder, tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()
