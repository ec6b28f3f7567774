"""What a plug-in's author may get wrong: one line says what and where."""

import dataclasses

import keras
import numpy as np
import pytest

import t2t_lite as t2t
from t2t_lite.config import HParams
from t2t_lite.data.problem import Example, Problem
from t2t_lite.errors import UserError
from t2t_lite.layers.positions import LearnedPositions
from t2t_lite.layers.self_attention import SelfAttention
from t2t_lite.metric import Metric, metric_named
from t2t_lite.models.building import make_model
from t2t_lite.models.transformer import Transformer
from t2t_lite.options import Settings, option
from t2t_lite.registry import (
    FEED_FORWARD_TYPES,
    LEARNING_RATE_SCHEDULES,
    METRICS,
    MODELS,
    NORM_TYPES,
    OPTIMIZERS,
    POSITION_ENCODINGS,
    SELF_ATTENTION_TYPES,
    Registry,
)
from t2t_lite.run_training import check_evaluation
from t2t_lite.runs.evaluations import best_steps, evaluations_without_gain
from t2t_lite.schedules import learning_rate
from t2t_lite.training.optimizers import make_optimizer
from t2t_lite.training.options import TrainOptions

TINY = {"num_encoder_layers": 1, "num_decoder_layers": 1, "hidden_size": 8, "filter_size": 8, "num_heads": 2}


class Without(keras.layers.Layer):
    """A layer without the methods of a self-attention."""

    def call(self, x, seeds=None):
        return x


class WithoutSeeds(keras.layers.Layer):
    def call(self, x):
        return x


@pytest.mark.parametrize(
    ("registry", "setting", "entry", "message"),
    [
        (SELF_ATTENTION_TYPES, "self_attention_type", lambda *a, **k: None, "must return a Keras layer, not NoneType"),
        (SELF_ATTENTION_TYPES, "self_attention_type", lambda *a, **k: Without(**k), "no method start_cache"),
        (FEED_FORWARD_TYPES, "feed_forward_type", lambda *a, **k: WithoutSeeds(**k), "must take `seeds`"),
        (FEED_FORWARD_TYPES, "feed_forward_type", lambda *a, **k: Without(), "must pass name and dtype"),
        (NORM_TYPES, "norm_type", lambda **k: None, "must return a Keras layer"),
        (POSITION_ENCODINGS, "position_encoding", lambda h, **k: LearnedPositions(4, 8, **k), "with is_limited=True"),
        (MODELS, "model", lambda *a: keras.Sequential(), "returns Sequential, which is not derived from Seq2SeqModel"),
    ],
)
def test_what_an_entry_makes_is_checked(registered, registry, setting, entry, message):
    registered(registry, "wrong", entry)
    with pytest.raises(UserError, match=message):
        make_model(HParams(**TINY, **{setting: "wrong"}), 11)


def test_facts_are_checked(registered):
    registry = Registry("metric", "eval_metric", facts=("higher_is_better", "requires"))
    with pytest.raises(UserError, match="metric 'm': unknown fact 'higher_is_beter'; did you mean 'higher_is_better'"):
        registry.register(Metric, name="m", higher_is_beter=False)
    with pytest.raises(UserError, match="takes a tuple"):
        registry.register(Metric, name="m", requires={"norm_type": "rms"})
    with pytest.raises(UserError, match=r"'m\.Length' is not of the form module:attribute"):
        registry.register_lazily("m", "m.Length", "")
    registered(FEED_FORWARD_TYPES, "wrong", lambda *a, **k: None, requires={"self_attention": ("full",)})
    with pytest.raises(UserError, match="feed-forward type 'wrong' requires 'self_attention', which is not a setting"):
        HParams(feed_forward_type="wrong")


class Undecorated(HParams):
    size: int = 3


def frozen(name, *bases, kind=int):
    return dataclasses.make_dataclass(name, [("size", kind, 3)], bases=bases, frozen=True)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Undecorated, r"Undecorated needs the decorator @dataclasses.dataclass\(frozen=True\)"),
        (frozen("Plain"), "Plain is not derived from HParams"),
        (frozen("OnlySettings", Settings), "OnlySettings is not derived from HParams"),
        (frozen("Optional", HParams, kind=int | None), "setting size of Optional must be an int, float, str or bool"),
    ],
)
def test_a_class_of_settings_is_checked(registered, kind, message):
    registered(MODELS, "wrong", Transformer, hparams_class=kind)
    with pytest.raises(UserError, match=f"model 'wrong': {message}"):
        HParams().override("model=wrong,size=4")


@dataclasses.dataclass(frozen=True)
class OneHParams(HParams):
    RENAMED = {**HParams.RENAMED, "old_size": "size"}
    size: int = option(8, "numbers")


@dataclasses.dataclass(frozen=True)
class OtherHParams(HParams):
    size: float = 0.5


@dataclasses.dataclass(frozen=True)
class WindowHParams(HParams):
    RENAMED = {**HParams.RENAMED, "old_window": "window"}
    window: int = option(4, "positions", at_least=1)


@dataclasses.dataclass(frozen=True)
class StepHParams(HParams):
    step_size: float = option(0.5, "of the optimizer", above=0)

    def __post_init__(self):
        super().__post_init__()
        self.require("step_size", self.step_size < self.num_heads, f"below num_heads={self.num_heads}")


@pytest.fixture
def parts(registered):
    registered(MODELS, "one", Transformer, hparams_class=OneHParams)
    registered(MODELS, "other", Transformer, hparams_class=OtherHParams)
    registered(SELF_ATTENTION_TYPES, "near", lambda *a, **k: None, hparams_class=WindowHParams)
    registered(OPTIMIZERS, "slow", lambda hparams: None, hparams_class=StepHParams)
    registered(POSITION_ENCODINGS, "sized", lambda *a, **k: None, hparams_class=OtherHParams)


def test_settings_of_the_same_name_belong_to_their_models(parts):
    one = HParams().override("model=one,size=16,hidden_size=64")
    assert (one.size, one.replace(model="other").size) == (16, 0.5)
    assert one.replace(model="other").hidden_size == 64
    assert one.replace(model="other", size=0.25).replace(model="one").size == 8
    assert OneHParams.option("size").help == "numbers"
    assert HParams.from_json('{"model": "one", "old_size": 5}', "here").size == 5
    assert HParams().override("model=one,old_size=3").size == 3


def test_parts_have_settings_of_their_own(parts):
    near = HParams().override("self_attention_type=near,window=2")
    assert type(near) is WindowHParams and near.window == 2
    all_three = near.override("optimizer=slow,model=one,step_size=0.25,size=16")
    assert (all_three.window, all_three.step_size, all_three.size) == (2, 0.25, 16)
    assert HParams.from_json(all_three.to_json(), "here") == all_three
    stored = '{"self_attention_type": "near", "optimizer": "slow", "old_window": 9}'
    assert HParams.from_json(stored, "here").window == 9
    assert all_three.replace(optimizer="adam", model="transformer") == near
    assert all_three.override("self_attention_type=full,model=transformer,optimizer=adam") == HParams()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("model=one,old_size=3,size=4", "size is given twice"),
        ("self_attention_type=near,window=0", "window=0 is out of range: it must be at least 1"),
        ("optimizer=slow,step_size=7,num_heads=4", "step_size=7.* below num_heads=4"),
        ("window=3", "unknown name 'window'; the self-attention type near has this setting: add self_"),
        ("model=one,position_encoding=sized", "encoding 'sized' both have a setting size; rename one of them"),
    ],
)
def test_wrong_settings_of_parts_are_errors(parts, changes, message):
    with pytest.raises(UserError, match=message):
        HParams().override(changes)


class Shifted(SelfAttention):
    """Attends less to positions that are further away (Press et al. 2021), with `scores` alone."""

    def scores(self, queries, keys, query_positions, key_positions):
        distances = keras.ops.cast(key_positions[None, :] - query_positions[:, None], "float32")
        return super().scores(queries, keys, query_positions, key_positions) - keras.ops.abs(distances)


def test_a_subclass_may_change_the_scores_alone(registered):
    def shifted(hparams, causal, index, **options):
        return Shifted(hparams.hidden_size, hparams.num_heads, causal, **options)

    registered(SELF_ATTENTION_TYPES, "shifted", shifted)
    ids = np.array([[3, 4, 5, 6, 1]], "int32")
    plain, other = (make_model(HParams(**TINY, self_attention_type=name), 11, 11, 1) for name in ("full", "shifted"))
    other.set_weights(plain.get_weights())
    assert np.abs(np.array(plain(ids, ids)) - np.array(other(ids, ids))).max() > 1e-3
    weights = np.array(other.attention(ids, ids, "encoder", 0))
    layer, x = other.encoder_layers[0].self_attention, other.position_encodings["inputs"](other.embedding(ids))
    _, values = layer.keys_values(x)
    np.testing.assert_allclose(
        layer(x, ids[:, None, None] != 0), layer.combine_heads(weights @ np.array(values)), atol=1e-5
    )


def test_an_optimizer_that_would_ignore_something_is_refused(registered):
    rate = keras.optimizers.schedules.CosineDecay(0.1, 9)
    registered(OPTIMIZERS, "decays", lambda hparams: keras.optimizers.RMSprop())
    registered(OPTIMIZERS, "scheduled", lambda hparams: keras.optimizers.SGD(rate, weight_decay=0.1))
    for name, said in (("decays", "ignores weight_decay; pass it weight_"), ("scheduled", "has its own sched")):
        with pytest.raises(UserError, match=f"the optimizer '{name}' {said}"):
            make_optimizer([keras.Variable(np.ones((2, 2)))], HParams(optimizer=name, weight_decay=0.1))


def test_a_score_that_is_not_a_number_is_never_the_best():
    evaluations = {1: {"bleu": float("nan")}, 2: {"bleu": 5.0}, 3: {"bleu": 3.0}, 4: {"bleu": float("nan")}}
    assert best_steps(evaluations, "bleu", 3) == [2, 3]
    assert evaluations_without_gain(evaluations, "bleu") == 2


class Texts(Problem):
    """Texts without inputs, but for one."""

    has_inputs = False
    vocab_kind = "characters"

    def examples(self, split, files):
        yield from (Example("", f"text {number}") for number in range(20))
        yield Example("something", "else")


def test_a_problem_without_inputs_has_none_and_no_outputs_to_score(tmp_path):
    with pytest.raises(UserError, match=r"'texts' has no inputs \(has_inputs=False\), but pair 21 is Example"):
        t2t.generate_data(Texts(), tmp_path)
    with pytest.raises(UserError, match="`eval_decode`: 'texts' has no inputs, so there are no outputs to score"):
        check_evaluation(Texts(), TrainOptions(eval_decode=True))


class NoScore(Metric):
    def score(self, hypotheses, references):
        pass


def test_a_metric_that_does_not_score_is_a_one_line_error(command, registered, tmp_path):
    registered(METRICS, "none", NoScore)
    registered(METRICS, "function", lambda hypotheses, references: 1.0)
    (tmp_path / "texts").write_text("a\n")
    files = (f"--hypothesis={tmp_path / 'texts'}", f"--reference={tmp_path / 'texts'}")
    for name, said in (
        ("none", "metric 'none': the score is None, not a number; return a number from score()"),
        ("function", "metric 'function' is not a class derived from Metric"),
    ):
        result = command("score", f"--metric={name}", *files)
        assert (result.returncode, result.stderr) == (1, f"t2t-lite-score: error: {said}\n")
    registered(METRICS, "smooth_bleu", Metric, figure="bleu")
    with pytest.raises(UserError, match="the metrics 'bleu' and 'smooth_bleu' are both called 'bleu'"):
        metric_named("chrf", "eval_metric")


def test_a_schedule_without_a_rate_is_an_error(registered):
    registered(LEARNING_RATE_SCHEDULES, "wrong", lambda step, hparams: None)
    with pytest.raises(UserError, match="the learning rate schedule 'wrong' returns no number"):
        learning_rate(1, HParams(learning_rate_schedule="wrong"))
