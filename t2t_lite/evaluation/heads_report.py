"""The report about attention heads, in Markdown that is readable as it is."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from t2t_lite.evaluation.report import table
from t2t_lite.visualization.head_statistics import MEASURES


class Table(NamedTuple):
    """A table: its titles, and its rows of texts."""

    titles: list[str]
    rows: list[list[str]]


def heads_report(content: Mapping[str, Any]) -> str:
    """Returns the report: what stands out, the relations, and all heads.

    Args:
      content: see `measure_heads`, with "run", "checkpoint" and "split".
    """
    lines = [
        f"# {content['run']}: attention heads of {content['checkpoint']} on {content['lines']:,} lines of "
        f"{content['split']}",
        "",
        "Teacher forcing with the references. Uniform attention over the same tokens is the baseline; distances are in "
        "tokens, entropies in bits.",
        "",
        *table(*peaks(content["layers"])),
    ]
    if content["relations"]:
        lines += ["", "Dependencies between words:", "", *table(*relations(content["relations"])), "", NOTE]
    for kind in dict.fromkeys(layer["kind"] for layer in content["layers"]):
        lines += [
            "",
            f"All heads, {kind}:",
            "",
            *_all_heads([each for each in content["layers"] if each["kind"] == kind]),
        ]
    return "\n".join(lines) + "\n"


# How relations are scored.
NOTE = (
    "A head is right if the word that the dependent word attends to most, other than itself, is the head word. Head "
    "and distance were chosen on every second line, and scored on the others. 95% intervals "
    "(Wilson), wider where the cases of a line are right or wrong together."
)


def peaks(layers: Sequence[Mapping[str, Any]]) -> Table:
    """Returns the heads that differ most from uniform attention, by measure."""
    rows = []
    for kind in dict.fromkeys(layer["kind"] for layer in layers):
        of_kind = [layer for layer in layers if layer["kind"] == kind]
        for measure in MEASURES:
            if measure.name not in of_kind[0]["uniform"]:
                continue
            found = [
                (value, layer["layer"], head, layer["uniform"][measure.name])
                for layer in of_kind
                for head, value in enumerate(layer["heads"][measure.name])
            ]
            # A share is remarkable if it is large, an entropy if it is small, a distance if it is either.
            ends = [max] if measure.is_share else [min] if measure.name == "entropy" else [min, max]
            for end in ends:
                value, layer, head, uniform = end(found)
                form = "{:.1%}" if measure.is_share else "{:.2f}"
                word = "least" if end is min else "most"
                rows.append(
                    [
                        f"{kind}: {word} {measure.label}",
                        f"layer {layer}, head {head}",
                        form.format(value),
                        form.format(uniform),
                    ]
                )
    return Table(["", "head", "measured", "uniform"], rows)


def relations(found: Sequence[Mapping[str, Any]]) -> Table:
    """Returns how well the best head follows each dependency, beside the best fixed distance."""
    rows = []
    for each in found:
        head = each["head"]
        rows.append(
            [
                each["relation"],
                f"{each['cases']:,}",
                f"{head['kind']} {head['layer']}.{head['head']}",
                _share(each["accuracy"], each["interval"]),
                f"{each['offset']:+d}",
                _share(each["baseline"], each["baseline_interval"]),
            ]
        )
    return Table(["relation", "cases", "best head", "accuracy", "best distance", "its accuracy"], rows)


def _share(value: float, interval: Sequence[float]) -> str:
    return f"{value:.1%} ({interval[0]:.1%} to {interval[1]:.1%})"


def _all_heads(layers: Sequence[Mapping[str, Any]]) -> list[str]:
    measures = [measure for measure in MEASURES if measure.name in layers[0]["uniform"]]
    forms = {measure.name: "{:.1%}" if measure.is_share else "{:.2f}" for measure in measures}
    rows = [
        [f"layer {layer['layer']}, head {head}", *(forms[name].format(layer["heads"][name][head]) for name in forms)]
        for layer in layers
        for head in range(len(next(iter(layer["heads"].values()))))
    ]
    rows.append(["uniform", *(forms[name].format(layers[0]["uniform"][name]) for name in forms)])
    return table(["", *(measure.label for measure in measures)], rows)
