"""Reproduces table 1 of the paper: measures the time and path length of each layer."""

import json
from collections.abc import Callable
from pathlib import Path

from t2t_lite.errors import UserError
from t2t_lite.files import write_text
from t2t_lite.reproduce.tables import Column, Grid

# The longest measured sequence at each scale, and r of local attention.
MAX_LENGTHS = {"tiny": 512, "small": 2048, "paper": 8192}
NEIGHBORHOOD_SIZE = 64
# Where path lengths are measured, as by t2t-lite-benchmark --layers: n, and r of local attention.
PATH_LENGTHS = (32, 64, 128, 256)
PATH_NEIGHBORHOOD_SIZE = 16
# The names, sequential operations and path lengths in the table.
LAYERS = {
    "full": ("Self-attention", "O(1)", "O(1)"),
    "recurrent": ("Recurrent", "O(n)", "O(n)"),
    "convolution": ("Convolutional", "O(1)", "O(log_k(n))"),
    "local": ("Self-attention (restricted)", "O(1)", "O(n/r)"),
    "separable_convolution": ("Separable convolution (section 4)", "O(1)", "O(log_k(n))"),
    "dilated_convolution": ("Dilated convolution", "O(1)", "O(log_k(n))"),
}
FILE = "table1.{}.json"


def measure_table_1(scale: str, output_dir: Path, is_over: Callable[[], bool], say: Callable[[str], None]) -> None:
    """Measures the layers that have no measurements yet, one after another, until the time is up.

    The scale, "tiny", "small" or "paper", determines the maximum sequence length.
    """
    path = output_dir / FILE.format(scale)
    measurements = read(path)
    for name in LAYERS:
        if name in measurements or is_over():
            continue
        say(f"{name}: measuring")
        measurements[name] = _measured(name, MAX_LENGTHS[scale])
        write_text(path, json.dumps(measurements, indent=2) + "\n")


def _measured(name: str, max_length: int) -> dict[str, object]:
    from t2t_lite.benchmark import layers

    figures: dict[str, object] = {"path": [layers.path_length(name, n, PATH_NEIGHBORHOOD_SIZE) for n in PATH_LENGTHS]}
    if name not in layers.CASES:  # a dilated convolution does the same work as any other
        return figures
    sweep = layers.measure(name, NEIGHBORHOOD_SIZE, [n for n in layers.LENGTHS if n <= max_length])
    return figures | sweep.exponents(NEIGHBORHOOD_SIZE) | {"work": sweep.case.work}


def read(path: Path) -> dict[str, dict]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}); remove it to measure again") from error


def table_1(scale: str, output_dir: Path) -> Grid:
    measurements = read(output_dir / FILE.format(scale))
    rows = []
    for name, (title, sequential, path) in LAYERS.items():
        if (figures := measurements.get(name)) is None:
            continue
        exponents = [
            figures.get(f"{over} exponent{of}") for over in ("length", "hidden_size") for of in ("", " of the table")
        ]
        work = f"O({figures['work']})" if "work" in figures else None
        rows.append([title, work, *exponents, sequential, path, ", ".join(map(str, figures["path"]))])
    columns = [
        Column("layer"),
        Column("complexity per layer (paper)"),
        Column("time: exponent of n", ".2f"),
        Column("from the complexity", ".2f"),
        Column("time: exponent of d", ".2f"),
        Column("from the complexity ", ".2f"),
        Column("sequential operations (paper)"),
        Column("maximum path length (paper)"),
        Column(f"path length, n = {', '.join(map(str, PATH_LENGTHS))}"),
    ]
    notes = [
        f"Exponents are fitted to the times of forward passes up to n = {MAX_LENGTHS[scale]}; attention is measured "
        f"without projections, with r = {NEIGHBORHOOD_SIZE}. Path lengths are the numbers of real layers after which "
        f"every output depends on every input, with k = 3 and r = {PATH_NEIGHBORHOOD_SIZE}. The paper's O(log_k(n)) is "
        f"for dilated convolutions; contiguous ones, in the other two rows, need O(n/k) layers (section 4)."
    ]
    return Grid("Table 1: complexity and path length of layers", columns, rows, notes)
