"""What the commands print: lines, tables, progress, with a bar on a terminal, and the output of --registry_help."""

import contextlib
import dataclasses
import inspect
import os
import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, get_type_hints

from t2t_lite.bin.cli.flags import as_flags
from t2t_lite.config import DecodeHParams, HParams
from t2t_lite.data.problem import REVERSED_SUFFIX, Problem, get_problem
from t2t_lite.display import Display
from t2t_lite.errors import UserError, nearest
from t2t_lite.metric import figure_name, metric_needs
from t2t_lite.registry import HPARAMS, METRICS, PROBLEMS, REGISTRIES, REGISTRIES_OF_SETTINGS, Registry

if TYPE_CHECKING:
    import rich.console
    import rich.progress
    import rich.table

_OTHERS = [registry for registry in REGISTRIES if registry not in (PROBLEMS, HPARAMS)]


def say(line: str) -> None:
    """Prints a message of the library. Arguments are named as flags, see `as_flags`."""
    print(as_flags(line), flush=True)


def warn(line: str) -> None:
    """Prints a message of the library on standard error, see `say`."""
    print(as_flags(line), file=sys.stderr)


def say_next(command: str, *flags: str, to: Callable[[str], None] = say) -> None:
    """Says what comes next: a command, given its name without "t2t-lite-"."""
    to(f"Next: {shlex.join([f't2t-lite-{command}', *flags])}")


def table(*titles: str, left: int = 1, pad_edge: bool = False) -> "rich.table.Table":
    """Returns an empty table without borders. Its first `left` columns are left-aligned, the others right-aligned."""
    import rich.table

    columns = (
        rich.table.Column(title, justify="left" if number < left else "right") for number, title in enumerate(titles)
    )
    return rich.table.Table(*columns, box=None, pad_edge=pad_edge)


def print_table(table: "rich.table.Table") -> None:
    """Prints a `rich.table.Table` in its full width. Lines longer than the terminal are better than truncated ones."""
    import rich.console

    console = rich.console.Console(highlight=False, width=10_000)
    console.width = console.measure(table).maximum
    console.print(table)


class CommandDisplay(Display):
    """Prints lines. On a terminal, training shows a progress bar below them."""

    def __init__(self) -> None:
        self._console: rich.console.Console | None = None
        self._bar: rich.progress.Progress | None = None

    def say(self, line: str) -> None:
        self.text(as_flags(line))

    def text(self, text: str) -> None:
        if self._console:
            self._console.print(text, markup=False)
        else:
            print(text, flush=True)

    def start_training(self, first_step: int, last_step: int) -> None:
        import rich.console  # here, because they take as long to import as the rest of --help
        import rich.progress

        self._console = rich.console.Console(file=sys.stdout, highlight=False, soft_wrap=True)
        super().start_training(first_step, last_step)
        if self._console.is_terminal:
            self._bar = rich.progress.Progress(
                "step {task.completed}/{task.total}",
                rich.progress.BarColumn(),
                rich.progress.TimeRemainingColumn(),
                "{task.fields[evaluation]}",
                console=self._console,
            )
            self._task = self._bar.add_task("", total=last_step, completed=first_step, evaluation="")
            self._bar.start()

    def after_step(self, step: int) -> None:
        if self._bar:
            self._bar.update(self._task, completed=step)
        else:
            super().after_step(step)

    def evaluating(self, line: str) -> None:
        """Shows the progress of an evaluation beside the bar, or prints it every 30 seconds."""
        if self._bar:
            self._bar.update(self._task, evaluation=line)
        else:
            super().evaluating(line)

    def end_evaluation(self) -> None:
        super().end_evaluation()
        if self._bar:
            self._bar.update(self._task, evaluation="")

    def stopping(self) -> None:
        line = b"stopping after this step and its checkpoint, or now if evaluating; a second signal stops immediately\n"
        with contextlib.suppress(OSError):  # os.write, because the signal may have interrupted a print
            os.write(2, line)

    def end_training(self) -> None:
        if self._bar:
            self._bar.stop()
        self._bar = self._console = None


def print_registry_help(name: str = "") -> None:
    """Prints a summary of each registered name; or, given a name, the details of all entries with that name."""
    if not name:
        _print_names()
        return
    name = HParams.current_name(name)
    describers = {PROBLEMS: _describe_problem, HPARAMS: _describe_set}
    describers |= dict.fromkeys(_OTHERS, _describe_summary) | {METRICS: _describe_metric}
    registries = [registry for registry in describers if name in registry]
    if name.removesuffix(REVERSED_SUFFIX) in PROBLEMS and PROBLEMS not in registries:
        registries.insert(0, PROBLEMS)
    # The classes of settings that only some entries have, such as "model length_transformer".
    owned = {
        f"{registry.kind} {entry}": HParams.class_for({setting: entry})
        for setting, registry in REGISTRIES_OF_SETTINGS.items()
        for entry in registry
        if registry.fact(entry, "hparams_class", HParams) is not HParams
    }
    settings = [each for each in dict.fromkeys((HParams, DecodeHParams, *owned.values())) if each.owner(name) is each]
    for each in settings:
        of_entry = "".join(f" of {entry}" for entry, kind in owned.items() if kind is each)
        print(f"setting {name}{of_entry} (--{each.FLAG}={name}=VALUE), default {getattr(each(), name)}")
        print(each.option(name).help or name.replace("_", " "))
        if each is HParams and (values := REGISTRIES_OF_SETTINGS.get(name) or each.option(name).choices):
            print(f"one of {', '.join(values)}")
    if not registries and not settings:
        known = {known for registry in describers for known in registry.names()}
        raise UserError(f"--registry_help: nothing registered is named '{name}'{nearest(name, known)}", status=2)
    for registry in registries:
        print(f"{registry.kind} {name} (--{registry.flag}={name})")
        describers[registry](registry, name)


def _print_names() -> None:
    registries = {
        f"Problems (each also as NAME{REVERSED_SUFFIX}, with its sides swapped)": PROBLEMS,
        "Hparam sets": HPARAMS,
    } | {f"{registry.kind.capitalize()}s (--{registry.flag}=NAME)": registry for registry in _OTHERS}
    width = max(len(name) for registry in registries.values() for name in registry.names())
    for title, registry in registries.items():
        if registry.names():
            print(f"{title}:")
        for name in registry.names():
            print(f"  {name:{width}}  {registry.summary(name)}")


def _describe_set(registry: Registry, name: str) -> None:
    """Prints a set's settings. A star marks values that differ from the parent's."""
    print(inspect.getdoc(HPARAMS[name]) or "no documentation")
    values = dataclasses.asdict(HPARAMS[name]())
    parent = HPARAMS.parent(name)
    inherited = dataclasses.asdict(HPARAMS[parent]()) if parent else values
    print(f"parent: {parent}; a star marks values that differ" if parent else "parent: none")
    print("for the meaning of a setting: --registry_help=SETTING")
    width = max(map(len, values))
    for setting, value in values.items():
        differs = setting not in inherited or value != inherited[setting]  # the parent may lack settings of the model
        line = f"{'*' if differs else ' '} {setting:{width}}  {value}"
        print(f"{line}  ({parent}: {inherited.get(setting, 'none')})" if differs else line)


def _describe_problem(registry: Registry, name: str) -> None:
    problem = get_problem(name)
    print(inspect.getdoc(problem) or "no documentation")
    if problem.is_reversed:
        print("with its sides swapped")
    settings = {setting: getattr(problem, setting) for setting in get_type_hints(Problem)}
    sources, flags = settings.pop("sources"), settings.pop("flags")
    searches = dataclasses.asdict(problem.decode_hparams).items()
    settings["decode_hparams"] = ",".join(f"{field}={value}" for field, value in searches)
    width = max(map(len, settings))
    for setting, value in settings.items():
        print(f"  {setting:{width}}  {value}")
    print("sources:" if sources else "sources: none")
    for source in sources:
        print(f"  {source.name}  {getattr(source, 'url', '')}".rstrip())
    if flags:
        print("additional flags for t2t-lite-datagen:")
    for flag, text in flags.items():
        print(f"  --{flag}  {text.replace('%%', '%')}")
    if (origin := PROBLEMS.origin(problem.data_name)) is not None:
        print(f"from the plug-in {origin.where}")


def _describe_summary(registry: Registry, name: str) -> None:
    # Print only the summary, because loading the entry may import Keras.
    print(registry.summary(name) or "no documentation")
    if setting := registry.fact(name, "setting", ""):
        print(f"choose it with its own setting: --decode_hparams={setting}=VALUE")
    setting_of = {registry: setting for setting, registry in REGISTRIES_OF_SETTINGS.items()}
    kind = HParams.class_for({setting_of[registry]: name}) if registry in setting_of else HParams
    if own := [setting for setting in kind.names() if setting not in HParams.names()]:
        print("its own settings:")
    for setting in own:
        print(f"  {setting} = {getattr(kind, setting)}  {kind.option(setting).help}")
    if (origin := registry.origin(name)) is not None:
        print(f"from the plug-in {origin.where}")


def _describe_metric(registry: Registry, name: str) -> None:
    _describe_summary(registry, name)
    best = "highest" if METRICS.fact(name, "higher_is_better", True) else "lowest"
    print(f"computed from {metric_needs(name)}; the {best} value is the best; evaluations call it {figure_name(name)}")
