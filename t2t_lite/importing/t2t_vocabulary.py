"""Finds the vocabulary of a model of tensor2tensor, and imports it."""

from collections.abc import Sequence
from pathlib import Path

from t2t_lite.data.vocab import import_vocabulary, open_vocabulary
from t2t_lite.errors import UserError

_PATTERN = "vocab.*"


def find_vocabulary(
    sizes: Sequence[int], vocab_file: str, places: Sequence[Path], flags: dict[str, str], folder: Path
) -> Path:
    """Imports the vocabulary of both sides into a folder, and returns its path.

    Args:
      sizes: the sizes of the model's vocabularies, in tokens.
      vocab_file: the path of the file; "": looks for it.
      places: the folders to look in; the first with a fitting file counts.
      flags: those of the training.
      folder: an existing folder.

    Raises:
      UserError: if the model has several vocabularies, or there is no file, or none or several have as many tokens.
    """
    if len(sizes) != 1:
        listed = " and ".join(f"{size:,}" for size in sizes) or "none"
        raise UserError(f"a model with one vocabulary for both sides can be imported; this one has {listed} tokens")
    if vocab_file:
        path = _import(Path(vocab_file), folder)
        if (size := open_vocabulary(path).size) != sizes[0]:
            raise UserError(f"`vocab_file`: {vocab_file} has {size:,} tokens, and the model's vocabulary {sizes[0]:,}")
        return path
    name = flags.get("problem", "").removesuffix("_rev")
    for place in places:
        fitting = [path for path in sorted(place.glob(_PATTERN)) if _fits(path, sizes[0], folder)]
        named = [path for path in fitting if name and name in path.name]
        if len(chosen := named or fitting) > 1:
            listed = ", ".join(path.name for path in chosen)
            raise UserError(f"several vocabularies in {place} have {sizes[0]:,} tokens: {listed}; choose `vocab_file`")
        if chosen:
            return _import(chosen[0], folder)
    where = " or ".join(dict.fromkeys(map(str, places)))
    raise UserError(
        f"no vocabulary of {sizes[0]:,} tokens ({_PATTERN}) in {where}; name its folder with `data_dir`, or the file "
        f"with `vocab_file`"
    )


def _fits(source: Path, size: int, folder: Path) -> bool:
    try:
        return open_vocabulary(_import(source, folder)).size == size
    except UserError:
        return False


def _import(source: Path, folder: Path) -> Path:
    """Imports a file, and returns the new path."""
    name = source.name if source.name.startswith("vocab.") else f"vocab.{source.name}"
    import_vocabulary(source, folder / name)
    return folder / name
