"""Accuracy by device, and of ours beside other methods."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np

from scare.calibrator.intervals import lacks
from scare.calibrator.selection_table import HEAD, SELECTION_FACTS, selection_summary, selection_table
from scare.data.flags import MEANINGS, Flag, count_flags
from scare.data.quantities import display_unit
from scare.errors import DataError
from scare.records import convert
from scare.report.blocks import Badge, Block, Cell, Facts, Note, Table, Verdict
from scare.report.charts import View
from scare.report.errors import CENTRAL, FEW_ROWS, round_edges
from scare.report.numbers import NOTHING, number, percent, quantity
from scare.scorecard.accuracy import cover
from scare.scorecard.agency_targets import FEWEST, AgencyTarget, Assessment, TargetResult, agency_targets, find_target
from scare.scorecard.card import Card
from scare.scorecard.requirements import GRADES, YES_NO, Entry, Measure, RequirementTable
from scare.scorecard.run import Run
from scare.scorecard.series import DeviceSeries, pool
from scare.words import plural

OURS = "scare"  # how the study's own methods begin; its room needs JAX, this page does not
ACCURACY = {
    "rmse": "RMSE",
    "top5_rmse": "RMSE at the 5 % fastest changes",
    "mae": "MAE",
    "bias": "bias",
    "slope": "slope",
    "intercept": "intercept",
    "r2": "R² (1:1)",
}


def devices(views: Sequence[View], of: str) -> list[Block]:
    """Accuracy of every device, raw beside calibrated where they have the same unit."""
    rows: list[list[str]] = []
    for view in views:
        for name, score in (("raw", view.raw_accuracy), ("calibrated", view.accuracy)):
            if score is not None:
                cells = [number(getattr(score, column)) for column in ACCURACY]
                rows.append([f"{view.name}, {name}", f"{score.rows:,}", *cells])
    caption = f"Accuracy on the rows scored{f', in {display_unit(of)}' if of else ''}"
    return [Table(caption, ("device", "rows", *ACCURACY.values()), rows)]


def comparison(rows: Sequence[Mapping[str, Any]], views: Sequence[View], of: str) -> list[Block]:
    """The study's methods, best first at each window; without a study, the raw reading beside ours."""
    if not rows:
        return _before_and_after(views[-1], of)
    blocks: list[Block] = []
    for window in sorted({row.get("window") or 0 for row in rows}):
        here = [row for row in rows if (row.get("window") or 0) == window]
        scored = sorted((row for row in here if row.get("rmse") is not None), key=lambda row: row["rmse"])
        most = max((row["rmse"] for row in scored), default=1.0)
        body = [_method(row, min(most, 3 * scored[0]["rmse"])) for row in scored]
        head = ("method", "RMSE", "RMSE − scare [95 %]", "5 % fastest", "MAE", "R² (1:1)", "slope", "bytes")
        unit = display_unit(of) or "the target’s unit"
        caption = f"Everyone on the same rows, window of {window:,} readings, errors in {unit}"
        blocks += [Table(caption, head, body)] if body else []
        failed = [row for row in here if row.get("rmse") is None]
        blocks += [Note(f"{row['method']}: no score: {row.get('failed') or 'not run'}") for row in failed]
    star = "★ less error than every other method, beyond chance. " if any(row.get("winner") for row in rows) else ""
    own = "They were trained for this comparison: none of them is the calibrator of the other sections."
    bars = "A bar is cut at three times the least error. Bytes are those of the weights."
    return [*blocks, Note(f"{own} {star}{bars}")]


def _method(row: Mapping[str, Any], most: float) -> list[str | Cell]:
    ours = str(row["method"]).startswith(OURS)
    name = f"{'★ ' * bool(row.get('winner'))}{row['method']}"
    share = 100 * min(1.0, row["rmse"] / most) if most else 0.0
    spread = f" ± {row['rmse_sd']:.1g}" if row.get("rmse_sd") else ""
    others = (number(row.get(column)) for column in ("top5_rmse", "mae", "r2", "slope", "bytes"))
    error = Cell(f"{number(row['rmse'])}{spread}", bar=round(share), ours=ours)
    return [Cell(name, ours=ours), error, _difference(row), *others]


def _difference(row: Mapping[str, Any]) -> str:
    difference, low, high = (row.get(f"to_ours_{name}") for name in ("difference", "low", "high"))
    if difference is None:
        return ""
    bounds = f" [{low:+.2g}, {high:+.2g}]" if low is not None and high is not None else ""
    return f"{difference:+.2g}{bounds}".replace("-", "−")


def _before_and_after(view: View, of: str) -> list[Block]:
    missing = "No study was given: scare compare trains other methods on the same rows, scare score --study adds them."
    if view.raw_accuracy is None or view.accuracy is None:
        return [Note(f"The raw reading and the reference are not known to be in the same unit. {missing}")]
    scores = {"raw reading": view.raw_accuracy, "calibrated": view.accuracy}
    rows = [[name, *(number(getattr(score, column)) for column in ACCURACY)] for name, score in scores.items()]
    caption = f"{view.name}, in {display_unit(of)}"
    return [Table(caption, ("reading", *ACCURACY.values()), rows), Note(missing)]


# The board: what the model takes of it, whether it fits and meets its deadline.


MEMORY = {"RAM": ("ram_bytes", "ram_available"), "flash": ("flash_bytes", "flash_available")}


def board(found: Mapping[str, Any] | None) -> list[Block]:
    """Verdicts, memory as shares of what the board has, and what one reading takes."""
    if not found:
        return [Note("No board was asked for; scare score --board NAME adds it.")]
    memory = [_memory(what, *(found.get(key) for key in keys)) for what, keys in MEMORY.items()]
    facts = _facts(found)
    reading = Table("One calibrated reading", ("what it takes", "typical", "between"), facts, "words")
    legend = (
        "Instructions, RAM and flash are those of the compiled program on a virtual board. Cycles, time, energy and the"
        " share of time are estimates made from them, not measurements of a device."
    )
    needs = Table(found["title"], ("memory", "needs", "has", "share"), memory)
    return [*_verdicts(found), needs, *[reading] * bool(facts), Note(legend)]


def _verdicts(found: Mapping[str, Any]) -> list[Verdict]:
    reasons = "; ".join(str(reason) for reason in found["reasons"])
    fits = _board_grade(found["fits"], "fits", "does not fit", reasons or f"{found['title']}, {found['arithmetic']}")
    if found.get("meets_deadline") is None:
        return [fits]
    longest, period = (quantity(value, "ms") for value in (found["worst"]["reading_ms"], found["deadline_ms"]))
    time = f"{longest} at most of the {period} between readings"
    return [fits, _board_grade(found["meets_deadline"], "in time", "too slow", time)]


def _board_grade(good: bool, yes: str, no: str, words: str) -> Verdict:
    return Verdict(Badge("good", yes) if good else Badge("bad", no), words)


def _memory(what: str, need: float | None, capacity: float | None) -> list[str | Cell]:
    if need is None or not capacity:
        return [what, "not known", f"{number(capacity)} B", ""]
    share = 100 * need / capacity
    bar = Cell(f"{share:.1f} %", bar=round(min(100.0, share), 1), ours=True)
    return [what, f"{number(need)} B", f"{number(capacity)} B", bar]


def _facts(found: Mapping[str, Any]) -> list[list[str]]:
    """Rows of name, number and spread, as far as the board's numbers are known."""
    rows: list[list[str]] = []
    for name, key, middle, low, high, of in (
        ("instructions", "instructions", "mean", "min", "max", ""),
        ("cycles (estimate)", "cycles", "typical", "low", "high", ""),
        ("time (estimate)", "milliseconds", "typical", "low", "high", "ms"),
    ):
        if spread := found.get(key):
            between = f"{quantity(spread[low], of)} and {quantity(spread[high], of)}"
            if spread[low] == spread[high]:
                between = "always the same"
            rows.append([name, quantity(spread[middle], of), between])
    if found.get("duty_cycle") is not None:
        rows.append(["share of time busy (estimate)", f"{number(100 * found['duty_cycle'])} %", ""])
    if found.get("energy_microjoules") is not None:
        rows.append(["energy (estimate)", f"{number(found['energy_microjoules'])} µJ", ""])
    return rows


# The scorecard: every number with its grade, its bounds and its source.


GRADE_BADGES = {
    "O": ("good", "O\u2002met"),
    "△": ("fair", "△\u2002partly"),
    "X": ("bad", "X\u2002missed"),
    None: ("none", "not graded"),
}
DIMENSIONS = {"accuracy": "Accuracy", "real-time": "Real time", "efficiency": "Efficiency"}


def grade_badge(grade: Any) -> Badge:
    """O, △ or X with its word, or that there is none."""
    return Badge(*GRADE_BADGES.get(grade, GRADE_BADGES[None]))


def scorecard(card: Card) -> list[Block]:
    """A table for each dimension; under each requirement with its grade, a row for every number."""
    head = ("measure", "value", "grade", "O from", "△ from", "source")
    measures, blocks = RequirementTable.load().measures, list[Block]()
    for name, title in DIMENSIONS.items():
        rows: list[list[str | Cell]] = []
        for requirement, grade in card.grades().items():
            entries = [one for one in card.entries if (one.dimension, one.requirement) == (name, requirement)]
            if entries:
                rows += [
                    [Cell(entries[0].title, badge=grade_badge(grade))],
                    *(_entry(one, measures.get(one.measure)) for one in entries),
                ]
        blocks += [Table(title, head, rows, "words card")] if rows else []
    legend = (
        "O: the requirement is met; △: partly; X: missed. A requirement has the worst grade of its numbers, and none if"
        " one with bounds is not known; those without bounds inform. Measured: on a computer; emulated: on a virtual"
        " board; counted: in the model's plan; declared: by the model's file."
    )
    return [*blocks, Note(legend)]


def _entry(entry: Entry, measure: Measure | None) -> list[str | Cell]:
    good, fair = bounds(entry.threshold or {}, entry.unit)
    value = _value(entry.value, entry.unit) if entry.value is not None else entry.detail.get("reason", NOTHING)
    how = measure.how.replace("`", "") if measure else ""
    return [Cell(entry.label, how), value, entry.grade or "", good, fair, entry.source]


def _value(value: Any, of: str) -> str:
    if of == YES_NO:
        return {1: "yes", 0: "no"}.get(value, number(value))
    return value if isinstance(value, str) else quantity(value, of)


def bounds(threshold: Mapping[str, Any], of: str) -> tuple[str, str]:
    """Where O and where △ begins, in the unit of the value."""
    good, fair = threshold.get("good"), threshold.get("fair")
    unknown = threshold.get("yardstick") and threshold["yardstick_value"] is None
    if good is None or fair is None or unknown:
        return "", ""
    if of == YES_NO:
        return "yes", ""
    sign = "≤" if threshold["better"] == "lower" else "≥"
    factor = threshold["yardstick_value"] or 1.0
    return f"{sign} {quantity(factor * good, of)}", f"{sign} {quantity(factor * fair, of)}"


# The head of the report: what it is about, the numbers looked for first, the choice of a device.


def choices(views: Sequence[View]) -> list[str]:
    """The devices to choose from; none where there is a single one."""
    names = [view.name if view.accuracy is not None else f"{view.name} (not scored)" for view in views]
    return names if len(views) > 1 else []


def tiles(run: Run, views: Sequence[View]) -> list[tuple[str, str]]:
    """The few numbers a reader looks for first, each with what it is."""
    pooled, of = views[-1], run.target.unit
    found: list[tuple[str, str]] = []
    if pooled.accuracy is not None:
        found.append((quantity(pooled.accuracy.rmse, of), "typical error (RMSE), calibrated"))
        if pooled.raw_accuracy is not None:
            less = 1 - pooled.accuracy.rmse / pooled.raw_accuracy.rmse if pooled.raw_accuracy.rmse else 0.0
            change = f"{percent(abs(less))} {'less' if less >= 0 else 'more'}"
            found.append((change, f"error than the raw reading ({number(pooled.raw_accuracy.rmse)})"))
        found.append((number(pooled.accuracy.r2), "R² (1:1): variance explained, about the 1:1 line"))
    grades = list(run.card.grades().values())
    graded = {sign: grades.count(sign) for sign in GRADES}
    if any(graded.values()):
        found.append(
            ("\u2002".join(f"{count} {sign}" for sign, count in graded.items()), "requirements met, partly, missed")
        )
    if run.card.board:
        fits = "fits" if run.card.board["fits"] else "does not fit"
        found.append((fits, str(run.card.board["title"])))
    return found


def lead(run: Run) -> str:
    """One line that says what is in the report."""
    count = len(run.series)
    named = run.series[0].device if count == 1 else f"{count} devices"
    scored = plural(sum(len(one.scored) for one in run.series), "row")
    by = f", calibrated by {run.card.model['model']}" if run.card.model.get("model") else ""
    without = "; rows it was trained on are not among them" if any(one.trained.any() for one in run.series) else ""
    origin = f" The model was made from: {run.card.model['data']}." if run.card.model.get("data") else ""
    return f"{named} beside a reference{by}. Scored: {scored}{without}.{origin}"


# Where the report comes from: the data's quality, and what the card says of data, model and making.


def quality(run: Run) -> list[Block]:
    """Rows, rows scored and the share that carries each flag, by device."""
    rows: list[list[str]] = []
    for one in run.series:
        found, calibrated = len(one), int(np.isfinite(one.calibrated).sum())
        reference = int(np.isfinite(one.reference).sum())
        span = one.times[-1] - one.times[0] + one.step_seconds
        expected = span / one.step_seconds if one.step_seconds else 1.0
        shares = [percent(min(1.0, found / expected), 1), percent(reference / found, 1)]
        shares.append(percent(calibrated / found, 1))
        rows.append([one.device, f"{found:,}", f"{number(one.step_seconds)} s", *shares, f"{len(one.scored):,}"])
    head = ("device", "rows", "step", "rows of those due", "with a reference", "with a calibrated value", "rows scored")
    return [Table("Completeness", head, rows), _flags(run)]


def _flags(run: Run) -> Block:
    flags = np.concatenate([one.flags for one in run.series])
    counts = {name: count for name, count in count_flags(flags).items() if count}
    if not counts:
        return Note("No row carries a flag.")
    rows = [
        [name.lower().replace("_", "-"), f"{count:,}", percent(count / len(flags), 2), MEANINGS[Flag[name]]]
        for name, count in counts.items()
    ]
    return Table("Flags: rows are marked, never removed", ("flag", "rows", "share", "meaning"), rows, "words")


def provenance(run: Run) -> list[Block]:
    """Data, model and how it was made, as the card has them."""
    dataset = {name: value for name, value in run.card.dataset.items() if name != "flags"}
    model = {name: value for name, value in run.card.model.items() if name not in SELECTION_FACTS}
    parts = {"The data": dataset, "The model": model, "How it was made": run.card.provenance}
    return [Facts(name, part) for name, part in parts.items() if part]


def verdict(run: Run) -> list[Block]:
    """What the calibrator turned out to be, and every candidate of its selection."""
    if not (rungs := selection_table(run.card.model)):
        return [Note("The model's file does not tell what simpler methods gave in its training.")]
    legend = (
        "Each line is tried after the one above, and taken if the error on readings kept from training falls clearly,"
        " or a little and surely (± is a 95 % interval over blocks of time). What is taken is mixed. The sensor's own"
        " value is preferred if nothing is better; a network keeps the share that it has earned."
    )
    return [Note(selection_summary(run.card.model)), Table("Model selection", HEAD, rungs, "words"), Note(legend)]


# How sure: what share of the rows scored the intervals hold, by concentration, by device and over time.


HOUR = 3600.0
SPANS = (HOUR, 6 * HOUR, 24 * HOUR, 7 * 24 * HOUR, 28 * 24 * HOUR, 364 * 24 * HOUR)  # of time, a line of the table each
LINES = 16  # of a table over time, at most


def sureness(run: Run) -> list[Block]:
    """A sentence and three tables, or that there are no intervals."""
    level = _level(run)
    scored = pool([one.scored for one in run.series], "all devices together")
    whole = cover(scored.low, scored.high, scored.reference, level)
    if whole is None:
        return [Note("The calibrator has no intervals: its file is older, and keeps too few windows to derive them.")]
    less = lacks(level, whole.share)
    sentence = (
        f"{percent(level)} intervals hold the reference in {percent(whole.share, 1)} of {whole.rows:,} rows, and are"
        f" {quantity(whole.width, run.target.unit)} wide on average."
        f"{' That is less than they state: do not rely on them in a time like this one.' if less else ''}"
    )
    tables = {
        "By concentration": [(name, scored.rows(keep)) for name, keep in _concentrations(scored, run.target.unit)],
        "By device": [(one.device, one.scored) for one in run.series],
        "Over time": [(name, scored.rows(keep)) for name, keep in _periods(scored.times)],
    }
    badge = Badge("bad", "held too rarely") if less else Badge("good", "held as stated")
    return [Verdict(badge, sentence), *(_coverage_table(name, rows, level, run) for name, rows in tables.items())]


def _level(run: Run) -> float:
    """The share that the intervals state, as the card has it."""
    entry = next((one for one in run.card.entries if one.measure == "interval_coverage"), None)
    return float(entry.detail.get("level", 0.0)) if entry else 0.0


def _coverage_table(caption: str, parts: list[tuple[str, DeviceSeries]], level: float, run: Run) -> Table:
    rows = []
    for name, part in parts:
        found = cover(part.low, part.high, part.reference, level) if len(part) >= FEW_ROWS else None
        cells = [percent(found.share, 1), quantity(found.width, run.target.unit)] if found else [NOTHING] * 2
        rows.append([name, f"{len(part):,}", *cells])
    return Table(caption, ("rows", "how many", "held", "mean width"), rows)


def _concentrations(scored: DeviceSeries, unit: str) -> Iterator[tuple[str, np.ndarray]]:
    """Round spans of the reference, the outer ones with all beyond, and which rows are in each."""
    edges = round_edges(*np.percentile(scored.reference, CENTRAL).tolist())
    place = np.clip(np.searchsorted(edges, scored.reference, side="right") - 1, 0, len(edges) - 2)
    for index, (low, high) in enumerate(pairwise(edges.tolist())):
        yield f"{number(low)} to {quantity(high, unit)}", place == index


def _periods(times: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Spans of time, of the same length, that have rows, and which rows are in each."""
    span = next((one for one in SPANS if np.ptp(times) / one <= LINES), SPANS[-1])
    place = np.floor(times / span)
    for index in np.unique(place):
        begin = datetime.fromtimestamp(index * span, UTC)
        yield f"from {begin:%d %b %Y}" + (f" {begin:%H:%M}" if span < 24 * HOUR else ""), place == index


# EPA's performance targets beside the calibrated readings, in words that claim no more than was computed.


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


def _note(found: AgencyTarget, target: Assessment) -> Note:
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
