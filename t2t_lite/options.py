"""Declares options once: a field gives an option's default, meaning and range.

The range check, the flag, the class docstring, and the text in --help and in docs/options.md are generated from the
field.
"""

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, Self, TypeVar, get_args, get_type_hints

from t2t_lite.aliases import alias_hint
from t2t_lite.errors import UserError, nearest

T = TypeVar("T")
TYPE_NAMES: dict[object, str] = {int: "a whole number", float: "a number", str: "a string", bool: "True or False"}


@dataclasses.dataclass(frozen=True)
class Option:
    """The declaration of an option, except for its type and default."""

    help: str = ""  # one line; puts other options in backquotes
    unset: str = ""  # the meaning of a default of None, 0 or "", for example "all"
    at_least: float | None = None  # bounds of a number; a float with a bound must also be finite
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()  # the allowed strings; (): any string
    metavar: str | None = None  # what --help shows for the value
    flag: str = ""  # the name of the flag, if it differs from the option's

    def allows(self, value: object) -> bool:
        """Returns whether a value is allowed."""
        if self.choices and isinstance(value, str):
            return value in self.choices
        if not isinstance(value, int | float):
            return True
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
            and (math.isfinite(value) or not self.is_bounded)
        )

    @property
    def is_bounded(self) -> bool:
        """Whether there is any bound."""
        return any(bound is not None for bound in (self.at_least, self.above, self.at_most, self.below))

    def rule(self, kind: object) -> str:
        """Returns what a value of the type `kind` must be: "at least 0 and below 1"."""
        if self.choices:
            return " or ".join(self.choices)
        bounds = {"at least": self.at_least, "above": self.above, "at most": self.at_most, "below": self.below}
        parts = [f"{word} {bound:,}" for word, bound in bounds.items() if bound is not None]
        if kind is float and self.at_most is None and self.below is None:
            parts.append("finite")
        return " and ".join(parts)


def option(default: T, help: str = "", **rules: Any) -> T:
    """Returns a field of `Options` with an `Option` attached. A field without an `Option` has no range."""
    return dataclasses.field(default=default, metadata={"option": Option(help, **rules)})


@dataclasses.dataclass(frozen=True)
class Options:
    """Base class of options: frozen dataclasses whose fields are declared with `option`."""

    def __init_subclass__(cls) -> None:
        declared = {name: value for name, value in vars(cls).items() if isinstance(value, dataclasses.Field)}
        about = {name: field.metadata["option"] for name, field in declared.items() if "option" in field.metadata}
        lines = [
            f"  {name}: {each.help}{f'; {declared[name].default!r}: {each.unset}' if each.unset else ''}."
            for name, each in about.items()
            if each.help
        ]
        if lines:
            cls.__doc__ = "\n".join([(cls.__doc__ or "").rstrip(), "", "Args:", *lines])

    def __post_init__(self) -> None:
        kinds = get_type_hints(type(self))
        for name in self.names():
            kind, value, about = kinds[name], getattr(self, name), self.option(name)
            allowed = get_args(kind) if isinstance(kind, UnionType) else (kind,)
            if float in allowed and type(value) is int:
                # 0 and 0.0 must be the same in files and comparisons.
                value = float(value)
                object.__setattr__(self, name, value)
            simple = [each for each in allowed if each is not NoneType]
            if simple[0] in TYPE_NAMES and len(simple) == 1 and type(value) not in allowed:
                raise UserError(f"{self.called(name)} takes {TYPE_NAMES[simple[0]]}, not {value!r}", status=2)
            if not about.allows(value):
                hint = alias_hint(name, str(value)) if isinstance(value, str) else ""
                self.require(name, False, about.rule(simple[0]) + hint)

    @classmethod
    def of_keywords(cls, values: Mapping[str, Any], function: Callable[..., object]) -> Self:
        """Returns the options that a function received as extra keyword arguments.

        Raises:
          UserError: if one is unknown (with the nearest names), or a value is out of range.
        """
        for name in values:
            if name not in cls.declared():
                known = [*cls.declared(), *inspect.signature(function).parameters]
                raise UserError(f"{function.__name__}() has no argument '{name}'{nearest(name, known)}", status=2)
        return cls(**values)

    @classmethod
    def names(cls) -> list[str]:
        """Returns the names of all options."""
        return [field.name for field in dataclasses.fields(cls)]

    @classmethod
    def declared(cls) -> list[str]:
        """Returns the names of the options declared with `option`; users cannot set the other fields."""
        return [field.name for field in dataclasses.fields(cls) if "option" in field.metadata]

    @classmethod
    def option(cls, name: str) -> Option:
        """Returns the declaration of an option, an empty one for a plain field."""
        return cls.__dataclass_fields__[name].metadata.get("option", Option())

    @classmethod
    def field(cls, name: str) -> Any:  # noqa: ANN401  the default of a field
        """Returns a copy of an option's declaration, as a field for another class."""
        return option(getattr(cls, name), **vars(cls.option(name)))

    @classmethod
    def called(cls, text: str) -> str:
        """Returns an option, or an option with its value, as it is written in messages."""
        return f"`{text}`"

    def require(self, name: str, ok: bool, rule: str) -> None:
        """Raises UserError unless `ok`; `rule` says what the option called `name` must be."""
        if not ok:
            text = f"{name}={getattr(self, name)}"
            raise UserError(f"{self.called(text)} is out of range: it must be {rule}", status=2)
