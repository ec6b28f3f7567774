"""Which checkpoints are the best, when a run stops early, and which checkpoint a choice means: no weights are read."""

import json

import pytest

from t2t_lite.data.problem import get_problem
from t2t_lite.errors import UserError
from t2t_lite.metric import check_metric, metrics_of_outputs
from t2t_lite.runs.evaluations import add_evaluation, best_steps, evaluations_without_gain, read_evaluations
from t2t_lite.runs.selection import members, select

FIGURES = {100: {"loss": 3.0, "bleu": 10.0, "chrf": 40.0}, 200: {"loss": 2.0, "bleu": 12.0, "chrf": 50.0}}
FIGURES |= {300: {"loss": 2.5, "bleu": 15.0}, 400: {"loss": 2.1, "bleu": 11.0, "chrf": 45.0}}


@pytest.fixture
def run(tmp_path):
    """A run with checkpoints 100 to 400 and an average; a function that changes its files."""
    directory = tmp_path / "run"
    directory.mkdir()
    (directory / "hparams.json").write_text("{}")
    for name in [*(f"ckpt-{step}" for step in FIGURES), "average-400"]:
        (directory / f"{name}.index").touch()

    def write(evaluations=None, **about):
        (directory / "run.json").write_text(json.dumps({"problem": "x"} | about))
        if evaluations is not None:
            (directory / "evaluations.json").write_text(json.dumps(evaluations))
        return directory

    write(FIGURES)
    return directory, write


NONE = "`checkpoint_path=ckpt-500`: no such checkpoint; choose one of .*\\(ckpt-100, .*average-400\\), or best"


@pytest.mark.parametrize(
    ("asked", "name", "reason"),
    [
        *((asked, "average-400", "") for asked in (None, "average", "average-400")),
        *((asked, "ckpt-200", "") for asked in ("ckpt-200", "ckpt-200.index")),
        ("last", "ckpt-400", ""),
        ("best", "ckpt-300", "best by bleu"),
        ("best:loss", "ckpt-200", "best by loss"),
        ("best:chrf", "ckpt-200", "best by chrf"),
        ("best:perplexity", None, "no evaluation in .* has this metric; choose one of loss, bleu, chrf"),
        ("best:chrff", None, "did you mean 'chrf'"),
        ("ckpt-500", None, NONE),
        ("no/such", None, "there is no no/such.index"),
    ],
)
def test_a_choice_means_a_checkpoint(run, asked, name, reason):
    directory, _ = run
    if name is None:
        with pytest.raises(UserError, match=reason) as caught:
            select(directory, asked)
        assert "\n" not in str(caught.value)
    else:
        assert select(directory, asked, warn=pytest.fail) == (directory / name, reason)
        assert select(directory, directory / name).path == directory / name


@pytest.mark.parametrize(("metric", "step"), [("loss", 200), ("chrf", 200), ("bleu", 300)])
def test_the_runs_own_metric_ranks_if_it_is_recorded(run, metric, step):
    directory, write = run
    write(eval_metric=metric)
    assert str(select(directory, "best")) == f"{directory}/ckpt-{step} (best by {metric})"


def test_the_best_of_a_moving_average_and_the_best_that_exists_are_used_with_a_warning(run):
    directory, _ = run
    said = []
    (directory / "hparams.json").write_text('{"ema_decay": 0.99}')
    assert select(directory, "best", said.append).reason == "best by bleu" and "moving average" in said[0]
    (directory / "hparams.json").write_text("{}")
    (directory / "ckpt-300.index").unlink()
    said.clear()
    assert select(directory, "best", said.append).path.name == "ckpt-200"
    assert len(said) == 1 and "ckpt-300, was removed" in said[0] and "ckpt-200" in said[0]
    for step in (100, 200, 400):
        (directory / f"ckpt-{step}.index").rename(directory / f"ckpt-{step + 1}.index")
    removed = r"all evaluated checkpoints were removed; the best by bleu was ckpt-300.*ckpt-101"
    for refused in (removed, r"no checkpoint in .* was evaluated"):
        with pytest.raises(UserError, match=refused):
            select(directory, "best")
        (directory / "evaluations.json").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        ({"n": 2}, [300, 400]),
        ({"n": 2, "checkpoint_path": "best"}, [200, 300]),
        ({"n": 1, "checkpoint_path": "ckpt-100"}, [100]),
        ({"steps": "150-300"}, [200, 300]),
        ({"steps": "-200"}, [100, 200]),
        ({"steps": "350-"}, [400]),
        ({"best": 2}, [200, 300]),
        ({"best": "1:loss"}, [200]),
        ({"n": 5}, r"4 checkpoints \(steps: 100, 200, 300, 400\), not 5; use `n=4`"),
        ({"n": 3, "checkpoint_path": "ckpt-200"}, "use `n=2`"),
        ({"n": 1, "checkpoint_path": "average"}, "average-400 is not a checkpoint to average"),
        ({"steps": "500-"}, "no checkpoint in this range; its steps are 100, 200, 300, 400"),
        ({"steps": "x"}, "not a range of steps"),
        ({"best": "0"}, "neither a number"),
        ({"best": "4:chrf"}, r"3 checkpoints that were evaluated by chrf \(steps: 100, 200, 400\), not 4"),
        ({"n": 1, "best": 1}, "pass one of"),
        ({"best": 1, "checkpoint_path": "last"}, "pass `n`, too"),
    ],
)
def test_the_members_of_an_average_or_why_there_are_none(run, which, expected):
    directory, _ = run
    if isinstance(expected, list):
        assert members(directory, **which) == [(step, directory / f"ckpt-{step}") for step in expected]
    else:
        with pytest.raises(UserError, match=expected):
            members(directory, **which)


RECORDED = {100: {"loss": 3.0, "bleu": 10.0}, 200: {"loss": 2.0, "bleu": 12.0}, 300: {"loss": 2.5, "bleu": 15.0}}
RECORDED[400] = {"loss": 2.0}


def test_added_evaluations_are_read_back_in_order_of_steps(tmp_path):
    for step in (300, 100, 400, 200):
        add_evaluation(tmp_path, step, RECORDED[step])
    assert list(read_evaluations(tmp_path).items()) == list(RECORDED.items())
    add_evaluation(tmp_path, 100, {"loss": 1.0})
    assert read_evaluations(tmp_path)[100] == {"loss": 1.0}
    assert [path.name for path in tmp_path.iterdir()] == ["evaluations.json"]


@pytest.mark.parametrize("text", ["{", "[1]", '{"x": {}}', '{"1": 2}'])
def test_a_damaged_evaluations_file_is_an_error_that_names_it(tmp_path, text):
    (tmp_path / "evaluations.json").write_text(text)
    with pytest.raises(UserError, match=r"evaluations\.json is damaged"):
        read_evaluations(tmp_path)


OTHERS = {1: {"ter": 80.0, "chrf": 30.0, "f1": 9.0}, 2: {"ter": 60.0, "chrf": 40.0, "f1": 7.0}, 3: {"ter": 70.0}}


@pytest.mark.parametrize(
    ("figures", "metric", "ranked", "without_gain"),
    [
        (RECORDED, "loss", [200, 400, 300, 100], 2),  # ties prefer the earlier step
        (RECORDED, "bleu", [300, 200, 100], 0),  # step 400 has none
        ({100: {"loss": 3.0}}, "loss", [100], 0),
        (OTHERS, "ter", [2, 3, 1], 1),  # lower is better
        (OTHERS, "chrf", [2, 1], 0),
        *((OTHERS, name, [1, 2], 1) for name in ("parseval", "f1")),  # recorded as f1
    ],
)
def test_steps_are_ranked_by_a_metric_and_evaluations_since_the_best_are_counted(figures, metric, ranked, without_gain):
    for number in (1, 2, 9):
        assert best_steps(figures, metric, number) == ranked[:number]
    assert evaluations_without_gain(figures, metric) == without_gain


def test_an_evaluation_that_decodes_computes_the_problems_metric_and_the_selecting_one():
    translation, parsing = get_problem("grammar_ende"), get_problem("wsj_parsing")
    assert metrics_of_outputs(translation, "loss") == metrics_of_outputs(translation, "bleu") == ["bleu"]
    assert metrics_of_outputs(translation, "ter", "chrf") == ["bleu", "ter", "chrf"]
    assert metrics_of_outputs(parsing, "f1") == ["parseval"]


@pytest.mark.parametrize("problem, name", [("grammar_ende", "f1"), ("wsj_parsing", "chrf")])
def test_a_metric_that_cannot_score_a_problems_outputs_is_refused(problem, name):
    with pytest.raises(UserError, match=f"`eval_metric={name}`: '{problem}' is scored by"):
        check_metric(name, get_problem(problem))
    check_metric("accuracy", get_problem(problem))
