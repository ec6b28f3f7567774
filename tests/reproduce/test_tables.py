"""The paper's tables from results: their formats, figures, intervals over seeds, verdicts on observations."""

import csv
import math

import numpy as np
import pytest

from t2t_lite.errors import UserError
from t2t_lite.reproduce import tables
from t2t_lite.reproduce.paper import PAPER_FIGURES
from t2t_lite.reproduce.runs import SCALES, planned_runs
from t2t_lite.reproduce.table_1 import FILE, LAYERS, table_1
from t2t_lite.reproduce.tables import BETTER, FAILS, HOLDS, SAME, UNDECIDED, WORSE, Column, Grid, Mean, Result, Seeds

SMALL = SCALES["small"]
GRID = Grid(
    "Table 9: an example",
    [Column("model"), Column("d_model", latex="$d$"), Column("BLEU", ".1f"), Column("share", ".0%")],
    [["base & big", 512, Mean(25.84, 0.21), 0.5], [None] * 4, ["none", "512", Mean(25.0, None), None]],
    ["A note."],
)


def test_a_table_in_markdown_csv_and_latex(tmp_path):
    lines = GRID.markdown().splitlines()
    assert lines[0] == "## Table 9: an example"
    assert lines[2:6] == [
        "| model | d_model | BLEU | share |",
        "|---|---|---|---|",
        "| base & big | 512 | 25.8 ± 0.2 | 50% |",
        "| none | 512 | 25.0 |  |",
    ]
    assert lines[-1] == "A note."
    paths = GRID.write(tmp_path, "table9", "More below.")
    assert [path.name for path in paths] == ["table9.md", "table9.csv", "table9.tex"]
    assert paths[0].read_text().endswith("A note.\n\nMore below.")
    rows = list(csv.DictReader(GRID.csv().splitlines()))  # all digits, and a column for the margin
    assert rows == [
        {"model": "base & big", "d_model": "512", "BLEU": "25.84", "BLEU ±": "0.21", "share": "0.5"},
        {"model": "none", "d_model": "512", "BLEU": "25.0", "BLEU ±": "", "share": ""},
    ]
    lines = GRID.latex().splitlines()
    assert r"model & $d$ & BLEU & share \\" in lines
    assert r"base \& big & 512 & 25.8 $\pm$ 0.2 & 50\% \\" in lines
    assert lines.count(r"\midrule") == 2
    assert lines[-1] == r"\end{tabular}"


def results(table, folder, seeds, figures, scale=SMALL):
    """A result for every run of a table; figures: a function of (run) that returns them."""
    runs = planned_runs(table, scale, [], seeds, folder, {}, {})
    return [Result(run, figures(run)) for run in runs]


def trainings(found):
    return {tables.row_and_column(result.run): {"parameters": 2.15, "flops": 6.5e13} for result in found}


def rows_of(grid, key):
    return {row[key]: row for row in csv.DictReader(grid.csv().splitlines())}


def test_table_3_has_all_rows_the_base_first_and_big_last(tmp_path):
    found = results(
        3, tmp_path, 2, lambda run: {"bleu": PAPER_FIGURES[run.row].bleu + 0.01 * run.seed, "perplexity": 5.0}
    )
    grid = tables.table_3(found, SMALL, trainings(found))
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
    rows = rows_of(tables.table_2(found, SMALL, trainings(found)), "model")
    label = "EN-FR: BLEU (tokenised, compounds split; as in Vaswani et al. 2017)"
    assert rows["Transformer (big)"][label] == "41.0"
    assert rows["Transformer (big)"]["EN-DE: sacreBLEU"] == "28.0"
    assert rows["Transformer (big)"]["EN-FR: paper"] == "41.8" and rows["Transformer (base)"]["EN-DE: paper"] == "27.3"
    assert rows["GNMT + RL"]["EN-FR: paper"] == "39.92" and rows["GNMT + RL"][label] == ""
    assert rows["Transformer (base)"]["EN-DE: FLOPs"] == "65000000000000.0"
    assert "EN-DE: BLEU" not in rows["Transformer (base)"]


def test_table_4_has_a_free_search_and_one_among_trees(tmp_path):
    found = results(4, tmp_path, 1, lambda run: {"f1": 66.8, "f1_only_trees": 72.9})
    rows = [row for row in tables.table_4(found, SMALL, {}).rows if row[0] == "Transformer (4 layers)"]
    found = [(row[1], row[2] and row[2].value, row[4]) for row in rows]
    assert found == [("WSJ only", 66.8, 91.3), ("semi-supervised", None, 92.7)] and rows[0][3].value == 72.9


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


def test_intervals_are_students_with_the_pooled_spread():
    figures = {"a": [30.0, 30.6, 30.3], "b": [29.0, 29.1, 29.5]}
    seeds = Seeds(figures)
    spread = math.sqrt((np.var(figures["a"], ddof=1) + np.var(figures["b"], ddof=1)) / 2)
    quantile = 2.7764451  # of Student's t, 97.5%, 4 degrees of freedom, from a printed table
    assert seeds.mean("a").value == pytest.approx(30.3)
    assert seeds.mean("a").margin == pytest.approx(quantile * spread / math.sqrt(3), rel=1e-6)
    difference = seeds.difference("b", "a")
    assert difference.value == pytest.approx(-1.1)
    assert difference.margin == pytest.approx(quantile * spread * math.sqrt(2 / 3), rel=1e-6)


def test_intervals_contain_the_truth_as_often_as_they_say():
    random = np.random.default_rng(1)
    hits = []
    for _ in range(400):
        seeds = Seeds({row: random.normal(mean, 0.4, 3) for row, mean in (("a", 30), ("b", 29), ("c", 28))})
        difference = seeds.difference("a", "b")
        hits.append(difference.low <= 1.0 <= difference.high)
    assert 0.92 <= np.mean(hits) <= 0.98


VERDICTS = [
    *((WORSE, -1.0, 0.5, True, HOLDS), (WORSE, -0.3, 0.5, True, UNDECIDED), (WORSE, 1.0, 0.5, True, FAILS)),
    *((WORSE, 1.0, 0.5, False, HOLDS), (BETTER, 1.0, 0.5, True, HOLDS), (BETTER, 1.0, 0.5, False, FAILS)),
    *((BETTER, -1.0, None, False, UNDECIDED), (SAME, 0.1, 0.2, True, HOLDS), (SAME, 0.1, 0.5, True, UNDECIDED)),
    *((SAME, 0.9, 0.4, True, FAILS), (SAME, 0.5, 0.3, True, UNDECIDED)),  # the last: more, but maybe less than 0.4
]


@pytest.mark.parametrize(("expected", "value", "margin", "higher_is_better", "result"), VERDICTS)
def test_verdicts(expected, value, margin, higher_is_better, result):
    assert tables.verdict(expected, Mean(value, margin), higher_is_better, 0.4) == result


def test_the_papers_own_differences_make_its_observations_hold():
    rows = {row: figures for row, figures in PAPER_FIGURES.items() if figures.bleu}
    # The paper's figures as if measured with three seeds that hardly differ.
    bleu, perplexity = (
        Seeds({row: [getattr(figures, name) + error for error in (-0.01, 0, 0.01)] for row, figures in rows.items()})
        for name in ("bleu", "perplexity")
    )
    found = {each.text: [one[0] for one in tables.judged(each, bleu, perplexity)] for each in tables.OBSERVATIONS}
    exceptions = {text: verdicts for text, verdicts in found.items() if verdicts != [HOLDS, HOLDS]}
    # In table 3, eight layers have a better perplexity, but a BLEU that is 0.3 lower.
    assert exceptions == {"bigger is better: more layers are better": [FAILS, HOLDS]}
