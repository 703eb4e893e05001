"""The sections of the report, in the order of the page: each takes a run, or a part of it, and returns `blocks`.

Agencies read these texts, so they claim no more than was computed.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np

from scare.calibrator.intervals import UNCERTAIN, under_covers
from scare.calibrator.model_card import (
    HEAD,
    SELECTION_FACTS,
    cost_summary,
    cost_table,
    describe_period,
    selection_summary,
    selection_table,
)
from scare.data.flags import MEANINGS, Flag, count_flags
from scare.data.quantities import display_unit
from scare.experiments.study_task import upgrade_row
from scare.report.blocks import (
    MOST_ROWS,
    NOTHING,
    Badge,
    Banner,
    Block,
    Cell,
    Facts,
    Note,
    ReportTable,
    number,
    percent,
    quantity,
)
from scare.report.chart_data import View
from scare.report.error_analysis import FEW_ROWS, round_bins
from scare.scorecard.accuracy import cover
from scare.scorecard.card import TRIVIAL_MS, Card
from scare.scorecard.requirements import GRADES, YES_NO, Entry, Measure, RequirementTable
from scare.scorecard.run_folder import Run
from scare.scorecard.series import DeviceSeries, pool
from scare.windowing.training_range import OUTSIDE_GRADES
from scare.words import plural

OURS = "scare"  # prefix of our methods; `experiments.comparison_table` has it too, but imports JAX
GRADE_BADGES = {
    "O": ("good", "O\u2002met"),
    "△": ("fair", "△\u2002partly"),
    "X": ("bad", "X\u2002missed"),
    None: ("none", "not graded"),
}
DIMENSIONS = {"accuracy": "Accuracy", "real-time": "Real time", "efficiency": "Efficiency"}
ACCURACY = {
    "rmse": "RMSE",
    "top5_rmse": "RMSE at the 5 % fastest changes",
    "mae": "MAE",
    "bias": "bias",
    "slope": "slope",
    "intercept": "intercept",
    "r2": "R² (1:1)",
}
HOUR = 3600.0
# Seconds in one line of a table over time: the first length with which the table has at most `LINES` lines.
SPANS = (HOUR, 6 * HOUR, 24 * HOUR, 7 * 24 * HOUR, 28 * 24 * HOUR, 364 * 24 * HOUR)
LINES = 16
MEMORY = {"RAM": ("ram_bytes", "ram_available"), "flash": ("flash_bytes", "flash_available")}  # keys: need, capacity


# --- Head of the page ---


def lead(run: Run) -> str:
    """Sum up in a line which devices are scored, on how many rows, and what the model was made from."""
    count = len(run.series)
    named = run.series[0].device if count == 1 else f"{count} devices"
    scored = plural(sum(len(series.scored) for series in run.series), "row")
    model = run.card.model
    by = f", calibrated by {model['model']}" if model.get("model") else ""
    has_trained = any(series.trained.any() for series in run.series)
    without = "; rows used in training or validation are excluded" if has_trained else ""
    origin = f" The model was made from: {model['data']}." if model.get("data") else ""
    period = run.card.dataset.get("scored_period")
    days = f" of {describe_period(period)}" if period else ""
    level = model.get("processing_level", "")
    level = f" {level[0].upper()}{level[1:]}." if level else ""
    return f"{named} next to a reference{by}. Scored on {scored}{days}{without}.{origin}{level}"


def tiles(run: Run, views: Sequence[View]) -> list[tuple[str, str]]:
    """Choose the few numbers a reader looks for first, each with its label; the last view is of all devices."""
    pooled = views[-1]
    unit = run.target.unit
    shown: list[tuple[str, str]] = []
    if pooled.accuracy is not None:
        shown.append((quantity(pooled.accuracy.rmse, unit), "typical error (RMSE), calibrated"))
        if pooled.raw_accuracy is not None:
            reduction = 1 - pooled.accuracy.rmse / pooled.raw_accuracy.rmse if pooled.raw_accuracy.rmse else 0.0
            change = f"{percent(abs(reduction))} {'less' if reduction >= 0 else 'more'}"
            shown.append((change, f"error than the raw reading ({number(pooled.raw_accuracy.rmse)})"))
        shown.append((number(pooled.accuracy.r2), "R² (1:1): variance explained, about the 1:1 line"))
    trivial = run.card.trivially_met()
    grades = [grade for name, grade in run.card.grades().items() if name not in trivial]
    counts = {grade: grades.count(grade) for grade in GRADES}
    if any(counts.values()):
        text = "\u2002".join(f"{count} {grade}" for grade, count in counts.items())
        without = f"; {len(trivial)} trivially met do not count" if trivial else ""
        shown.append((text, f"requirements met, partly met, missed{without}"))
    if run.card.board:
        shown.append(("fits" if run.card.board["fits"] else "does not fit", str(run.card.board["title"])))
    return shown


def choices(views: Sequence[View]) -> list[str]:
    """List the devices to choose from; empty if there is only one."""
    names = [view.name if view.accuracy is not None else f"{view.name} (not scored)" for view in views]
    return names if len(views) > 1 else []


# --- Scorecard ---


def scorecard(card: Card) -> list[Block]:
    """Make a table for each dimension: every requirement with its grade, and below it a row for each number."""
    head = ("measure", "value", "grade", "O from", "△ from", "source")
    measures, blocks = RequirementTable.load().measures, list[Block]()
    for name, title in DIMENSIONS.items():
        rows: list[list[str | Cell]] = []
        for requirement, grade in card.grades().items():
            entries = [entry for entry in card.entries if (entry.dimension, entry.requirement) == (name, requirement)]
            if entries:
                badge = Badge(*GRADE_BADGES.get(grade, GRADE_BADGES[None]))
                if requirement in card.trivially_met():
                    badge = Badge("none", "trivially met")
                rows += [
                    [Cell(entries[0].title, badge=badge)],
                    *(_entry_row(entry, measures.get(entry.measure)) for entry in entries),
                ]
        blocks += [ReportTable(title, head, rows, "words card")] if rows else []
    legend = (
        "O: the requirement is met; △: partly met; X: missed. A requirement gets the worst grade of its numbers, and no"
        " grade if a number with bounds is unknown; numbers without bounds are for information. Trivially met: at this"
        f" time step the bound is {TRIVIAL_MS:g} ms or more, which nothing here takes; it does not count. Measured: on"
        " a computer; emulated: on a virtual board; counted: in the model's plan; declared: by the model's file."
    )
    return [*blocks, Note(legend)]


def _entry_row(entry: Entry, measure: Measure | None) -> list[str | Cell]:
    """Make the row of one number; `measure` explains it, unless a newer version wrote the card."""
    good, fair = bounds(entry.threshold or {}, entry.unit)
    if entry.value is None:
        value = entry.detail.get("reason", NOTHING)
    elif entry.unit == YES_NO:
        value = {1.0: "yes", 0.0: "no"}.get(float(entry.value), number(entry.value))
    else:
        value = entry.value if isinstance(entry.value, str) else quantity(entry.value, entry.unit)
    how = measure.how.replace("`", "") if measure else ""
    return [Cell(entry.label, how), value, entry.grade or "", good, fair, entry.source]


def bounds(threshold: Mapping[str, Any], unit: str) -> tuple[str, str]:
    """Return the bounds of the grades O and △ in the unit of the value; empty if they are unknown."""
    good, fair = threshold.get("good"), threshold.get("fair")
    # If the measure has a baseline, which cards call a yardstick, bounds are shares of its value.
    lacks_baseline = threshold.get("yardstick") and threshold["yardstick_value"] is None
    if good is None or fair is None or lacks_baseline:
        return "", ""
    if unit == YES_NO:
        return "yes", ""
    sign = "≤" if threshold["better"] == "lower" else "≥"
    factor = threshold["yardstick_value"] or 1.0
    return f"{sign} {quantity(factor * good, unit)}", f"{sign} {quantity(factor * fair, unit)}"


# --- Readings ---


def devices(views: Sequence[View], unit: str) -> list[Block]:
    """Tabulate the accuracy of every device, raw next to calibrated where they have the same unit.

    If the page cannot show all of them, all together come first, then the least accurate.
    """
    rows: list[list[str]] = []
    if 2 * len(views) > MOST_ROWS:  # a device has two rows, raw and calibrated
        alone, together = views[:-1], views[-1:]
        views = [*together, *sorted(alone, key=lambda view: -view.accuracy.rmse if view.accuracy else 0.0)]
    for view in views:
        for name, score in (("raw", view.raw_accuracy), ("calibrated", view.accuracy)):
            if score is not None:
                cells = [number(getattr(score, column)) for column in ACCURACY]
                rows.append([f"{view.name}, {name}", f"{score.rows:,}", *cells])
    caption = f"Accuracy on the rows scored{f', in {display_unit(unit)}' if unit else ''}"
    return [ReportTable(caption, ("device", "rows", *ACCURACY.values()), rows)]


# --- Interval coverage ---


def coverage(run: Run) -> list[Block]:
    """Show how often the intervals contain the reference: overall, by flag, concentration, device and time."""
    level = run.card.interval_level
    scored = pool([series.scored for series in run.series], "all devices together")
    overall = cover(scored.low, scored.high, scored.reference, level)
    if overall is None:
        text = (
            "The calibrator has no intervals. A published correction has none, nor has a calibrator that was fitted by"
            " a federation whose sites add noise, or by an earlier version with too few windows."
        )
        return [Note(text)]
    too_low = under_covers(level, overall.share)
    text = (
        f"{percent(level)} intervals contain the reference in {percent(overall.share, 1)} of {overall.rows:,} rows, and"
        f" are {quantity(overall.width, run.target.unit)} wide on average."
        f"{' That is less than they state: do not rely on them in a period like this one.' if too_low else ''}"
    )
    flagged = (scored.flags & UNCERTAIN) > 0
    tables = {
        "By flag": [("without a flag that widens it", scored.rows(~flagged)), ("with one", scored.rows(flagged))],
        "Outside training": [(grade, scored.rows(keep)) for grade, keep in _outside_grades(scored)],
        "By concentration": [(name, scored.rows(keep)) for name, keep in _concentrations(scored, run.target.unit)],
        "By device": [(series.device, series.scored) for series in run.series],
        "Over time": [(name, scored.rows(keep)) for name, keep in _periods(scored.times)],
    }
    badge = Badge("bad", "coverage too low") if too_low else Badge("good", "coverage as stated")
    blocks: list[Block] = [Banner(badge, text)]
    for caption, parts in tables.items():
        if not parts:
            continue
        rows = []
        for name, part in parts:
            covered = cover(part.low, part.high, part.reference, level) if len(part) >= FEW_ROWS else None
            cells = [percent(covered.share, 1), quantity(covered.width, run.target.unit)] if covered else [NOTHING] * 2
            rows.append([name, f"{len(part):,}", *cells])
        blocks.append(ReportTable(caption, ("rows", "count", "coverage", "mean width"), rows))
    return blocks


def _outside_grades(scored: DeviceSeries) -> Iterator[tuple[str, np.ndarray]]:
    """Yield how far rows are outside training, each with a mask of its rows; nothing if no row is."""
    grade_of_row = np.searchsorted(list(OUTSIDE_GRADES.values()), scored.outside_ranges)  # its index in OUTSIDE_GRADES
    is_graded = ((scored.flags & Flag.OUTSIDE) > 0) & np.isfinite(scored.outside_ranges)
    for index, grade in enumerate(OUTSIDE_GRADES):
        keep = is_graded & (grade_of_row == index)
        if keep.any():
            yield grade, keep


def _concentrations(scored: DeviceSeries, unit: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield ranges of the reference with round ends, each with a mask of its rows; the outer ones are open."""
    edges, range_of_row = round_bins(scored.reference)
    for index, (low, high) in enumerate(pairwise(edges.tolist())):
        yield f"{number(low)} to {quantity(high, unit)}", range_of_row == index


def _periods(times: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield periods of equal length that have rows, each with a mask of its rows."""
    span = next((length for length in SPANS if np.ptp(times) / length <= LINES), SPANS[-1])
    period_of_row = np.floor(times / span)  # counted since 1970
    for period in np.unique(period_of_row):
        begin = datetime.fromtimestamp(period * span, UTC)
        yield f"from {begin:%d %b %Y}" + (f" {begin:%H:%M}" if span < 24 * HOUR else ""), period_of_row == period


# --- Other methods ---


def comparison(study: Sequence[Mapping[str, Any]], views: Sequence[View], unit: str) -> list[Block]:
    """Tabulate the study's methods, best first at each window; without a study, the raw reading next to ours."""
    if not study:
        missing = (
            "No study was given. scare compare trains other methods on the same rows; scare score --study adds them."
        )
        view = views[-1]
        if view.raw_accuracy is None or view.accuracy is None:
            return [Note(f"The raw reading and the reference are not known to be in the same unit. {missing}")]
        scores = {"raw reading": view.raw_accuracy, "calibrated": view.accuracy}
        cells = [[name, *(number(getattr(score, column)) for column in ACCURACY)] for name, score in scores.items()]
        caption = f"{view.name}, in {display_unit(unit)}"
        return [ReportTable(caption, ("reading", *ACCURACY.values()), cells), Note(missing)]
    rows = [upgrade_row(row) for row in study]
    blocks: list[Block] = []
    for window in sorted({row.get("window") or 0 for row in rows}):
        of_window = [row for row in rows if (row.get("window") or 0) == window]
        scored = sorted((row for row in of_window if row.get("rmse") is not None), key=lambda row: row["rmse"])
        body = []
        if scored:
            full_bar = min(scored[-1]["rmse"], 3 * scored[0]["rmse"])
            body = [_method_row(row, full_bar) for row in scored]
        head = ("method", "RMSE", "RMSE − scare [95 %]", "5 % fastest", "MAE", "R² (1:1)", "slope", "bytes")
        errors_in = display_unit(unit) or "the target’s unit"
        caption = f"All methods on the same rows, window of {window:,} readings, errors in {errors_in}"
        blocks += [ReportTable(caption, head, body)] if body else []
        failed = [row for row in of_window if row.get("rmse") is None]
        blocks += [Note(f"{row['method']}: no score: {row.get('failed') or 'not run'}") for row in failed]
    star = "★ less error than every other method, beyond chance. " if any(row.get("winner") for row in rows) else ""
    origin = "These methods were trained for this comparison; none of them is the calibrator of the other sections."
    bars = "Bars are cut off at three times the smallest error. Bytes are those of the weights."
    return [*blocks, Note(f"{origin} {star}{bars}")]


def _method_row(row: Mapping[str, Any], full_bar: float) -> list[str | Cell]:
    """Make the row of a method; `full_bar` is the RMSE of a full bar."""
    ours = str(row["method"]).startswith(OURS)
    name = f"★ {row['method']}" if row.get("winner") else row["method"]
    share = 100 * min(1.0, row["rmse"] / full_bar) if full_bar else 0.0
    spread = f" ± {row['rmse_sd']:.1g}" if row.get("rmse_sd") else ""
    others = (number(row.get(column)) for column in ("top5_rmse", "mae", "r2", "slope", "bytes"))
    error = Cell(f"{number(row['rmse'])}{spread}", bar=round(share), ours=ours)
    return [Cell(name, ours=ours), error, _difference(row), *others]


def _difference(row: Mapping[str, Any]) -> str:
    """Return the difference of a method's RMSE to ours, with its 95 % interval if known."""
    difference, low, high = (row.get(f"to_ours_{name}") for name in ("difference", "low", "high"))
    if difference is None:
        return ""
    interval = f" [{low:+.2g}, {high:+.2g}]" if low is not None and high is not None else ""
    return f"{difference:+.2g}{interval}".replace("-", "−")


# --- Board ---


def board(report: Mapping[str, Any] | None) -> list[Block]:
    """Show whether the model fits and is in time, its shares of the board's memory, and the cost of a reading."""
    if not report:
        return [Note("No board was asked for. Add one with scare score --board NAME.")]
    reasons = "; ".join(str(reason) for reason in report["reasons"])
    badge = Badge("good", "fits") if report["fits"] else Badge("bad", "does not fit")
    banners = [Banner(badge, reasons or f"{report['title']}, {report['arithmetic']}")]
    if report.get("meets_deadline") is not None:
        badge = Badge("good", "in time") if report["meets_deadline"] else Badge("bad", "too slow")
        longest, period = quantity(report["worst"]["reading_ms"], "ms"), number(report["deadline_ms"] / 1e3)
        banners.append(Banner(badge, f"at most {longest} of the {period} s between readings"))
    memory = [_memory_row(name, report.get(need), report.get(capacity)) for name, (need, capacity) in MEMORY.items()]
    cost = _cost_rows(report)
    reading = ReportTable("One calibrated reading", ("cost", "typical", "between"), cost, "words")
    legend = (
        "Instructions, RAM and flash are those of the compiled program on a virtual board. Cycles, time, energy and the"
        " share of time are estimates derived from them, not measurements of a device."
    )
    needs = ReportTable(report["title"], ("memory", "needs", "has", "share"), memory)
    return [*banners, needs, *([reading] if cost else []), Note(legend)]


def _memory_row(name: str, need: float | None, capacity: float | None) -> list[str | Cell]:
    """Make the row of RAM or flash, in bytes; `need` is None for a model that does not run."""
    if need is None or not capacity:
        return [name, "not known", f"{number(capacity)} B", ""]
    share = 100 * need / capacity
    bar = Cell(f"{share:.1f} %", bar=round(min(100.0, share), 1), ours=True)
    return [name, f"{number(need)} B", f"{number(capacity)} B", bar]


def _cost_rows(report: Mapping[str, Any]) -> list[list[str]]:
    """Make rows of name, typical number and range, for the numbers that are known on this board."""
    rows: list[list[str]] = []
    # Label, key of the numbers in the report, their own keys (typical, lowest, highest), unit.
    for label, key, (typical, lowest, highest), unit in (
        ("instructions", "instructions", ("mean", "min", "max"), ""),
        ("cycles (estimate)", "cycles", ("typical", "low", "high"), ""),
        ("time (estimate)", "milliseconds", ("typical", "low", "high"), "ms"),
    ):
        numbers = report.get(key)
        if numbers:
            between = f"{quantity(numbers[lowest], unit)} and {quantity(numbers[highest], unit)}"
            if numbers[lowest] == numbers[highest]:
                between = "always the same"
            rows.append([label, quantity(numbers[typical], unit), between])
    if report.get("duty_cycle") is not None:
        rows.append(["share of time busy (estimate)", f"{number(100 * report['duty_cycle'])} %", ""])
    if report.get("energy_microjoules") is not None:
        rows.append(["energy (estimate)", f"{number(report['energy_microjoules'])} µJ", ""])
    if report.get("battery_share") is not None:
        share = f"{number(100 * report['battery_share'])} %"
        rows.append(["share of two AA cells that it takes in a year (estimate)", share, ""])
    return rows


# --- Model selection, data quality, provenance ---


def selection(run: Run) -> list[Block]:
    """Describe the model that training selected, and tabulate every candidate that it tried."""
    candidates = selection_table(run.card.model)
    if not candidates:
        return [Note("The model's file does not record how simpler methods did in training.")]
    blocks: list[Block] = [
        Note(selection_summary(run.card.model)),
        ReportTable("Model selection", HEAD, candidates, "words"),
        Note(
            "Each candidate is fitted to training and scored on validation, block by block, with the variant that is"
            " best on the other blocks. Those that are not clearly worse than the best have equal parts in the result."
        ),
    ]
    if combinations := cost_table(run.card.model):
        blocks += [Note(cost_summary(run.card.model)), ReportTable("Cost on a board", *combinations)]
    return blocks


def quality(run: Run) -> list[Block]:
    """Tabulate the completeness of each device's rows, and the share of rows that carries each flag."""
    rows: list[list[str]] = []
    known = {str(device["device"]): device for device in run.card.devices}
    for series in run.series:
        count, calibrated = len(series), int(np.isfinite(series.calibrated).sum())
        reference = int(np.isfinite(series.reference).sum())
        span = series.times[-1] - series.times[0] + series.step_seconds
        expected = span / series.step_seconds if series.step_seconds else 1.0
        shares = [percent(min(1.0, count / expected), 1), percent(reference / count, 1), percent(calibrated / count, 1)]
        summary = known.get(series.device, {})
        for name in ("uptime", "data_capture"):
            share = summary.get(name)
            shares.append(NOTHING if share is None else percent(share, 1))
        step = f"{number(series.step_seconds)} s"
        rows.append([series.device, f"{count:,}", step, *shares, f"{len(series.scored):,}"])
    complete = ("of expected rows", "with a reference", "with a calibrated value", "uptime", "hours captured")
    head = ("device", "rows", "step", *complete, "rows scored")
    return [ReportTable("Completeness", head, rows), _flags(run)]


def _flags(run: Run) -> Block:
    flags = np.concatenate([series.flags for series in run.series])
    counts = {name: count for name, count in count_flags(flags).items() if count}
    if not counts:
        return Note("No row carries a flag.")
    rows = [
        [name.lower().replace("_", "-"), f"{count:,}", percent(count / len(flags), 2), MEANINGS[Flag[name]]]
        for name, count in counts.items()
    ]
    return ReportTable("Flags: rows are marked, never removed", ("flag", "rows", "share", "meaning"), rows, "words")


def provenance(run: Run) -> list[Block]:
    """List the facts of the card about data, model, and how the card was made."""
    dataset = {name: value for name, value in run.card.dataset.items() if name != "flags"}
    model = {name: value for name, value in run.card.model.items() if name not in SELECTION_FACTS}
    parts = {"Data": dataset, "Model": model, "How the scorecard was made": run.card.provenance}
    return [Facts(name, part) for name, part in parts.items() if part]
