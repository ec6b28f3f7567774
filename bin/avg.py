"""t2t-lite-avg: averages checkpoints of a run."""

from collections.abc import Sequence
from os import PathLike

from t2t_lite.bin import cli
from t2t_lite.options import option
from t2t_lite.runs.checkpoint_files import list_checkpoints
from t2t_lite.runs.evaluations import read_evaluations
from t2t_lite.runs.selection import average_checkpoints


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("avg", _run, argv)


class Flags(cli.Flags):
    output_dir: PathLike | None = option(None, "the run directory", required=True)
    n: int | None = option(None, "average the last N", unset="average_checkpoints of the run", at_least=1, one_of=True)
    steps: str | None = option(
        None, "average all checkpoints from step A to step B instead", metavar="A-B", one_of=True
    )
    best: str | None = option(
        None,
        "average the N best checkpoints by the run's --eval_metric or by METRIC instead (such as 3 or 3:chrf)",
        metavar="N[:METRIC]",
        one_of=True,
    )
    checkpoint_path: PathLike | None = option(
        None, "the last of the --n checkpoints: best, ckpt-2000 or a path", unset="the last one of the run"
    )


def make_parser() -> cli.CommandParser:
    about = "Average checkpoints of a run, by default the last ones. The decoder then uses the average by default."
    return cli.CommandParser("avg", about, Flags)


def _run(flags: Sequence[str]) -> None:
    arguments = make_parser().parse_args(flags)
    cli.load_plugins(arguments)  # a plug-in may register the metric in --best
    options = {name: getattr(arguments, name) for name in ("steps", "best", "checkpoint_path")}
    path, steps = average_checkpoints(arguments.output_dir, arguments.n, **options)
    print(f"{path}: average of {len(steps)} checkpoints (steps {', '.join(map(str, steps))}), for inference only")
    last, _ = list_checkpoints(path.parent)[-1]
    loss = read_evaluations(path.parent).get(last, {}).get("loss")
    known = "" if loss is None else f", whose dev loss is {loss:.3f}"
    print(
        f"decoder, eval and export use it from now on, unless --checkpoint_path=last asks for ckpt-{last}{known}; "
        f"t2t-lite-eval computes that of the average"
    )
    cli.say_next("eval", f"--output_dir={arguments.output_dir}")
