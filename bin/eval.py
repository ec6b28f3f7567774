"""t2t-lite-eval: scores checkpoints on a split, keeps outputs and scores in the run directory, and compares runs."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import t2t_lite as t2t
from t2t_lite.bin import cli
from t2t_lite.evaluation.options import EvalOptions
from t2t_lite.files import as_json
from t2t_lite.options import option
from t2t_lite.runs.run_dir import open_run_dir
from t2t_lite.runs.tuned_settings import FILE, forget
from t2t_lite.system.machine import keep_compiled

if TYPE_CHECKING:
    from t2t_lite.data.problem import Problem
    from t2t_lite.evaluation.comparison import Comparison
    from t2t_lite.evaluation.stored import SplitScores


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("eval", _run, argv, exit_at_once=True)


class Flags(cli.RunFlags):
    output_dir: cli.Paths | None = option(
        None,
        "the run directory; several are compared with the first, as are several checkpoints of one run: "
        "--checkpoint_path=ckpt-1000,ckpt-2000",
        required=True,
        metavar="RUN[,RUN,...]",
    )
    options: type[EvalOptions] = EvalOptions
    json: bool = option(False, "print one JSON object instead of the reports")
    heads: int | None = option(
        None,
        "instead, measure the attention heads on at most LINES lines of the split (default: 500): how far and how "
        "sharply they attend, and how much weight each neighbour gets",
        at_least=1,
        bare=500,
        metavar="LINES",
        excludes=("metrics", "references", "tune", "decode_hparams", "again"),
    )
    tune: str | None = option(
        None,
        "instead, try values of alpha and beam_size on dev (alpha=0:2:0.2,beam_size=4/8), and make the best ones the "
        "run's defaults if they are significantly better; forget: remove these defaults",
        group="search settings",
        metavar="NAME[=VALUES],...",
        excludes=("metrics", "references"),
    )


def make_parser() -> cli.CommandParser:
    return cli.CommandParser(
        "eval",
        "Decode a split with a checkpoint and score it. Outputs, scores and a report are kept in scores/ in the run "
        "directory and reused by later calls. Several runs are compared with the first.",
        Flags,
        {"--plot_file": "t2t-lite-report shows the scores, and --tune prints a table"},
    )


def _run(flags: Sequence[str]) -> None:
    parser = make_parser()
    arguments = parser.parse_args(flags)
    if arguments.tune and arguments.split == "test":
        parser.error("--tune only works on dev, because choosing settings on test would make its scores meaningless")
    if arguments.tune and len(arguments.output_dir) > 1:
        parser.error("--tune takes one run directory, --output_dir=RUN")
    cli.load_plugins(arguments, arguments.output_dir)
    keep_compiled()
    if arguments.tune:
        _tune(arguments)
        return
    if arguments.heads:
        options = {name: getattr(arguments, name) for name in ("data_dir", "checkpoint_path")}
        options["lines"] = arguments.heads
        reports = [t2t.measure_heads(run, arguments.split, **options) for run in arguments.output_dir]
        if arguments.json:
            print(as_json([each.content for each in reports]))
        else:
            print("\n".join(each.report() for each in reports), end="")
        return
    from t2t_lite.evaluation import evaluate, stored

    requests = evaluate.make_requests(arguments.output_dir, EvalOptions(**cli.given(arguments, EvalOptions)))
    scores: list[SplitScores] = []
    for request in requests:
        cli.warn(f"using {request.source}")
        scores.append(evaluate.score(request))
        told = "scored the stored outputs again in" if scores[-1].scored_now else "answered from"
        cli.warn(f"{'wrote' if scores[-1].decoded_now else told} {scores[-1].path}")
    problem = requests[0].problem
    if arguments.json:
        runs = [{"path": str(each.path), "decoded_now": each.decoded_now, **each.content} for each in scores]
        comparison = _compared(scores, problem)
        print(as_json({"runs": runs, "comparison": comparison.to_json() if comparison else None}))
        return
    print("\n".join(stored.evaluation_report(each) for each in scores), end="")
    if comparison := _compared(scores, problem):
        print(f"\n{comparison.report()}", end="")
    elif problem.has_inputs:
        (run,) = arguments.output_dir
        cli.say_next(
            "decoder", f"--output_dir={run}", "--decode_from_file=IN.txt", "--decode_to_file=OUT.txt", to=cli.warn
        )


def _compared(scores: Sequence["SplitScores"], problem: "Problem") -> "Comparison | None":
    if len(scores) == 1:
        return None
    from t2t_lite.evaluation import comparison as comparing

    comparison = comparing.compare_runs(scores, problem)
    for path in comparing.write_comparison(comparison, scores):
        cli.warn(f"wrote {path}")
    return comparison


def _tune(arguments: argparse.Namespace) -> None:
    """Tunes search settings on dev and prints the report, or deletes the tuned settings."""
    from t2t_lite.decoding.loading import open_model
    from t2t_lite.evaluation import evaluate, tuning

    if arguments.tune == tuning.FORGET:
        run = open_run_dir(Path(arguments.output_dir[0])).path
        print(f"removed {run / FILE}" if forget(run) else f"{run / FILE} does not exist; nothing was tuned")
        return
    grid = tuning.parse_grid(arguments.tune)
    options = EvalOptions(**cli.given(arguments, EvalOptions))
    (run,) = arguments.output_dir
    source = open_model(run, options.checkpoint_path, options.decode_hparams, ignored=grid)
    request = evaluate.make_request(source, options)
    cli.warn(f"using {source}")
    tuned = tuning.tune(request, grid)
    cli.warn(f"{'wrote' if tuned.searched_now else 'answered from'} {tuned.path}")
    if arguments.json:
        print(as_json({"path": str(tuned.path), **tuned.content, "earlier": tuned.earlier._asdict()}))
    else:
        print(tuned.report, end="")
