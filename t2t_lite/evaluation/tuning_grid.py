"""The values that are tried when search settings are tuned: "alpha,beam_size=4/8"."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from t2t_lite.errors import UserError, nearest

ALPHA, BEAM_SIZE, AVERAGE = "alpha", "beam_size", "average_checkpoints"
FORGET = "forget"
USUAL = {
    ALPHA: tuple(round(0.2 * number, 1) for number in range(11)),
    BEAM_SIZE: (1, 2, 4, 8),
    AVERAGE: (1, 5, 10),
}
_SYNTAX = "give values as alpha=0/0.6/1, or a range with its step as alpha=0:2:0.2"
_MOST = 200  # values of a setting


@dataclasses.dataclass(frozen=True)
class Grid:
    """Values to try.

    Args:
      alpha: length penalties; (): the current one.
      beam_size: beam sizes; (): the current one.
      average_checkpoints: numbers of last checkpoints to average; (): the current checkpoint only.
    """

    alpha: tuple[float, ...] = ()
    beam_size: tuple[int, ...] = ()
    average_checkpoints: tuple[int, ...] = ()

    def named(self) -> dict[str, tuple[float, ...] | tuple[int, ...]]:
        """Returns the values of the settings that are tuned, by name."""
        return {name: values for name, values in dataclasses.asdict(self).items() if values}

    def including(self, settings: Mapping[str, float]) -> "Grid":
        """Returns the grid with further values of settings, by name."""
        values = {name: tuple(sorted({*getattr(self, name), value})) for name, value in settings.items()}
        return dataclasses.replace(self, **values)


def parse_grid(text: str) -> Grid:
    """Returns the grid of --tune: names of settings, each with values or without.

    Raises:
      UserError: if a name is unknown, or a value is malformed or out of range.
    """
    values: dict[str, Sequence[float]] = {}
    for part in (part.strip() for part in text.split(",")):
        name, equals, given = (each.strip() for each in part.partition("="))
        if name not in USUAL:
            raise UserError(f"`tune={text}`: '{name}' cannot be tuned{nearest(name, [*USUAL, FORGET])}", status=2)
        if name in values:
            raise UserError(f"`tune={text}`: {name} is given twice", status=2)
        values[name] = _values(text, name, given) if equals else USUAL[name]
    return Grid(
        tuple(values.get(ALPHA, ())),
        tuple(int(value) for value in values.get(BEAM_SIZE, ())),
        tuple(int(value) for value in values.get(AVERAGE, ())),
    )


def _values(text: str, name: str, given: str) -> list[float]:
    """Returns the values "a/b/c" or "first:last:step" in ascending order."""
    kind = float if name == ALPHA else int
    try:
        if ":" in given:
            first, last, step = (kind(number) for number in given.split(":"))
            if step <= 0 or last < first or (last - first) / step > _MOST:
                raise ValueError
            # Rounded, so that 0.1 + 0.2 is 0.3.
            found = list(
                itertools.takewhile(
                    lambda value: value <= last + 1e-9,
                    (round(first + number * step, 6) for number in itertools.count()),
                )
            )
        else:
            found = [kind(number) for number in given.split("/")]
        least = 0 if name == ALPHA else 1
        if not all(least <= value < 2**31 for value in found):  # also refuses NaN
            raise ValueError
    except ValueError as error:
        raise UserError(f"`tune={text}`: '{given}' are no values of {name}; {_SYNTAX}", status=2) from error
    return sorted(set(found))
