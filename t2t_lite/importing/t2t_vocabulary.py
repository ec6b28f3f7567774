"""Finds and imports the vocabularies of a tensor2tensor model."""

from collections.abc import Sequence
from pathlib import Path

from t2t_lite.data.problem import SIDES
from t2t_lite.data.vocab import import_vocabulary, open_vocabulary
from t2t_lite.data.vocab.t2t import T2tByteVocabulary, byte_list
from t2t_lite.errors import UserError
from t2t_lite.files import split_paths, written_whole

_PATTERN = "vocab.*"
# The name of the byte vocabulary, which has a token for each byte and no file.
BYTES = "bytes"


def import_t2t_vocabulary(source: str, path: Path) -> None:
    if source != BYTES or Path(source).is_file():
        return import_vocabulary(Path(source), path)
    with written_whole(path) as partial:
        partial.write_bytes(byte_list())


def find_vocabularies(
    sizes: Sequence[int], vocab_file: str, places: Sequence[Path], flags: dict[str, str], folder: Path
) -> tuple[Path, Path]:
    """Imports the vocabularies of inputs and targets into a folder. Returns their paths, which may be the same.

    Args:
      sizes: the sizes of the model's vocabularies, in tokens.
      vocab_file: the path of the vocabulary file, or "bytes"; or those of inputs and targets, separated by a comma; "":
        searches `places`.
      places: the folders to search; the first with a matching file is used.
    """
    if vocab_file:
        return _import_given(split_paths(vocab_file), sizes, folder)
    if len(sizes) != 1:
        raise UserError(
            f"the model has {len(sizes)} vocabularies ({_listed(sizes)} tokens); pass both with "
            f"`vocab_file=INPUTS,TARGETS`"
        )
    name = flags.get("problem", "").removesuffix("_rev")
    for place in places:
        fitting = [path for path in sorted(place.glob(_PATTERN)) if _fits(path, sizes[0], folder)]
        named = [path for path in fitting if name and name in path.name]
        if len(chosen := named or fitting) > 1:
            listed = ", ".join(path.name for path in chosen)
            raise UserError(
                f"several vocabularies in {place} have {sizes[0]:,} tokens: {listed}; pass the model's "
                f"vocabulary with `vocab_file`, or `vocab_file=INPUTS,TARGETS` if each side has its own"
            )
        if chosen:
            path = _import(str(chosen[0]), folder)
            return path, path
    if sizes[0] == T2tByteVocabulary.size:
        path = _import(BYTES, folder)
        return path, path
    where = " or ".join(dict.fromkeys(map(str, places)))
    raise UserError(
        f"there is no vocabulary with {sizes[0]:,} tokens ({_PATTERN}) in {where}; pass its folder with `data_dir`, or "
        f"the file with `vocab_file`"
    )


def _import_given(given: Sequence[str], sizes: Sequence[int], folder: Path) -> tuple[Path, Path]:
    if len(given) > 2:
        raise UserError(f"`vocab_file` names {len(given)} files; pass one, or INPUTS,TARGETS", status=2)
    made = []
    for side, name in zip(SIDES, given):
        is_one_name = len({Path(each).name for each in given}) < len(given)
        made.append(_import(name, folder, side if is_one_name else ""))
        if (size := open_vocabulary(made[-1]).size) not in sizes:
            raise UserError(
                f"`vocab_file`: {name} has {size:,} tokens, but the model's vocabulary has {_listed(sizes)}"
            )
    if len(used := {open_vocabulary(path).size for path in made}) < len(sizes):
        raise UserError(
            f"the model has {len(sizes)} vocabularies ({_listed(sizes)} tokens), but `vocab_file` names only the "
            f"one with {_listed(sorted(used))}; pass `vocab_file=INPUTS,TARGETS`"
        )
    return made[0], made[-1]


def _listed(sizes: Sequence[int]) -> str:
    return " and ".join(f"{size:,}" for size in sizes)


def _fits(source: Path, size: int, folder: Path) -> bool:
    try:
        return open_vocabulary(_import(str(source), folder)).size == size
    except UserError:
        return False


def _import(source: str, folder: Path, side: str = "") -> Path:
    """Imports a file and returns the new path. `side` distinguishes two files with the same name."""
    path = folder / ".".join(["vocab", *([side] if side else []), Path(source).name.removeprefix("vocab.")])
    import_t2t_vocabulary(source, path)
    return path
