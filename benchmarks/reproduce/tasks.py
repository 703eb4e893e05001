"""The tasks of a reproduction: a split of readings for each place and pollutant.

Places are the paper's cities (SensEURCity, or simulated in its place) or the turns of a described data set's test box.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.reproduce.data_set import DataSet, read_data_set
from benchmarks.reproduce.protocol import Protocol, ReadingsKind
from benchmarks.reproduce.senseurcity import (
    City,
    Pollutant,
    WindowRule,
    close_gaps,
    complete_rows,
    read_senseurcity,
    split_readings,
)
from scare.data.flags import drop_unusable_references, flag
from scare.data.readings import REFERENCE, TIME, Readings
from scare.data.simulate import Simulation, simulate
from scare.data.split import Split, split_by_device
from scare.errors import UsageError

STAND_IN = "simulated stand-in, not SensEURCity"  # recorded in every task and calibrator made without --data
DESCRIPTION = ".toml"  # suffix of a data set's description
LEVELS = {Pollutant.PM10: 1.0, Pollutant.PM25: 0.6, Pollutant.PM1: 0.4}  # factors on the simulated PM


@dataclass(frozen=True)
class ReadingsSource:
    """Where the readings come from, their places and pollutants, and facts that every task records.

    `split` gives training, validation and test readings (one channel) of a place and pollutant.
    """

    note: str
    places: tuple[str, ...]
    pollutants: tuple[str, ...]
    split: Callable[[str, str], Split]
    facts: Mapping[str, Any] = field(default_factory=dict)


def readings_kind(data: Path | None) -> ReadingsKind:
    """Tell the kind of readings from `--data`: a .toml file describes a data set, a folder is SensEURCity."""
    if data is None:
        return ReadingsKind.STAND_IN
    return ReadingsKind.DESCRIBED if data.suffix == DESCRIPTION else ReadingsKind.SENSEURCITY


def open_source(protocol: Protocol, data: Path | None, files: Path | None = None) -> ReadingsSource:
    """Open the readings that `--data` names: a described data set or SensEURCity; simulated without it."""
    if data is None:
        return _stand_in(protocol)
    if protocol.kind is ReadingsKind.DESCRIBED:
        return _described(protocol, read_data_set(data), files or data.parent)
    note = "SensEURCity (Zenodo 7669644), the paper's data"
    return ReadingsSource(note, protocol.cities, protocol.pollutants, partial(_split_sensors, protocol, data))


def _stand_in(protocol: Protocol) -> ReadingsSource:
    """Simulate readings in the place of SensEURCity; every note says that they are not the paper's."""
    size = f"boxes {protocol.simulation['boxes']}, days {protocol.simulation['days']:g} in each city"
    note = f"SIMULATED stand-in, not the paper's data: {size}; compare no error here with the paper's"

    def split(city: str, pollutant: str) -> Split:
        return split_by_device([_prepared(one, protocol) for one in _simulate(protocol, city, pollutant)])

    return ReadingsSource(note, protocol.cities, protocol.pollutants, split, {"data": STAND_IN})


def _described(protocol: Protocol, data_set: DataSet, folder: Path) -> ReadingsSource:
    """Open a described data set, whose files are in this folder."""
    left_out = f", without {', '.join(data_set.without)}" if data_set.without else ""
    read = cache(partial(data_set.read, folder))

    def split(place: str, pollutant: str) -> Split:
        return data_set.split([_prepared(one, protocol) for one in read(pollutant)], place)

    note = f"{data_set.about}{left_out}; not the paper's data"
    return ReadingsSource(note, tuple(data_set.places), tuple(data_set.pollutants), split, {"data": data_set.about})


def _split_sensors(protocol: Protocol, data: Path, city: str, pollutant: str) -> Split:
    """Split as the paper does: training sensors, one for validation, one for test."""
    sensors, order = read_senseurcity(data, City(city), Pollutant(pollutant)), protocol.sensor_order
    readings = [_prepared(complete_rows(one), protocol) for one in sensors]
    long_enough = [one for one in readings if len(one) > protocol.window]
    train, validation, test = split_readings(long_enough, City(city), order)
    how = f"by sensor, in the {order} order: validation {validation.device}; test {test.device}"
    return Split(tuple(train), (validation,), (test,), how)


def _prepared(readings: Readings, protocol: Protocol) -> Readings:
    """Keep the newest rows, flag them, and close gaps as the protocol's window rule asks."""
    newest = readings.frame.tail(protocol.most_rows) if protocol.most_rows else readings.frame
    usable = drop_unusable_references(replace(readings, frame=newest))
    if protocol.window_rule is not WindowRule.RECENT:
        usable = close_gaps(usable, protocol.window_rule, protocol.window)
    return flag(usable)


def _simulate(protocol: Protocol, city: str, pollutant: str) -> list[Readings]:
    """Simulate boxes of one channel, with other air for each city and pollutant."""
    numbers = list(City).index(City(city)), list(Pollutant).index(Pollutant(pollutant))
    seed = 100 * protocol.simulation["seed"] + 10 * numbers[0] + numbers[1]
    try:
        simulation = Simulation(**{**protocol.simulation, "seed": seed})
    except TypeError as error:
        raise UsageError(f"[stand-in] simulation: {error}") from error
    return [_as_pollutant(one, Pollutant(pollutant)) for one in simulate(simulation)]


def _as_pollutant(readings: Readings, pollutant: Pollutant) -> Readings:
    """Scale the first channel and the reference to a pollutant's level, rounded like real ones, and rename them."""
    level, simulated = LEVELS[pollutant], readings.channels[0]
    raw, reference = (replace(simulated, name=f"{pollutant.lower()}_{what}") for what in ("raw", "reference"))
    columns = (pl.col(simulated.name) * level).round().alias(raw.name), (pl.col(REFERENCE) * level).round(1)
    return replace(readings, frame=readings.frame.select(TIME, *columns), channels=(raw,), reference=reference)
