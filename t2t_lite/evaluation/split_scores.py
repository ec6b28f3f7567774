"""What an evaluation found, and how it is kept in the run directory.

scores/<split>.<checkpoint>.<settings>/
  inputs.txt, hypotheses.txt, references.txt, references.2.txt ...   one line for each pair of the split
  hypotheses.only_trees.txt   parsing: the trees of a search among trees only
  scores.json                 all figures, and what they depend on
  report.md                   the same to read
  examples.json               the worst and the best lines, see `examples`
"""

import dataclasses
import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import t2t_lite
from t2t_lite.checkpoints.versions import step_of
from t2t_lite.data.text_files import read_lines
from t2t_lite.evaluation.figures import Figure
from t2t_lite.evaluation.request import Request
from t2t_lite.files import sha256_of
from t2t_lite.formatting import one_line
from t2t_lite.scoring.token_metrics import TokenSums

SCORES, REPORT = "scores.json", "report.md"
INPUTS, HYPOTHESES, TREES_ONLY = "inputs.txt", "hypotheses.txt", "hypotheses.only_trees.txt"
_FORMAT = 1


@dataclasses.dataclass(frozen=True)
class SplitScores:
    """The scores of a checkpoint on a split, as they are stored in the run directory.

    Args:
      path: the folder with scores.json, report.md and the texts.
      output_dir: the run directory.
      checkpoint: the path of the checkpoint, without suffix.
      members: the steps of the checkpoints that it is the average of; [] if it is no average, or does not say.
      split: the split.
      figures: the figures in the order of the report.
      content: everything in scores.json.
      decoded_now: whether the split was decoded by this call; otherwise it was answered from the folder.
    """

    path: Path
    output_dir: Path
    checkpoint: Path
    members: list[int]
    split: str
    figures: list[Figure] = dataclasses.field(repr=False)
    content: Mapping[str, Any] = dataclasses.field(repr=False, hash=False)
    decoded_now: bool = False

    @property
    def scores(self) -> dict[str, float]:
        """The scores by name: "bleu", "perplexity", ..."""
        return {figure.name: figure.score for figure in self.figures}

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """The 95% confidence intervals by name, where they are known."""
        return {figure.name: figure.interval for figure in self.figures if figure.interval}

    @property
    def signatures(self) -> dict[str, str]:
        """What other scores must share to be comparable, by name, where it is known."""
        return {figure.name: figure.signature for figure in self.figures if figure.signature}

    @property
    def decode_hparams(self) -> dict[str, Any]:
        """All search settings."""
        return self.content["decoded_by"]["decode_hparams"]

    @property
    def hypotheses(self) -> list[str]:
        """The outputs; [] if the problem has none."""
        return _lines_of(self.path / HYPOTHESES)

    @property
    def only_trees(self) -> list[str]:
        """The trees of a search among trees only; [] if there was none."""
        path = self.path / TREES_ONLY
        return _lines_of(path) if path.exists() else []

    @property
    def inputs(self) -> list[str]:
        """The inputs."""
        return _lines_of(self.path / INPUTS)

    @property
    def references(self) -> list[list[str]]:
        """The sets of references, the split's own first."""
        return [_lines_of(path) for path in self.reference_paths]

    @property
    def reference_paths(self) -> list[Path]:
        """The files of the sets of references."""
        return [self.path / name for name in reference_names(len(self.content["references"]))]


def reference_names(number: int) -> list[str]:
    """Returns the names of the files of `number` sets of references."""
    return ["references.txt", *(f"references.{place}.txt" for place in range(2, number + 1))]


def read_scores(folder: Path, output_dir: Path, checkpoint: Path, decoded_now: bool = False) -> SplitScores | None:
    """Returns what is stored in a folder; None if there is nothing, it cannot be read, or its texts were changed.

    Args:
      folder: the folder.
      output_dir: the run directory.
      checkpoint: the checkpoint's path, without suffix.
      decoded_now: see `SplitScores`.
    """
    try:
        content = json.loads((folder / SCORES).read_text(encoding="utf-8"))
        if content["format"] != _FORMAT:
            return None
        figures = [Figure.from_json(each) for each in content["figures"]]
        members = [int(step) for step in content["checkpoint"]["members"]]
        names = [INPUTS, HYPOTHESES, *reference_names(len(content["references"]))]
        if not all((folder / name).exists() for name in names):
            return None
        if changed_texts(folder):
            return None
        return SplitScores(
            folder, output_dir, checkpoint, members, content["decoded_by"]["split"], figures, content, decoded_now
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def changed_texts(folder: Path) -> list[str]:
    """Returns the names of the texts in a folder that were changed after they were scored."""
    try:
        content = json.loads((folder / SCORES).read_text(encoding="utf-8"))
        texts = dict(content.get("texts", {}))  # versions up to 0.8 did not record them
        return [name for name, digest in texts.items() if sha256_of(folder / name) != digest]
    except (OSError, ValueError, TypeError, AttributeError):
        return []


def content_of(
    request: Request,
    members: Sequence[int],
    sums: TokenSums,
    lines: int,
    seconds: float,
    figures: Sequence[Figure],
    tables: Mapping[str, Any],
) -> dict[str, Any]:
    """Returns the content of scores.json.

    Args:
      request: what was asked.
      members: the steps that the checkpoint is the average of.
      sums: of teacher forcing.
      lines: number of lines of the split.
      seconds: the time of the search.
      figures: the figures.
      tables: further tables by name, lists of rows.
    """
    checkpoint = request.selection.path
    return {
        "format": _FORMAT,
        "version": t2t_lite.__version__,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "run": str(request.run_dir.path.absolute()),
        "data_dir": str(request.data_dir.absolute()),
        "checkpoint": {
            "path": str(checkpoint.absolute()),
            "step": step_of(checkpoint),
            "members": list(members),
            "chosen": request.selection.reason,
        },
        "decoded_by": request.decoded_by(),
        "references": [
            {"file": str(path.absolute()), "sha256": digest}
            for path, digest in zip(
                (request.text_paths[1], *request.references), request.reference_digests(), strict=True
            )
        ],
        "lines": lines,
        "seconds": round(seconds, 3),
        "lines_per_second": round(lines / seconds, 3) if seconds else None,
        "tokens": sums._asdict(),
        "figures": [figure.to_json() for figure in figures],
        **tables,
    }


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Writes one text per line, each as `one_line` makes it; `read_lines` reads the same."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.writelines(f"{one_line(line)}\n" for line in lines)


def _lines_of(path: Path) -> list[str]:
    return list(read_lines(path))
