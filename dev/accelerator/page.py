"""Formats the measurements of an accelerator as a page of Markdown."""

import datetime

from dev.accelerator.cases import BFLOAT16, FLOAT32

_COLUMNS = [
    *("batch, precision", "ms per step", "target tokens/s", "utilisation, 6 N", "counted", "memory, GB"),
    *("compilation, s", "Marian, target tokens/s", "ratio"),
]


def as_page(figures: dict[str, dict]) -> str:
    """Returns a page of Markdown for docs/results.md.

    Args:
      figures: the result of `processes.measure`.
    """
    ours, peer = figures["ours"], figures["peer"]
    parts = [_about(ours, peer), _products(ours.get("products", {})), _steps(ours.get("steps", {}), peer)]
    parts += [_scaling(ours), _largest_batches(ours), _shapes(ours), _search(ours, peer)]
    parts += [_profile(name, profile) for name, profile in ours.get("profiles", {}).items() if "largest" in profile]
    parts += [_curves(ours.get("curves", {})), _equality(ours)]
    parts += [f"Not measured, {where}: {error[0]}" for where, error in ours.get("errors", {}).items()]
    parts += [f"Not measured, Marian, {where}: {error[0]}" for where, error in peer.get("errors", {}).items()]
    return "\n\n".join(part for part in parts if part) + "\n"


def loss_difference(curves: dict[str, list[float]]) -> float:
    """Returns the largest relative difference between two loss curves."""
    return max(abs(b / a - 1.0) for a, b in zip(curves[FLOAT32], curves[BFLOAT16]))


def _about(ours: dict, peer: dict) -> str:
    machine = ours["machine"]
    versions = {name: version for name, version in machine.items() if name != "devices"} | peer.get("versions", {})
    described = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{', '.join(machine['devices'])}; {described}; {datetime.date.today()}"


def _products(rates: dict[str, float]) -> str:
    listed = ", ".join(f"{name}: {rate:,.3g} TFLOP/s" for name, rate in rates.items())
    return f"Products of square matrices: {listed}." if rates else ""


def _steps(steps: dict[str, dict], peer: dict) -> str:
    rows = []
    for name, step in steps.items():
        if "step_seconds" not in step:
            rows.append([name, step.get("not measured", "not measured")] + [""] * 7)
            continue
        rate = step["target_tokens_per_second"]
        theirs = peer.get(name, {}).get("tokens_per_second")
        rows.append(
            [
                name,
                f"{1000 * step['step_seconds']:,.1f}",
                f"{rate:,.0f}",
                f"{step['utilisation_by_6_parameters']:.1%}",
                f"{step['utilisation_by_counted_flops']:.1%}",
                f"{step['memory_bytes'] / 1e9:.1f}",
                f"{step['compile_seconds']:.0f}",
                f"{theirs:,.0f}" if theirs else "",
                f"{rate / theirs:.2f}" if theirs else "",
            ]
        )
    return _table(_COLUMNS, rows) if rows else ""


def _scaling(ours: dict) -> str:
    """The efficiency on several devices: the speed, divided by that of as many single devices."""
    measured = [step for step in ours.get("steps", {}).values() if "devices" in step]
    one = next((step["target_tokens_per_second"] for step in measured if step["devices"] == 1), None)
    rows = []
    for step in measured if one else ():
        number, rate = step["devices"], step["target_tokens_per_second"]
        how = " in as many processes" if step.get("in_processes") else ""
        rows.append([f"{number}{how}", f"{rate:,.0f}", f"{rate / (number * one):.1%}"])
    parts = [_table(["devices", "target tokens/s", "efficiency"], rows)] if rows else []
    if reduced := ours.get("all_reduce"):
        size, rate = reduced["bytes"] / 1e6, reduced["bytes_per_second"] / 1e9
        parts.append(f"All-reduce of {size:,.0f} MB: {rate:,.3g} GB/s sent and received by each device.")
    return "\n\n".join(parts)


def _largest_batches(ours: dict) -> str:
    told = [
        f"{name}: {found['target_tokens']:,} target tokens ({found['memory_bytes'] / 1e9:,.3g} of "
        f"{found['limit_bytes'] / 1e9:,.3g} GB)"
        for name, found in ours.get("largest_batches", {}).items()
    ]
    return f"The largest batch that fits on a device, in bfloat16: {'; '.join(told)}." if told else ""


def _shapes(ours: dict) -> str:
    if "shapes" not in ours:
        return ""
    shapes = ours["shapes"]
    return (
        f"An epoch of {shapes['problem']} has {shapes['batches']:,} batches of about {shapes['batch_tokens']:,} target "
        f"tokens and {shapes['shapes']:,} shapes, each of which is compiled once."
    )


def _equality(ours: dict) -> str:
    if "equality" not in ours:
        return ""
    told = ", ".join(f"{how}: {difference:.1e}" for how, difference in ours["equality"].items())
    return f"The largest difference of a parameter to training on one device, after 10 steps with dropout: {told}."


def _search(figures: dict, peer: dict) -> str:
    ours, theirs = figures.get("search", {}), peer.get("search", {})
    if not ours:
        return ""
    told = f"Beam search: {ours['tokens_per_second']:,.0f} output tokens/s"
    if "tokens_per_second" in theirs:
        told += f", `generate` {theirs['tokens_per_second']:,.0f}"
        told += f" (ratio {ours['tokens_per_second'] / theirs['tokens_per_second']:.2f})"
    return f"{told}."


def _profile(name: str, profile: dict) -> str:
    kinds = profile["milliseconds_by_kind"]
    total = sum(sum(times.values()) for times in kinds.values())
    rows = [
        [kind, f"{times['products']:.2f}", f"{times['other']:.2f}", f"{sum(times.values()) / total:.1%}"]
        for kind, times in kinds.items()
    ]
    table = _table([f"{name}: ms per step, {total:.1f} in total", "products", "other kernels", "share"], rows)
    largest = "\n".join(
        f"- {time:.2f} ms, {calls:g} calls: {where}" for time, calls, _, where in profile["largest"][:5]
    )
    return f"{table}\n\nThe kernels that take the most time:\n\n{largest}"


def _curves(curves: dict) -> str:
    if not {FLOAT32, BFLOAT16} <= curves.keys():
        return ""
    first, last = (f"{curves[FLOAT32][at]:.3f} and {curves[BFLOAT16][at]:.3f}" for at in (0, -1))
    return (
        f"Loss in float32 and bfloat16 over {len(curves[FLOAT32])} steps: {first} at the start, {last} at the end; the "
        f"largest relative difference is {loss_difference(curves):.2%}."
    )


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
