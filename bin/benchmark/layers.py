"""t2t-lite-benchmark --layers: measures the layers of table 1."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from t2t_lite.bin import cli

if TYPE_CHECKING:
    from t2t_lite.benchmark.layers import Sweep

COMPARED_LENGTH = 4096


def show(arguments: argparse.Namespace) -> None:
    if arguments.plot_file is not None:
        from t2t_lite.visualization.figures import check_plot_file

        check_plot_file(Path(arguments.plot_file))  # before measuring, which takes minutes
    from t2t_lite.system.tensorflow import import_tensorflow

    import_tensorflow()
    from t2t_lite.benchmark import layers
    from t2t_lite.benchmark.machine import cpu_threads
    from t2t_lite.training.monitoring.peak_flops import matmul_gflops

    r = arguments.neighborhood_size
    threads = cpu_threads()
    print(f"float32 on the CPU, {threads} thread{'s' if threads > 1 else ''}; {matmul_gflops():.0f} GFLOP/s in a")
    print(f"2048x2048 product; r = {r}, k = {layers.KERNEL_SIZE}; attention without projections, as in table 1\n")
    sweeps = []
    for name in layers.CASES:
        sweeps.append(layers.measure(name, r, [n for n in layers.LENGTHS if n <= arguments.max_length]))
        _print_points(sweeps[-1])
    _print_exponents(sweeps, r)
    paths = _print_paths()
    if arguments.max_length >= COMPARED_LENGTH:
        _print_comparison(r)
    if arguments.plot_file is not None:
        from t2t_lite.benchmark.layers import plot

        plot(sweeps, paths, Path(arguments.plot_file))
        print(f"\nplot: {arguments.plot_file}")


def _print_points(sweep: "Sweep") -> None:
    case = sweep.case
    lengths = cli.table(case.name, *(str(point.length) for point in sweep.by_length))
    lengths.add_row(f"ms, d = {case.hidden_size}", *(f"{point.seconds * 1e3:.2f}" for point in sweep.by_length))
    lengths.add_row("MiB (peak)", *(f"{point.memory / 2**20:.0f}" for point in sweep.by_length))
    cli.print_table(lengths)
    widths = cli.table("d", *(str(point.hidden_size) for point in sweep.by_width))
    widths.add_row(f"ms, n = {sweep.by_width[0].length}", *(f"{point.seconds * 1e3:.2f}" for point in sweep.by_width))
    cli.print_table(widths)
    print()


def _print_exponents(sweeps: "Sequence[Sweep]", r: int) -> None:
    from t2t_lite.benchmark.layers import FITTED_LENGTHS, exponent

    table = cli.table("fitted exponents", "work", "time, n", "table 1", "memory, n", "time, d", "table 1")
    for sweep in sweeps:
        time, of_table, over_width, of_table_over_width = sweep.exponents(r).values()
        memory = exponent(sweep.fitted, "memory", "length")
        numbers = (time, of_table, memory, over_width, of_table_over_width)
        table.add_row(sweep.case.name, sweep.case.work, *(f"{number:.2f}" for number in numbers))
    cli.print_table(table)
    print(f"fitted to the measured lengths among n = {', '.join(map(str, FITTED_LENGTHS))}, and to all d\n")


def _print_paths() -> dict[str, list[tuple[int, int]]]:
    from t2t_lite.benchmark.layers import PATH_LENGTHS, PATH_NEIGHBORHOOD_SIZE, slope
    from t2t_lite.benchmark.path_length import LAYERS, path_length, table_path_length

    r = PATH_NEIGHBORHOOD_SIZE
    table = cli.table("path length, layers", *(f"n = {n}" for n in PATH_LENGTHS), "without factors", "exponent in n")
    paths = {}
    for name in LAYERS:
        paths[name] = [(n, path_length(name, n, r)) for n in PATH_LENGTHS]
        exponent = f"{slope(*zip(*paths[name])):.2f}"
        of_table = [f"{table_path_length(name, n, r):.3g}" for n in PATH_LENGTHS]
        table.add_row(name, *(str(layers) for _, layers in paths[name]), " ".join(of_table), exponent)
    cli.print_table(table)
    print(f"traced until all outputs depend on all inputs; local with r = {r}; each step of a recurrent layer counts\n")
    return paths


def _print_comparison(r: int) -> None:
    from t2t_lite.benchmark.layers import measure_whole_layer

    local, full = (measure_whole_layer(name, r, COMPARED_LENGTH) for name in ("local", "full"))
    print(
        f"whole layers with projections at n = {COMPARED_LENGTH}, r = {r}: local attention needs "
        f"{local.seconds / full.seconds:.1%} of full attention's time ({local.seconds * 1e3:.0f} of "
        f"{full.seconds * 1e3:.0f} ms) and {local.memory / full.memory:.1%} of its memory "
        f"({local.memory / 2**20:.0f} of {full.memory / 2**20:.0f} MiB)"
    )
