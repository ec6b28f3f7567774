"""t2t-lite-benchmark --serving: measures a server under the load of many clients."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from t2t_lite.benchmark.serving import ServingFigures

_WARM_SECONDS = 60  # memory is compared from this time onwards
_SPAN_SECONDS = 20  # memory is averaged over this many seconds


def show(arguments: argparse.Namespace) -> None:
    """Measures a server and prints the results. Exits with status 1 if a request failed."""
    from t2t_lite.benchmark.serving import measure_serving
    from t2t_lite.data.text_files import read_lines
    from t2t_lite.errors import UserError
    from t2t_lite.files import write_text

    source = Path(arguments.decode_from_file)
    texts = [line for line in read_lines(source) if line.strip()]
    if not texts:
        raise UserError(f"{source} contains no text; pass a file with text to translate")
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
    print(f"{arguments.clients} clients, {arguments.lines} lines per request, {figures.seconds:.1f} s")
    print(f"{figures.lines_per_second:,.1f} lines/s in {len(figures.latencies):,} requests")
    if figures.latencies:
        shown = (f"p{percent} {1000 * figures.percentile(percent):,.0f} ms" for percent in (50, 95, 99))
        print(f"latency: {', '.join(shown)}, max {1000 * max(figures.latencies):,.0f} ms")
    errors = ", ".join(f"{number:,} x {what}" for what, number in figures.errors.most_common())
    print(f"errors: {errors or 'none'}")
    if figures.memory:
        print(f"memory of the server: {_memory(figures)}")


def _memory(figures: "ServingFigures") -> str:
    """Returns how the server's memory changed, by means over some seconds, because requests allocate buffers."""
    span = min(_SPAN_SECONDS, figures.seconds / 4)
    start = min(_WARM_SECONDS, figures.seconds / 2)
    first = [size for at, size in figures.memory if start <= at <= start + span]
    last = [size for at, size in figures.memory if at >= figures.seconds - span]
    highest = max(size for _, size in figures.memory) / 2**20
    if not first or not last:
        return f"at most {highest:,.0f} MiB"
    before, after = (sum(part) / len(part) / 2**20 for part in (first, last))
    change = f"{100 * (after / before - 1):+.1f}%, means over {span:.0f} s"
    return f"{before:,.0f} MiB after {start:.0f} s, {after:,.0f} at the end ({change}), at most {highest:,.0f}"
