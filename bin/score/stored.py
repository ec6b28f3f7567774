"""The files that t2t-lite-eval stored for a checkpoint, as the files of t2t-lite-score."""

import argparse
from pathlib import Path


def use_stored_files(arguments: argparse.Namespace) -> str:
    """Sets the flags that name files to those that t2t-lite-eval stored for the runs of --output_dir.

    Returns:
      the language of the outputs; "" if unknown.

    Raises:
      UserError: if nothing is stored, or several evaluations with different settings are.
    """
    from t2t_lite.errors import UserError
    from t2t_lite.evaluation.split_scores import HYPOTHESES, INPUTS
    from t2t_lite.evaluation.stored import stored_evaluation
    from t2t_lite.run_dir import open_run_dir

    runs = [open_run_dir(Path(run)) for run in arguments.output_dir]
    found = [stored_evaluation(run, arguments.split or "test", arguments.checkpoint_path or None) for run in runs]
    digests = [[each["sha256"] for each in one.content["references"]] for one in found]
    for one, its_digests in zip(found, digests):
        if its_digests != digests[0]:
            raise UserError(f"{one.path} and {found[0].path} have different references")
    if not runs[0].problem.has_inputs:
        raise UserError(f"'{runs[0].problem.name}' has no outputs to score")
    arguments.hypothesis = [str(one.path / HYPOTHESES) for one in found]
    arguments.reference = [str(path) for path in found[0].reference_paths]
    if len(found) > 1 and arguments.source is None:
        arguments.source = str(found[0].path / INPUTS)
    return runs[0].problem.output_language
