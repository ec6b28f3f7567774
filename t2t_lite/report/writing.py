"""Writes a report about runs as one HTML file, without TensorFlow. Keeps the report of a run in training up to date."""

import contextlib
import datetime
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path

import t2t_lite
from t2t_lite.data.problem import REVERSED_SUFFIX
from t2t_lite.display import LOG
from t2t_lite.errors import UserError
from t2t_lite.files import check_output, encodable, write_text
from t2t_lite.registry import HPARAMS, MODELS, PROBLEMS
from t2t_lite.report.reading import Remark, StoredRun, command_line, read_run, text
from t2t_lite.report.sections import make_sections
from t2t_lite.runs.evaluations import read_reports
from t2t_lite.system.installed import check_installed
from t2t_lite.training.options import Callback
from t2t_lite.visualization.figures import render

FORMATS = (".html", ".htm")
REPORT = "report.html"  # the report of a run in training
# Minimum pause between reports, as a multiple of the time it takes to write one. So reports take at most 1/20 of the
# training time.
_PAUSE = 20


def check_packages(omit: str = "") -> None:
    check_installed("a report", {"jinja2": "Jinja", "matplotlib": "matplotlib"}, "plot", omit)


def write_report(output_dirs: str | PathLike | Sequence[str | PathLike], report_file: str | PathLike) -> Path:
    """Writes an HTML file about one or several runs, as t2t-lite-report does: settings, curves, scores, outputs.

    It reads the stored results of training and evaluation, needs no TensorFlow, and executes no code that a run
    names. The report lists missing or damaged parts.

    Args:
      output_dirs: a run directory, or several. Duplicates count once.
      report_file: a file name that ends in .html. Its folder must exist. The file is written atomically.

    Returns:
      the path of the file.

    Raises:
      UserError: if a folder is not a run directory, the file cannot be written, or a package is missing.
    """
    given = [output_dirs] if isinstance(output_dirs, str | PathLike) else output_dirs
    paths, file = list(map(Path, given)), Path(report_file)
    if not paths:
        raise UserError("pass at least one run as `output_dirs`")
    check_packages()
    check_output(file, f"`report_file={file}`")
    if file.suffix.lower() not in FORMATS:
        raise UserError(f"`report_file={file}`: reports are HTML; use a file name that ends in {' or '.join(FORMATS)}")
    paths = list({path.resolve(): path for path in paths}.values())
    runs = [read_run(path, name) for path, name in zip(paths, run_names(paths), strict=True)]
    sections = make_sections(runs)
    content = render(
        "report.html",
        version=t2t_lite.__version__,
        title=f"Report: {', '.join(run.name for run in runs)}",
        date=f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        remarks=[(run.name, list(_remarks(run))) for run in runs],
        sections=sections,
        # A report begins with scores and examples; then it says what is missing.
        first_after_remarks=next(each.id for each in sections if each.id not in ("scores", "examples")),
    )
    write_text(file, content)
    return file


def run_names(paths: Sequence[Path]) -> list[str]:
    """Returns a short name for each run: the last parts of its path, so that all names differ."""
    parts = [path.absolute().parts for path in paths]
    for length in range(1, max(map(len, parts)) + 1):
        names = [encodable("/".join(each[-length:])) for each in parts]
        if len(set(names)) == len(names):
            return names
    return [encodable(str(path)) for path in paths]


def _remarks(run: StoredRun) -> Iterator[Remark]:
    """Yields what is missing in a run, and the commands that add it."""
    yield from run.remarks
    version = text(run.about.get("version"))
    lacking = [] if run.starts else ["devices and versions"]
    lacking += [] if run.about.get("hparams_set") else ["the hparam set"]
    if run.about and lacking:
        is_other = version and version != t2t_lite.__version__
        by = f" It was made with version {version}; this is {t2t_lite.__version__}." if is_other else ""
        yield Remark(f"The run does not record {' and '.join(lacking)}.{by}")
    names = (
        (PROBLEMS, run.problem.removesuffix(REVERSED_SUFFIX)),
        (MODELS, text(run.settings.get("model"))),
        (HPARAMS, text(run.about.get("hparams_set"))),
    )
    unregistered = [f"the {registry.kind} '{name}'" for registry, name in names if name and name not in registry]
    if unregistered:
        yield Remark(
            f"Not registered here: {', '.join(unregistered)}. The report shows what the files say and never executes "
            f"code that a run names. To load that code, pass its folder with --t2t_usr_dir."
        )
    if run.last_step < run.train_steps:
        steps = f"{run.last_step:,} of {run.train_steps:,.0f}"
        yield Remark(f"The training is at step {steps}; repeat the t2t-lite-trainer command to continue.")
    if not run.checkpoints:
        yield Remark("There is no checkpoint yet.")
    if not run.evaluations:
        data = shlex.quote(f"--data_dir={text(run.about.get('data_dir')) or 'DATA'}")
        evaluate = command_line("trainer", run, data, "--schedule=eval", "--eval_wait_secs=0")
        yield Remark(
            "No checkpoint was evaluated on the dev split; this command evaluates the existing ones:", evaluate
        )
    elif not run.samples and run.best:
        yield Remark(
            "The evaluations did not decode, so there are no BLEU or F1 curves and no sample outputs; train with "
            "--eval_decode."
        )
    if len(run.checkpoints) > 1 and not run.averages:
        yield Remark("There is no average of checkpoints:", command_line("avg", run))
    if run.checkpoints and not run.scores:
        yield Remark("No split was evaluated with t2t-lite-eval:", command_line("eval", run, "--split=test"))
    bare = [each for each in run.scores if not each.examples and any(figure.metric for figure in each.figures)]
    for split in dict.fromkeys(each.split for each in bare):
        yield Remark(
            f"An evaluation of the {split} split has no worst and best lines; evaluate the split again:",
            command_line("eval", run, f"--split={split}", "--again"),
        )


class ReportCallback(Callback):
    """Writes the report of a run after each checkpoint or evaluation, unless one was written recently.

    If `evaluates`, an evaluation follows each checkpoint, and the report waits for it. Errors become warnings.
    """

    def __init__(self, output_dir: Path, evaluates: bool) -> None:
        self._output_dir, self._evaluates = output_dir, evaluates
        self._next = 0.0
        self._has_failed = False

    @contextlib.contextmanager
    def until_the_end(self) -> Iterator[None]:
        """Writes the report when the block ends; after an error, only if steps were reported in the block."""
        before = read_reports(self._output_dir)
        try:
            yield
        except Exception:
            if read_reports(self._output_dir) != before:
                self.write()
            raise
        self.write()

    def on_checkpoint(self, step: int, path: Path) -> None:
        if not self._evaluates:
            self._write_if_due()

    def on_evaluation(self, step: int, figures: Mapping[str, float]) -> None:
        self._write_if_due()

    def write(self) -> None:
        file = self._output_dir / REPORT
        try:
            write_report(self._output_dir, file)
        except Exception as error:  # training must continue, whatever error the report raises
            if not self._has_failed:
                LOG.warning(f"{file} cannot be written ({error}); training continues without a report")
            self._has_failed = True

    def _write_if_due(self) -> None:
        start = time.monotonic()
        if start >= self._next:
            self.write()
            end = time.monotonic()
            self._next = end + _PAUSE * (end - start)
