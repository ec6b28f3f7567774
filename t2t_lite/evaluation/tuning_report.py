"""The report on tuned search settings, and its plot."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_lite.evaluation.report import format_interval, format_p_value, table
from t2t_lite.metric import figure_label, figure_name
from t2t_lite.runs.tuned_settings import ALPHA, AVERAGE, BEAM_SIZE, FILE, TunedSettings
from t2t_lite.scoring.significance import BOOTSTRAP, EXPLANATIONS, RANDOMISATION
from t2t_lite.visualization.figures import make_figure, save

_TITLES = {AVERAGE: "averaged checkpoints", BEAM_SIZE: "beam size", ALPHA: "length penalty alpha"}


def tuning_report(content: Mapping[str, Any], decides: bool, earlier: TunedSettings) -> str:
    """Returns the report in Markdown, given the content of tune.json. For the other arguments see `Tuned`."""
    current, label = content["current"], figure_label(figure_name(content["metric"]))
    rows = [["current", *_cells(current)], *([_checkpoint(row), *_cells(row)] for row in content["rows"])]
    lines = [
        f"# {Path(content['run']).name}: search settings of {content['checkpoint']} on {content['split']}",
        "",
        *table(["checkpoint", *_titles(label)], rows),
        "",
        f"p: the p-value of the difference from the first row, which has the problem's settings. p, randomisation: by "
        f"{EXPLANATIONS[RANDOMISATION]}. p, corrected: the p-value by randomisation, corrected for the "
        f"{len(content['rows'])} rows (Holm 1979); it decides. p, bootstrap: by {EXPLANATIONS[BOOTSTRAP]}.",
        f"Each beam size was searched once, with alpha={current[ALPHA] or 0.6:g}. Its hypotheses were reranked for "
        f"every other alpha, which approximates a search with that alpha.",
        "",
    ]
    decoded, better = content["decoded"], content["better"]
    if decoded:
        lines += ["Real searches, the best row first:", "", *table(_titles(label), list(map(_cells, decoded))), ""]
    if earlier.settings and (earlier.settings, earlier.checkpoint) != (better, content["checkpoint"]):
        lines += [_about(earlier, content, decides), ""]
    not_remembered = "decode_hparams changed the settings used for comparison"
    if better:
        values = ",".join(f"{name}={value:g}" for name, value in better.items())
        then = f"and now the run's defaults, in {FILE}" if decides else f"but not remembered, because {not_remembered}"
        lines.append(f"{values}: significantly better (corrected p < 0.05), {then}.")
    else:
        confirmed = " in a real search" if decoded else ""
        then = "the settings of the problem are used" if earlier.settings and decides else "nothing is changed"
        lines.append(f"No settings are significantly better (corrected p < 0.05){confirmed}: {then}.")
    if average := content["better_average"]:
        lines.append(
            f"The average of {average[AVERAGE]} checkpoints is significantly better ({label} {average['score']:.2f} "
            f"with beam_size={average[BEAM_SIZE]}, alpha={average[ALPHA]:g}): write it with t2t-lite-avg "
            f"--n={average[AVERAGE]}, then tune its search."
        )
    return "\n".join(lines) + "\n"


def _about(earlier: TunedSettings, content: Mapping[str, Any], decides: bool) -> str:
    checkpoint = earlier.checkpoint or "an unknown checkpoint"
    other = "" if checkpoint == content["checkpoint"] else f", not {content['checkpoint']}"
    if not decides:
        then = f"stays the run's default, in {FILE}"
    elif content["better"] == earlier.settings:
        then = "is the best again"
    else:
        then = "is replaced" if content["better"] else "is no longer used"
    return f"{earlier} was tuned earlier with {checkpoint}{other}. It is among the rows and {then}."


def plot_tuning(content: Mapping[str, Any], file: Path) -> None:
    """Plots scores with intervals against each tuned setting. The file is written atomically.

    The other settings have their current values or, if the grid lacks these, those of the best row.
    """
    names = [name for name in _TITLES if name in content["grid"]]
    sign = 1 if content["higher_is_better"] else -1
    rows = content["rows"]
    best = max(rows, key=lambda row: sign * row["score"])
    # The rows with the current settings come from real searches, unlike rows with another alpha.
    of_current = [row for row in rows if all(row[name] == content["current"].get(name) for name in _TITLES)]
    shown = next(iter(of_current), best)
    figure = make_figure(4.5 * len(names), 4)
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for name, axes in zip(names, panels):
        fixed = [other for other in _TITLES if other != name]
        # A beam size of 1 has a single row, because the length penalty has no effect on it.
        chosen = [
            row
            for row in rows
            if all(row[other] == shown[other] or (other == ALPHA and row[BEAM_SIZE] == 1) for other in fixed)
        ]
        places = [row[name] for row in chosen] if name == ALPHA else list(range(len(chosen)))
        scores = [row["score"] for row in chosen]
        errors = [[row["score"] - row["low"] for row in chosen], [row["high"] - row["score"] for row in chosen]]
        axes.errorbar(places, scores, yerr=errors, marker="o", capsize=3)
        real = [row for row in content["decoded"] if row[BEAM_SIZE] == shown[BEAM_SIZE]]
        if name == ALPHA and real:
            axes.plot(
                [row[ALPHA] for row in real], [row["score"] for row in real], "rx", label="searched with this alpha"
            )
        axes.axhline(content["current"]["score"], color="gray", linestyle="--", linewidth=1, label="current settings")
        if name != ALPHA:
            axes.set_xticks(places, [_checkpoint(row) if name == AVERAGE else str(row[name]) for row in chosen])
        values = {other: "current" if shown[other] is None else f"{shown[other]:g}" for other in fixed}
        axes.set_title(", ".join(f"{other}={value}" for other, value in values.items()), fontsize="small")
        axes.set_xlabel(_TITLES[name])
        axes.set_ylabel(f"{figure_label(figure_name(content['metric']))} on {content['split']}")
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    save(figure, file)


def _titles(label: str) -> list[str]:
    return ["beam_size", "alpha", label, "95% interval", "p, randomisation", "p, corrected", "p, bootstrap"]


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [
        str(row[BEAM_SIZE]),
        f"{row[ALPHA]:g}",
        f"{row['score']:.2f}",
        format_interval((row["low"], row["high"])),
        *(format_p_value(row[name]) for name in ("p_randomisation", "p_corrected", "p_bootstrap")),
    ]


def _checkpoint(row: Mapping[str, Any]) -> str:
    return "current" if row[AVERAGE] is None else f"last {row[AVERAGE]}"
