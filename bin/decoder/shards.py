"""t2t-lite-decoder --num_shards: machines without a common cluster decode one part of a file each; a merge joins them.

A part consists of whole blocks, so that its lines are decoded in the batches in which the decoder alone decodes them.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t2t_lite.bin.decoder.files import BLOCK_LINES, read_aligned_lines
from t2t_lite.errors import UserError
from t2t_lite.files import file_sha256, write_text, written_whole


class Part(NamedTuple):
    """The part of a file that one process decodes."""

    index: int
    num_shards: int
    lines: range  # indices from 0

    def path(self, whole: Path) -> Path:
        """Returns the path of this part of an output: OUT-00000-of-00004, before an ending .gz."""
        ending = ".gz" if whole.suffix == ".gz" else ""
        name = whole.name.removesuffix(ending)
        return whole.with_name(f"{name}-{self.index:05d}-of-{self.num_shards:05d}{ending}")

    def record(self, target: Path) -> Path:
        """Returns the path of the file that tells what the part was made from; `target`: the first output."""
        return self.path(target).with_name(f"{self.path(target).name}.json")

    def files(self, targets: Sequence[Path]) -> list[Path]:
        """Returns the files of a finished part."""
        return [*map(self.path, targets), self.record(targets[0])]


def parts_of(paths: Sequence[Path], num_shards: int, batch_lines: int | None) -> list[Part]:
    """Divides files of corresponding lines into parts of whole blocks.

    Raises:
      UserError: if a file cannot be read twice, or the numbers of lines differ.
    """
    for path in paths:
        if not path.is_file():
            raise UserError(f"{path} is not a regular file; --num_shards reads it twice, so write it to a file first")
    size = batch_lines or BLOCK_LINES
    num_lines = sum(1 for _ in read_aligned_lines(list(paths), lambda line: None))
    num_blocks = -(-num_lines // size)
    starts = [min(num_lines, size * (num_blocks * index // num_shards)) for index in range(num_shards + 1)]
    return [Part(index, num_shards, range(*starts[index : index + 2])) for index in range(num_shards)]


def write_record(part: Part, inputs: Sequence[Path], targets: Sequence[Path], made_by: object) -> None:
    """Records beside a finished part what it was made from, for `merge`."""
    write_text(part.record(targets[0]), json.dumps(_record(part, inputs, targets, made_by), indent=1) + "\n")


def _record(part: Part, inputs: Sequence[Path], targets: Sequence[Path], made_by: object) -> dict[str, Any]:
    return {
        "inputs": [file_sha256(path) for path in inputs],
        "lines": [part.lines.start, part.lines.stop],
        "made_by": made_by,
        "outputs": [file_sha256(part.path(target)) for target in targets],
    }


def merge(
    parts: Sequence[Part],
    inputs: Sequence[Path],
    targets: Sequence[Path],
    made_by: object,
    say: Callable[[str], None],
) -> None:
    """Joins the parts of each output in `targets`, once all of them are there and made from the same.

    Raises:
      UserError: if a part is missing or unfinished, or was made from another input, model or other settings.
    """
    missing = [part for part in parts if not all(path.exists() for path in part.files(targets))]
    if missing:
        raise UserError(
            f"{len(missing)} of {len(parts)} parts are missing or unfinished; decode them with --shard_index="
            f"{', '.join(str(part.index) for part in missing)}"
        )
    for part in parts:
        _check(part, _record(part, inputs, targets, made_by), targets)
    for target in targets:
        with written_whole(target) as partial, open(partial, "wb") as joined:
            for path in _with_lines(parts, target):
                with open(path, "rb") as file:
                    shutil.copyfileobj(file, joined)
    say(f"{parts[-1].lines.stop:,} lines of {len(parts)} parts are in {targets[0]}")


def _check(part: Part, expected: dict[str, Any], targets: Sequence[Path]) -> None:
    reasons = {
        "inputs": "was made from another input",
        "lines": "was made with another --batch_lines",
        "made_by": "was made by another model or with other settings",
        "outputs": "has changed since it was written",
    }
    found = json.loads(part.record(targets[0]).read_text(encoding="utf-8"))
    for name, reason in reasons.items():
        if found.get(name) != expected[name]:
            raise UserError(f"{part.path(targets[0])} {reason}; decode it again with --shard_index={part.index}")


def _with_lines(parts: Sequence[Part], target: Path) -> list[Path]:
    """Returns the parts to join: a compressed part without lines is not empty, but the whole has no such piece."""
    return [part.path(target) for part in parts if part.lines] or [parts[0].path(target)]
