"""Numbers formatted for people, with their units."""

from math import floor, isfinite, log10
from typing import Any

from scare.data.quantities import display_unit

NOTHING = "–"


def number(value: Any) -> str:
    """A number with three significant digits, or whole with separators from 1,000; a dash for none.

    >>> number(0.012345), number(0.0000643), number(12345.6), number(2), number(None), number(float("nan"))
    ('0.0123', '0.0000643', '12,346', '2', '–', '–')
    """
    if value is None or isinstance(value, bool) or not isfinite(value):
        return NOTHING
    if abs(value) >= 1000 or value == int(value):
        text = f"{value:,.0f}"
    else:
        text = f"{value:.{2 - floor(log10(abs(value)))}f}" if 1e-6 < abs(value) < 1e-3 else f"{value:.3g}"
    return text.replace("-", "−")


def readable(value: float, unit: str) -> tuple[float, str]:
    """A number and its unit; a time below a millisecond in microseconds.

    >>> readable(0.25, "ms"), readable(0.25, "B"), readable(0.0, "ms")
    ((250.0, 'µs'), (0.25, 'B'), (0.0, 'µs'))
    """
    return (1e3 * value, "µs") if unit == "ms" and abs(value) < 1 else (value, unit)


def quantity(value: Any, unit: str) -> str:
    """A number with its unit.

    >>> quantity(3.14159, "ug/m3"), quantity(5, ""), quantity(0.0001569, "ms")
    ('3.14 µg/m³', '5', '0.157 µs')
    """
    if value is not None:
        value, unit = readable(value, unit)
    return f"{number(value)} {display_unit(unit)}".strip()


def percent(share: float, digits: int = 0) -> str:
    """A share as a percentage.

    >>> percent(0.123), percent(0.123, 1)
    ('12 %', '12.3 %')
    """
    return f"{100 * share:.{digits}f} %"
