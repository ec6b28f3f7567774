"""t2t-lite-eval --tune: search settings on dev."""

import argparse
import json
from pathlib import Path

from t2t_lite.bin import cli


def tune(arguments: argparse.Namespace) -> None:
    """Tunes and prints the report, or forgets what was tuned."""
    from t2t_lite.evaluation.tuning_grid import FORGET, parse_grid
    from t2t_lite.run_dir import open_run_dir
    from t2t_lite.tuned_settings import FILE, forget

    run_dir = open_run_dir(Path(arguments.output_dir[0]))
    if arguments.tune == FORGET:
        file = run_dir.path / FILE
        print(f"removed {file}" if forget(run_dir.path) else f"there is no {file}: nothing was tuned")
        return
    grid = parse_grid(arguments.tune)
    if arguments.plot_file:
        from t2t_lite.visualization.figures import check_plot_file

        check_plot_file(Path(arguments.plot_file))
    from t2t_lite.evaluation.request import make_request
    from t2t_lite.evaluation.tuning import tune as tune_run

    request = make_request(
        run_dir,
        "dev",
        arguments.data_dir,
        arguments.checkpoint_path or None,
        arguments.decode_hparams,
        warn=cli.warn,
        ignored=grid.named(),
    )
    cli.warn(f"using {request.selection}")
    found = tune_run(request, grid, arguments.again, cli.warn, arguments.xla_compile)
    cli.warn(f"{'wrote' if found.searched_now else 'answered from'} {found.path}")
    if arguments.plot_file:
        from t2t_lite.evaluation.tuning_report import plot_tuning

        plot_tuning(found.content, Path(arguments.plot_file))
    if arguments.json:
        content = {"path": str(found.path), **found.content, "earlier": found.earlier._asdict()}
        print(json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False))
    else:
        print(found.report, end="")
