"""Reports of evaluations in Markdown that is readable as plain text."""

from collections.abc import Sequence

from t2t_lite.evaluation.stored import Figure, SplitScores


def evaluation_report(scores: SplitScores) -> str:
    content = scores.content
    settings = content["decoded_by"]["decode_hparams"]
    members = f", the average of steps {', '.join(map(str, scores.members))}" if scores.members else ""
    chosen = f" ({content['checkpoint']['chosen']})" if content["checkpoint"]["chosen"] else ""
    speed = f", {content['lines_per_second']:.1f} lines/s, including compilation" if content["lines_per_second"] else ""
    lines = [
        f"# {scores.output_dir.name}: {scores.checkpoint.name} on {scores.split}",
        "",
        f"- run: {content['run']}",
        f"- checkpoint: {scores.checkpoint.name}{chosen}{members}",
        f"- search: beam_size={settings['beam_size']}, alpha={settings['alpha']:g}; all settings are in scores.json"
        if content.get("decoded", True)
        else "- search: none, only losses",
        f"- {content['lines']:,} lines in {content['seconds']:.1f} s{speed}",
        f"- references: {', '.join(each['file'] for each in content['references'])}",
        f"- version {content['version']}, {content['date']}",
        "",
        *figure_table(scores.figures),
        "",
        *(
            f"- {figure.label}: {figure.meaning}{f' Signature: {figure.signature}' if figure.signature else ''}"
            for figure in scores.figures
        ),
    ]
    if scores.intervals:
        lines.append("- 95% interval: bootstrap resampling of the lines, 1,000 samples.")
    if by_length := content.get("by_length"):
        cells = []
        for row in by_length:
            if row["score"] is not None:
                ratio = "" if row["length_ratio"] is None else f"{row['length_ratio']:.3f}"
                cells.append([row["words"], f"{row['lines']:,}", f"{row['score']:.2f}", ratio])
        titles = ["words", "lines", scores.figures[0].label, "length ratio"]
        note = "length ratio: whitespace-separated words in the outputs / in the first set of references."
        lines += ["", "By number of source words:", "", *table(titles, cells), "", note]
    return "\n".join(lines) + "\n"


def figure_table(figures: Sequence[Figure]) -> list[str]:
    # Output scores are percentages; losses, perplexities and shares need more digits.
    rows = [
        [figure.label, f"{figure.score:.{2 if figure.metric else 4}f}", format_interval(figure.interval)]
        for figure in figures
    ]
    return table(["", "score", "95% interval"], rows)


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a Markdown table with aligned columns; the first column is text, the others are numbers."""
    widths = [max(len(row[column]) for row in [titles, *rows]) for column in range(len(titles))]

    def line(cells: Sequence[str]) -> str:
        first, *others = cells
        padded = [f"{first:{widths[0]}}", *(f"{cell:>{width}}" for cell, width in zip(others, widths[1:]))]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return [line(titles), line(rule), *map(line, rows)]


def format_interval(interval: tuple[float, float] | None) -> str:
    return f"{interval[0]:.2f} to {interval[1]:.2f}" if interval else ""


def format_p_value(p_value: float | None) -> str:
    return "" if p_value is None else f"{p_value:.4f}"
