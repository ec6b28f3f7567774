"""Tables in Markdown, CSV and LaTeX."""

import csv

from t2t_lite.reproduce.tables import Column, Grid, Mean

GRID = Grid(
    "Table 9: an example",
    [Column("model"), Column("d_model", latex="$d$"), Column("BLEU", ".1f"), Column("share", ".0%")],
    [["base & big", 512, Mean(25.84, 0.21), 0.5], [None] * 4, ["none", "512", Mean(25.0, None), None]],
    ["A note."],
)


def test_markdown(tmp_path):
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


def test_csv_keeps_all_digits_and_has_a_column_for_the_margin():
    rows = list(csv.DictReader(GRID.csv().splitlines()))
    assert rows == [
        {"model": "base & big", "d_model": "512", "BLEU": "25.84", "BLEU ±": "0.21", "share": "0.5"},
        {"model": "none", "d_model": "512", "BLEU": "25.0", "BLEU ±": "", "share": ""},
    ]


def test_latex_escapes_and_rules():
    lines = GRID.latex().splitlines()
    assert r"model & $d$ & BLEU & share \\" in lines
    assert r"base \& big & 512 & 25.8 $\pm$ 0.2 & 50\% \\" in lines
    assert lines.count(r"\midrule") == 2
    assert lines[-1] == r"\end{tabular}"
