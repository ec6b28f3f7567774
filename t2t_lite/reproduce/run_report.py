"""Writes the report of one run, with the paper's results for its model beside its own."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite.display import Display
from t2t_lite.evaluation.evaluate import evaluate
from t2t_lite.files import write_text
from t2t_lite.metric import figure_name
from t2t_lite.recipes import Recipe
from t2t_lite.registry import HPARAMS
from t2t_lite.reproduce.paper import BATCH_TOKENS, PAPER_FIGURES
from t2t_lite.reproduce.runs import SCALES
from t2t_lite.reproduce.tables import Column, Grid, training_figures
from t2t_lite.runs.checkpoint_files import list_checkpoints
from t2t_lite.runs.run_dir import RunDir, open_run_dir
from t2t_lite.runs.selection import average_checkpoints

if TYPE_CHECKING:
    from t2t_lite.evaluation.stored import SplitScores

# The paper's test sets by problem: the column of table 2 or the row of table 4.
_TEST_SETS = {problem: test_set for test_set, problem in SCALES["paper"].problems.items()}
_PAPER_METRIC = "paper_bleu"  # the paper's metric for translations
_OF_TOKENS = "perplexity"  # of the metrics of tokens, only the perplexities per token and per word are reported


def run_report(
    run: RunDir, training: Mapping[str, float], hparams_set: str | None, scores: "SplitScores", wanted: int
) -> Grid:
    """Returns the report of a finished run. `hparams_set` is its hyperparameter set, or None if unknown.

    `training` is the result of `training_figures`, and `scores` the evaluation of the run. `wanted` is the intended
    number of averaged checkpoints.
    """
    paper_set = nearest_paper_set(hparams_set)
    paper = PAPER_FIGURES[paper_set] if paper_set else None
    of_paper = {**vars(paper), "batch_tokens": BATCH_TOKENS} if paper else {}
    rows: list[list[str | None]] = []
    for title, name, form, its_name, its_form in (
        ("parameters, millions", "parameters", ".1f", "parameters", ".0f"),
        ("steps", "steps", ",.0f", "train_steps", ",.0f"),
        ("target tokens per step", "tokens", ",.0f", "batch_tokens", ",.0f"),
        ("seconds per step", "step_seconds", ".3g", "step_seconds", ".1f"),
        ("training cost, FLOPs", "flops", ".2g", "training_flops", ".2g"),
        (f"dev: perplexity, step {training.get('dev_step', 0):,.0f}", "dev_perplexity", ".2f", "perplexity", ".2f"),
    ):
        if name in training:
            theirs = of_paper.get(its_name)
            rows.append([title, format(training[name], form), None if theirs is None else format(theirs, its_form)])
    published = paper.test.get(_TEST_SETS.get(run.problem.name, "")) if paper else None
    main = figure_name(run.problem.metric) if run.problem.writes_trees else _PAPER_METRIC
    for figure in scores.figures:
        if not (figure.metric or figure.name.startswith(_OF_TOKENS)):
            continue
        interval = " ({:.2f} to {:.2f})".format(*figure.interval) if figure.interval else ""
        its_score = f"{published}" if published and figure.name == main else None
        rows.append([f"{scores.split}: {figure.label}", f"{figure.score:.2f}{interval}", its_score])
    of = f"of {scores.checkpoint.name}"
    if scores.members:
        fewer = f" (all that exist; {wanted} were intended)" if len(scores.members) < wanted else ""
        of = f"of the average of the checkpoints at steps {', '.join(map(str, scores.members))}{fewer}"
    search = scores.decode_hparams
    signatures = "; ".join(f"{name}: {signature}" for name, signature in scores.signatures.items())
    notes = [
        f"`{run.problem.name}`; scores on {scores.split} are {of}, searched with beam_size={search['beam_size']}, "
        f"alpha={search['alpha']:g}, with 95% intervals by bootstrap. {signatures}".rstrip()
    ]
    if paper:
        notes.append(
            f"The paper's model is `{paper_set}` ({paper.row}), trained on WMT 2014 or the Penn Treebank with 8 P100 "
            "GPUs. Its FLOPs are training time times the speed of the GPUs; those of this run are counted. Its "
            "perplexity is on newstest2013. Scores on different texts cannot be compared."
        )
    columns = [Column(""), Column("this run"), Column("paper")]
    return Grid(f"{run.path.name}: {hparams_set or 'a training'}", columns, rows, notes)


def nearest_paper_set(hparams_set: str | None) -> str | None:
    """Returns the set itself if the paper has it, else the nearest set of the paper that it derives from, or None."""
    while hparams_set is not None and hparams_set not in PAPER_FIGURES:
        hparams_set = HPARAMS.parent(hparams_set)
    return hparams_set


def finish(recipe: Recipe, output_dir: Path, data_dir: Path, hparams_set: str | None, display: Display) -> Path:
    """Averages the last checkpoints of a complete run, evaluates, and writes `report.md` into the run directory.

    If there are fewer checkpoints than the settings ask for, all are averaged, and the report says so. `hparams_set`
    selects the paper's results for comparison; None: it is unknown. Returns the path of the report. Raises UserError if
    a checkpoint or the data is unusable.
    """
    run = open_run_dir(output_dir)
    checkpoints, wanted = list_checkpoints(output_dir), run.hparams.average_checkpoints
    if recipe.averages:
        steps = average_checkpoints(output_dir, min(wanted, len(checkpoints))).steps
        display.say(f"averaged the last {len(steps)} checkpoints (steps {', '.join(map(str, steps))})")
    display.say(f"evaluating the {recipe.split} split; if interrupted, run the same command again to continue here")
    which = "average" if recipe.averages else "last"
    # Use the paper's settings, not tuned ones. The paper mentions no minimum length.
    settings = dataclasses.asdict(run.problem.decode_hparams.replace(min_length=0))
    scores = evaluate(output_dir, data_dir, split=recipe.split, checkpoint_path=which, decode_hparams=settings)
    training = training_figures(run, data_dir)
    last, _ = checkpoints[-1]
    if training.get("dev_step") != last:  # the training did not evaluate its last checkpoint
        dev = evaluate(output_dir, data_dir, checkpoint_path=f"ckpt-{last}", decode=False)
        training |= {"dev_step": last, "dev_perplexity": dev.perplexity}
    report = run_report(run, training, hparams_set, scores, wanted).markdown()
    path = output_dir / "report.md"
    write_text(path, report)
    display.text(report)
    display.say(f"wrote {path}")
    return path
