"""What a training was: sizes, speed and cost, from its run directory."""

import statistics
from pathlib import Path

from t2t_lite.checkpoints.evaluations import read_evaluations
from t2t_lite.data.manifest import FILENAME, manifest_of_file
from t2t_lite.data.problem import SIDES
from t2t_lite.run_dir import RunDir


def training_figures(run: RunDir, data_dir: Path) -> dict[str, float]:
    """Returns what a training was, as far as it is known. It imports TensorFlow.

    Args:
      run: the run directory.
      data_dir: the folder with its data, for the lengths of sentences; if it is gone, operations are not counted.

    Returns:
      "parameters" in millions, "steps", "tokens" (target tokens a step), "step_seconds", "flops" (operations of all
      steps, counted), "dev_perplexity" (of the last checkpoint that was evaluated) and "dev_step", its step.
    """
    from t2t_lite.quiet import import_tensorflow

    import_tensorflow()
    from t2t_lite.data.vocab import open_vocabulary
    from t2t_lite.models.parameters import symbolic_model
    from t2t_lite.training.cost import training_step_flops
    from t2t_lite.training.monitoring.history import read_reports

    sizes = [open_vocabulary(path).size for path in (run.vocabulary, run.inputs_vocabulary)]
    model = symbolic_model(run.hparams, *sizes)
    figures = {"parameters": sum(model.parameter_parts().values()) / 1e6}
    reports = read_reports(run.path)
    if rates := reports.get("steps_per_second"):
        figures["steps"] = max(reports["step"])
        tokens = [each / rate for each, rate in zip(reports["target_tokens_per_second"], rates)]
        figures["tokens"] = statistics.median(tokens)
        rates = rates[1:] or rates  # the first step includes building its graph
        figures["step_seconds"] = 1 / statistics.median(rates)
        about = data_dir / FILENAME.format(run.problem.data_name)
        if about.exists():
            manifest = manifest_of_file(about)
            lengths = run.problem.in_direction([manifest.mean_length("train", side) for side in SIDES])
            figures["flops"] = figures["steps"] * sum(training_step_flops(model, *lengths).values())
    if evaluations := read_evaluations(run.path):
        figures["dev_step"] = max(evaluations)
        figures["dev_perplexity"] = evaluations[max(evaluations)]["perplexity"]
    return figures
