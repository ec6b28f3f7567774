"""Plots table 1: time and memory over lengths, time over widths, path lengths."""

import importlib.util
from pathlib import Path

from t2t_lite.benchmark.layers import Sweep
from t2t_lite.errors import UserError
from t2t_lite.files import check_output, written_whole

FORMATS = (".png", ".svg", ".pdf")


def check_plot_file(file: Path) -> None:
    """Raises UserError if a plot cannot be written to `file`."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UserError("a plot needs matplotlib; run pip install 't2t-lite[plot]', or omit `plot_file`")
    check_output(file, f"`plot_file={file}`")
    if file.suffix.lower() not in FORMATS:
        raise UserError(f"`plot_file={file}`: unknown plot format; use a file name that ends in {', '.join(FORMATS)}")


def plot(sweeps: list[Sweep], paths: dict[str, list[tuple[int, int]]], file: Path) -> None:
    """Plots four panels with logarithmic axes into a file, which appears once it is complete.

    Args:
      sweeps: the measurements of each layer.
      paths: (positions, path length in layers) of each layer, by name.
      file: where to write.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 8), layout="constrained")
    time, memory, width, path = figure.subplots(2, 2).flat
    for sweep in sweeps:
        name = f"{sweep.case.name}: {sweep.case.work}"
        lengths = [point.length for point in sweep.by_length]
        time.plot(lengths, [point.seconds for point in sweep.by_length], marker="o", label=name)
        memory.plot(lengths, [point.memory / 2**20 for point in sweep.by_length], marker="o")
        widths = [point.hidden_size for point in sweep.by_width]
        width.plot(widths, [point.seconds for point in sweep.by_width], marker="o")
    for name, points in paths.items():
        path.plot(*zip(*points), marker="o", label=name)
    for axes, x, y in (
        (time, "length n", "seconds per forward pass"),
        (memory, "length n", "peak memory, MiB"),
        (width, "width d", "seconds per forward pass"),
        (path, "length n", "maximum path length, layers"),
    ):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.grid(alpha=0.3)
    time.legend()
    path.set_ylim(bottom=0.1)  # room for the legend
    path.legend(loc="lower right", ncols=2, fontsize="small")
    figure.suptitle("Table 1 of “Attention Is All You Need”, measured")
    with written_whole(file) as partial:
        figure.savefig(partial, format=file.suffix[1:].lower(), dpi=120)
