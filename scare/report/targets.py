"""Assessments against targets as blocks: the class of each device, its measures beside the bounds, where both are from.

Agencies read these texts, so they claim no more than was computed; numbers that were not read in the document itself
are marked wherever they decide something.
"""

from collections.abc import Mapping, Sequence

from scare.data.quantities import display_unit
from scare.data.readings import Channel
from scare.report.blocks import NOTHING, Badge, Block, Cell, Note, ReportTable, number, percent, quantity
from scare.report.precision_chart import precision_drawing
from scare.report.uncertainty_charts import Drawing, uncertainty_drawings
from scare.scorecard.assessment import BELOW_ALL, OF_SEVERAL, Assessment, TargetResult
from scare.scorecard.run_folder import Run
from scare.scorecard.targets import IN_UNIT, MEASURES, SHARES, Bounds, TargetSet, target_sets
from scare.words import plural

REGRESSIONS = {"ols": "Ordinary", "orthogonal": "Orthogonal", "deming": "Deming"}


def class_lines(assessments: Sequence[Assessment]) -> list[str]:
    """Say in a sentence for each set of targets which classes the devices reach, and how sure that is."""
    lines = []
    for one in assessments:
        judged = [result for result in one.devices if result.reached]
        if not judged:
            lines.append(f"{one.title}: not judged, too few complete {one.average_hours}-hour averages.")
            continue
        names = [*one.classes, BELOW_ALL]
        counts = {name: sum(result.reached == name for result in judged) for name in names}
        reached = ", ".join(f"{class_label(name, one)} for {count}" for name, count in counts.items() if count)
        reached = f"{reached} of {len(judged)} devices" if len(judged) > 1 else class_label(judged[0].reached, one)
        sure = sum(result.certain for result in judged)
        how = "sure" if sure == len(judged) else f"{sure} of them sure" if sure else "uncertain"
        beyond = ", extrapolated" if any(map(one.beyond, judged)) else ""
        lines.append(f"{one.title}{_second_hand(one)}: {reached}; {how}{beyond}.")
    return lines


def precision(run: Run) -> list[Block | Drawing]:
    """Tabulate and draw how units side by side agree, by each set that asks for it; or why that was not measured."""
    asking = [one for one in run.card.assessments if set(one.measures) & set(OF_SEVERAL)]
    tables: list[Block | Drawing] = [together_table(one) for one in asking if one.together]
    if tables:
        return [*tables, *filter(None, (precision_drawing(run, one) for one in asking))]
    needs = f"{min(one.units_needed for one in asking)} or more units" if asking else "several units"
    return [Note(f"Not measured: it needs {needs} with enough averages beside the same reference.")]


def targets(run: Run) -> list[Block | Drawing]:
    """Show all sets of targets that apply, each with its tables and notes; or say why there is none."""
    blocks: list[Block | Drawing] = []
    lines = [describe_targets(one) for one in run.card.assessments]
    common = [line for line in lines[0] if len(lines) > 1 and all(line in own for own in lines)] if lines else []
    for one, own in zip(run.card.assessments, lines, strict=True):
        notes = (Note(line) for line in own if line not in common)
        blocks += [target_table(one), bounds_table(one), *uncertainty_drawings(one), *notes]
    if not blocks:
        return [Note(why_no_target(run.target, list(target_sets().values())))]
    reasons: dict[str, list[str]] = {}
    for series in run.series:
        if not len(series.scored):
            reasons.setdefault(series.why_not_scored, []).append(series.device)
    unscored = (Note(f"Not assessed: {', '.join(devices)}: {reason}.") for reason, devices in reasons.items())
    return [*blocks, *(Note(f"All sets: {line}") for line in common), *unscored]


def why_no_target(channel: Channel, sets: Sequence[TargetSet]) -> str:
    """Return why no set of targets applies: another quantity, or a unit that is unknown or does not convert."""
    found = [target for one in sets if (target := one.find(channel))]
    if not found:
        names = ", ".join(dict.fromkeys(name for one in sets for name in one.targets))
        return f"There are targets for {names}; by its name, {channel.name} is none of them. Call the column after one."
    given = f"these readings are in {channel.unit}."
    if not channel.unit:
        given = "the unit of these readings is unknown. Give it in a config file: scare score … --config FILE."
    units = " or ".join(dict.fromkeys(display_unit(target.unit) for target in found))
    return f"The targets for {found[0].name} are in {units}; {given}"


def target_table(one: Assessment) -> ReportTable:
    """Tabulate each device's class, its number of averages and its measures; `bounds_table` has the bounds."""
    names = _single_device_measures(one)
    head = ("", f"class{_second_hand(one)}", _averages(one), *(_heading(name, one) for name in names))
    rows: list[list[str | Cell]] = []
    for result in one.devices:
        sure = f"{result.certainty}, extrapolated" if one.beyond(result) else result.certainty
        count = f"{result.averages:,}, {plural(result.days, 'day')}"
        cells = [_measure(name, result, one) for name in names]
        rows.append(
            [result.device, _class(result, one, sure), Cell(count, badge=_days(result, one), below=True), *cells]
        )
    return ReportTable(f"{one.title}: {one.pollutant}, {one.average_hours}-hour averages", head, rows)


def bounds_table(one: Assessment) -> ReportTable:
    """Tabulate the bounds that each class sets on the measures of a single device."""
    names = _single_device_measures(one)
    rows = [[name, *(_bounds(bounds, measure, one) for measure in names)] for name, bounds in one.classes.items()]
    head = (f"bounds{_second_hand(one)}", *(_heading(name, one) for name in names))
    return ReportTable(f"{one.title}: bounds of the classes", head, rows)


def _single_device_measures(one: Assessment) -> list[str]:
    """Return the measures of a single device that some class bounds."""
    return [name for name in one.measures if name not in OF_SEVERAL]


def _averages(one: Assessment) -> str:
    return {1: "complete hours", 24: "complete days"}.get(one.average_hours, f"complete {one.average_hours} h")


def class_label(reached: str, one: Assessment) -> str:
    """Name the class that was reached; of a set with a single class, say whether all is within its bounds."""
    if len(one.classes) > 1:
        return "no class" if reached == BELOW_ALL else reached
    return "outside" if reached == BELOW_ALL else "within"


def together_table(one: Assessment) -> ReportTable:
    """Tabulate the agreement between units side by side."""
    result = one.together
    assert result is not None
    names = [name for name in one.measures if name in OF_SEVERAL]
    head = ("units side by side", "common averages", "days", *(_heading(name, one) for name in names))
    rows: list[list[str | Cell]] = [
        [f"bounds of {name}{_second_hand(one)}", "", "", *(_bounds(bounds, measure, one) for measure in names)]
        for name, bounds in one.classes.items()
    ]
    cells = [_measure(name, result, one) for name in names]
    rows.append([result.device, f"{result.averages:,}", str(result.days), *cells])
    return ReportTable(f"{one.title}: agreement between units", head, rows)


def describe_targets(one: Assessment) -> list[str]:
    """Return where the targets come from, how they were applied, and what a co-location cannot show."""
    lines = [f"Targets: {one.source}, from a data file of {one.as_of}{_second_hand(one, ': ')}."]
    if one.regression == "deming":
        known = one.deming_ratio is not None
        ratio = (
            f"u²(bs,s) / u²(bs,RM) = {number(one.deming_ratio)}" if known else "1, as u(bs,s) or u(bs,RM) is unknown"
        )
        lines.append(f"The ratio of Deming's regression is {ratio}.")
    lines.append(
        f"{REGRESSIONS[one.regression]} regression with the reference as x, ± one standard uncertainty; an average"
        f" needs {percent(one.completeness)} of its readings; days are in UTC; [95 % interval] by resampled days. How"
        " sure: the share of resampled days that reach the class."
    )
    for pair in one.either:
        if set(pair) <= set(one.measures):
            lines.append(f"One of {' and '.join(MEASURES[name] for name in pair)} within its bounds is enough.")
    if one.converted:
        lines.append(f"The bounds were converted {one.converted}.")
    if one.limit is not None:
        lines += _about_uncertainty(one)
    if one.untested:
        wanted = ", ".join(MEASURES[name] for name in one.untested)
        needs = plural(one.units_needed, "unit")
        why = f" (it needs at least {needs} with averages beside the same reference)"
        lines.append(f"Not tested: {wanted}{why if set(one.untested) & set(OF_SEVERAL) else ''}.")
    if not any(result.chances for result in one.devices):
        lines.append("How sure a class is cannot be told from fewer than eight days with averages.")
    return [*lines, *one.remarks, "This compares numbers; it is neither an approval nor an endorsement."]


def _about_uncertainty(one: Assessment) -> list[str]:
    """Say at which value the expanded uncertainty is judged, and what was taken for the reference's."""
    at = quantity(one.limit, one.unit)
    used = f"u(bs,RM) = {quantity(one.reference_uncertainty, one.unit)} ({one.reference_source})"
    if not one.reference_source:
        used = "u(bs,RM) is not known and taken as 0, so U is an upper bound (--reference-uncertainty)"
    lines = [f"U is judged at {at}{_second_hand(one)}, relative to the reference; {used}."]
    beyond = {result.device: result.highest_reference for result in one.devices if one.beyond(result)}
    if beyond:
        highest = quantity(max(value for value in beyond.values() if value is not None), one.unit)
        lines.append(
            f"{', '.join(beyond)}: no average of the reference is above {highest}, so U at {at} is extrapolated. A"
            " directive asks for the region of the limit value."
        )
    spread = [result.device for result in one.devices if result.spread_depends_on_level]
    if spread:
        lines.append(f"{', '.join(spread)}: the spread depends on the level (Breusch-Pagan p < 0.05), and U uses it.")
    return lines


def _second_hand(one: Assessment, before: str = "") -> str:
    """Return the mark beside numbers that were not read in the document itself, with the reason if after `before`."""
    if not one.second_hand:
        return ""
    return f"{before}second-hand, {one.second_hand}" if before else " (second-hand)"


def _heading(name: str, one: Assessment) -> str:
    if name == "uncertainty" and one.limit is not None:
        return f"U at {quantity(one.limit, one.unit)}"
    return MEASURES[name]


def _bounds(bounds: Mapping[str, Bounds], name: str, one: Assessment) -> str:
    """Write the bounds of a measure; of r² and shares to reach only the lower one, of errors only the upper one."""
    if name not in bounds:
        return ""
    low, high = bounds[name]
    if name in SHARES:
        return f"≥ {percent(low)}" if low > 0 else f"≤ {percent(high)}"
    if name == "r2":
        return f"≥ {number(low)}"
    highest = quantity(high, one.unit if name in IN_UNIT else "")
    return f"≤ {highest}" if low == 0 else f"{number(low)} to {highest}"


def _measure(name: str, result: TargetResult, one: Assessment) -> str | Cell:
    """Show a measure with its interval, and the best class whose bounds it is within."""
    value = result.values.get(name)
    if value is None:
        return NOTHING if result.values else "too few averages"
    text = percent(value) if name in SHARES else number(value)
    if name in result.standard_uncertainties:
        text = f"{text} ± {number(result.standard_uncertainties[name])}"
    elif name in result.intervals:
        ends = (percent(end) if name in SHARES else number(end) for end in result.intervals[name])
        text = f"{text} [{' to '.join(ends)}]"
    bounding = [label for label, bounds in one.classes.items() if name in bounds]
    best = next((label for label in bounding if result.met[label].get(name)), None)
    if not bounding:
        return text
    if best is None:
        return Cell(text, badge=Badge("bad", "outside"), below=True)
    kind = "good" if best == next(iter(one.classes)) else "fair"
    return Cell(text, badge=Badge(kind, "within" if len(one.classes) == 1 else best), below=True)


def _class(result: TargetResult, one: Assessment, sure: str) -> str | Cell:
    """Show the class that a device reaches, and how sure it is."""
    if not result.reached:
        return "not judged"
    kind = {BELOW_ALL: "bad", next(iter(one.classes)): "good"}.get(result.reached, "fair")
    return Cell(class_label(result.reached, one), sure, Badge(kind, "second-hand") if one.second_hand else None)


def _days(result: TargetResult, one: Assessment) -> Badge | None:
    """Whether a test has enough days, where it is known how many are."""
    if one.days_needed is None:
        return None
    if result.days >= one.days_needed:
        return Badge("good", f"≥ {one.days_needed} days")
    return Badge("fair", f"fewer than {one.days_needed} days")
