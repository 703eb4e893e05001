"""Text for messages: "did you mean", counts with plurals, durations in the unit a person would use."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from re import fullmatch

UNITS = {"day": 86400.0, "hour": 3600.0, "minute": 60.0, "second": 1.0}  # seconds
OPTION_UNITS = {"d": 86400.0, "h": 3600.0, "min": 60.0, "s": 1.0}  # units of durations in options and config files


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the nearest known one, or all of them.

    >>> suggestion("pm25", ["date", "PM2.5"])
    "; did you mean 'PM2.5'?"
    """
    known = {other.lower(): other for other in names}
    near = get_close_matches(name.lower(), known, 1)
    return f"; did you mean '{known[near[0]]}'?" if near else f"; there are {', '.join(known.values())}"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is one.

    >>> plural(1, "row"), plural(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def listed(names: Sequence[str]) -> str:
    """Return names as a list in a sentence.

    >>> listed(["a line"]), listed(["a line", "trees", "a network"])
    ('a line', 'a line, trees and a network')
    """
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def some_of(names: Sequence[str]) -> str:
    """Return the first three of some names, and how many more there are.

    >>> some_of(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def duration(seconds: float, signed: bool = False) -> str:
    """Spell a duration in days, hours, minutes or seconds.

    It takes the largest unit that gives at least 10, or a number of at most one decimal that is at least 1 (for days
    at least 3). `signed` puts a plus before a positive duration.

    >>> duration(216000), duration(3600), duration(301), duration(0.25), duration(30 * 86400)
    ('60 hours', '1 hour', '301 seconds', '0.25 seconds', '30 days')
    >>> duration(16200, signed=True), duration(-90, signed=True)
    ('+4.5 hours', '-1.5 minutes')
    """
    for unit, size in UNITS.items():
        count = abs(seconds) / size
        has_one_decimal = (10 * count).is_integer() and count >= (3 if unit == "day" else 1)
        if has_one_decimal or count >= 10 or unit == "second":
            break
    text = f"{count:.3g}" if count < 1000 else f"{count:,.0f}"
    sign = "-" if seconds < 0 else "+" if signed and seconds > 0 else ""
    return f"{sign}{text} {unit}" if text == "1" else f"{sign}{text} {unit}s"


def parse_duration(text: str) -> float | None:
    """Parse a duration such as 1h or 90min and return it in seconds; None if the text is not a duration.

    >>> parse_duration("1.5 h"), parse_duration("90min"), parse_duration("60")
    (5400.0, 5400.0, None)
    """
    match = fullmatch(rf"\s*(\d+(?:\.\d+)?)\s*({'|'.join(OPTION_UNITS)})\s*", text)
    if not match:
        return None
    number, unit = match.groups()
    return float(number) * OPTION_UNITS[unit]


def as_option(seconds: float) -> str:
    """Return a duration as an option takes it, rounded down to a unit of which there are at least four.

    >>> as_option(30_000), as_option(86_400), as_option(5400), as_option(400_000)
    ('8h', '24h', '90min', '4d')
    """
    unit = next((unit for unit, size in OPTION_UNITS.items() if seconds >= 4 * size), "s")
    return f"{seconds // OPTION_UNITS[unit]:g}{unit}"


def spell_counts(counts: Mapping[str, int]) -> str:
    """Spell out how many rows carry each flag; flags that no row carries are left out.

    >>> spell_counts({"SPIKE": 1200, "GAP": 0, "WARM_UP": 3})
    '1,200 spike, 3 warm-up'
    """
    return ", ".join(f"{count:,} {flag.lower().replace('_', '-')}" for flag, count in counts.items() if count)
