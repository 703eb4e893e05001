"""The model card: what a calibrator is, in Markdown, with the table of the model selection.

Training stores every candidate that it tried, with its validation error, among the calibrator's facts. The card goes
into the `.scare` file (`bundle`); the terminal and the report print the same table. Reading facts needs no JAX, so this
is apart from `models/selection`. Files made before there was a selection have no table.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scare.calibrator.intervals import COVERAGE_FACT, describe_intervals
from scare.calibrator.passes import STATE
from scare.data.quantities import find_quantity
from scare.data.readings import Channel

if TYPE_CHECKING:
    from scare.calibrator.calibrator import Calibrator

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
Z_95 = 1.96  # standard errors on each side of a 95 % interval


def model_card(calibrator: "Calibrator") -> str:
    """Describe a calibrator for a person, in Markdown."""
    inputs, unit = calibrator.inputs, calibrator.target.unit
    lines = [
        f"# Calibrator for {_name_and_unit(calibrator.target)}",
        "",
        f"- inputs: {', '.join(map(_name_and_unit, inputs.channels))}",
        f"- window: {inputs.window} readings, one every {inputs.step_seconds:g} s",
        f"- gap policy: {inputs.policy.name}; scaling: {inputs.scaling.method}",
    ]
    if inputs.scaling.settle:
        settling = f"for its first {inputs.scaling.settle} readings"
        lines.append(f"- a device that was not in training is scaled with the fleet's mean and spread {settling}")
    if inputs.training_range:
        lines.append("- rows outside the training range are flagged OUTSIDE, and readings far beyond it are clamped")
    else:
        lines.append("- the training range is unknown: no row is flagged OUTSIDE, and nothing is clamped")
    if calibrator.floor is not None:
        lines.append(f"- no value is below {calibrator.floor:g} {unit}".rstrip())
    lines += [f"- {line}" for line in describe_intervals(calibrator.intervals, calibrator.facts, unit)]
    for name, value in calibrator.facts.items():
        if name not in (*SELECTION_FACTS, COVERAGE_FACT, STATE):
            lines.append(f"- {name.replace('_', ' ')}: {_readable(value)}")
    if candidates := selection_table(calibrator.facts, [channel.name for channel in inputs.channels[1:]]):
        table = [f"| {' | '.join(cells)} |" for cells in (HEAD, ["---"] * len(HEAD), *candidates)]
        lines += ["", "## Model selection", "", selection_summary(calibrator.facts), "", *table]
    return "\n".join(lines) + "\n"


def selection_table(facts: Mapping[str, Any], other_channels: Sequence[str] = ()) -> list[list[str]]:
    """Tabulate the candidates of the model selection in the columns of `HEAD`; ± is half a 95 % interval.

    >>> history = {"candidate": "history", "rmse": 2.5, "improvement": 0.25, "z_score": 4.9, "admitted": True}
    >>> selection_table({"selection": [history], "network_share": 0.0})
    [['+ earlier readings', '2.5', '25% ± 10%', 'yes']]
    """
    facts, rows = current_facts(facts), []
    labels = candidate_labels(other_channels)
    network_share = float(facts.get("network_share", 0.0))
    for candidate in facts.get("selection", ()):
        name, used, improvement = str(candidate["candidate"]), "yes" if candidate["admitted"] else "no", ""
        if name == "network" and 0 < network_share < 1:
            used = f"{network_share:.0%}"
        if "improvement" in candidate:
            improvement = f"{candidate['improvement']:.0%}"
            if z_score := abs(candidate.get("z_score", 0.0)):  # the improvement in standard errors
                improvement += f" ± {Z_95 * abs(candidate['improvement']) / z_score:.0%}"
        rows.append([labels.get(name, name), f"{candidate['rmse']:.4g}", improvement, used])
    return rows


def candidate_labels(other_channels: Sequence[str]) -> dict[str, str]:
    """Label the candidates for people; names the other channels if they are temperature and humidity.

    >>> candidate_labels(["T", "RH"])["other channels"]
    '+ temperature and humidity'
    """
    found = {quantity.device_class for name in other_channels if (quantity := find_quantity(name))}
    is_weather = len(other_channels) == 2 and found == {"temperature", "humidity"}
    return {**LABELS, **({"other channels": "+ temperature and humidity"} if is_weather else {})}


def selection_summary(facts: Mapping[str, Any]) -> str:
    """Say what training selected and why, as a full sentence; empty if the facts have no summary."""
    summary = str(current_facts(facts).get("summary", "")).rstrip(".")
    return f"{summary[:1].upper()}{summary[1:]}." if summary else ""


def current_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Translate the facts of an older file to today's names.

    >>> current_facts({"ladder": [{"rung": "raw", "rmse": 4.0}], "verdict": "good", "seed": 1})
    {'selection': [{'candidate': 'raw', 'rmse': 4.0}], 'summary': 'good', 'seed': 1}
    """

    def renamed(table: Mapping[str, Any]) -> dict[str, Any]:
        return {FORMER_FACTS.get(name, name): value for name, value in table.items()}

    current = renamed(facts)
    if isinstance(selection := current.get("selection"), list | tuple):
        current["selection"] = [renamed(one) if isinstance(one, Mapping) else one for one in selection]
    return current


def _name_and_unit(channel: Channel) -> str:
    return f"{channel.name} [{channel.unit}]" if channel.unit else channel.name


def _readable(fact: Any) -> str:
    """Write a fact as a person would, without braces and quotes."""
    if isinstance(fact, dict):
        separator = "; " if any(isinstance(part, dict) for part in fact.values()) else ", "
        return separator.join(f"{name.replace('_', ' ')} {_readable(part)}" for name, part in fact.items())
    if isinstance(fact, list | tuple):
        return ", ".join(map(_readable, fact))
    return f"{fact:.4g}" if isinstance(fact, float) else str(fact)
