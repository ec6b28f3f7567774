"""Finds the vocabularies of a model of tensor2tensor, and imports them."""

from collections.abc import Sequence
from pathlib import Path

from t2t_lite.data.vocab import import_vocabulary, open_vocabulary
from t2t_lite.errors import UserError

_PATTERN = "vocab.*"


def find_vocabularies(
    sizes: Sequence[int], vocab_file: str, places: Sequence[Path], flags: dict[str, str], folder: Path
) -> tuple[Path, Path]:
    """Imports the vocabularies of inputs and targets into a folder, and returns their paths, equal for a shared one.

    Args:
      sizes: the sizes of the model's vocabularies, one or two.
      vocab_file: the path of a file, or two separated by a comma; "": looks for them.
      places: the folders to look in; the first with a fitting file counts.
      flags: those of the training.
      folder: an existing folder.

    Raises:
      UserError: if there is no file, or none or several have as many tokens as the model.
    """
    if vocab_file:
        given = [Path(part.strip()) for part in vocab_file.split(",")]
        if len(given) > 2:
            raise UserError(
                f"`vocab_file={vocab_file}` names {len(given)} files; give one, or INPUTS,TARGETS", status=2
            )
        found = [_import(path, folder, side) for path, side in zip(given, ("inputs", "targets"))]
        for path, source in zip(found, given):
            _check_size(open_vocabulary(path).size, sizes, source)
        return found[0], found[-1]
    if len(sizes) > 1:
        listed = " and ".join(f"{size:,}" for size in sizes)
        raise UserError(f"the model has two vocabularies ({listed} tokens); name them: `vocab_file=INPUTS,TARGETS`")
    name = flags.get("problem", "").removesuffix("_rev")
    for place in places:
        fitting = [path for path in sorted(place.glob(_PATTERN)) if _fits(path, sizes[0], folder)]
        named = [path for path in fitting if name and name in path.name]
        if len(chosen := named or fitting) > 1:
            listed = ", ".join(path.name for path in chosen)
            raise UserError(f"several vocabularies in {place} have {sizes[0]:,} tokens: {listed}; choose `vocab_file`")
        if chosen:
            path = _import(chosen[0], folder, "inputs")
            return path, path
    where = " or ".join(dict.fromkeys(map(str, places)))
    raise UserError(
        f"no vocabulary of {sizes[0]:,} tokens ({_PATTERN}) in {where}; name its folder with `data_dir`, or the file "
        f"with `vocab_file`"
    )


def _fits(source: Path, size: int, folder: Path) -> bool:
    try:
        return open_vocabulary(_import(source, folder, "tried")).size == size
    except UserError:
        return False


def _import(source: Path, folder: Path, side: str) -> Path:
    """Imports a file, and returns the new path."""
    (folder / side).mkdir(exist_ok=True)
    name = source.name if source.name.startswith("vocab.") else f"vocab.{source.name}"
    import_vocabulary(source, folder / side / name)
    return folder / side / name


def _check_size(size: int, sizes: Sequence[int], source: Path) -> None:
    if size not in sizes:
        listed = " and ".join(f"{each:,}" for each in sizes)
        raise UserError(f"`vocab_file`: {source} has {size:,} tokens, and the model's vocabulary {listed}")
