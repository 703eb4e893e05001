"""Words for a message about a name that is not known: the nearest one that is."""

from collections.abc import Iterable
from difflib import get_close_matches


def suggestion(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or all of them.

    >>> suggestion("pm25", ["date", "PM2.5"])
    "; did you mean 'PM2.5'?"
    """
    known = {other.lower(): other for other in names}
    near = get_close_matches(name.lower(), known, 1)
    return f"; did you mean '{known[near[0]]}'?" if near else f"; there are {', '.join(known.values())}"
