"""t2t-lite-benchmark --decoding: compares engines by complete commands, and by their speed after a warm-up run."""

import argparse
from pathlib import Path

import rich.table

from t2t_lite.bin import cli
from t2t_lite.data.text_files import read_lines
from t2t_lite.errors import UserError
from t2t_lite.registry import METRICS
from t2t_lite.system.machine import cpu_threads
from t2t_lite.system.tensorflow import import_tensorflow


def show(arguments: argparse.Namespace) -> None:
    cli.load_plugins(arguments, [arguments.output_dir])
    source = Path(arguments.decode_from_file)
    lines = [line for line in read_lines(source) if line.strip()]
    if not lines:
        raise UserError(f"{source} contains no text; pass a file with text to translate")
    references = list(read_lines(Path(arguments.reference))) if arguments.reference else None
    if references is not None and len(references) != (number := sum(1 for _ in read_lines(source))):
        raise UserError(
            f"{arguments.reference} has {len(references):,} lines, but {source} has {number:,}; pass one per line"
        )
    import_tensorflow()
    from t2t_lite.benchmark import engines
    from t2t_lite.training import devices

    before = devices.matmul_gflops()
    decoding = engines.Decoding(
        Path(arguments.output_dir),
        source,
        lines,
        arguments.decode_hparams,
        arguments.repeats,
        arguments.one_by_one,
        arguments.t2t_usr_dir,
    )
    program = cli.program if arguments.whole_command else None
    speeds = list(engines.measure_engines(decoding, arguments.engine or engines.ENGINES, program))
    titles = ("cold, s", "warm, s", "lines/s", "tokens/s", "one by one, lines/s", "peak, MiB", "BLEU")
    table = rich.table.Table("engine", *titles)
    for column in table.columns[1:]:
        column.justify = "right"
    for speed in speeds:
        whole = [f"{each.seconds:.1f}" if each else "-" for each in (speed.cold, speed.warm)]
        rates = ["-", "-"]
        if speed.batches:
            rates = [f"{speed.batches.lines_per_second():.1f}", f"{speed.batches.tokens_per_second():,.0f}"]
        single = f"{speed.one_by_one.lines_per_second():.1f}" if speed.one_by_one else "-"
        peak = f"{speed.warm.peak_bytes / 2**20:,.0f}" if speed.warm else "-"
        bleu = "-"
        if references is not None and speed.warm is not None:
            bleu = f"{METRICS['bleu']().score(speed.warm.outputs, references):.2f}"
        table.add_row(speed.name, *whole, *rates, single, peak, bleu)
    cli.print_table(table)
    for speed in speeds:
        if speed.reason:
            cli.say(f"{speed.name}: {speed.reason}")
    print(f"\nmodel: {arguments.output_dir}; {len(lines):,} lines, medians of {arguments.repeats} runs after warm-up")
    print(f"2048x2048 float32 product: {before:.0f} GFLOP/s before, {devices.matmul_gflops():.0f} after")
    print(f"threads: {cpu_threads()}")
