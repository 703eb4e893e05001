"""EPA's performance targets beside the calibrated readings, in words that claim no more than was computed."""

from scare.data.quantities import display_unit
from scare.errors import DataError
from scare.records import convert
from scare.report.blocks import Badge, Block, Cell, Note, Table
from scare.report.numbers import number, percent, quantity
from scare.scorecard.agency_targets import FEWEST, Assessment, Target, TargetResult, agency_targets, find_target
from scare.scorecard.run import Run

MEASURES = {"slope": "slope", "intercept": "intercept", "r2": "r²", "rmse": "RMSE", "nrmse": "RMSE / mean"}
PRECISION = {"sd": "standard deviation", "cv": "coefficient of variation"}
HOW = "A config file that tells the reference's unit, given to scare score --config, adds them."
EITHER = "either of the two"  # the heading of a pair's verdict
PERCENT = {"nrmse", "cv"}
WITH_UNIT = {"intercept", "rmse", "sd"}


def target_section(run: Run) -> list[Block]:
    """A row for every device with its measures on averages, the bounds above them, precision if it can be told."""
    found = find_target(run.target)
    if found is None:
        names = ", ".join(agency_targets().targets)
        return [Note(f"There are targets for {names}; {run.target.name} is none of them by its name.")]
    if run.card.targets is None:
        given = f"in {run.target.unit}." if run.target.unit else f"of unknown unit. {HOW}"
        return [Note(f"The targets for {found.name} are in {display_unit(found.unit)}; these readings are {given}")]
    told = convert(run.card.targets, Assessment, "scorecard.json: targets", DataError)
    return [_table(told), *_left_out(run), _precision(told), _note(found, told)]


def _left_out(run: Run) -> list[Note]:
    """The devices without a row scored, by the reason."""
    reasons: dict[str, list[str]] = {}
    for one in run.series:
        if not len(one.scored):
            reasons.setdefault(one.why_not_scored, []).append(one.device)
    return [Note(f"Not judged: {', '.join(devices)}: {reason}.") for reason, devices in reasons.items()]


def _table(target: Assessment) -> Table:
    names = [name for name in MEASURES if name in target.bounds]
    either = [EITHER] if "nrmse" in target.bounds else []
    period = "days" if target.average_hours == 24 else "hours"
    rows: list[list[str | Cell]] = [["target", "", _days(None), *(_bounds(name, target) for name in names)]]
    rows[0] += ["is enough"] * len(either)
    for one in target.devices:
        cells = [_judged(name, one) for name in names] + [_verdict(one.one_is_enough)] * len(either)
        rows.append([one.device, f"{one.averages:,}", _days(one), *cells])
    caption = f"{target.pollutant}: calibrated against reference, {target.average_hours}-hour averages"
    return Table(caption, ("device", f"complete {period}", "days", *(MEASURES[name] for name in names), *either), rows)


def _bounds(name: str, target: Assessment) -> str:
    low, high = target.bounds[name]
    if name == "r2":
        return f"≥ {number(low)}"
    if name in PERCENT:
        return f"≤ {percent(high)}"
    if low == 0:
        return f"≤ {quantity(high, target.unit if name in WITH_UNIT else '')}"
    return f"{number(low)} to {quantity(high, target.unit if name in WITH_UNIT else '')}"


def _judged(name: str, one: TargetResult) -> str | Cell:
    if name not in one.values:
        return "too few averages"
    value = one.values[name]
    text = percent(value) if name in PERCENT and value is not None else number(value)
    return Cell(text, badge=_badge(one.met[name]), below=True)


def _verdict(within: bool | None) -> str | Cell:
    return "" if within is None else Cell("", badge=_badge(within))


def _badge(within: bool) -> Badge:
    return Badge("good", "within") if within else Badge("bad", "outside")


def _precision(target: Assessment) -> Block:
    precision = target.precision
    if precision is None:
        needed = (
            f"{agency_targets().units} devices or more with rows scored beside the same reference, and {FEWEST}"
            " averages of all of them"
        )
        return Note(f"Precision needs {needed}: not shown.")
    bounds: list[str | Cell] = ["target", "", _days(None), *(_bounds(name, target) for name in PRECISION), "is enough"]
    row: list[str | Cell] = [precision.device, f"{precision.averages:,}", _days(precision)]
    head = ("devices side by side", "common averages", "days", *PRECISION.values(), EITHER)
    rows = [bounds, [*row, *(_judged(name, precision) for name in PRECISION), _verdict(precision.one_is_enough)]]
    return Table("Precision: how alike the devices are", head, rows)


def _days(one: TargetResult | None) -> str | Cell:
    """Days with an average, marked when the protocol asks for more."""
    need = agency_targets().days
    if one is None:
        return f"≥ {need}"
    badge = Badge("good", "enough") if one.days >= need else Badge("fair", "too few")
    return Cell(str(one.days), badge=badge, below=True)


def _note(found: Target, target: Assessment) -> Note:
    facts = agency_targets()
    converted = ""
    if found.unit != target.unit:
        units = f"from {display_unit(found.unit)} to {display_unit(target.unit)}"
        converted = f" The bounds were converted {units} at 25 °C and 1013 hPa."
    either = " One of RMSE and RMSE / mean within its target is enough." if "nrmse" in target.bounds else ""
    text = (
        f"Targets: {target.source}, as in this program's data file of {target.as_of}. They are for {facts.units}"
        f" sensors beside a reference for {facts.days} days; an average needs {percent(facts.completeness)} of"
        f" its readings, days are in UTC, r² is the squared correlation.{either}{converted} This is a comparison with"
        " the numbers of a recommendation for non-regulatory monitoring. It is no test by EPA's protocol, and neither"
        " an approval nor an endorsement."
    )
    return Note(text)
