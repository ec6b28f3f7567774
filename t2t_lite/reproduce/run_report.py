"""The report of one run, with the paper's figures for its model beside its own."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from t2t_lite.registry import HPARAMS
from t2t_lite.reproduce.grid import Column, Grid
from t2t_lite.reproduce.paper_figures import PAPER_FIGURES, PaperFigures

# The paper's test sets: the column of table 2 or the row of table 4, by problem.
_TEST_SETS = {
    "wmt_ende": "EN-DE",
    "wmt_enfr": "EN-FR",
    "wsj_parsing": "WSJ only",
    "wsj_parsing_semi": "semi-supervised",
}


def run_report(
    output_dir: Path,
    data_dir: Path,
    hparams_set: str | None,
    split: str,
    scores: Mapping[str, float],
    averaged: Sequence[int],
) -> Grid:
    """Returns the report of a complete training.

    Args:
      output_dir: the run directory.
      data_dir: the folder with its data.
      hparams_set: the set it was trained with; None: unknown.
      split: the split that was evaluated.
      scores: its figures, by name.
      averaged: the steps whose checkpoints were averaged; empty: the last checkpoint was evaluated.
    """
    from t2t_lite.run_dir import open_run_dir

    run = open_run_dir(output_dir)
    paper_set = paper_set_of(hparams_set)
    figures = PAPER_FIGURES[paper_set] if paper_set else None
    measured = _training_figures(output_dir, data_dir)
    rows: list[list] = [
        ["parameters, millions", f"{measured['parameters'] / 1e6:.1f}", _of(figures, "parameters", ".0f")],
        ["steps", f"{measured['steps']:,.0f}", _of(figures, "train_steps", ",.0f")],
        ["target tokens a step", f"{measured['tokens']:,.0f}", "25,000" if figures else None],
        ["seconds a step", f"{measured['step_seconds']:.3g}", _of(figures, "step_seconds", ".1f")],
        ["training cost, FLOPs", f"{measured['flops']:.2g}", _of(figures, "training_flops", ".2g")],
    ]
    if "dev_perplexity" in measured:
        rows.append(
            ["dev perplexity, last step", f"{measured['dev_perplexity']:.2f}", _of(figures, "perplexity", ".2f")]
        )
    test_set = _TEST_SETS.get(run.problem.name)
    published = figures.test.get(test_set) if figures and test_set else None
    from t2t_lite.scoring.metric import label_of

    main = "paper_bleu" if "paper_bleu" in scores else "f1"
    for name, value in scores.items():
        rows.append(
            [f"{split} {label_of(name)}", f"{value:.2f}", f"{published}" if published and name == main else None]
        )
    evaluated = (
        f"the average of the checkpoints at steps {', '.join(map(str, averaged))}" if averaged else "the last step"
    )
    notes = [f"`{run.problem.name}`; figures on {split} are of {evaluated}."]
    if figures:
        notes.append(
            f"The paper's model is `{paper_set}` ({figures.row}), trained on WMT 2014 or the Penn Treebank with 8 P100 "
            "GPUs; its FLOPs are time times the rate of the GPUs, those of this run are counted. Its perplexity is on "
            "newstest2013, and figures of other text cannot be compared."
        )
    return Grid(
        f"{output_dir.name}: {hparams_set or 'a training'}",
        [Column(""), Column("this run"), Column("paper")],
        rows,
        notes,
    )


def paper_set_of(hparams_set: str | None) -> str | None:
    """Returns the nearest set of the paper that a set is or derives from; None if there is none."""
    while hparams_set is not None and hparams_set not in PAPER_FIGURES:
        hparams_set = HPARAMS.parent(hparams_set)
    return hparams_set


def _of(figures: PaperFigures | None, name: str, form: str) -> str | None:
    value = getattr(figures, name) if figures else None
    return None if value is None else format(value, form)


def _training_figures(output_dir: Path, data_dir: Path) -> dict[str, float]:
    """Returns what the training was: sizes, speed and cost."""
    from t2t_lite.data.manifest import check_data
    from t2t_lite.data.problem import SIDES
    from t2t_lite.models.parameters import symbolic_model
    from t2t_lite.run_dir import open_run_dir
    from t2t_lite.training.cost import training_step_flops
    from t2t_lite.training.evaluation.model_selection import read_evaluations
    from t2t_lite.training.monitoring.history import read_reports
    from t2t_lite.training.setup import vocab_sizes

    run = open_run_dir(output_dir)
    manifest = check_data(data_dir, run.problem)
    inputs_size, targets_size = vocab_sizes(run, manifest)
    model = symbolic_model(run.hparams, targets_size, inputs_size)
    lengths = run.problem.in_direction([manifest.mean_length("train", side) for side in SIDES])
    reports = read_reports(output_dir)
    rates = reports["steps_per_second"]
    steps = max(reports["step"])
    figures = {
        "parameters": sum(model.parameter_parts().values()),
        "steps": steps,
        "tokens": statistics.median(map(_ratio, reports["target_tokens_per_second"], rates)),
        "step_seconds": 1 / statistics.median(rates),
        "flops": steps * sum(training_step_flops(model, *lengths).values()),
    }
    evaluations = read_evaluations(output_dir)
    if evaluations and "perplexity" in (last := evaluations[max(evaluations)]):
        figures["dev_perplexity"] = last["perplexity"]
    return figures


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator
