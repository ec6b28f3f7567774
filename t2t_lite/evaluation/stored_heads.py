"""What was measured of the attention heads of a checkpoint, and how it is kept in the run directory.

scores/heads.<split>.<checkpoint>/heads.json   see `measure_heads`, and what it depends on
scores/heads.<split>.<checkpoint>/heads.md     the same to read
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import t2t_lite
from t2t_lite.checkpoints.versions import INDEX
from t2t_lite.evaluation.heads import FORMAT, measure_heads, pairs_of
from t2t_lite.evaluation.heads_report import heads_report
from t2t_lite.evaluation.request import FOLDER, Request, folder_name
from t2t_lite.files import sha256_of, write_text, written_folder

HEADS, REPORT = "heads.json", "heads.md"


@dataclasses.dataclass(frozen=True)
class HeadsReport:
    """What was measured of the attention heads of a checkpoint.

    Args:
      path: the folder with heads.json and heads.md.
      content: everything in heads.json, see `measure_heads`.
      measured_now: whether it was measured by this call; otherwise it was answered from the folder.
    """

    path: Path
    content: Mapping[str, Any] = dataclasses.field(repr=False, hash=False)
    measured_now: bool = False

    def report(self) -> str:
        """Returns the report, in Markdown."""
        return heads_report(self.content)


def heads_of(request: Request, lines: int) -> HeadsReport:
    """Returns what is stored of a checkpoint's heads, or measures and stores it.

    Args:
      request: the checkpoint and the split.
      lines: how many lines to measure at most.

    Raises:
      UserError: if the model gives no attention weights, or the checkpoint cannot be read.
    """
    name = folder_name(f"heads.{request.split}", request.selection.path, "").rstrip(".")
    folder = request.run_dir.path / FOLDER / name
    measured_on = {
        "checkpoint_sha256": sha256_of(Path(f"{request.selection.path}{INDEX}")),
        "inputs_sha256": sha256_of(request.text_paths[0]),
        "targets_sha256": sha256_of(request.text_paths[1]),
        "at_most": lines,
        "version": t2t_lite.__version__,  # another one may measure something else
        **{name: code for name, code in request.decoded_by().items() if name == "plugins"},
    }
    stored = read_heads(folder)
    if stored is not None and stored.content.get("measured_on") == measured_on:
        return stored
    content = _measured(request, lines)
    about = {"run": request.run_dir.path.name, "checkpoint": request.selection.path.name, "split": request.split}
    content = {**content, **about, "measured_on": measured_on}
    with written_folder(folder, "`output_dir`") as partial:
        write_text(partial / HEADS, json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n")
        write_text(partial / REPORT, heads_report(content))
    return HeadsReport(folder, content, measured_now=True)


def read_heads(folder: Path) -> HeadsReport | None:
    """Returns what is stored in a folder; None if there is nothing, or this version cannot read it."""
    try:
        content = json.loads((folder / HEADS).read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            return None
        heads_report(content)  # it has all that is shown
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
    return measure_heads(model, pairs_of(problem, inputs, targets, lines))
