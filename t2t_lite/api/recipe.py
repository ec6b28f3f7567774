"""What a recipe does at the end of a training: averages, evaluates, reports."""

import dataclasses
from pathlib import Path

from t2t_lite.display import Display
from t2t_lite.training.recipes import Recipe

REPORT = "report.md"


def finish(recipe: Recipe, output_dir: Path, data_dir: Path, hparams_set: str | None, display: Display) -> Path:
    """Averages the last checkpoints of a complete training, evaluates, and writes `report.md` into the run directory.

    If there are fewer checkpoints than the settings want to average, all are averaged, and the report says so. The
    hparams set is for the paper's figures; None: unknown. Returns the path of the report. Raises UserError if a
    checkpoint or the data is unusable.
    """
    from t2t_lite.api.checkpoints import average_checkpoints
    from t2t_lite.api.evaluation import evaluate, score_split
    from t2t_lite.checkpoints.versions import list_checkpoints
    from t2t_lite.files import write_text
    from t2t_lite.reproduce.cost import training_figures
    from t2t_lite.reproduce.run_report import run_report
    from t2t_lite.run_dir import open_run_dir

    run = open_run_dir(output_dir)
    checkpoints, wanted = list_checkpoints(output_dir), run.hparams.average_checkpoints
    if recipe.averages:
        steps = average_checkpoints(output_dir, min(wanted, len(checkpoints))).steps
        display.say(f"averaged the last {len(steps)} checkpoints (steps {', '.join(map(str, steps))})")
    display.say(f"evaluating the {recipe.split} split; if this is interrupted, the same command goes on here")
    scores = score_split(
        output_dir,
        recipe.split,
        data_dir=data_dir,
        checkpoint_path="average" if recipe.averages else "last",
        # The paper's, whatever was tuned. It says nothing of a minimum length.
        decode_hparams=dataclasses.asdict(run.problem.decode_hparams.replace(min_length=0)),
    )
    training = training_figures(run, data_dir)
    last, _ = checkpoints[-1]
    if training.get("dev_step") != last:  # trained without evaluations
        dev = evaluate(output_dir, data_dir, checkpoint_path=f"ckpt-{last}", decode=False)
        training |= {"dev_step": last, "dev_perplexity": dev.perplexity}
    report = run_report(run, training, hparams_set, scores, wanted).markdown()
    path = output_dir / REPORT
    write_text(path, report)
    display.text(report)
    display.say(f"written: {path}")
    return path
