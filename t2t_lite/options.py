"""Declares options once: a field gives an option's default, meaning and range. Also the base class of all settings.

The range check, the flag, the class docstring, and the text in --help and in docs/options.md are generated from the
field.
"""

import dataclasses
import functools
import inspect
import json
import math
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, ClassVar, Self, TypeAlias, TypeVar, get_args, get_type_hints

from t2t_lite.aliases import alias_hint
from t2t_lite.errors import UserError, nearest

__all__ = ["Option", "Options", "option"]  # what plug-ins use

T = TypeVar("T")
SettingValue: TypeAlias = int | float | str | bool
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
    group: str = ""  # begins this group of flags in --help, which lasts until the next one
    required: bool = False  # whether a command needs the flag
    one_of: bool = False  # a command takes only one of these flags; if the first one is required, it needs one
    needs: tuple[str, ...] = ()  # a command takes the flag only with these others
    excludes: tuple[str, ...] = ()  # a command does not take the flag with any of these others
    positional: bool = False  # whether the command takes the value without a flag
    bare: int | str | None = None  # the value of the flag without a value; None: it needs one
    parse: Callable[[str], Any] | None = None  # reads the flag's value, if its type does not say how

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
                parameters = inspect.signature(function).parameters.values()
                known = [*cls.declared(), *(each.name for each in parameters if each.kind is not each.VAR_KEYWORD)]
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
        """Returns a copy of an option's declaration without its group, as a field for another class."""
        return option(getattr(cls, name), **vars(cls.option(name)) | {"group": ""})

    @classmethod
    def called(cls, text: str) -> str:
        """Returns an option, or an option with its value, as it is written in messages."""
        return f"`{text}`"

    def require(self, name: str, ok: bool, rule: str) -> None:
        """Raises UserError unless `ok`; `rule` says what the option called `name` must be."""
        if not ok:
            text = f"{name}={getattr(self, name)}"
            raise UserError(f"{self.called(text)} is out of range: it must be {rule}", status=2)


@dataclasses.dataclass(frozen=True)
class Settings(Options):
    """Base class of settings. Subclasses are frozen dataclasses with int, float, str and bool fields."""

    FLAG: ClassVar[str]  # the argument and the flag that take these settings
    # Maps old names of settings, in files and on command lines, to their names since version 0.2.
    RENAMED: ClassVar[dict[str, str]] = {}

    @classmethod
    def called(cls, text: str) -> str:
        """Returns a setting, or a setting with its value, as it is written in messages."""
        return f"`{cls.FLAG}`: {text}"

    @classmethod
    def current_name(cls, name: str) -> str:
        """Returns the current name of a setting, given its current or old name."""
        return cls.RENAMED.get(name, name)

    @classmethod
    def owner(cls, name: str) -> type | None:
        """Returns the class that defines a setting; None if there is no such setting."""
        return next((kind for kind in cls.__mro__ if name in vars(kind).get("__annotations__", {})), None)

    def replace(self, **changes: SettingValue) -> Self:
        """Returns a copy with some settings changed, and checks the values.

        Raises:
          UserError: on an unknown name (with the nearest names) or an invalid value.
        """
        kind = self.class_for(self._values() | changes)
        changes = {kind.current_name(name): value for name, value in changes.items()}
        for name in changes:
            if name not in kind.names():
                raise UserError(f"unknown setting '{name}'{kind.hint(name)}", status=2)
        # Another class may have a different setting with the same name.
        values = {name: value for name, value in self._values().items() if kind.owner(name) is self.owner(name)}
        return kind(**(values | changes))

    def changed(self, changes: Mapping[str, SettingValue] | str | None) -> Self:
        """Returns a copy with changes: a dict (see `replace`), a text (see `override`) or None for no changes."""
        return self.override(changes) if isinstance(changes, str) else self.replace(**(changes or {}))

    def override(self, text: str) -> Self:
        """Returns a copy changed by "name=value,name=value", the syntax of the command-line flag.

        Raises:
          UserError: on an unknown name (with the nearest names), a value of the wrong type, or a malformed pair.
        """
        texts: dict[str, str] = {}
        for pair in filter(None, (part.strip() for part in text.split(","))):
            name, equals, value = (part.strip() for part in pair.partition("="))
            if not equals:
                raise UserError(f"`{self.FLAG}`: '{pair}' is not of the form name=value", status=2)
            if name in texts:
                raise UserError(f"`{self.FLAG}`: {name} is given twice", status=2)
            texts[name] = value
        kind = self.class_for(self._values() | texts)
        for name in [name for name in texts if kind.current_name(name) != name]:
            if kind.current_name(name) in texts:
                raise UserError(f"`{self.FLAG}`: {kind.current_name(name)} is given twice", status=2)
            texts[kind.current_name(name)] = texts.pop(name)
        if unknown := [f"unknown name '{name}'{kind.hint(name)}" for name in texts if name not in kind.names()]:
            raise UserError(f"`{self.FLAG}`: {'. '.join(unknown)}", status=2)
        hints = get_type_hints(kind)
        return self.replace(
            **{name: _parse(value, hints[name], f"`{self.FLAG}`: {name}") for name, value in texts.items()}
        )

    @classmethod
    def class_for(cls, values: Mapping[str, object]) -> type[Self]:
        """Returns the class whose fields fit these values: this class, unless a subclass overrides this method."""
        return cls

    @classmethod
    def hint(cls, name: str) -> str:
        """Returns what to write instead of an unknown name, as the end of a message."""
        return alias_hint(cls.FLAG, name) or nearest(name, cls.names())

    def _values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.names()}

    def warnings(self) -> list[str]:
        """Returns one line for each setting that is valid but probably a mistake, with its effect."""
        return []

    def to_json(self) -> str:
        """Returns the settings as JSON, one per line."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> Self:
        """Reads the output of `to_json`. `where` is the file name for error messages.

        Raises:
          UserError: if the text is not a JSON object, or has unknown names or invalid values.
        """
        try:
            values = json.loads(text)
            kind = cls.class_for(values)
            values = {kind.current_name(name): value for name, value in values.items()}
            # Checked first, because an unknown name may be the setting of an unknown part.
            settings = kind(**{name: value for name, value in values.items() if name in kind.names()})
            if unknown := next((name for name in values if name not in kind.names()), None):
                raise UserError(f"unknown setting '{unknown}'{kind.hint(unknown)}")
            return settings
        except (ValueError, TypeError, AttributeError, UserError) as error:
            raise UserError(
                f"{where} does not contain settings of this version: {error}; replace it with an intact copy"
            ) from error

    def difference(self, other: Self) -> list[str]:
        """Returns "name: mine, not theirs" for each setting that differs in `other`."""
        mine, theirs = self._values(), other._values()
        common = [name for name in mine if name in theirs]
        return [f"{name}: {mine[name]}, not {theirs[name]}" for name in common if mine[name] != theirs[name]]


K = TypeVar("K", bound=Settings)


def combined_class(base: type[K], kinds: Mapping[str, type[K]]) -> type[K]:
    """Returns a class with the settings of all classes, which extend `base`. The keys name their origins."""
    own: dict[type[K], str] = {}
    for what, kind in kinds.items():
        if kind is not base:
            check_settings_class(kind, what)
            own.setdefault(kind, what)
    # Without those that another one extends.
    own = {kind: what for kind, what in own.items() if not any(kind in other.__mro__[1:] for other in own)}
    owners: dict[str, tuple[str, type | None]] = {}
    for kind, what in own.items():
        for name in kind.names():
            other, owner = owners.setdefault(name, (what, kind.owner(name)))
            if owner is not kind.owner(name):
                raise UserError(f"{other} and {what} both have a setting {name}; rename one of them")
    return _combined(base, tuple(own))


@functools.cache
def _combined(base: type[K], kinds: tuple[type[K], ...]) -> type[K]:
    if len(kinds) < 2:
        return kinds[0] if kinds else base
    renamed = {old: new for kind in kinds for old, new in kind.RENAMED.items()}
    made: Any = type("And".join(kind.__name__ for kind in kinds), kinds, {"RENAMED": renamed})
    return dataclasses.dataclass(frozen=True)(made)


def check_settings_class(kind: object, what: str) -> None:
    """Raises UserError unless `kind` is a class of settings; `what` names its origin."""
    name = getattr(kind, "__qualname__", repr(kind))
    if not (isinstance(kind, type) and issubclass(kind, Settings) and hasattr(kind, "FLAG")):
        raise UserError(f"{what}: {name} is not derived from HParams")
    if "__dataclass_fields__" not in vars(kind):
        raise UserError(f"{what}: {name} needs the decorator @dataclasses.dataclass(frozen=True)")
    for field, type_ in get_type_hints(kind).items():
        if field in kind.names() and type_ not in TYPE_NAMES:
            raise UserError(f"{what}: setting {field} of {name} must be an int, float, str or bool, not {type_}")


def _parse(text: str, kind: type[SettingValue], where: str) -> SettingValue:
    """Parses one value of a field's type; `where` names the setting in error messages."""
    try:
        return parse_bool(text) if kind is bool else kind(text)
    except ValueError as error:
        raise UserError(f"{where} takes {TYPE_NAMES[kind]}, not '{text}'", status=2) from error


_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def parse_bool(text: str) -> bool:
    """Parses "True", "False", "1" or "0", in any case. Raises ValueError if the text is none of these."""
    if text.lower() not in _BOOLEANS:
        raise ValueError(f"takes True or False, not '{text}'")
    return _BOOLEANS[text.lower()]


def parse_switch(flag: str, value: str) -> bool:
    """Returns the value of a problem's switch, which is a flag. Raises UserError if it is not a truth value."""
    try:
        return parse_bool(value)
    except ValueError as error:
        raise UserError(f"`{flag}` {error}", status=2) from error
