"""Newcomers of a federation: a few days of a box's own, the regression of the others, and both combined.

Each box or station in turn is the newcomer, and the others are a federation of their first three quarters. The newcomer
has some days of its own first three quarters, at three places in them; its latest quarter is the test. `federated` puts
the table on its page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.progress import JRC, read_jrc, read_task
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.model_card import SHARED_FACT
from scare.data.alignment import average
from scare.data.readings import Channel, Readings
from scare.errors import DataError
from scare.federated.agreement import AgreedData, AgreedRules, Agreement
from scare.federated.combined import ALONE, SharedRegression, combine, forward_splits, make_ways, mean_errors
from scare.federated.pooled import federate
from scare.federated.rows import Rows, collect_rows
from scare.federated.site import Site, Values

DAYS = (2, 4, 7, 14)
DAY = 86_400.0
PLACES = (0.0, 0.5, 1.0)  # of the newcomer's days in its first three quarters
TEST = 0.25  # share of a site's rows, the latest
FEWEST_ROWS, FEWEST_SHARE = 25, 0.3  # of a newcomer; of the rows that so many days could have
SITE_ROWS = 200  # a box with fewer is left out
SEASONS = 3  # a set of one box in three periods, as if they were sites
CHANNELS = {"beijing_pm25_time": ("pm25", "pm10", "t", "h")}  # others are dead at some stations
SETS = {
    "jrc_no2": "NO2, 7 boxes side by side, 10 days",
    "jrc_o3": "O3, the same boxes",
    "jrc_no": "NO, the same boxes",
    "jrc_co": "CO, the same boxes",
    "jrc_pm10": "PM10, the same boxes",
    "quant_no2": "NO2, one box in three periods",
    "quant_o3": "O3, one box in three periods",
    "antwerp_pm25": "PM2.5, 8 boxes at stations of Antwerp, two with faults",
    "antwerp_new_boxes_pm25": "PM2.5, 4 more boxes there, two with faults",
    "beijing_pm25_time": "PM2.5, 7 boxes at stations of Beijing",
    "denver_pm25": "PM2.5, 4 boxes at stations of Denver",
    "epa_toucan_o3": "O3, 3 boxes",
    "epa_toucan_pm25": "PM2.5, 3 boxes",
    "purpleair_va_pm25": "PM2.5, 3 boxes beside one station",
}
HEAD = """
## A newcomer with a few days

Each box or station in turn has only some days of its own, at three places in its first three quarters; the others are the federation. RMSE on its latest quarter, geometric mean over
newcomers and places: of the others' regression; then of the newcomer's own best regression by forward validation / of both combined.
A network alone is not in the table: it takes 427 rows, 18 days of hours.

| set | others | {days} |
|---|---:|{rule}|"""  # noqa: E501
TOTALS = """
| days | others / alone | combined / alone | sets where combined is worse by over 2 % | newcomers, by over 10 % | by over 50 % | covered by 90 % intervals |
|---:|---:|---:|---:|---:|---:|---:|"""  # noqa: E501


def read_sites(folder: Path, name: str) -> dict[str, list[Readings]]:
    """The readings of each site of a set."""
    if name in JRC:
        reference, *channels = JRC[name]
        return {box.device: [average(box, 600.0)] for box in read_jrc(folder / "jrc_ispra", reference, *channels)}
    if name == "antwerp_pm25":
        return read_antwerp(folder / "antwerp_hourly" / "pairs.csv.gz")
    boxes = read_task(folder / "colocations" / f"{name}.csv.gz")
    wanted = CHANNELS.get(name, tuple(channel.name for channel in boxes[0].channels))
    boxes = [replace(box, channels=tuple(map(Channel, wanted))) for box in boxes]
    if len(boxes) > 1:
        return {box.device: [box] for box in boxes}
    (box,) = boxes
    borders = np.quantile(box.times, np.linspace(0, 1, SEASONS + 1))
    return {
        f"third {k + 1}": [box.rows((box.times >= borders[k]) & (box.times < borders[k + 1]))] for k in range(SEASONS)
    }


def read_antwerp(path: Path) -> dict[str, list[Readings]]:
    """The boxes of Antwerp beside stations."""
    names = ("PMS_PM25", "PMS_PM10")
    table = pl.read_csv(path, infer_schema_length=None).rename({"date": "time", "Ref.PM2.5": "reference"})
    table = table.with_columns(pl.col("time").str.to_datetime(time_zone="UTC")).select(
        "ID", "time", *names, "reference"
    )
    boxes = table.partition_by("ID", as_dict=True, include_key=False)
    channels = tuple(map(Channel, names))
    return {
        str(box): [Readings(str(box), rows.unique("time").sort("time"), channels, Channel("reference"))]
        for (box,), rows in boxes.items()
    }


def cut(boxes: Sequence[Readings]) -> tuple[list[Readings], list[Readings]]:
    """The rows of a site before and after the time from which it is tested."""
    times = np.sort(np.concatenate([box.times[np.isfinite(box.targets)] for box in boxes]))
    border = times[int((1 - TEST) * len(times))]
    return [box.rows(box.times < border) for box in boxes], [box.rows(box.times >= border) for box in boxes]


def rmse(calibrator: Calibrator, boxes: Sequence[Readings]) -> float:
    errors = np.concatenate(
        [calibrator.predict(box)["calibrated"].to_numpy().astype(float) - box.targets for box in boxes]
    )
    return float(np.sqrt(np.nanmean(np.square(errors))))


def coverage(calibrator: Calibrator, boxes: Sequence[Readings]) -> float:
    """The share of references within the intervals."""
    inside = []
    for box in boxes:
        table = calibrator.predict(box)
        low, high = (table[name].to_numpy().astype(float) for name in ("low", "high"))
        known = np.isfinite(low) & np.isfinite(box.targets)
        inside.append(((low <= box.targets) & (box.targets <= high))[known])
    return float(np.concatenate(inside).mean())


def scaled_rows(boxes: Sequence[Readings], calibrator: Calibrator) -> tuple[Rows, SharedRegression]:
    """The rows of boxes in the columns of a federation's regression."""
    shared = SharedRegression(**calibrator.facts[SHARED_FACT])
    fleet, target = calibrator.inputs.scaling.fleet, calibrator.inputs.scaling.target
    center, scale = float(target.center[0]), float(target.scale[0])
    return collect_rows(boxes).scaled(fleet.center, fleet.scale, center, scale, len(shared.weights)), shared


def alone_rmse(calibrator: Calibrator, own: Sequence[Readings], test: Sequence[Readings]) -> float:
    """The error of the newcomer's own regression that is best forward in time."""
    rows, shared = scaled_rows(own, calibrator)
    ways = {name: way for name, way in make_ways(shared, shared.solution).items() if name.startswith(ALONE)}
    errors = mean_errors(rows, forward_splits(rows.times), ways)
    solution = ways[min(errors, key=lambda name: errors[name])](rows.moments)
    squared = scaled_rows(test, calibrator)[0].moments.mean_squared_error(solution)
    return float(calibrator.inputs.scaling.target.scale[0]) * squared**0.5


def calibrate_together(sites: Mapping[str, Sequence[Readings]]) -> Calibrator:
    """The calibrator of a federation of sites in this process."""
    box = next(iter(sites.values()))[0]
    data = AgreedData(tuple(Channel(one.name) for one in box.channels), Channel("reference"), box.step_seconds)
    agreement = Agreement(data, dict.fromkeys(sites, ""), AgreedRules(fewest_rows=50))
    there = {site: Site(boxes, agreement) for site, boxes in sites.items()}

    def ask(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, Values]:
        return {site: there[site].answer(task) for site, task in tasks.items()}

    return federate(ask, agreement).calibrator


def measure(folder: Path, name: str) -> list[dict[str, Any]]:
    """A row for each newcomer of a set, number of days and place: errors, coverage and the way that was taken."""
    sites = {site: boxes for site, boxes in read_sites(folder, name).items() if len(collect_rows(boxes)) > SITE_ROWS}
    parts = {site: cut(boxes) for site, boxes in sites.items()}
    found = []
    for newcomer, (own, test) in parts.items():
        others = {site: train for site, (train, _) in parts.items() if site != newcomer}
        federated = calibrate_together(others)
        pooled = rmse(federated, test)
        times = collect_rows(own).times
        full = DAY / np.median(np.diff(times))  # rows of a day without gaps
        for days in DAYS:
            latest = times[-1] - times[0] - days * DAY
            for place in PLACES if latest > 0 else ():
                start = times[0] + place * latest
                short = [box.rows((box.times >= start) & (box.times < start + days * DAY)) for box in own]
                if len(collect_rows(short)) < max(FEWEST_ROWS, FEWEST_SHARE * days * full):
                    continue
                try:
                    combined = combine(federated, short)
                except DataError:  # all of the rows in one part of the days
                    continue
                row = {"newcomer": newcomer, "days": days, "place": place, "others": pooled}
                row |= {"alone": alone_rmse(federated, short, test), "combined": rmse(combined, test)}
                row |= {"covered": coverage(combined, test), "way": combined.facts["way"]}
                found.append(row)
    return found


def table(results: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """The lines of the page."""
    days = " | ".join(f"{count} days" for count in DAYS)
    lines = [HEAD.format(days=days, rule="|".join(["---:"] * len(DAYS)))]
    for name, rows in results.items():
        cells = [f"{mean(rows, 'others'):.3g}"]
        for count in DAYS:
            part = [row for row in rows if row["days"] == count]
            cells.append(f"{mean(part, 'alone'):.3g} / {mean(part, 'combined'):.3g}" if part else "–")
        lines.append(f"| `{name}`: {SETS[name]} | {' | '.join(cells)} |")
    lines.append(TOTALS)
    everything = []
    for count in DAYS:
        parts = [part for rows in results.values() if (part := [row for row in rows if row["days"] == count])]
        lines += [f"| {count} | {summary(parts)} |"] if parts else []
        everything += parts
    lines.append(f"| all | {summary(everything)} |")
    return lines


def mean(rows: Sequence[Mapping[str, Any]], who: str) -> float:
    """The geometric mean of an error."""
    return float(np.exp(np.mean([np.log(row[who]) for row in rows])))


def summary(parts: Sequence[Sequence[Mapping[str, Any]]]) -> str:
    """The cells of a line: ratios as geometric means over parts, and how often combined is worse than alone."""
    ratios = {who: [mean(part, who) / mean(part, "alone") for part in parts] for who in ("others", "combined")}
    means = [float(np.exp(np.mean(np.log(ratios[who])))) for who in ("others", "combined")]
    single = np.array([row["combined"] / row["alone"] for part in parts for row in part])
    covered = np.mean([np.mean([row["covered"] for row in part]) for part in parts])
    losing = sum(ratio > 1.02 for ratio in ratios["combined"])
    shares = [f"{100 * np.mean(single > limit):.0f} %" for limit in (1.1, 1.5)]
    cells = [*(f"{one:.2f}" for one in means), f"{losing} of {len(parts)}", *shares, f"{100 * covered:.0f} %"]
    return " | ".join(cells)
