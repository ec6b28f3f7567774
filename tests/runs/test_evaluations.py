"""The best checkpoints, and early stopping, on literal figures."""

import pytest

from t2t_lite.data.problem import get_problem
from t2t_lite.errors import UserError
from t2t_lite.metric import check_metric, metrics_of_outputs
from t2t_lite.runs.evaluations import add_evaluation, best_steps, evaluations_without_gain, read_evaluations

FIGURES = {100: {"loss": 3.0, "bleu": 10.0}, 200: {"loss": 2.0, "bleu": 12.0}, 300: {"loss": 2.5, "bleu": 15.0}}
FIGURES[400] = {"loss": 2.0}


def test_added_evaluations_are_read_back_in_order_of_steps(tmp_path):
    for step in (300, 100, 400, 200):
        add_evaluation(tmp_path, step, FIGURES[step])
    assert list(read_evaluations(tmp_path).items()) == list(FIGURES.items())
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
        (FIGURES, "loss", [200, 400, 300, 100], 2),  # ties prefer the earlier step
        (FIGURES, "bleu", [300, 200, 100], 0),  # step 400 has none
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
