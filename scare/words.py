"""Words for messages: the nearest known name, how many rows carry which flag."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches


def suggestion(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or all of them.

    >>> suggestion("pm25", ["date", "PM2.5"])
    "; did you mean 'PM2.5'?"
    """
    known = {other.lower(): other for other in names}
    near = get_close_matches(name.lower(), known, 1)
    return f"; did you mean '{known[near[0]]}'?" if near else f"; there are {', '.join(known.values())}"


def counts(flags: Mapping[str, int]) -> str:
    """How many rows carry each flag, in words, without those that none carries.

    >>> counts({"SPIKE": 1200, "GAP": 0, "WARM_UP": 3})
    '1,200 spike, 3 warm-up'
    """
    return ", ".join(f"{count:,} {name.lower().replace('_', '-')}" for name, count in flags.items() if count)
