"""A problem for several corpora of the user's own, or registered problems, which a file lists."""

import functools
import tomllib
from pathlib import Path
from typing import Any

from t2t_lite.data.mixture import Mixture, Part
from t2t_lite.data.problem import LANGUAGES_OPTION, SPLITS, AnySource, Corpus, OwnFile, get_problem
from t2t_lite.errors import UserError
from t2t_lite.registry import PROBLEMS

_OF_PART = {"name": str, "problem": str, "weight": float, "tag": str, "train_only": bool}
_NAMES = {str: "a text", float: "a number", int: "a number", bool: "true or false"}


@PROBLEMS.register
class TextMixture(Mixture):
    """Your own corpora together, with weights and tags: --mixture=FILE lists them (docs/data.md)."""

    flags = {
        **Mixture.flags,
        "drop_duplicates": "drop repeated training pairs, also of different parts, and training pairs whose source is "
        "in dev or test of any part",
        "mixture": "a TOML file with the parts; each [[parts]] has flags of text_pairs, or of another problem, and "
        "problem, weight, tag, train_only or name",
        **LANGUAGES_OPTION,
    }
    switches = Mixture.switches | {"drop_duplicates"}

    def __init__(self, is_reversed: bool = False, **options: str) -> None:
        if "mixture" in options:  # absolute, because the manifest records it and workers read it
            options["mixture"] = str(Path(options["mixture"]).expanduser().absolute())
        self._file = options.get("mixture", "")
        super().__init__(is_reversed, **options)

    @functools.cached_property
    def parts(self) -> tuple[Part, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]  read on first use
        """The parts that the file lists; none while training, which needs only the generated data."""
        if not self._file:
            return ()
        file = Path(self._file)
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise UserError(f"`mixture`: cannot read {file}: {error.strerror}") from error
        except ValueError as error:
            raise UserError(f"{file} is not a TOML file: {error}") from error
        return read_parts(file, content.get("parts") if content.keys() == {"parts"} else None)

    def check_options(self) -> None:
        """Raises UserError if there is no file, a tag is unusable, or a required flag of a part is missing."""
        if not self._file:
            raise UserError(f"problem '{self.data_name}' needs `mixture=FILE`, a list of its parts", status=2)
        super().check_options()

    @property
    def sources(self) -> tuple[AnySource, ...]:
        """The file, and the sources of all parts."""
        return (OwnFile(Path(self._file)), *super().sources) if self._file else ()


def read_parts(file: Path, tables: object, first: int = 1) -> tuple[Part, ...]:
    """Returns the parts that tables of a file describe, counted from `first`. Raises UserError if one is wrong."""
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise UserError(f"{file} must have one table [[parts]] for each part, and nothing else")
    numbered = enumerate(tables, start=first)
    return tuple(_read_part(f"{file}, part {number}", table, file.parent) for number, table in numbered)


def _read_part(where: str, table: dict[str, Any], folder: Path) -> Part:
    flags = {name: value for name, value in table.items() if name not in _OF_PART}
    if isinstance(problem := table.get("problem", "text_pairs"), str) and problem in PROBLEMS:
        for name in flags.keys() & PROBLEMS[problem].file_lists:
            files = flags[name].split(",") if isinstance(flags[name], str) else flags[name]
            if isinstance(files, list) and all(isinstance(file, str) for file in files):
                flags[name] = ",".join(_in_folder(file, folder) for file in files)
    own = {name: table[name] for name in _OF_PART if name in table}
    for name, value in own.items():
        if type(value) is not _OF_PART[name] and not (type(value) is int and _OF_PART[name] is float):
            raise UserError(f"{where}: {name} must be {_NAMES[_OF_PART[name]]}, not {value!r}")
    for name, value in flags.items():
        if type(value) not in _NAMES:
            raise UserError(f"{where}: {name} must be a text or a number, not {value!r}")
    part = Part(
        own.get("problem", "text_pairs"),
        own.get("weight", 0.0),
        own.get("tag", ""),
        SPLITS[:1] if own.get("train_only") else SPLITS,
        tuple((name, str(value)) for name, value in flags.items()),
        f"{where} ({own['name']})" if own.get("name") else where,
    )
    try:
        if isinstance(problem := get_problem(part.problem, **dict(part.options)), TextMixture):
            raise UserError("a part cannot be a text_mixture; list its parts here")
        problem.check_options()
    except UserError as error:
        raise UserError(f"{part.name}: {error}") from error
    return part


def _in_folder(file: str, folder: Path) -> str:
    """Returns the path of a file or pattern, which is relative to a folder; in old mixtures, to the current one."""

    def is_in(place: Path) -> bool:
        return (place / file).exists() or any(place.glob(file))

    is_whole = Path(file).expanduser().is_absolute() or file == "-" or not Corpus(file).is_local
    return file if is_whole or (is_in(Path()) and not is_in(folder)) else str(folder / file)
