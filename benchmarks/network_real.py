"""Real networks of network.py: the references of all but one station are hidden, and given back as the truth.

A set is hourly means of boxes and of the reference beside each of them. Its boxes stand at one place (`together`), or
at stations of their own. One of the places is known at a time; every method sees the reference of that place only.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from scare.data.sites import Place, Sites, Stay
from scare.errors import DataError
from scare.upkeep.network.distant import LOW
from scare.upkeep.network.encounters import EncounterRules
from scare.upkeep.network.fleet import SolvedNetwork, solve_network
from scare.upkeep.network.hours import DAY, HOUR, NetworkHours
from scare.upkeep.network.identified import Identified

NOTHING, POOLED, PERCENTILES, OWN = "nothing", "pooled only", "percentiles", "own co-location"
GRAPH, TRAVELLER = "graph, only encounters", "travelling box"
DISTANT, DISTANT_KIND = "graph", "graph, kinds taken as equal"
OTHERS, OTHERS_KIND = "graph, all others known", "graph, all others known, kinds taken as equal"
SIGMAS = 1.645  # of an interval of 90 %
ASSUMED_KM = 5.0  # between stations whose places are not known
REFERENCE = "reference"
GASES = {"NO2_B43F_P1": ["OX_A431_P1"], "OX_A431_P1": ["NO2_B43F_P1"]}  # cells that also follow the other gas
RANGE_UGM3 = 500.0  # of Plantower's particle sensors: more is a fault
JRC_TRAINING = 0.6  # of nine days
NIGHT = 5  # hours from midnight (UTC, or as the file has it)


@dataclass(frozen=True)
class RealSet:
    """Hourly means of boxes: `inputs` [boxes, hours, channels] and `truth` beside each [boxes, hours]."""

    name: str
    unit: str
    boxes: tuple[str, ...]
    sites: tuple[str, ...]  # of each box
    places: Mapping[str, Place]
    first: int  # hours since 1970
    inputs: np.ndarray
    truth: np.ndarray
    has_places: bool = False
    reads_unit: bool = True  # whether the first channel is in the unit of the truth

    @property
    def together(self) -> bool:
        """Whether all boxes stand at one place."""
        return len(set(self.sites)) == 1


@dataclass(frozen=True)
class Score:
    """What a method made of a hidden box: hours, mean square and mean error, share inside its intervals (NaN: none)."""

    set: str
    known: str
    method: str
    box: str
    months: int  # since the encounter, or since the first hour that is judged
    km: float  # to the known station; NaN where it is not known
    hours: int
    square: float
    bias: float
    inside: float
    is_identified: bool  # whether the method says that it knows gain and level


@dataclass(frozen=True)
class Task:
    """A set of which one place is known: what methods may see. `training` are the first hours, `value` the fleet's."""

    data: RealSet
    site: str
    training: int
    fleet: np.ndarray  # the fleet's calibrator on all boxes [boxes, hours]
    deviation: float  # of its residuals in training

    @property
    def known_boxes(self) -> list[int]:
        """The boxes at the known place; of boxes side by side, the first."""
        at_site = [k for k, site in enumerate(self.data.sites) if site == self.site]
        return at_site[:1] if self.data.together else at_site

    @property
    def reference(self) -> np.ndarray:
        """The readings of the known reference [hours]."""
        return self.data.truth[self.known_boxes[0]]


@dataclass(frozen=True)
class Estimate:
    """An estimate and half the width of its interval for each hour, NaN where there is none.

    `is_identified`: the network says that it knows the box's gain and level.
    """

    value: np.ndarray
    half: np.ndarray
    is_identified: bool = False


def nothing(task: Task, box: int) -> Estimate:
    """Return what the box reads."""
    read = task.data.inputs[box, :, 0]
    unknown = np.full_like(read, np.nan)
    return Estimate(read if task.data.reads_unit else unknown, unknown)


def pooled(task: Task, box: int) -> Estimate:
    """Return what the fleet's calibrator makes of it."""
    return Estimate(task.fleet[box], np.full(task.fleet.shape[1], SIGMAS * task.deviation))


def percentiles(task: Task, box: int) -> Estimate:
    """Return the fleet's value with the offset that makes its low nights those of the station, for each month."""
    value = task.fleet[box].copy()
    hours = np.arange(len(value))
    night = (task.data.first + hours) % 24 < NIGHT
    step = task.training if task.data.together else round(28 * DAY / HOUR)
    for begin in range(0, len(value), step):
        seen = (hours < task.training) if task.data.together else (hours >= begin) & (hours < begin + step)
        both = seen & night & np.isfinite(task.fleet[box]) & np.isfinite(task.reference)
        if both.sum() >= NIGHT:
            levels = [np.quantile(one[both], LOW).mean() for one in (task.reference, task.fleet[box])]
            value[begin : begin + step] += levels[0] - levels[1]
    return Estimate(value, np.full(len(value), SIGMAS * task.deviation))


def own(task: Task, box: int) -> Estimate:
    """Return the line of the box beside its own reference, in the hours of training."""
    part = slice(0, task.training)
    value, truth = task.fleet[box], task.data.truth[box]
    known = np.isfinite(value[part]) & np.isfinite(truth[part])
    if known.sum() < 24:
        return Estimate(np.full_like(value, np.nan), np.full_like(value, np.nan))
    slope, intercept = np.polyfit(value[part][known], truth[part][known], 1)
    deviation = np.std((truth - slope * value - intercept)[part][known])
    return Estimate(slope * value + intercept, np.full(len(value), SIGMAS * deviation))


def by_graph(
    task: Task,
    stays: Sequence[Stay],
    rules: EncounterRules,
    kind: str = "",
    references: Mapping[str, np.ndarray] | None = None,
) -> Callable[[int], Estimate]:
    """Solve the network, and return the estimate of each box; each month has the line of its middle.

    `references` has the readings of each reference that is known, if it is not only that of the task.
    """
    data, references = task.data, references or {REFERENCE: task.reference}
    names = (*data.boxes, *references)
    values = np.concatenate([task.fleet, np.stack(list(references.values()))]).astype(np.float32)
    if data.together:
        values[-1, task.training :] = np.nan
    hours = NetworkHours(names, data.first, values, frozenset(references))
    places = {name: Place(*place.position, kind) for name, place in data.places.items()}
    places |= {stay.site: Place(0.0, 0.01 * k) for k, stay in enumerate(stays) if stay.site not in places}
    network = solve_network(hours, Sites(tuple(stays)), places, rules)
    return lambda box: _monthly(network, data, task.fleet[box], data.boxes[box])


def _monthly(network: SolvedNetwork, data: RealSet, value: np.ndarray, box: str) -> Estimate:
    found, half = np.full((2, len(value)), np.nan)
    step = round(28 * DAY / HOUR)
    for begin in range(0, len(value), step):
        part = slice(begin, min(begin + step, len(value)))
        time = (data.first + (part.start + part.stop) / 2) * HOUR
        found[part] = network.solution.estimate(box, time).calibrate(value[part])
        half[part] = network.solution.interval(box, value[part], time)
    return Estimate(found, half, network.identified[box] is Identified.GAIN)


def methods(task: Task) -> Iterator[tuple[str, Callable[[int], Estimate]]]:
    """Yield the name and the estimate of each method that the set allows."""
    for name, method in ((NOTHING, nothing), (POOLED, pooled), (PERCENTILES, percentiles), (OWN, own)):
        yield name, lambda box, method=method: method(task, box)
    begin, day = task.data.first * HOUR, DAY
    end = begin + HOUR * task.fleet.shape[1]
    if task.data.together:
        days = task.training / 24
        (known,) = task.known_boxes
        carried = task.data.boxes[known]
        others = [box for box in task.data.boxes if box != carried]
        station = days / 4  # days that the known box is beside the reference
        at_station = [Stay("station", REFERENCE, begin, end), Stay("station", carried, begin, begin + station * day)]
        yard = [Stay("yard", carried, begin + station * day, begin + days * day)]
        yard += [Stay("yard", box, begin, begin + days * day) for box in others]
        days_each = (days - station) / len(others)
        rules = EncounterRules(hours=min(24.0, 24 * days_each), distant_metres=1e6)
        yield GRAPH, by_graph(task, [*at_station, *yard], replace(rules, distant=False))
        yield DISTANT, by_graph(task, [*at_station, *yard], rules)
        arrivals = begin + (station + days_each * np.arange(len(others) + 1)) * day
        trips = [Stay(f"street {k}", carried, arrivals[k], arrivals[k + 1]) for k in range(len(others))]
        homes = [Stay(f"street {k}", box, begin, begin + days * day) for k, box in enumerate(others)]
        yield TRAVELLER, by_graph(task, [*at_station, *trips, *homes], rules)
    else:
        stays = [Stay(site, box, begin, end) for site, box in zip(task.data.sites, task.data.boxes, strict=True)]
        stays.append(Stay(task.site, REFERENCE, begin, end))
        rules = EncounterRules(distant_metres=1e6)
        yield GRAPH, by_graph(task, stays, replace(rules, distant=False))
        yield DISTANT, by_graph(task, stays, rules)
        yield DISTANT_KIND, by_graph(task, stays, rules, kind="alike")


def judge(data: RealSet, training: int) -> Iterator[Score]:
    """Yield the scores of all methods, with each place (or each of the boxes side by side) known in turn."""
    orders = [np.roll(np.arange(len(data.boxes)), -k) for k in range(len(data.boxes))] if data.together else None
    for turn in orders or sorted(set(data.sites)):
        one = _reordered(data, turn) if data.together else data
        site = one.sites[0] if data.together else turn
        task = make_task(one, site, training)
        if task is None:
            continue
        hidden = [k for k in range(len(one.boxes)) if k not in task.known_boxes] or [0]
        try:
            every = list(methods(task)) if len(one.boxes) > 1 else list(methods_of_one(task))
        except DataError as error:
            print(f"{data.name}, {site} known: {error}")
            continue
        for name, estimate in every:
            for box in hidden:
                yield from _scores(task, name, box, estimate(box))
    if len(set(data.sites)) > 2:
        yield from _judge_one_hidden(data, training)


def _judge_one_hidden(data: RealSet, training: int) -> Iterator[Score]:
    """Yield the scores of the graph if all places but one are known, with each hidden in turn."""
    begin = data.first * HOUR
    end = begin + HOUR * data.truth.shape[1]
    for site in sorted(set(data.sites)):
        known = [k for k, each in enumerate(data.sites) if each != site]
        fleet, deviation = fit_fleet(data, known, training)
        task = Task(data, site, training, fleet, deviation)
        references = {f"{REFERENCE} {data.sites[k]}": data.truth[k] for k in reversed(known)}  # of two boxes, the first
        stays = [Stay(each, box, begin, end) for each, box in zip(data.sites, data.boxes, strict=True)]
        stays += [Stay(name.removeprefix(f"{REFERENCE} "), name, begin, end) for name in references]
        for name, kind in ((OTHERS, ""), (OTHERS_KIND, "alike")):
            estimate = by_graph(task, stays, EncounterRules(distant_metres=1e6), kind, references)
            for box in set(range(len(data.boxes))) - set(known):
                for score in _scores(task, name, box, estimate(box)):
                    yield replace(score, known=f"all but {site}", km=np.nan)


def methods_of_one(task: Task) -> Iterator[tuple[str, Callable[[int], Estimate]]]:
    """Yield the methods for a set of one box."""
    yield NOTHING, lambda box: nothing(task, box)
    yield OWN, lambda box: own(task, box)


def make_task(data: RealSet, site: str, training: int) -> Task | None:
    """Fit the fleet's calibrator, least squares on all channels, to the known boxes' first hours; None if too few."""
    known = [0] if data.together else [k for k, each in enumerate(data.sites) if each == site]
    try:
        return Task(data, site, training, *fit_fleet(data, known, training))
    except DataError:
        return None


def fit_fleet(data: RealSet, known: Sequence[int], training: int) -> tuple[np.ndarray, float]:
    """Return the fleet's calibrator on all boxes [boxes, hours], and the deviation of its residuals in training."""
    rows = np.concatenate([data.inputs[k, :training] for k in known])
    truth = np.concatenate([data.truth[k, :training] for k in known])
    usable = np.isfinite(rows).all(axis=1) & np.isfinite(truth)
    if usable.sum() < 24 * 2:
        raise DataError(f"{data.name}: too few hours of the known boxes")
    design = np.column_stack([rows[usable], np.ones(usable.sum())])
    weights, *_ = np.linalg.lstsq(design, truth[usable], rcond=None)
    deviation = float(np.std(truth[usable] - design @ weights))
    return data.inputs @ weights[:-1] + weights[-1], deviation


def _scores(task: Task, method: str, box: int, estimate: Estimate) -> Iterator[Score]:
    data, found, half = task.data, estimate.value, estimate.half
    km = data.places[data.sites[box]].metres_to(data.places[task.site]) / 1000 if data.has_places else np.nan
    hours = np.arange(len(found))
    error = found - data.truth[box]
    # Only hours in which the fleet's calibrator has a value, so that all methods are judged by the same hours.
    judged = np.isfinite(error) & np.isfinite(task.fleet[box]) & (hours >= task.training)
    month = ((hours - task.training) * HOUR // (30 * DAY)).astype(int)
    for each in np.unique(month[judged]):
        part = judged & (month == each)
        inside = np.abs(error[part]) <= half[part]
        yield Score(
            data.name,
            data.boxes[task.known_boxes[0]] if data.together else task.site,
            method,
            data.boxes[box],
            int(each),
            float(km),
            int(part.sum()),
            float(np.mean(np.square(error[part]))),
            float(error[part].mean()),
            float(inside.mean()) if np.isfinite(half[part]).all() else np.nan,
            estimate.is_identified,
        )


def _reordered(data: RealSet, order: np.ndarray) -> RealSet:
    boxes = tuple(data.boxes[k] for k in order)
    return replace(data, boxes=boxes, inputs=data.inputs[order], truth=data.truth[order])


# Reading the sets


def read_sets(folder: Path) -> Iterator[tuple[RealSet, int]]:
    """Yield each set that is in the folder, with its hours of training."""
    jrc = {"JRC PM10": ("5310CAT", "Ref.PM10"), "JRC NO2": ("NO2_B43F_P1", "Ref.NO2")}
    jrc |= {"JRC O3": ("OX_A431_P1", "Ref.O3"), "JRC CO": ("CO_A4_P1", "Ref.CO_ppm")}
    files = sorted((folder / "jrc_ispra").glob("*.csv.gz"))
    for name, (sensor, reference) in jrc.items() if files else ():
        channels = [sensor] if sensor == "5310CAT" else [sensor, *GASES.get(sensor, ()), "SHT31TE", "SHT31HE"]
        tables = [
            pl.read_csv(file, infer_schema_length=None).with_columns(device=pl.lit(file.name[:6])) for file in files
        ]
        frame = pl.concat([table.select("device", "date", *channels, reference) for table in tables])
        found = _make_set(name, "", frame.rename({"date": "time", reference: "truth"}), channels, sensor == "5310CAT")
        known = np.isfinite(found.inputs).all(axis=2) & np.isfinite(found.truth)
        found = _since(found, int(known.argmax(axis=1).max()))  # since all boxes read
        yield found, round(JRC_TRAINING * found.truth.shape[1])
    for name, channels, unit in (
        ("QUANT NO2", ["gas"], "ppb"),
        ("QUANT O3", ["gas"], "ppb"),
        ("Denver PM2.5", ["pm25"], "ug/m3"),
        ("Beijing PM2.5", ["pm25"], "ug/m3"),
    ):
        file = {"Beijing PM2.5": "beijing_pm25_time"}.get(name, name.lower().replace(" ", "_").replace(".", ""))
        path = folder / "colocations" / f"{file}.csv.gz"
        if path.exists():
            frame = pl.read_csv(path, infer_schema_length=None).rename({"reference": "truth"})
            sites = {"Denver PM2.5": {"CS4": "CS3"}}.get(name, {})  # two boxes stood beside one station
            found = _make_set(name, unit, frame, channels, True, lambda box, sites=sites: sites.get(box, box))
            if name == "Beijing PM2.5":  # since all seven boxes stand
                yield _since(found, int(np.isfinite(found.truth).argmax(axis=1).max())), 24 * 30
            else:
                yield found, 24 * 60
    path = folder / "antwerp_hourly" / "pairs.csv.gz"
    if path.exists():
        frame = pl.read_csv(path, infer_schema_length=None).rename({"ID": "device", "date": "time"})
        usual = frame.group_by("device").agg(pl.col("Location.ID", "latitude", "longitude").drop_nulls().mode().first())
        for name, channels, reference in (
            ("Antwerp PM2.5", ["PMS_PM25"], "Ref.PM2.5"),
            ("Antwerp PM10", ["PMS_PM10"], "Ref.PM10"),
        ):
            sites = dict(usual.select("device", "Location.ID").iter_rows())
            found = _make_set(name, "ug/m3", frame.rename({reference: "truth"}), channels, True, sites.__getitem__)
            middles = frame.group_by("Location.ID").agg(pl.col("latitude", "longitude").median())
            places = {site: Place(latitude, longitude) for site, latitude, longitude in middles.iter_rows()}
            inputs = np.where(found.inputs > RANGE_UGM3, np.nan, found.inputs)
            yield replace(found, places=places, has_places=True, inputs=inputs), 24 * 60


def _since(data: RealSet, hour: int) -> RealSet:
    return replace(data, first=data.first + hour, inputs=data.inputs[:, hour:], truth=data.truth[:, hour:])


def _make_set(
    name: str,
    unit: str,
    frame: pl.DataFrame,
    channels: Sequence[str],
    reads_unit: bool,
    site_of: Callable[[str], str] = lambda box: "yard",
) -> RealSet:
    """Average by the hour; places that are not known are `ASSUMED_KM` apart."""
    iso = pl.col("time").str.slice(0, 19).str.replace("T", " ").str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False)
    parsed = pl.coalesce(iso, pl.col("time").str.to_datetime("%m/%d/%Y %H:%M", strict=False))
    rows = frame.with_columns((parsed.dt.epoch("s") // 3600).alias("hour"))
    rows = rows.group_by("device", "hour").agg(pl.col(*channels, "truth").cast(pl.Float64).mean())
    boxes = tuple(sorted(rows["device"].unique()))
    first = int(rows["hour"].min())
    values = np.full((len(boxes), int(rows["hour"].max()) - first + 1, len(channels) + 1), np.nan)
    at_box = rows["device"].replace_strict(boxes, range(len(boxes)), return_dtype=pl.Int64).to_numpy()
    values[at_box, rows["hour"].to_numpy() - first] = rows.select(*channels, "truth").to_numpy()
    sites = tuple(map(site_of, boxes))
    degrees = ASSUMED_KM / 111.195
    corners = [Place(degrees * (k // 3), degrees * (k % 3)) for k in range(len(boxes))]
    places = dict(zip(dict.fromkeys(sites), corners, strict=False))
    return RealSet(name, unit, boxes, sites, places, first, values[..., :-1], values[..., -1], reads_unit=reads_unit)
