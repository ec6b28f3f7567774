"""Converts stored values for reports. Values may have any type, because a run directory may come from elsewhere."""

import datetime
import math

from t2t_lite.files import encodable

_MOST_CHARACTERS = 1500  # maximum length of a text before it is truncated


def number(value: object) -> float:
    """Returns a stored number; NaN if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def is_step(value: object) -> bool:
    """Returns whether a stored value is a step number."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def text(value: object) -> str:
    """Returns a stored value as a text that can be encoded as UTF-8. Truncates very long texts."""
    whole = encodable(value if isinstance(value, str) else "" if value is None else str(value))
    return whole if len(whole) <= _MOST_CHARACTERS else f"{whole[:_MOST_CHARACTERS]} ..."


def shown(value: float, digits: int = 4) -> str:
    """Formats a number with `digits` significant digits; large numbers have separators. Returns "" for NaN."""
    if not math.isfinite(value):
        return "" if math.isnan(value) else str(value)
    if abs(value) >= 1e7 or 0 < abs(value) < 1e-4:
        return f"{value:.{digits - 1}g}"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    rounded = f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}" if value else "0"
    return rounded.rstrip("0").rstrip(".") if "." in rounded else rounded


def whole(value: object) -> str:
    """Formats a stored whole number with separators. Returns "" if it is not a finite number."""
    as_float = number(value)
    return f"{as_float:,.0f}" if math.isfinite(as_float) else ""


def score(value: float, of_outputs: bool) -> str:
    """Formats a score: two digits for percentages of outputs, four for metrics of tokens. Returns "" if it is NaN."""
    return "" if math.isnan(value) else f"{value:.2f}" if of_outputs and abs(value) < 1e6 else f"{value:.4g}"


def date(seconds: object) -> str:
    """Formats seconds since 1970 as a date and time. Returns "" if it is not a time."""
    try:
        return f"{datetime.datetime.fromtimestamp(number(seconds), datetime.UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return ""
