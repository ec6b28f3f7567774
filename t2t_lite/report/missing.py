"""Lists what a run lacks for a complete report, with the commands that add it."""

import shlex

import t2t_lite
from t2t_lite.data.problem import REVERSED_SUFFIX
from t2t_lite.registry import HPARAMS, MODELS, PROBLEMS
from t2t_lite.report.reading import Remark, StoredRun, command_line
from t2t_lite.report.values import number, text


def remarks_on(run: StoredRun) -> list[Remark]:
    """Returns a remark about each part that is missing, damaged or from another version."""
    return [*run.remarks, *_versions(run), *_unregistered(run), *_training(run), *_evaluation(run)]


def _versions(run: StoredRun) -> list[Remark]:
    version = text(run.about.get("version"))
    if not run.about or (run.starts and run.about.get("hparams_set")):
        return []
    lacking = [] if run.starts else ["devices and versions"]
    lacking += [] if run.about.get("hparams_set") else ["the hparam set"]
    by = f" It was made with version {version}; this is {t2t_lite.__version__}." if version else ""
    return [Remark(f"The run does not record {' and '.join(lacking)}.{by if version != t2t_lite.__version__ else ''}")]


def _unregistered(run: StoredRun) -> list[Remark]:
    names = {
        PROBLEMS: run.problem.removesuffix(REVERSED_SUFFIX),
        MODELS: text(run.settings.get("model")),
        HPARAMS: text(run.about.get("hparams_set")),
    }
    unregistered = [
        f"the {registry.kind} '{name}'" for registry, name in names.items() if name and name not in registry
    ]
    if not unregistered:
        return []
    return [
        Remark(
            f"Not registered here: {', '.join(unregistered)}. The report shows what the files say and never executes "
            f"code that a run names. To load that code, pass its folder with --t2t_usr_dir."
        )
    ]


def _training(run: StoredRun) -> list[Remark]:
    remarks = []
    last = number(run.settings.get("train_steps"))
    if run.last_step < last:
        remarks.append(
            Remark(
                f"The training is at step {run.last_step:,} of {last:,.0f}; repeat the t2t-lite-trainer command to "
                f"continue."
            )
        )
    if not run.checkpoints:
        remarks.append(Remark("There is no checkpoint yet."))
    data = shlex.quote(f"--data_dir={text(run.about.get('data_dir')) or 'DATA'}")
    evaluate = command_line("trainer", run, data, "--schedule=eval", "--eval_wait_secs=0")
    if not run.evaluations:
        remarks.append(
            Remark("No checkpoint was evaluated on the dev split; this command evaluates the existing ones:", evaluate)
        )
    elif not run.samples and run.best:
        remarks.append(
            Remark(
                "The evaluations did not decode, so there are no BLEU or F1 curves and no sample outputs; train "
                "with --eval_decode."
            )
        )
    if len(run.checkpoints) > 1 and not run.averages:
        remarks.append(Remark("There is no average of checkpoints:", command_line("avg", run)))
    return remarks


def _evaluation(run: StoredRun) -> list[Remark]:
    if not run.scores:
        if not run.checkpoints:
            return []
        return [Remark("No split was evaluated with t2t-lite-eval:", command_line("eval", run, "--split=test"))]
    lacking = [each for each in run.scores if each.examples is None]
    splits = dict.fromkeys(each.split for each in lacking)
    return [
        Remark(
            f"An evaluation of the {split} split has no worst and best lines; evaluate the split again:",
            command_line("eval", run, f"--split={split}", "--again"),
        )
        for split in splits
    ]
