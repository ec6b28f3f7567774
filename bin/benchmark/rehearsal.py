"""t2t-lite-benchmark --rehearsal: runs each step of training on WMT on synthetic text of the same size."""

import argparse
from pathlib import Path
from typing import Any

from t2t_lite.bin import cli

# The problem and number of training pairs of each scale. En-fr: the paper's number, section 5.1.
SCALES = {"wmt_ende": ("wmt_ende", 4_508_785), "wmt_enfr": ("wmt_enfr", 36_000_000)}
_SETS = "transformer_base,transformer_big"


def show(arguments: argparse.Namespace) -> None:
    """Runs the missing steps and prints a table of all figures as Markdown."""
    from t2t_lite.benchmark.rehearsal.commands import Commands
    from t2t_lite.benchmark.rehearsal.rehearsal import Rehearsal
    from t2t_lite.errors import UserError
    from t2t_lite.plugins import load_all
    from t2t_lite.registry import HPARAMS

    load_all()
    problem, pairs = SCALES.get(arguments.scale) or ("wmt_ende", int(arguments.scale))
    sets = (arguments.hparams_set or _SETS).split(",")
    if len(sets) != 2:
        raise UserError(f"--hparams_set={arguments.hparams_set}: the rehearsal needs two sets, separated by a comma")
    base, big = (HPARAMS[name]().override(arguments.hparams) for name in sets)
    folder = Path(arguments.output_dir).absolute()
    rehearsal = Rehearsal(
        problem,
        pairs,
        folder,
        base,
        big,
        (sets[0], sets[1]),
        arguments.hparams,
        arguments.train_steps or 20,
        Commands(cli.program, folder),
    )
    figures = rehearsal.run(cli.say)
    print("| step | figure | value |\n|---|---|---|")
    for step, of_step in figures.items():
        for name, value in of_step.items():
            print(f"| {step} | {name} | {_formatted(name, value)} |")


def _formatted(name: str, value: Any) -> str:  # noqa: ANN401
    """Returns a figure as text; bytes in GiB."""
    if isinstance(value, list | tuple):
        return ", ".join(_formatted(name, each) for each in value)
    if "bytes" in name:
        return f"{value / 2**30:.2f} GiB"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def parse_scale(text: str) -> str:
    """Checks the value of --scale: a name or a number of pairs."""
    if text not in SCALES:
        try:
            cli.whole_number(1000)(text)
        except argparse.ArgumentTypeError:
            raise argparse.ArgumentTypeError(
                f"takes {', '.join(SCALES)} or a number of pairs of at least 1000, not '{text}'"
            ) from None
    return text
