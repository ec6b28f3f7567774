"""The file of a run: what is to be made, with the flags of each command in tables. All mistakes are found at once."""

import argparse
import contextlib
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from t2t_lite.bin import cli, datagen, eval, export, trainer
from t2t_lite.config import DecodeHParams, HParams, resolve_hparams
from t2t_lite.data.generation.options import GenerateOptions
from t2t_lite.data.problem import REVERSED_SUFFIX, get_problem, language_pair
from t2t_lite.decoding.export_dir import FORMATS
from t2t_lite.errors import UserError, nearest
from t2t_lite.evaluation.options import SPLITS, EvalOptions
from t2t_lite.exporting.options import ExportOptions
from t2t_lite.options import Options, option
from t2t_lite.problems.text_mixture import read_parts
from t2t_lite.registry import HPARAMS, PROBLEMS, Registry
from t2t_lite.training.options import TrainOptions


def _known(registry: Registry) -> Callable[[str], str]:
    return lambda name: registry.check(name.removesuffix(REVERSED_SUFFIX)) or name


def _words(known: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    return lambda text: tuple(map(cli.choice_type(known, ""), text.split(",")))


def _folder(text: str) -> str:
    if "," in text or Path(text).is_file():
        raise argparse.ArgumentTypeError(f"takes a folder without commas, not {text}")
    return cli.path(text)


def _seeds(text: str) -> tuple[int, ...]:
    seeds = tuple(map(cli.whole_number(0), text.split(",")))
    if len({*seeds}) < len(seeds):
        raise argparse.ArgumentTypeError(f"takes different numbers, not {text}")
    return seeds


class _Top(cli.Flags):  # the keys outside of tables
    dir: PathLike | None = option(None, parse=_folder)
    problem: str | None = option(None, parse=_known(PROBLEMS))
    hparams_set: str = option("transformer_base", parse=_known(HPARAMS))
    languages: str | None = option(None, parse=lambda text: language_pair(text) and text)
    seeds: tuple[int, ...] = option((1,), parse=_seeds)
    reverse: bool = option(False)


class _Evaluate(eval.Flags):
    splits: tuple[str, ...] = option(SPLITS, parse=_words(SPLITS))


class _Export(export.Flags):
    formats: tuple[str, ...] = option(("ctranslate2",), parse=_words(FORMATS))


class _BackTranslation(cli.Flags):  # other keys are search settings
    target_texts: PathLike | None = option(None)
    tag: str = option("<bt>")
    weight: float | None = option(None, above=0)


# The tables of flags: their parser, and the options that it fills.
_TABLES: dict[str, tuple[Callable[[], cli.CommandParser], type[Options]]] = {
    "": (lambda: cli.CommandParser("run", "", _Top), Options),
    "data": (datagen.make_parser, GenerateOptions),
    "train": (trainer.make_parser, TrainOptions),
    "evaluate": (lambda: cli.CommandParser("eval", "", _Evaluate), EvalOptions),
    "export": (lambda: cli.CommandParser("export", "", _Export), ExportOptions),
    "back_translation": (lambda: cli.CommandParser("decoder", "", _BackTranslation), Options),
}
# Flags that are not for tables: t2t-lite-run chooses their values, or they are for people.
_CHOSEN = """problem hparams_set hparams languages mixture data_dir output_dir export_dir random_seed schedule recipe
generate_data split format overwrite decode_hparams from t2t_problem inspect plot_file heads tune json make_tf_config
debug registry_help t2t_usr_dir trust_plugins"""


def _hint(table: str, name: str, known: Sequence[str]) -> str:
    """Returns where an unknown key belongs, or the nearest known ones."""
    places = {"at the top": _Top, "in [train.hparams]": HParams, "in [decode]": DecodeHParams}
    found = [f"; write it {place}" for place, kind in places.items() if name in kind.names()]
    if not table and name in (*_TABLES, "decode"):
        return f"; it is a table, [{name}]"
    if name == "random_seed":
        return "; write seeds at the top"
    if name in cli.Flags.names() or (name in _CHOSEN.split() and name not in _Top.names()):
        return "; t2t-lite-run chooses it"
    return found[0] if found else nearest(name, known)


class Recipe:
    """What a file in the current folder says; paths are relative to it. Raises a UserError with all mistakes.

    Attributes:
      flags: the arguments of the command of each table, --name=value; `values` has them parsed.
      hparams: all settings, with train_steps.
      search: the search settings of [decode]; `back_search`: of [back_translation].
    """

    def __init__(self, file: Path) -> None:
        try:
            text = file.read_text(encoding="utf-8-sig")
            content = tomllib.loads(text)
        except OSError as error:
            raise UserError(f"`config`: cannot read {file}: {error.strerror}") from error
        except ValueError as error:
            raise UserError(f"{file} is not a TOML file: {error}") from error
        self.file, self._lines, self._mistakes = file, text.splitlines(), list[tuple[int, str]]()
        self.hparams = HParams()
        self.flags, self.values = dict[str, list[str]](), dict[str, argparse.Namespace]()
        self._read(content)
        if self._mistakes:
            raise UserError("\n".join(dict.fromkeys(line for _, line in sorted(self._mistakes))), status=2)

    def _read(self, content: dict[str, Any]) -> None:
        tables = {name: dict(value) for name, value in content.items() if isinstance(value, dict)}
        known = [*_TABLES][1:]
        for name in tables.keys() - {*known, "decode"}:
            self._wrong(name, "", f"unknown table{nearest(name, [*known, 'decode', 'train.hparams'])}")
        top = self._parse("", {name: value for name, value in content.items() if name not in tables})
        self.parts = tables.get("data", {}).pop("parts", None)
        settings = tables.get("train", {}).pop("hparams", {})
        self.dir, self.hparams_set, self.seeds = Path(top.dir or self.file.stem), top.hparams_set, top.seeds
        self.problem = top.problem or ("text_pairs" if self.parts is None else "text_mixture")
        self.is_back_translated = "back_translation" in tables
        if self.parts is not None and self.problem != "text_mixture":
            self._wrong("data", "parts", f"parts belong to text_mixture, not {self.problem}; remove `problem`")
        if self.problem.endswith(REVERSED_SUFFIX) and (top.reverse or self.is_back_translated):
            self._wrong("", "problem", f"write {self.problem.removesuffix(REVERSED_SUFFIX)}")
        back = tables.get("back_translation", {})
        own = {name: value for name, value in back.items() if name in _BackTranslation.names()}
        self.search = tables.get("decode", {})
        self.back_search = {name: value for name, value in back.items() if name not in own}
        for table in known:
            self._parse(table, own if table == "back_translation" else tables.get(table, {}))
        if not isinstance(content.get("seeds", []), list):
            self._wrong("", "seeds", "takes a list, such as [1, 2]")
        self.target_texts = Path(self.values["back_translation"].target_texts or "")
        if self.is_back_translated and not self.target_texts.is_file():
            key = "target_texts" if "target_texts" in own else ""
            self._wrong("back_translation", key, "needs target_texts, a file of sentences in the target language")
        for table, given in (("decode", self.search), ("back_translation", self.back_search)):
            self._check_settings(table, given, lambda given: DecodeHParams().replace(**given))
        self._check_training(settings)
        self.flags["data"] += [f"--languages={top.languages}"] if top.languages else []
        if not self._mistakes:
            with self._checking("data"):
                self._check_data(bool(own.get("weight")))

    def _check_training(self, settings: object) -> None:
        if not isinstance(settings, dict):
            self._wrong("train", "hparams", "takes a table, [train.hparams]")
            return
        chosen = self.values["train"]
        more = {"train_steps": chosen.train_steps} if chosen.train_steps else {}

        def resolve(given: dict[str, Any]) -> None:
            self.hparams = resolve_hparams(self.hparams_set, given | more, chosen.model)

        self._check_settings("train.hparams", settings, resolve)
        self.flags["train"] += listed("hparams", settings)
        for table in ("evaluate", "export"):
            if self.hparams.average_checkpoints <= 1 and not self.values[table].checkpoint_path:
                self.values[table].checkpoint_path = "last"  # not the average of an earlier file
                self.flags[table].append("--checkpoint_path=last")
        if missing := [file for file in self.values["evaluate"].references if not Path(file).is_file()]:
            self._wrong("evaluate", "references", f"there is no {missing[0]}")

    def _check_data(self, has_weight: bool) -> None:
        if self.parts is None:
            get_problem(self.problem, **self.problem_options).check_options()
            return
            return
        weights = set[bool]()
        tables = self.parts if isinstance(self.parts, list) and self.parts else [self.parts]
        for number, table in enumerate(tables, start=1):
            with self._checking("data.parts", nth=number):
                (part,) = read_parts(self.file, [table], number)
                if not part.weight < math.inf:
                    raise UserError(f"weight must be a finite number, not {part.weight}")
                weights.add(part.weight > 0)
        if self.is_back_translated and weights != {has_weight}:
            raise UserError("the parts and [back_translation] need a weight, or none of them")

    @property
    def problem_options(self) -> dict[str, str]:
        """The values of the problem's own flags."""
        flags, given = PROBLEMS[self.problem.removesuffix(REVERSED_SUFFIX)].flags, vars(self.values["data"])
        return {name: given[name] for name in flags if given.get(name)}

    def _wrong(self, table: str, key: str, why: str, nth: int = 1) -> None:
        """Notes a mistake in a table ("": outside of tables; or the nth of this name), or in a key, with its line.

        The line is that of a plain `key =`, else of the table's head, else none; tomllib tells no positions.
        """
        place, head, line = "", 0, 0
        for number, text in enumerate(self._lines, start=1):
            if match := re.match(r"\s*\[+\s*([\w.-]+)\s*\]", text):
                place = match[1]
                nth -= place == table
                head = head or (number if place == table and not nth else 0)
            elif key and place == table and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[.=]", text):
                line = line or number
        line = line or head
        why = re.sub("^`[a-z_]+`: | [(]`[a-z_]+`[)]", "", why)
        why = why.removeprefix(f"{self.file}, ")
        why = re.sub("`([^`]+)`", r"\1", why)  # they are keys here, not flags
        where = f"{self.file}{f', line {line}' if line else ''}: {f'[{table}] ' if table else ''}"
        self._mistakes.append(
            (line, f"{where}{f'{key}: ' if key else ''}{re.sub('^`[a-z_]+`: | [(]`[a-z_]+`[)]', '', why)}")
        )

    @contextlib.contextmanager
    def _checking(self, table: str, key: str = "", nth: int = 1) -> Iterator[None]:
        """Notes a UserError inside the block as a mistake."""
        try:
            yield
        except UserError as error:
            self._wrong(table, key, str(error), nth)

    def _parse(self, table: str, given: Mapping[str, Any]) -> argparse.Namespace:
        """Has the parser of a table's command check and parse each of its keys."""
        make_parser, kind = _TABLES[table]
        parser, flags, before = make_parser(), self.flags.setdefault(table, []), len(self._mistakes)
        if table == "data":
            parser.add_problem_flags(self.problem.removesuffix(REVERSED_SUFFIX))
        chosen = _CHOSEN.split() if table else cli.Flags.names()
        known = [flag for flag in parser.flag_names if flag not in (*chosen, "help", "version")]
        for name, value in given.items():
            with self._checking(table, name):
                values = value if isinstance(value, list) else [value]
                if name not in known:
                    raise UserError(f"unknown key{_hint(table, name, known)}")
                if any(isinstance(each, list | dict) for each in values):
                    raise UserError(f"takes a value or a list of values, not {value!r}")
                if parser.is_switch(name) and type(value) is not bool:
                    raise UserError(f"takes true or false, not {value!r}")
                flag = f"--{name}" if parser.is_switch(name) else f"--{name}={','.join(map(str, values))}"
                parser.checked([flag])
                flags += [flag] if value is not False or not parser.is_switch(name) else []
        self.values[table] = parsed = parser.checked(flags)
        if table == "export":
            parsed.format = min(parsed.formats)  # argos and ctranslate2, which take the most flags, are the first ones
        if len(self._mistakes) == before:
            with self._checking(table):
                kind(**cli.given(parsed, kind))
        self.flags[table] = [flag for flag in flags if not flag.startswith(("--splits=", "--formats="))]
        return parsed

    def _check_settings(self, table: str, given: Mapping[str, Any], make: Callable[[dict[str, Any]], Any]) -> None:
        """Notes the settings that cannot be, or that cannot be together."""
        try:
            make(dict(given))
        except UserError as error:
            before = len(self._mistakes)
            for name, value in given.items():
                with self._checking(table, name):
                    make({name: value})
            if len(self._mistakes) == before:  # each is possible, but not with the others
                self._wrong(table, "", str(error))


def listed(flag: str, settings: Mapping[str, Any]) -> list[str]:
    """Returns the argument that sets some settings, if there are any."""
    return [f"--{flag}={','.join(f'{name}={value}' for name, value in settings.items())}"] if settings else []
