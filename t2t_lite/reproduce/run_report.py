"""The report of one run, with the paper's figures for its model beside its own."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite.data.problem import SIDES
from t2t_lite.registry import HPARAMS
from t2t_lite.reproduce.grid import Column, Grid
from t2t_lite.reproduce.paper_figures import BATCH_TOKENS, PAPER_FIGURES, PaperFigures
from t2t_lite.run_dir import RunDir
from t2t_lite.scoring.metric import figure_of

if TYPE_CHECKING:
    from t2t_lite.evaluation.figures import Figure

# The paper's test sets: the column of table 2 or the row of table 4, by problem.
_TEST_SETS = {
    "wmt_ende": "EN-DE",
    "wmt_enfr": "EN-FR",
    "wsj_parsing": "WSJ only",
    "wsj_parsing_semi": "semi-supervised",
}
_PAPER_METRIC = "paper_bleu"  # of its translations
_OF_TOKENS = "perplexity"  # per token and per word: those figures of tokens that are reported


def run_report(
    run: RunDir,
    data_dir: Path,
    hparams_set: str | None,
    split: str,
    scores: "Sequence[Figure]",
    averaged: Sequence[int],
) -> Grid:
    """Returns the report of a complete training.

    Args:
      run: the run directory.
      data_dir: the folder with its data.
      hparams_set: the set it was trained with; None: unknown.
      split: the split that was evaluated.
      scores: its figures.
      averaged: the steps whose checkpoints were averaged; empty: the last checkpoint was evaluated.
    """
    paper_set = paper_set_of(hparams_set)
    paper = PAPER_FIGURES[paper_set] if paper_set else None
    rows = _training_rows(_training_figures(run, data_dir), paper)
    published = paper.test.get(_TEST_SETS.get(run.problem.name, "")) if paper else None
    main = figure_of(run.problem.metric) if run.problem.writes_trees else _PAPER_METRIC
    for figure in scores:
        if not (figure.metric or figure.name.startswith(_OF_TOKENS)):
            continue
        interval = " ({:.2f} to {:.2f})".format(*figure.interval) if figure.interval else ""
        of_paper = f"{published}" if published and figure.name == main else None
        rows.append([f"{split}: {figure.label}", f"{figure.score:.2f}{interval}", of_paper])
    of = f"the average of the checkpoints at steps {', '.join(map(str, averaged))}" if averaged else "the last step"
    notes = [f"`{run.problem.name}`; figures of {split} are of {of}, with 95% intervals by bootstrap."]
    if paper:
        notes.append(
            f"The paper's model is `{paper_set}` ({paper.row}), trained on WMT 2014 or the Penn Treebank with 8 P100 "
            "GPUs. Its FLOPs are time times the rate of the GPUs, those of this run are counted; its perplexity is on "
            "newstest2013. Figures of other text cannot be compared."
        )
    columns = [Column(""), Column("this run"), Column("paper")]
    return Grid(f"{run.path.name}: {hparams_set or 'a training'}", columns, rows, notes)


def paper_set_of(hparams_set: str | None) -> str | None:
    """Returns the nearest set of the paper that a set is or derives from; None if there is none."""
    while hparams_set is not None and hparams_set not in PAPER_FIGURES:
        hparams_set = HPARAMS.parent(hparams_set)
    return hparams_set


def _training_rows(measured: Mapping[str, float], paper: PaperFigures | None) -> list[list[str | None]]:
    """Returns the rows about the training; those whose figure is not known are left out."""
    of_paper = {**vars(paper), "batch_tokens": BATCH_TOKENS} if paper else {}
    rows = (
        ("parameters, millions", "parameters", ".1f", "parameters", ".0f"),
        ("steps", "steps", ",.0f", "train_steps", ",.0f"),
        ("target tokens a step", "tokens", ",.0f", "batch_tokens", ",.0f"),
        ("seconds a step", "step_seconds", ".3g", "step_seconds", ".1f"),
        ("training cost, FLOPs", "flops", ".2g", "training_flops", ".2g"),
        ("dev: perplexity, last step", "dev_perplexity", ".2f", "perplexity", ".2f"),
    )
    found: list[list[str | None]] = []
    for title, name, form, its_name, its_form in rows:
        if name in measured:
            theirs = of_paper.get(its_name)
            found.append([title, format(measured[name], form), None if theirs is None else format(theirs, its_form)])
    return found


def _training_figures(run: RunDir, data_dir: Path) -> dict[str, float]:
    """Returns what the training was: sizes, speed and cost."""
    from t2t_lite.checkpoints.evaluations import read_evaluations
    from t2t_lite.data.manifest import check_data
    from t2t_lite.models.parameters import symbolic_model
    from t2t_lite.training.cost import training_step_flops
    from t2t_lite.training.monitoring.history import read_reports
    from t2t_lite.training.setup import vocab_sizes

    manifest = check_data(data_dir, run.problem)
    inputs_size, targets_size = vocab_sizes(run, manifest)
    model = symbolic_model(run.hparams, targets_size, inputs_size)
    lengths = run.problem.in_direction([manifest.mean_length("train", side) for side in SIDES])
    figures = {"parameters": sum(model.parameter_parts().values()) / 1e6}
    reports = read_reports(run.path)
    if rates := reports.get("steps_per_second"):
        figures["steps"] = max(reports["step"])
        tokens = [each / rate for each, rate in zip(reports["target_tokens_per_second"], rates)]
        figures["tokens"] = statistics.median(tokens)
        rates = rates[1:] or rates  # the first step includes building its graph
        figures["step_seconds"] = 1 / statistics.median(rates)
        figures["flops"] = figures["steps"] * sum(training_step_flops(model, *lengths).values())
    evaluations = read_evaluations(run.path)
    last = evaluations[max(evaluations)].get("perplexity") if evaluations else None
    return figures if last is None else figures | {"dev_perplexity": last}
