"""The tasks of the paper: a split of readings for each city and pollutant, of SensEURCity or simulated in its place."""

from dataclasses import replace
from pathlib import Path

import polars as pl

from scare.data.flags import flag, without_unusable_references
from scare.data.readings import REFERENCE, TIME, Readings
from scare.data.senseurcity import City, Pollutant, complete_rows, read_senseurcity, split_readings
from scare.data.simulate import Simulation, simulate
from scare.data.split import Split, split_by_device
from scare.errors import UsageError
from scare.experiments.reproduction.protocol import Protocol

LEVELS = {Pollutant.PM10: 1.0, Pollutant.PM25: 0.6, Pollutant.PM1: 0.4}  # of simulated PM


def make_split(protocol: Protocol, data: Path | None, city: City, pollutant: Pollutant) -> Split:
    """Training sensors, then one for validation, then one for test, as the paper splits; one channel."""
    if data is None:
        return split_by_device([_prepared(one, protocol) for one in _simulate(protocol, city, pollutant)])
    readings = [_prepared(complete_rows(one), protocol) for one in read_senseurcity(data, city, pollutant)]
    train, validation, test = split_readings([one for one in readings if len(one) > protocol.window], city)
    how = f"by sensor, in the published order: validation {validation.device}; test {test.device}"
    return Split(tuple(train), (validation,), (test,), how)


def _simulate(protocol: Protocol, city: City, pollutant: Pollutant) -> list[Readings]:
    """Boxes of one channel in air of their own for each city and pollutant."""
    numbers = list(City).index(city), list(Pollutant).index(pollutant)
    seed = 100 * protocol.simulation["seed"] + 10 * numbers[0] + numbers[1]
    try:
        simulation = Simulation(**{**protocol.simulation, "seed": seed})
    except TypeError as error:
        raise UsageError(f"[stand-in] simulation: {error}") from error
    return [_named(one, pollutant) for one in simulate(simulation)]


def _named(readings: Readings, pollutant: Pollutant) -> Readings:
    """The first channel, in whole units as the sensor gives them, and the reference, at a pollutant's level."""
    level, simulated = LEVELS[pollutant], readings.channels[0]
    raw, reference = (replace(simulated, name=f"{pollutant.lower()}_{what}") for what in ("raw", "reference"))
    columns = (pl.col(simulated.name) * level).round().alias(raw.name), (pl.col(REFERENCE) * level).round(1)
    return replace(readings, frame=readings.frame.select(TIME, *columns), channels=(raw,), reference=reference)


def _prepared(readings: Readings, protocol: Protocol) -> Readings:
    newest = readings.frame.tail(protocol.most_rows) if protocol.most_rows else readings.frame
    return flag(without_unusable_references(replace(readings, frame=newest)))
