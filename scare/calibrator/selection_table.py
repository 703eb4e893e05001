"""The model selection in a calibrator's facts as a table: every candidate that training tried, and its error.

Facts of a file made before there was a selection tell nothing, and make no table.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from scare.data.quantities import find_quantity

# Names in files made before these were renamed.
FORMER_FACTS = {
    "ladder": "selection",
    "rung": "candidate",
    "fall": "improvement",
    "sureness": "z_score",
    "verdict": "summary",
}
SELECTION_FACTS = frozenset({"outcome", "selection", "network_share", "summary", "ladder", "verdict"})
HEAD = ("candidate", "validation error", "improvement", "used")
LABELS = {
    "raw": "sensor reading as is",
    "offset": "offset",
    "line": "linear regression",
    "other channels": "+ other channels",
    "history": "+ earlier readings",
    "products with the first channel": "+ interactions with the first channel",
    "all products": "+ all interactions",
    "network": "network",
}
NORMAL = 1.96  # standard errors on each side of 95 %


def current_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts with today's names; those of older files are other ones.

    >>> current_facts({"ladder": [{"rung": "raw", "rmse": 4.0}], "verdict": "good", "seed": 1})
    {'selection': [{'candidate': 'raw', 'rmse': 4.0}], 'summary': 'good', 'seed': 1}
    """
    current = _renamed(facts)
    if isinstance(selection := current.get("selection"), list | tuple):
        current["selection"] = [_renamed(one) if isinstance(one, Mapping) else one for one in selection]
    return current


def selection_table(facts: Mapping[str, Any], other_channels: Sequence[str] = ()) -> list[list[str]]:
    """A row for each candidate, in the columns of `HEAD`.

    >>> history = {"candidate": "history", "rmse": 2.5, "improvement": 0.25, "z_score": 4.9, "admitted": True}
    >>> selection_table({"selection": [history], "network_share": 0.0})
    [['+ earlier readings', '2.5', '25% ± 10%', 'yes']]
    """
    facts, rows = current_facts(facts), []
    labels = candidate_labels(other_channels)
    share = float(facts.get("network_share", 0.0))
    for candidate in facts.get("selection", ()):
        name, used = str(candidate["candidate"]), "yes" if candidate["admitted"] else "no"
        if name == "network" and 0 < share < 1:
            used = f"{share:.0%}"
        rows.append([labels.get(name, name), f"{candidate['rmse']:.4g}", _improvement(candidate), used])
    return rows


def candidate_labels(other_channels: Sequence[str]) -> dict[str, str]:
    """What each candidate is called in tables; other channels by their names where they are the usual two.

    >>> candidate_labels(["T", "RH"])["other channels"]
    '+ temperature and humidity'
    """
    found = {quantity.device_class for name in other_channels if (quantity := find_quantity(name))}
    is_weather = len(other_channels) == 2 and found == {"temperature", "humidity"}
    return {**LABELS, **({"other channels": "+ temperature and humidity"} if is_weather else {})}


def selection_summary(facts: Mapping[str, Any]) -> str:
    """What training selected and why, as a full sentence; empty if the facts do not tell."""
    summary = str(current_facts(facts).get("summary", "")).rstrip(".")
    return f"{summary[:1].upper()}{summary[1:]}." if summary else ""


def _renamed(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {FORMER_FACTS.get(name, name): value for name, value in facts.items()}


def _improvement(candidate: Mapping[str, Any]) -> str:
    """How much smaller the error is, with its 95 % interval where blocks of time give one."""
    if "improvement" not in candidate:
        return ""
    improvement, z_score = candidate["improvement"], abs(candidate.get("z_score", 0.0))
    return f"{improvement:.0%}" + (f" ± {NORMAL * abs(improvement) / z_score:.0%}" if z_score else "")
