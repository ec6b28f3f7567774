"""Measurements of a checkpoint's attention heads, and how the run directory stores them.

scores/heads.<split>.<checkpoint>/heads.json   the result of `measure_heads`, and what it depends on
scores/heads.<split>.<checkpoint>/heads.md     the result in readable form
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import t2t_lite
from t2t_lite.checkpoints.versions import INDEX
from t2t_lite.evaluation.heads import FORMAT, labelled_pairs, measure_heads
from t2t_lite.evaluation.report import table
from t2t_lite.evaluation.request import FOLDER, Request, folder_name
from t2t_lite.files import as_json, file_sha256, write_text, written_folder
from t2t_lite.visualization.head_statistics import MEASURES

HEADS, REPORT = "heads.json", "heads.md"
# How relations are scored.
NOTE = (
    "An attention head is right if the dependent word attends to its head word more than to any other word except "
    "itself. The best head and the best distance were chosen on every second line and scored on the other lines. The "
    "95% intervals (Wilson) are wider if cases on the same line tend to be right or wrong together."
)


@dataclasses.dataclass(frozen=True)
class HeadsReport:
    """Measurements of a checkpoint's attention heads.

    Args:
      path: the folder with heads.json and heads.md.
      content: everything in heads.json, see `measure_heads`.
      measured_now: whether this call measured the heads; otherwise the stored measurements are returned.
    """

    path: Path
    content: Mapping[str, Any] = dataclasses.field(repr=False, hash=False)
    measured_now: bool = False

    def report(self) -> str:
        """Returns the report in Markdown."""
        return heads_report(self.content)


def load_or_measure_heads(request: Request, lines: int) -> HeadsReport:
    """Returns stored measurements of a checkpoint's heads, or measures at most `lines` lines and stores the result.

    Raises a UserError if the model has no attention weights, or the checkpoint cannot be read.
    """
    name = folder_name(f"heads.{request.split}", request.selection.path, "").rstrip(".")
    folder = request.run_dir.path / FOLDER / name
    measured_on = {
        "checkpoint_sha256": file_sha256(Path(f"{request.selection.path}{INDEX}")),
        "inputs_sha256": file_sha256(request.text_paths[0]),
        "targets_sha256": file_sha256(request.text_paths[1]),
        "at_most": lines,
        "version": t2t_lite.__version__,  # another version may measure something else
        **{name: code for name, code in request.decoded_by().items() if name == "plugins"},
    }
    stored = read_heads(folder)
    if stored is not None and stored.content.get("measured_on") == measured_on:
        return stored
    content = _measured(request, lines)
    about = {"run": request.run_dir.path.name, "checkpoint": request.selection.path.name, "split": request.split}
    content = {**content, **about, "measured_on": measured_on}
    with written_folder(folder, "`output_dir`") as partial:
        write_text(partial / HEADS, as_json(content) + "\n")
        write_text(partial / REPORT, heads_report(content))
    return HeadsReport(folder, content, measured_now=True)


def read_heads(folder: Path) -> HeadsReport | None:
    """Returns the measurements in a folder; None if there are none, or this version cannot read them."""
    try:
        content = json.loads((folder / HEADS).read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            return None
        heads_report(content)  # raises an error if something to be shown is missing
        return HeadsReport(folder, content)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
        return None


def _measured(request: Request, lines: int) -> dict[str, Any]:
    from t2t_lite.decoding.translator import Translator
    from t2t_lite.parsing.parser import Parser

    problem = request.run_dir.problem
    inputs, (targets, *_) = request.texts()
    translator = Translator.from_run_dir(request.run_dir.path, {}, request.selection.path, warn=lambda line: None)
    model = Parser(translator) if problem.writes_trees else translator
    return measure_heads(model, labelled_pairs(problem, inputs, targets, lines))


# The report.


class Table(NamedTuple):
    """The column titles and the rows of a table, all texts."""

    titles: list[str]
    rows: list[list[str]]


def heads_report(content: Mapping[str, Any]) -> str:
    """Returns the report: the most unusual heads, the dependencies between words, and all heads.

    `content` is the return value of `measure_heads` plus "run", "checkpoint" and "split".
    """
    lines = [
        f"# {content['run']}: attention heads of {content['checkpoint']} on {content['lines']:,} lines of "
        f"{content['split']}",
        "",
        "Measured with teacher forcing on the references. Uniform attention over the same tokens is the baseline. "
        "Distances are in tokens, entropies in bits.",
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


def peaks(layers: Sequence[Mapping[str, Any]]) -> Table:
    """Returns the heads that differ most from uniform attention by each measure."""
    rows = []
    for kind in dict.fromkeys(layer["kind"] for layer in layers):
        of_kind = [layer for layer in layers if layer["kind"] == kind]
        for measure in MEASURES:
            if measure.name not in of_kind[0]["uniform"]:
                continue
            candidates = [
                (value, layer["layer"], head, layer["uniform"][measure.name])
                for layer in of_kind
                for head, value in enumerate(layer["heads"][measure.name])
            ]
            # Large shares and small entropies stand out; distances stand out at both ends.
            ends = [max] if measure.is_share else [min] if measure.name == "entropy" else [min, max]
            for end in ends:
                value, layer, head, uniform = end(candidates)
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


def relations(measured_relations: Sequence[Mapping[str, Any]]) -> Table:
    """Returns how well the best head follows each dependency, compared to the best fixed distance."""
    rows = []
    for each in measured_relations:
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
