"""t2t-lite-benchmark --layers: measures the layers of table 1."""

import argparse
from pathlib import Path

from t2t_lite.bin import cli
from t2t_lite.system.machine import cpu_threads
from t2t_lite.system.tensorflow import import_tensorflow

COMPARED_LENGTH = 4096


def show(arguments: argparse.Namespace) -> None:
    import_tensorflow()
    from t2t_lite.benchmark import layers
    from t2t_lite.training import devices

    r = arguments.neighborhood_size
    threads = cpu_threads()
    speed = devices.matmul_gflops()
    print(f"float32 on the CPU, {threads} thread{'s' if threads > 1 else ''}; {speed:.0f} GFLOP/s in a")
    print(f"2048x2048 product; r = {r}, k = {layers.KERNEL_SIZE}; attention without projections, as in table 1\n")
    sweeps = []
    for name in layers.CASES:
        sweep = layers.measure(name, r, [n for n in layers.LENGTHS if n <= arguments.max_length])
        sweeps.append(sweep)
        lengths = cli.table(sweep.case.name, *(str(point.length) for point in sweep.by_length))
        milliseconds = [f"{point.seconds * 1e3:.2f}" for point in sweep.by_length]
        lengths.add_row(f"ms, d = {sweep.case.hidden_size}", *milliseconds)
        lengths.add_row("MiB (peak)", *(f"{point.memory / 2**20:.0f}" for point in sweep.by_length))
        cli.print_table(lengths)
        widths = cli.table("d", *(str(point.hidden_size) for point in sweep.by_width))
        milliseconds = [f"{point.seconds * 1e3:.2f}" for point in sweep.by_width]
        widths.add_row(f"ms, n = {sweep.by_width[0].length}", *milliseconds)
        cli.print_table(widths)
        print()

    table = cli.table("fitted exponents", "work", "time, n", "table 1", "memory, n", "time, d", "table 1")
    for sweep in sweeps:
        time, of_table, over_width, of_table_over_width = sweep.exponents(r).values()
        memory = layers.exponent(sweep.fitted, "memory", "length")
        numbers = (time, of_table, memory, over_width, of_table_over_width)
        table.add_row(sweep.case.name, sweep.case.work, *(f"{number:.2f}" for number in numbers))
    cli.print_table(table)
    print(f"fitted to the measured lengths among n = {', '.join(map(str, layers.FITTED_LENGTHS))}, and to all d\n")

    near = layers.PATH_NEIGHBORHOOD_SIZE
    table = cli.table(
        "path length, layers", *(f"n = {n}" for n in layers.PATH_LENGTHS), "without factors", "exponent in n"
    )
    paths = {}
    for name in layers.LAYERS:
        paths[name] = [(n, layers.path_length(name, n, near)) for n in layers.PATH_LENGTHS]
        exponent = f"{layers.slope(*zip(*paths[name])):.2f}"
        of_table = [f"{layers.table_path_length(name, n, near):.3g}" for n in layers.PATH_LENGTHS]
        table.add_row(name, *(str(number) for _, number in paths[name]), " ".join(of_table), exponent)
    cli.print_table(table)
    print(
        f"traced until all outputs depend on all inputs; local with r = {near}; each step of a recurrent layer counts\n"
    )

    if arguments.max_length >= COMPARED_LENGTH:
        local, full = (layers.measure_whole_layer(name, r, COMPARED_LENGTH) for name in ("local", "full"))
        print(
            f"whole layers with projections at n = {COMPARED_LENGTH}, r = {r}: local attention needs "
            f"{local.seconds / full.seconds:.1%} of full attention's time ({local.seconds * 1e3:.0f} of "
            f"{full.seconds * 1e3:.0f} ms) and {local.memory / full.memory:.1%} of its memory "
            f"({local.memory / 2**20:.0f} of {full.memory / 2**20:.0f} MiB)"
        )
    if arguments.plot_file is not None:
        layers.plot(sweeps, paths, Path(arguments.plot_file))
        print(f"\nplot: {arguments.plot_file}")
