"""The paper's tables from results: its figures, ours in their places, observations."""

import csv
import shutil

import pytest

from t2t_lite.errors import UserError
from t2t_lite.reproduce.paper import PAPER_FIGURES
from t2t_lite.reproduce.runs import SCALES, Run, planned_runs
from t2t_lite.reproduce.table_1 import FILE, LAYERS, table_1
from t2t_lite.reproduce.tables import Result, read_results, row_and_column, table_2, table_3, table_4

SMALL = SCALES["small"]


def results(table, folder, seeds, figures, scale=SMALL):
    """A result for every run of a table; figures: a function of (run) that returns them."""
    runs = planned_runs(table, scale, [], seeds, folder, {}, {})
    return [Result(run, figures(run)) for run in runs]


def trainings(found):
    return {row_and_column(result.run): {"parameters": 2.15, "flops": 6.5e13} for result in found}


def rows_of(grid, key):
    return {row[key]: row for row in csv.DictReader(grid.csv().splitlines())}


def papers_own(run: Run):
    figures = PAPER_FIGURES[run.row]
    return {"bleu": figures.bleu + 0.01 * run.seed, "perplexity": figures.perplexity}


def test_table_3_has_all_rows_the_base_first_and_big_last(tmp_path):
    found = results(3, tmp_path, 2, papers_own)
    grid = table_3(found, SMALL, trainings(found))
    rows = rows_of(grid, "set")
    assert len(rows) == 20 and next(iter(rows)) == "base" and list(rows)[-1] == "big"
    assert rows["h16"][""] == "(A)" and rows["h16"]["h"] == "16" and rows["h16"]["d_k"] == "8"
    assert rows["dk16"]["d_k"] == "4" and rows["dk16"]["d_v"] == "16"
    assert rows["big"]["paper: params"] == "213" and rows["big"]["steps"] == "7500"
    assert float(rows["l2"]["sacreBLEU (dev)"]) == pytest.approx(23.715)
    assert rows["l2"]["paper: BLEU"] == "23.7" and rows["l2"]["seeds"] == "2"
    assert float(rows["l2"]["sacreBLEU (dev) ±"]) > 0


def test_table_2_never_calls_the_papers_bleu_bleu(tmp_path):
    figures = {"transformer_base": 27.5, "transformer_big": 28.5, "transformer_big_enfr": 41.0}
    found = results(2, tmp_path, 1, lambda run: {"paper_bleu": figures[run.row], "bleu": figures[run.row] - 0.5})
    rows = rows_of(table_2(found, SMALL, trainings(found)), "model")
    label = "EN-FR: BLEU (tokenised, compounds split; as in Vaswani et al. 2017)"
    assert rows["Transformer (big)"][label] == "41.0"
    assert rows["Transformer (big)"]["EN-DE: sacreBLEU"] == "28.0"
    assert rows["Transformer (big)"]["EN-FR: paper"] == "41.8" and rows["Transformer (base)"]["EN-DE: paper"] == "27.3"
    assert rows["GNMT + RL"]["EN-FR: paper"] == "39.92" and rows["GNMT + RL"][label] == ""
    assert rows["Transformer (base)"]["EN-DE: FLOPs"] == "65000000000000.0"
    assert "EN-DE: BLEU" not in rows["Transformer (base)"]


def test_table_4_has_a_free_search_and_one_among_trees(tmp_path):
    found = results(4, tmp_path, 1, lambda run: {"f1": 66.8, "f1_only_trees": 72.9})
    rows = [row for row in table_4(found, SMALL, {}).rows if row[0] == "Transformer (4 layers)"]
    assert [(row[1], row[2] and row[2].value, row[4]) for row in rows] == [
        ("WSJ only", 66.8, 91.3),
        ("semi-supervised", None, 92.7),
    ]
    assert rows[0][3].value == 72.9


def test_table_1_has_the_papers_columns(tmp_path):
    figures = '{"work": "n^2 d", "length exponent": 1.9, "path": [1, 1, 1, 1]}'
    (tmp_path / FILE.format("tiny")).write_text(f'{{"full": {figures}, "convolution": {figures}}}')
    grid = table_1("tiny", tmp_path)
    assert [row[0] for row in grid.rows] == ["Self-attention", "Convolutional"]
    assert grid.rows[0][1] == "O(n^2 d)" and r"$O(n^2 d)$" in grid.latex()
    # The paper's table 1.
    assert {LAYERS[name][2] for name in ("convolution", "dilated_convolution")} == {"O(log_k(n))"}
    assert LAYERS["recurrent"][1:] == ("O(n)", "O(n)") and LAYERS["local"][2] == "O(n/r)"
    (tmp_path / FILE.format("tiny")).write_text("{")
    with pytest.raises(UserError, match="is damaged"):
        table_1("tiny", tmp_path)


def test_another_training_in_the_place_of_a_run_is_refused(small_run, tmp_path):
    (run,) = planned_runs(3, SCALES["tiny"], ["base"], 1, tmp_path, {}, {})
    assert read_results([run]) == []
    shutil.copytree(small_run, run.directory)
    with pytest.raises(UserError, match=r"was not trained with the settings of this row .*hidden_size"):
        read_results([run])
