"""t2t-lite-benchmark --serving: what many clients of a server see."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from t2t_lite.benchmark.serving import ServingFigures

_WARM_SECONDS = 60  # memory is compared from here on


def print_serving(arguments: argparse.Namespace) -> None:
    """Measures a server and prints its figures. Exits with status 1 if a request failed."""
    from t2t_lite.benchmark.serving import measure_serving
    from t2t_lite.data.text_files import read_lines
    from t2t_lite.errors import UserError
    from t2t_lite.files import write_text

    source = Path(arguments.decode_from_file)
    texts = [line for line in read_lines(source) if line.strip()]
    if not texts:
        raise UserError(f"{source} has no line with text; give a file with text to translate")
    figures = measure_serving(
        arguments.url,
        texts,
        arguments.clients,
        arguments.lines,
        arguments.seconds,
        api_key=arguments.api_key,
    )
    _print(figures, arguments)
    if arguments.json_file:
        write_text(Path(arguments.json_file), json.dumps(figures.as_json(), indent=2) + "\n")
    if figures.errors:
        raise SystemExit(1)


def _print(figures: "ServingFigures", arguments: argparse.Namespace) -> None:
    print(f"{arguments.clients} clients, {arguments.lines} lines a request, {figures.seconds:.1f} s")
    print(f"{figures.lines_per_second:,.1f} lines/s in {len(figures.latencies):,} requests")
    if figures.latencies:
        shown = (f"p{percent} {1000 * figures.percentile(percent):,.0f} ms" for percent in (50, 95, 99))
        print(f"latency: {', '.join(shown)}, max {1000 * max(figures.latencies):,.0f} ms")
    errors = ", ".join(f"{number:,} x {what}" for what, number in figures.errors.most_common())
    print(f"errors: {errors or 'none'}")
    if figures.memory:
        warm = [size for at, size in figures.memory if at >= min(_WARM_SECONDS, figures.seconds / 2)]
        first, last = warm[0] if warm else figures.memory[-1][1], figures.memory[-1][1]
        when = f"{min(_WARM_SECONDS, figures.seconds / 2):.0f} s"
        print(
            f"memory of the server: {first / 2**20:,.0f} MiB after {when}, {last / 2**20:,.0f} at the end "
            f"({100 * (last / first - 1):+.1f}%), at most {max(warm or [last]) / 2**20:,.0f} in between"
        )
