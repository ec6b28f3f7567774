"""t2t-lite-params: counts the parameters of hyperparameter sets and compares them with the paper's numbers."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from t2t_lite.bin import cli
from t2t_lite.cost import cost_of
from t2t_lite.errors import UserError
from t2t_lite.options import option
from t2t_lite.registry import HPARAMS, MODELS
from t2t_lite.reproduce.paper import PAPER_FIGURES
from t2t_lite.visualization.figures import COLORS, check_plot_file

MILLION = 1e6


def main(argv: Sequence[str] | None = None) -> int:
    return cli.run("params", _run, argv)


class Flags(cli.Flags):
    hparams_set: str | None = option(
        None, "names of hparam sets, separated by commas; a single name prints exact counts", unset="all"
    )
    hparams: str = option("", "overrides of the set's values", metavar="NAME=VALUE,...", needs=("hparams_set",))
    vocab_size: int = option(
        37_000, "number of tokens in the vocabulary", unset="37000, the paper's for English-German", at_least=1
    )
    plot_file: PathLike | None = option(
        None,
        "a .png, .svg or .pdf file for a plot of the parameters and learning rates of the named sets",
        needs=("hparams_set",),
    )


def make_parser() -> cli.CommandParser:
    about = "Count the parameters of hparam sets by part, and compare them with the paper's table 3."
    return cli.CommandParser("params", about, Flags)


def _run(flags: Sequence[str]) -> None:
    arguments = make_parser().parse_args(flags)
    cli.load_plugins(arguments)
    names = list(dict.fromkeys(arguments.hparams_set.split(","))) if arguments.hparams_set else HPARAMS.names()
    sets = {name: HPARAMS[name]().override(arguments.hparams) for name in names}
    for hparams in sets.values():
        MODELS.check(hparams.model)
    if arguments.plot_file is not None:
        check_plot_file(Path(arguments.plot_file))
        if len(names) > len(COLORS):
            raise UserError(f"`plot_file` shows at most {len(COLORS)} sets, not {len(names)}; pass fewer", status=2)
    counts = {name: cost_of(hparams, arguments.vocab_size).parameter_parts() for name, hparams in sets.items()}
    # In millions.
    printed = {name: figures.parameters for name, figures in PAPER_FIGURES.items() if not arguments.hparams}
    if len(names) == 1 and arguments.hparams_set:
        _print_one(counts[names[0]], printed.get(names[0]))
    else:
        _print_several(counts, printed)
    if not arguments.hparams_set:
        print("With --vocab_size=41100, the counts match the paper's to the last printed digit, except for big.")
    if arguments.plot_file is not None:
        from t2t_lite.benchmark import settings_plot

        settings_plot.plot_settings(
            {name: settings_plot.Counted(sets[name], counts[name]) for name in names}, Path(arguments.plot_file)
        )
        print(f"\nplot: {arguments.plot_file}")


def _print_one(counts: dict[str, int], printed: int | None) -> None:
    total = sum(counts.values())
    table = cli.table("part", "parameters", "share", pad_edge=True)
    for part, count in counts.items():
        table.add_row(part, f"{count:,}", f"{count / total:.1%}")
    table.add_row("total", f"{total:,}", "")
    cli.print_table(table)
    if printed:
        print(f"The paper reports {printed} million: deviation {_deviation(total, printed)}.")


def _print_several(counts: dict[str, dict[str, int]], printed: dict[str, int | None]) -> None:
    parts = list(dict.fromkeys(part for count in counts.values() for part in count))
    titles = (title.replace(" ", "\n") for title in (*parts, "total", "paper", "deviation"))
    table = cli.table("set (millions)", *titles, pad_edge=True)
    for name, count in counts.items():
        total, of_paper = sum(count.values()), printed.get(name)
        millions = [f"{number / MILLION:.2f}" for number in (*(count.get(part, 0) for part in parts), total)]
        paper = (str(of_paper), _deviation(total, of_paper)) if of_paper else ("", "")
        table.add_row(name, *millions, *paper)
    cli.print_table(table)


def _deviation(total: int, printed: int) -> str:
    return f"{total / MILLION / printed - 1:+.1%}"
