"""t2t-lite-benchmark --decoding: sentences and tokens per second, in batches and one by one."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite.bin import cli
from t2t_lite.bin.cli.plugin_flags import trust_plugins

if TYPE_CHECKING:
    from t2t_lite.benchmark.decoding import Speed


def print_decoding(arguments: argparse.Namespace) -> None:
    """Measures decoding and prints a table and the setup of the measurement."""
    from t2t_lite.data.text_files import read_lines
    from t2t_lite.errors import UserError
    from t2t_lite.plugins import load_all
    from t2t_lite.quiet import import_tensorflow
    from t2t_lite.startup import keep_compiled

    load_all(arguments.t2t_usr_dir)
    trust_plugins(arguments, [arguments.output_dir])
    lines = [line for line in read_lines(Path(arguments.decode_from_file)) if line.strip()]
    if not lines:
        raise UserError(f"{arguments.decode_from_file} has no line with text; give a file with text to translate")
    keep_compiled()
    import_tensorflow()
    from t2t_lite.benchmark.decoding import measure
    from t2t_lite.benchmark.machine import cpu_threads
    from t2t_lite.decoding.translator import Translator
    from t2t_lite.parsing.parser import Parser
    from t2t_lite.training.monitoring.peak_flops import matmul_gflops

    translator = Translator.from_run_dir(arguments.output_dir, arguments.decode_hparams)
    before = matmul_gflops()
    how = {"repeats": arguments.repeats, "options_of": Parser(translator).options_of}
    speeds = [measure(translator, lines, f"batches of {translator.decode_hparams.batch_tokens}", **how)]
    few = lines[: arguments.one_by_one]
    if few:
        speeds.append(measure(translator, few, "one by one", one_by_one=True, **how))
    _print_table(speeds)
    print(f"\nmodel: {translator.checkpoints[0]}; medians of {arguments.repeats} runs")
    print(f"2048x2048 float32 product: {before:.0f} GFLOP/s before, {matmul_gflops():.0f} after")
    print(f"threads: {cpu_threads()}, batches in parallel: {translator.num_threads}")


def _print_table(speeds: "Sequence[Speed]") -> None:
    import rich.table

    table = rich.table.Table("", *("lines", "lines/s", "tokens/s", "first run, s", "later runs, s"))
    for column in table.columns[1:]:
        column.justify = "right"
    for speed in speeds:
        seconds = f"{min(speed.seconds):.2f} to {max(speed.seconds):.2f}"
        rates = (f"{speed.lines_per_second():.1f}", f"{speed.tokens_per_second():,.0f}")
        table.add_row(speed.name, f"{speed.lines:,}", *rates, f"{speed.first_seconds:.1f}", seconds)
    cli.print_table(table)
