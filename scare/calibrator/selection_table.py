"""What a calibrator's facts tell of its ladder, in an operator's words: every rung that training tried, and its error.

Facts of a file made before there was a ladder tell nothing, and make no table.
"""

from collections.abc import Mapping
from typing import Any

FACTS = frozenset({"outcome", "ladder", "network_share", "verdict"})
HEAD = ("what was tried", "validation error", "smaller by", "taken")
WORDS = {
    "raw": "the sensor's own value",
    "offset": "the same plus an offset",
    "line": "a straight line",
    "other channels": "a line of all channels",
    "history": "and what was read before",
    "products with the first channel": "and products with the first channel",
    "all products": "and products of all channels",
    "network": "the network",
}
NORMAL = 1.96  # standard errors on each side of 95 %


def selection_table(facts: Mapping[str, Any]) -> list[list[str]]:
    """A line for each rung, in the columns of `HEAD`.

    >>> rung = {"rung": "history", "rmse": 2.5, "fall": 0.25, "sureness": 4.9, "admitted": True}
    >>> selection_table({"ladder": [rung], "network_share": 0.0})
    [['and what was read before', '2.5', '25% ± 10%', 'yes']]
    """
    return [_line(rung, float(facts.get("network_share", 0.0))) for rung in facts.get("ladder", ())]


def _line(rung: Mapping[str, Any], share: float) -> list[str]:
    name, taken = str(rung["rung"]), "yes" if rung["admitted"] else "no"
    if name == "network" and 0 < share < 1:
        taken = f"{share:.0%}"
    return [WORDS.get(name, name), f"{rung['rmse']:.4g}", _fall(rung), taken]


def _fall(rung: Mapping[str, Any]) -> str:
    """By how much the error fell, with its interval where blocks of time tell one."""
    if "fall" not in rung:
        return ""
    fall, sureness = rung["fall"], abs(rung.get("sureness", 0.0))
    return f"{fall:.0%}" + (f" ± {NORMAL * abs(fall) / sureness:.0%}" if sureness else "")
