"""The model card: what a calibrator is, in Markdown, with the table of the model selection.

Training stores every candidate that it tried, with its validation error, among the calibrator's facts. The card goes
into the `.scare` file (`bundle`); the terminal and the report print the same table. Reading facts needs no JAX, so this
is apart from `training/selection`. Files made before there was a selection have no table.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from scare.calibrator.cost import COST_HEADINGS
from scare.calibrator.equation import describe_equations
from scare.calibrator.intervals import COVERAGE_FACT, describe_intervals
from scare.calibrator.plan_passes import SHIPPED_INTERVALS, STATE
from scare.calibrator.provenance import EXTERNAL_FACT, processing_level
from scare.calibrator.renamed_devices import recognise
from scare.calibrator.verdict import verdict_of
from scare.data.quantities import display_unit, find_quantity
from scare.data.readings import Channel, Readings
from scare.windowing.inputs import Inputs
from scare.words import duration, plural

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
SELECTION_FACTS = frozenset(
    {"outcome", "selection", "network_share", "summary", "combinations", "why_smaller", "ladder", "verdict"}
)
LINE_FACT = "straight_line"
YEAR_SECONDS = 365.25 * 86400
NEW_DEVICE_FACT = "new_device_rmse"
SHARED_FACT = "shared_regression"  # of a federation, for `federated/combined`
SHOWN_ELSEWHERE = (COVERAGE_FACT, STATE, SHIPPED_INTERVALS, LINE_FACT, NEW_DEVICE_FACT, SHARED_FACT, EXTERNAL_FACT)
HEAD = ("candidate", "validation error", "variant", "used")
LABELS = {
    "as is": "sensor reading as is",
    "linear": "linear regression",
    "interactions": "+ interactions",
    "devices": "+ device effects",
    "drift": "+ drift",
    "trees": "+ gradient-boosted trees",
    # of files made before families were averaged, and of scores
    "raw": "sensor reading as is",
    "offset": "offset",
    "line": "linear regression",
    "other channels": "+ other channels",
    "history": "+ earlier readings",
    "products with the first channel": "+ interactions with the first channel",
    "all products": "+ all interactions",
    "network": "network",
}


def model_card(calibrator: "Calibrator") -> str:
    """Describe a calibrator for a person, in Markdown."""
    inputs, unit = calibrator.inputs, calibrator.target.unit
    lines = [
        f"# Calibrator for {_name_and_unit(calibrator.target)}",
        "",
        *([verdict.text, ""] if (verdict := verdict_of(calibrator.facts, inputs.step_seconds, unit)) else []),
        f"- inputs: {', '.join(map(_name_and_unit, inputs.channels))}",
        f"- window: {plural(inputs.window, 'reading')}, one every {inputs.step_seconds:g} s",
        f"- {describe_first_value(inputs)}",
        f"- gap policy: {inputs.policy.name}; scaling: {inputs.scaling.method}",
    ]
    lines.append(f"- {processing_level(calibrator)}")
    lines += [f"- {line}" for line in describe_equations(calibrator) or describe_straight_line(calibrator.facts)]
    new_device = "- a device that was not in training is scaled with the fleet's mean and spread"
    if inputs.scaling.settle:
        new_device += f"; after {inputs.scaling.settle} readings raw channels are centred by its own mean"
    lines.append(new_device)
    if expected := describe_expected(calibrator.facts, unit):
        lines.append(f"- {expected[0].lower()}{expected[1:].rstrip('.')}")
    if refitted := describe_refit(calibrator.facts):
        lines.append(f"- {refitted[0].lower()}{refitted[1:].rstrip('.')}")
    if inputs.training_range:
        lines.append("- rows outside the training range are flagged OUTSIDE, and readings far beyond it are clamped")
    else:
        lines.append("- the training range is unknown: no row is flagged OUTSIDE, and nothing is clamped")
    if calibrator.floor is not None:
        lines.append(f"- no value is below {calibrator.floor:g} {display_unit(unit)}".rstrip())
    lines += [f"- {line}" for line in describe_intervals(calibrator.intervals, calibrator.facts, unit)]
    for name, value in calibrator.facts.items():
        if name not in (*SELECTION_FACTS, *SHOWN_ELSEWHERE):
            lines.append(f"- {name.replace('_', ' ')}: {_readable(value)}")
    if candidates := selection_table(calibrator.facts, [channel.name for channel in inputs.channels[1:]]):
        lines += ["", "## Model selection", "", selection_summary(calibrator.facts), "", *_table(HEAD, candidates)]
    if combinations := cost_table(calibrator.facts):
        lines += ["", "## Cost on a board", "", cost_summary(calibrator.facts), "", *_table(*combinations)]
    return "\n".join(lines) + "\n"


def selection_table(facts: Mapping[str, Any], other_channels: Sequence[str] = ()) -> list[list[str]]:
    """Tabulate the candidates of the model selection in the columns of `HEAD`.

    `other_channels` are the names of all channels but the first, for the label of the candidate that uses them.

    >>> linear = {"candidate": "linear", "variant": "history, penalty 0.1", "rmse": 2.5, "admitted": True, "share": 0.5}
    >>> selection_table({"selection": [linear]})
    [['linear regression', '2.5', 'history, penalty 0.1', '50%']]
    """
    facts = current_facts(facts)
    rows = []
    labels = candidate_labels(other_channels)
    network_share = float(facts.get("network_share", 0.0))
    for candidate in facts.get("selection", ()):
        name = str(candidate["candidate"])
        used = "yes" if candidate["admitted"] else "no"
        share = float(candidate.get("share", network_share if name == "network" else 0.0))
        if 0 < share < 1:
            used = f"{share:.0%}"
        variant = str(candidate.get("variant", ""))
        rows.append([labels.get(name, name), f"{candidate['rmse']:.4g}", variant if variant != name else "", used])
    return rows


def cost_table(facts: Mapping[str, Any]) -> tuple[list[str], list[list[str]]] | None:
    """Tabulate all combinations with error and cost, as head and rows; None if costs were not compared.

    >>> cost = {"instructions": 20_775, "flash_bytes": 12_022}
    >>> combination = {"parts": ["linear", "network"], "rmse": 2.5, "cost": cost, "over": [], "used": True}
    >>> cost_table({"combinations": [combination]})[1]
    [['linear regression, network', '2.5', '20,775', '12,022', 'shipped']]
    """
    combinations = facts.get("combinations", ())
    if not combinations:
        return None
    kinds = [kind for kind in COST_HEADINGS if kind in combinations[0]["cost"]]
    rows = [
        [
            ", ".join(LABELS.get(part, part).removeprefix("+ ") for part in combination["parts"]),
            f"{combination['rmse']:.4g}",
            *(f"{combination['cost'][kind]:,}" for kind in kinds),
            "shipped" if combination["used"] else "does not fit" if combination["over"] else "",
        ]
        for combination in combinations
    ]
    return ["mean of", "validation error", *(COST_HEADINGS[kind] for kind in kinds), ""], rows


def cost_summary(facts: Mapping[str, Any]) -> str:
    """Return a sentence on what was left out because of a budget or a preference for small models, if anything was."""
    return str(facts.get("why_smaller", "All that validation supports fits."))


def candidate_labels(other_channels: Sequence[str]) -> dict[str, str]:
    """Label the candidates for people; names the other channels if they are temperature and humidity.

    >>> candidate_labels(["T", "RH"])["other channels"]
    '+ temperature and humidity'
    """
    classes = {quantity.device_class for name in other_channels if (quantity := find_quantity(name))}
    if len(other_channels) == 2 and classes == {"temperature", "humidity"}:
        return {**LABELS, "other channels": "+ temperature and humidity"}
    return LABELS


def describe_first_value(inputs: Inputs) -> str:
    """Return when a device that was just switched on gets its first value."""
    count = inputs.policy.rows_checked(inputs.window)
    if count == 1:
        return "The first reading gives the first value."
    return f"The first value comes with reading {count}, {duration((count - 1) * inputs.step_seconds)} after the first."


def describe_straight_line(facts: Mapping[str, Any]) -> list[str]:
    """Return the equation of the straight line that the calibrator was compared with, and how to use it.

    It is a fallback where the calibrator cannot run. Empty if there is none.
    """
    equation, *uses = facts.get(LINE_FACT) or [""]
    return [f"A straight line to use where the calibrator cannot run: {equation}", *uses] if equation else []


def describe_new_device(calibrator: "Calibrator", device: str, times: np.ndarray, values: np.ndarray) -> list[str]:
    """Describe what to expect of a device that was not in training; empty if it was, or if the file does not say.

    Times [n] and values [n, channels] are its first readings, by which a renamed training device is recognised.
    """
    facts, scaling = calibrator.facts, calibrator.inputs.scaling
    known = list(dict.fromkeys(facts.get("refitted", facts).get("devices", ())))
    if not known or device in known:
        return []
    rows = calibrator.known_rows
    if rows is not None and (same := recognise(rows, times, values)) is not None and same < len(known):
        name = known[same]
        return [
            f"{device} was not in training, but its readings are those of {name}."
            f" If it is the same device, pass --device {name}."
        ]
    names = ", ".join(known[:5]) + (", …" if len(known) > 5 else "")
    lines = [f"{device} was not in training. If it is one of {names} under another name, add --device NAME."]
    if scaling.settle:
        lines.append(f"Its first {scaling.settle:,} readings are flagged UNSETTLED: they centre its raw channels.")
    if expected := describe_expected(facts, calibrator.target.unit):
        lines.append(expected)
    elif scaling.settle and len(known) == 1:
        lines.append("Raw channels of one device say nothing about another: its values may be far off.")
    return lines


def describe_expected(facts: Mapping[str, Any], unit: str) -> str:
    """Return what error to expect on a device that is not in training; empty if there were too few devices to tell.

    >>> describe_expected({"new_device_rmse": 5.787}, "ppb")
    'On a device that was not in the training data, expect an RMSE of about 5.8 ppb,
     as measured by leaving out one device at a time.'
    """
    if (expected := facts.get(NEW_DEVICE_FACT)) is None:
        return ""
    error = f"{expected:.2g} {display_unit(unit)}".rstrip()
    return (
        f"On a device that was not in the training data, expect an RMSE of about {error},"
        " as measured by leaving out one device at a time."
    )


def has_learned_from(facts: Mapping[str, Any], readings: Sequence[Readings]) -> bool:
    """Whether a calibrator was refitted, after its accuracy was measured, to a period that these readings overlap."""
    if not describe_refit(facts):
        return False
    start, end = (datetime.fromisoformat(moment).timestamp() for moment in facts["refitted"]["period"])
    known = [box.times for box in readings if box.device in facts["refitted"]["devices"]]
    return any(bool(((times >= start) & (times <= end)).any()) for times in known)


def describe_refit(facts: Mapping[str, Any]) -> str:
    """Return a sentence if a calibrator was refitted to the rows that its accuracy was measured on; else empty.

    >>> facts = {"refitted": {"period": ["2023-06-01T00:00:00Z", "2023-07-16T00:00:00Z"]},
    ...     "test_period": ["2023-07-04T00:00:00Z", "2023-07-16T00:00:00Z"]}
    >>> describe_refit(facts)
    'Its accuracy was measured on 2023-07-04 to 2023-07-16; after that it was fitted again, those days included.'
    """
    refitted, test = facts.get("refitted"), facts.get("test_period")
    if not refitted or not test or refitted["period"][1] < test[0]:
        return ""
    return f"Its accuracy was measured on {describe_period(test)}; after that it was fitted again, those days included."


def describe_age(facts: Mapping[str, Any], first: float, last: float) -> str:
    """Return a sentence if readings are more than a year newer or older than those of training; empty otherwise.

    `first` and `last` are the times of the readings, in seconds since 1970.

    >>> describe_age({"period": ["2023-06-01T00:00:00Z", "2023-07-16T00:00:00Z"]}, 1.76e9, 1.77e9)
    'the readings begin 2.2 years after those that the model has learned from (2023-06-01 to 2023-07-16): sensors age.'
    """
    period = (facts.get("refitted") or facts).get("period")
    if not period:
        return ""
    start, end = (datetime.fromisoformat(moment).timestamp() for moment in period)
    learned = f"those that the model has learned from ({describe_period(period)})"
    if first - end > YEAR_SECONDS:
        return f"the readings begin {(first - end) / YEAR_SECONDS:.2g} years after {learned}: sensors age."
    if start - last > YEAR_SECONDS:
        return f"the readings end {(start - last) / YEAR_SECONDS:.2g} years before {learned}: are the times right?"
    return ""


def describe_period(period: Sequence[str]) -> str:
    """Return the days from the first to the last of two ISO 8601 times."""
    start, end = (moment[:10] for moment in period)
    return start if start == end else f"{start} to {end}"


def selection_summary(facts: Mapping[str, Any]) -> str:
    """Return what training selected and why, as a full sentence; empty if the facts have no summary."""
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
        current["selection"] = [renamed(row) if isinstance(row, Mapping) else row for row in selection]
    return current


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def _name_and_unit(channel: Channel) -> str:
    return f"{channel.name} [{display_unit(channel.unit)}]" if channel.unit else channel.name


def _readable(fact: Any) -> str:
    """Return a fact as a person would write it, without braces and quotes."""
    if isinstance(fact, dict):
        separator = "; " if any(isinstance(part, dict) for part in fact.values()) else ", "
        return separator.join(f"{name.replace('_', ' ')} {_readable(part)}" for name, part in fact.items())
    if isinstance(fact, list | tuple):
        return ", ".join(map(_readable, fact))
    return f"{fact:.4g}" if isinstance(fact, float) else str(fact)
