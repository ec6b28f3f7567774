"""What is stored of the attention heads of a run, for reports."""

from pathlib import Path
from typing import NamedTuple

from t2t_lite.evaluation.request import FOLDER
from t2t_lite.evaluation.stored_heads import Table, peaks, read_heads, relations
from t2t_lite.formatting import encodable
from t2t_lite.report.values import text

_MOST_ROWS = 60


class Heads(NamedTuple):
    """What was measured of the heads of a checkpoint."""

    title: str
    peaks: Table
    relations: Table


def stored_heads(run: str, path: Path) -> list[Heads]:
    """Returns what is stored of the heads of a run; a file that cannot be read is left out.

    Args:
      run: its name in the report.
      path: the run directory.
    """
    found = []
    for folder in sorted((path / FOLDER).glob("heads.*")):
        stored = read_heads(folder)
        if stored is None:
            continue
        content = stored.content
        title = (
            f"{run}, {text(content.get('checkpoint'))} on {content['lines']:,} lines of {text(content.get('split'))}"
        )
        found.append(Heads(encodable(title), _plain(peaks(content["layers"])), _plain(relations(content["relations"]))))
    return found


def _plain(table: Table) -> Table:
    """Returns a table whose texts can be written as UTF-8, and that is not too long."""
    return Table(table.titles, [[encodable(cell) for cell in row] for row in table.rows[:_MOST_ROWS]])
