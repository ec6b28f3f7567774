"""Tables of results with means over seeds, written as Markdown, CSV and LaTeX."""

import csv
import dataclasses
import io
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from t2t_lite.files import write_text

LEVEL = 0.95


@dataclasses.dataclass(frozen=True)
class Mean:
    """A mean with its interval. `margin` is None if no row has several seeds."""

    value: float
    margin: float | None

    @property
    def low(self) -> float:
        return self.value - (math.inf if self.margin is None else self.margin)

    @property
    def high(self) -> float:
        return self.value + (math.inf if self.margin is None else self.margin)


class Seeds:
    def __init__(self, figures: Mapping[str, Sequence[float]]) -> None:
        self._figures = {row: np.asarray(values, float) for row, values in figures.items() if len(values)}
        self._freedom = sum(len(values) - 1 for values in self._figures.values())
        squares = sum(float(((values - values.mean()) ** 2).sum()) for values in self._figures.values())
        self.deviation = math.sqrt(squares / self._freedom) if self._freedom else None

    def __contains__(self, row: str) -> bool:
        return row in self._figures

    def mean(self, row: str) -> Mean:
        values = self._figures[row]
        return Mean(float(values.mean()), self._margin(1 / len(values)))

    def difference(self, row: str, other: str) -> Mean:
        values, others = self._figures[row], self._figures[other]
        return Mean(float(values.mean() - others.mean()), self._margin(1 / len(values) + 1 / len(others)))

    def _margin(self, variance: float) -> float | None:
        if self.deviation is None:
            return None
        from scipy.special import stdtrit

        return float(stdtrit(self._freedom, (1 + LEVEL) / 2)) * self.deviation * math.sqrt(variance)


@dataclasses.dataclass(frozen=True)
class Column:
    title: str
    form: str = ""  # the format of its numbers, as in `format(number, form)`
    latex: str = ""  # its title in LaTeX; "": the same as `title`


@dataclasses.dataclass(frozen=True)
class Grid:
    title: str
    columns: Sequence[Column]
    # The cells: texts, numbers, means with intervals, or None if empty. A row with only None is a horizontal rule.
    rows: Sequence[Sequence[str | float | Mean | None]]
    notes: Sequence[str] = ()  # notes for readers, one paragraph each

    def markdown(self) -> str:
        titles = [column.title for column in self.columns]
        lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
        lines += [f"| {' | '.join(self._cells(row))} |" for row in self.rows if not _is_line(row)]
        return "\n\n".join([f"## {self.title}", "\n".join(lines), *self.notes]) + "\n"

    def csv(self) -> str:
        """Returns the table as CSV with all digits. A column with means gets an extra column for their margins."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        means = [any(isinstance(row[i], Mean) for row in self.rows) for i in range(len(self.columns))]
        titles = []
        for column, has_margin in zip(self.columns, means):
            titles += [column.title, f"{column.title} ±"] if has_margin else [column.title]
        writer.writerow(titles)
        for row in self.rows:
            if not _is_line(row):
                writer.writerow([text for cell, wide in zip(row, means) for text in _numbers(cell, wide)])
        return file.getvalue()

    def latex(self) -> str:
        """Returns the table as a LaTeX tabular, which needs the package booktabs."""
        lines = [f"% {self.title}", *(f"% {note}" for note in self.notes)]
        lines += [f"\\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}", "\\toprule"]
        lines.append(" & ".join(column.latex or _escaped(column.title) for column in self.columns) + r" \\")
        lines.append("\\midrule")
        for row in self.rows:
            cells = (_escaped(cell).replace("±", r"$\pm$") for cell in self._cells(row))
            lines.append("\\midrule" if _is_line(row) else " & ".join(cells) + r" \\")
        return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"

    def write(self, folder: Path, name: str, more: str = "") -> list[Path]:
        """Writes name.md (with `more` below the table), name.csv and name.tex, and returns their paths."""
        texts = {"md": self.markdown() + (f"\n{more}" if more else ""), "csv": self.csv(), "tex": self.latex()}
        paths = [folder / f"{name}.{ending}" for ending in texts]
        for path, text in zip(paths, texts.values()):
            write_text(path, text)
        return paths

    def _cells(self, row: Sequence[str | float | Mean | None]) -> list[str]:
        return [_text(cell, column.form) for cell, column in zip(row, self.columns)]


def _text(cell: str | float | Mean | None, form: str) -> str:
    if cell is None:
        return ""
    if isinstance(cell, Mean):
        margin = "" if cell.margin is None else f" ± {cell.margin:{form.removeprefix('+')}}"
        return f"{cell.value:{form}}{margin}"
    return cell if isinstance(cell, str) else f"{cell:{form}}"


def _numbers(cell: str | float | Mean | None, wide: bool) -> list[str | float]:
    if isinstance(cell, Mean):
        return [cell.value, "" if cell.margin is None else cell.margin]
    numbers: list[str | float] = ["" if cell is None else cell]
    return [*numbers, ""] if wide else numbers


def _is_line(row: Sequence[object]) -> bool:
    return all(cell is None for cell in row)


def _escaped(text: str) -> str:
    if re.fullmatch(r"O\(.*\)", text):  # a formula
        return f"${text.replace('log', chr(92) + 'log')}$"
    text = re.sub(r"([&%$#_{}])", r"\\\1", text)
    return text.replace("^", r"\textasciicircum{}").replace("~", r"\textasciitilde{}")
