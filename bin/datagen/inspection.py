"""t2t-lite-datagen --inspect: shows the contents of a split or a shard."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite.bin import cli
from t2t_lite.data.token_statistics import mean, quantile

if TYPE_CHECKING:
    from t2t_lite.data.inspection import Inspection

_MAX_LENGTHS = (64, 128, 256, 512)


def print_inspection(arguments: argparse.Namespace) -> None:
    from t2t_lite.data.problem import SPLITS, get_problem
    from t2t_lite.errors import UserError
    from t2t_lite.system.quiet import import_tensorflow
    from t2t_lite.visualization.figures import check_plot_file

    asked = arguments.inspect
    if not Path(asked).is_file() and asked not in SPLITS:
        raise UserError(f"--inspect={asked} is neither a file nor a split ({', '.join(SPLITS)})", status=2)
    if arguments.plot_file is not None:
        check_plot_file(Path(arguments.plot_file))
    import_tensorflow()
    from t2t_lite.data.inspection import inspect_shard, inspect_split

    if Path(asked).is_file():
        inspection = inspect_shard(Path(asked))
    else:
        inspection = inspect_split(Path(arguments.data_dir), get_problem(arguments.problem).data_name, asked)
    what = inspection.paths[0].name if len(inspection.paths) == 1 else f"{len(inspection.paths)} shards"
    title = f"{inspection.manifest.problem}, {inspection.split}, {what}: {inspection.examples:,} examples"
    print(f"{title}\n")
    _print_lengths(inspection)
    _print_padding(inspection)
    _print_left_out(inspection)
    for number, tokens in enumerate(inspection.texts, start=1):
        print(f"\nExample {number}")
        for side, parts in zip(("inputs ", "targets"), tokens):
            print(f"  {side}  {'|'.join(parts)}")
    if arguments.plot_file is not None:
        from t2t_lite.data.inspection import plot_inspection

        plot_inspection(inspection, title, Path(arguments.plot_file))
        print(f"\nplot: {arguments.plot_file}")


def _print_lengths(inspection: "Inspection") -> None:
    titles = ("side", "vocabulary", "tokens", "mean", "median", "95%", "longest", "per word", "unknown")
    table = cli.table(*titles, left=2, pad_edge=True)
    for (side, counter), vocabulary in zip(inspection.lengths.items(), inspection.vocabularies):
        tokens = sum(length * count for length, count in counter.items())
        table.add_row(
            side,
            f"{vocabulary.size:,} ({vocabulary.path.name})",
            f"{tokens:,}",
            f"{mean(counter):.1f}",
            *(str(quantile(counter, share)) for share in (0.5, 0.95, 1.0)),
            f"{mean(inspection.tokens_per_word[side]):.2f}",
            f"{inspection.unknown[side] / max(1, tokens):.2%}",
        )
    cli.print_table(table)
    print("Lengths are in tokens, including the end symbol; per word: mean number of tokens per word between spaces.\n")


def _print_padding(inspection: "Inspection") -> None:
    from t2t_lite.config import HParams

    shares = ", ".join(f"{padding.share:.1%} of the {side}" for side, padding in inspection.padding.items())
    batch = f"{HParams.batch_tokens:,} target tokens, max_length={HParams.max_length}"
    print(f"Padding in training batches with default settings ({batch}): {shares}.")


def _print_left_out(inspection: "Inspection") -> None:
    dropped = inspection.manifest.splits.get(inspection.split, {}).get("dropped", {})
    message = ", ".join(f"{count:,} ({why})" for why, count in dropped.items()) or "none"
    print(f"Dropped when the whole split was generated: {message}.")
    if inspection.split == "train":
        message = ", ".join(
            f"{inspection.longer_than(limit):,} with max_length={limit} "
            f"({inspection.longer_than(limit) / inspection.examples:.2%})"
            for limit in _MAX_LENGTHS
        )
        print(f"Dropped in training because a side is too long: {message}. Nothing is truncated.")
