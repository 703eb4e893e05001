"""Assessments against targets as blocks: the class of each device, its measures beside the bounds, where both are from.

Agencies read these texts, so they claim no more than was computed; numbers that were not read in the document itself
are marked wherever they decide something.
"""

from collections.abc import Mapping, Sequence

from scare.data.quantities import display_unit
from scare.data.readings import Channel
from scare.report.blocks import NOTHING, Badge, Block, Cell, Note, ReportTable, number, percent, quantity
from scare.report.drawings import Drawing, precision_drawing, uncertainty_drawings
from scare.scorecard.assessment import BELOW_ALL, OF_SEVERAL, Assessment, TargetResult
from scare.scorecard.run_folder import Run
from scare.scorecard.targets import IN_UNIT, MEASURES, SHARES, Bounds, TargetSet, target_sets
from scare.words import plural

REGRESSIONS = {"ols": "Ordinary", "orthogonal": "Orthogonal", "deming": "Deming"}


def class_lines(assessments: Sequence[Assessment]) -> list[str]:
    """Say in a sentence for each set of targets which classes the devices reach, and how sure that is."""
    lines = []
    for assessment in assessments:
        judged = [result for result in assessment.devices if result.reached]
        if not judged:
            lines.append(f"{assessment.title}: not judged, too few complete {assessment.average_hours}-hour averages.")
            continue
        names = [*assessment.classes, BELOW_ALL]
        counts = {name: sum(result.reached == name for result in judged) for name in names}
        reached = ", ".join(f"{class_label(name, assessment)} for {count}" for name, count in counts.items() if count)
        if len(judged) == 1:
            reached = class_label(judged[0].reached, assessment)
        else:
            reached = f"{reached} of {len(judged)} devices"
        sure = sum(result.certain for result in judged)
        how_sure = f"{sure} of them sure" if sure else "uncertain"
        how_sure = "sure" if sure == len(judged) else how_sure
        beyond = ", extrapolated" if any(map(assessment.beyond, judged)) else ""
        lines.append(f"{assessment.title}{_second_hand(assessment)}: {reached}; {how_sure}{beyond}.")
    return lines


def precision(run: Run) -> list[Block | Drawing]:
    """Tabulate and draw how units side by side agree, by each set that asks for it; or why that was not measured."""
    asking = [assessment for assessment in run.card.assessments if set(assessment.measures) & set(OF_SEVERAL)]
    tables: list[Block | Drawing] = [together_table(assessment) for assessment in asking if assessment.together]
    if tables:
        return [*tables, *filter(None, (precision_drawing(run, assessment) for assessment in asking))]
    needs = f"{min(assessment.units_needed for assessment in asking)} or more units" if asking else "several units"
    return [Note(f"Not measured: it needs {needs} with enough averages beside the same reference.")]


def targets(run: Run) -> list[Block | Drawing]:
    """Show all sets of targets that apply, each with its tables and notes; or say why there is none."""
    blocks: list[Block | Drawing] = []
    lines_of_sets = [describe_targets(assessment) for assessment in run.card.assessments]
    common: list[str] = []  # lines that all sets share are shown once
    if len(lines_of_sets) > 1:
        common = [line for line in lines_of_sets[0] if all(line in lines for lines in lines_of_sets)]
    for assessment, lines in zip(run.card.assessments, lines_of_sets, strict=True):
        notes = (Note(line) for line in lines if line not in common)
        blocks += [target_table(assessment), bounds_table(assessment), *uncertainty_drawings(assessment), *notes]
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
    targets = [target for target_set in sets if (target := target_set.find(channel))]
    if not targets:
        names = ", ".join(dict.fromkeys(name for target_set in sets for name in target_set.targets))
        return f"There are targets for {names}; by its name, {channel.name} is none of them. Call the column after one."
    unit = f"these readings are in {channel.unit}."
    if not channel.unit:
        entry = f'reference = {{ name = "{channel.name}", unit = "…" }}'
        unit = f"the unit of these readings is unknown. Give it in a config file (--config): {entry}."
    units = " or ".join(dict.fromkeys(display_unit(target.unit) for target in targets))
    return f"The targets for {targets[0].name} are in {units}; {unit}"


def target_table(assessment: Assessment) -> ReportTable:
    """Tabulate each device's class, its number of averages and its measures; `bounds_table` has the bounds."""
    names = _single_device_measures(assessment)
    headings = [_heading(name, assessment) for name in names]
    hours = assessment.average_hours
    averaged = {1: "complete hours", 24: "complete days"}.get(hours, f"complete {hours} h")
    head = ("", f"class{_second_hand(assessment)}", averaged, *headings)
    rows: list[list[str | Cell]] = []
    for result in assessment.devices:
        sure = f"{result.certainty}, extrapolated" if assessment.beyond(result) else result.certainty
        count = f"{result.averages:,}, {plural(result.days, 'day')}"
        averages = Cell(count, badge=_days(result, assessment), below=True)
        cells = [_measure(name, result, assessment) for name in names]
        rows.append([result.device, _class(result, assessment, sure), averages, *cells])
    caption = f"{assessment.title}: {assessment.pollutant}, {hours}-hour averages"
    return ReportTable(caption, head, rows)


def bounds_table(assessment: Assessment) -> ReportTable:
    """Tabulate the bounds that each class sets on the measures of a single device."""
    names = _single_device_measures(assessment)
    rows = []
    for name, bounds in assessment.classes.items():
        rows.append([name, *(_bounds(bounds, measure, assessment) for measure in names)])
    head = (f"bounds{_second_hand(assessment)}", *(_heading(name, assessment) for name in names))
    return ReportTable(f"{assessment.title}: bounds of the classes", head, rows)


def _single_device_measures(assessment: Assessment) -> list[str]:
    return [name for name in assessment.measures if name not in OF_SEVERAL]


def class_label(reached: str, assessment: Assessment) -> str:
    """Name the class that was reached; with a single class, say whether all measures are within its bounds."""
    if len(assessment.classes) > 1:
        return "no class" if reached == BELOW_ALL else reached
    return "outside" if reached == BELOW_ALL else "within"


def together_table(assessment: Assessment) -> ReportTable:
    """Tabulate the agreement between units side by side."""
    result = assessment.together
    assert result is not None
    names = [name for name in assessment.measures if name in OF_SEVERAL]
    head = ("units side by side", "common averages", "days", *(_heading(name, assessment) for name in names))
    rows: list[list[str | Cell]] = []
    for name, bounds in assessment.classes.items():
        of_class = (_bounds(bounds, measure, assessment) for measure in names)
        rows.append([f"bounds of {name}{_second_hand(assessment)}", "", "", *of_class])
    cells = [_measure(name, result, assessment) for name in names]
    rows.append([result.device, f"{result.averages:,}", str(result.days), *cells])
    return ReportTable(f"{assessment.title}: agreement between units", head, rows)


def describe_targets(assessment: Assessment) -> list[str]:
    """Return where the targets come from, how they were applied, and what a co-location cannot show."""
    lines = [f"Targets: {assessment.source}, from a data file of {assessment.as_of}{_second_hand(assessment, ': ')}."]
    if assessment.regression == "deming":
        ratio = f"u²(bs,s) / u²(bs,RM) = {number(assessment.deming_ratio)}"
        if assessment.deming_ratio is None:
            ratio = "1, as u(bs,s) or u(bs,RM) is unknown"
        lines.append(f"The ratio of Deming's regression is {ratio}.")
    lines.append(
        f"{REGRESSIONS[assessment.regression]} regression with the reference as x, ± one standard uncertainty; an"
        f" average needs {percent(assessment.completeness)} of its readings; days are in UTC; [95 % interval] by"
        " resampled days. How sure: the share of resampled days that reach the class."
    )
    for pair in assessment.either:
        if set(pair) <= set(assessment.measures):
            lines.append(f"One of {' and '.join(MEASURES[name] for name in pair)} within its bounds is enough.")
    if assessment.converted:
        lines.append(f"The bounds were converted {assessment.converted}.")
    if assessment.limit is not None:
        lines += _about_uncertainty(assessment)
    if assessment.untested:
        untested = ", ".join(MEASURES[name] for name in assessment.untested)
        units = plural(assessment.units_needed, "unit")
        needs = f" (it needs at least {units} with averages beside the same reference)"
        lines.append(f"Not tested: {untested}{needs if set(assessment.untested) & set(OF_SEVERAL) else ''}.")
    if not any(result.chances for result in assessment.devices):
        lines.append("How sure a class is cannot be told from fewer than eight days with averages.")
    return [*lines, *assessment.remarks, "This compares numbers; it is neither an approval nor an endorsement."]


def _about_uncertainty(assessment: Assessment) -> list[str]:
    """Say at which value the expanded uncertainty is judged, and what was taken for the reference's."""
    limit = quantity(assessment.limit, assessment.unit)
    reference = (
        f"u(bs,RM) = {quantity(assessment.reference_uncertainty, assessment.unit)} ({assessment.reference_source})"
    )
    if not assessment.reference_source:
        reference = "u(bs,RM) is not known and taken as 0, so U is an upper bound (--reference-uncertainty)"
    lines = [f"U is judged at {limit}{_second_hand(assessment)}, relative to the reference; {reference}."]
    beyond = {result.device: result.highest_reference for result in assessment.devices if assessment.beyond(result)}
    if beyond:
        highest = quantity(max(value for value in beyond.values() if value is not None), assessment.unit)
        lines.append(
            f"{', '.join(beyond)}: no average of the reference is above {highest}, so U at {limit} is extrapolated. A"
            " directive asks for the region of the limit value."
        )
    uneven = [result.device for result in assessment.devices if result.spread_depends_on_level]
    if uneven:
        lines.append(f"{', '.join(uneven)}: the spread depends on the level (Breusch-Pagan p < 0.05), and U uses it.")
    return lines


def _second_hand(assessment: Assessment, before: str = "") -> str:
    """Return a mark for targets whose numbers were not read in the agency's own document, empty for others.

    With `before`, the mark begins with this text and ends with the reason.
    """
    if not assessment.second_hand:
        return ""
    return f"{before}second-hand, {assessment.second_hand}" if before else " (second-hand)"


def _heading(name: str, assessment: Assessment) -> str:
    if name == "uncertainty" and assessment.limit is not None:
        return f"U at {quantity(assessment.limit, assessment.unit)}"
    return MEASURES[name]


def _bounds(bounds: Mapping[str, Bounds], name: str, assessment: Assessment) -> str:
    """Write the bounds of a measure: only the lower one if more is better, only the upper one of errors."""
    if name not in bounds:
        return ""
    low, high = bounds[name]
    if name in SHARES:
        return f"≥ {percent(low)}" if low > 0 else f"≤ {percent(high)}"
    if name == "r2":
        return f"≥ {number(low)}"
    highest = quantity(high, assessment.unit if name in IN_UNIT else "")
    return f"≤ {highest}" if low == 0 else f"{number(low)} to {highest}"


def _measure(name: str, result: TargetResult, assessment: Assessment) -> str | Cell:
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
    bounding = [label for label, bounds in assessment.classes.items() if name in bounds]
    best = next((label for label in bounding if result.met[label].get(name)), None)
    if not bounding:
        return text
    if best is None:
        return Cell(text, badge=Badge("bad", "outside"), below=True)
    kind = "good" if best == next(iter(assessment.classes)) else "fair"
    return Cell(text, badge=Badge(kind, "within" if len(assessment.classes) == 1 else best), below=True)


def _class(result: TargetResult, assessment: Assessment, sure: str) -> str | Cell:
    if not result.reached:
        return "not judged"
    kind = {BELOW_ALL: "bad", next(iter(assessment.classes)): "good"}.get(result.reached, "fair")
    badge = Badge(kind, "second-hand") if assessment.second_hand else None
    return Cell(class_label(result.reached, assessment), sure, badge)


def _days(result: TargetResult, assessment: Assessment) -> Badge | None:
    """Return a badge that says whether a device has as many days as the test asks for; None if that is not known."""
    if assessment.days_needed is None:
        return None
    if result.days >= assessment.days_needed:
        return Badge("good", f"≥ {assessment.days_needed} days")
    return Badge("fair", f"fewer than {assessment.days_needed} days")
