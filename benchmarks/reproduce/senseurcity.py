"""SensEURCity, the paper's data set (Zenodo record 7669644): reader, window rules and sensor splits.

Each box carries a PMS5003 (the sensor to calibrate) and an OPC-N3 (the paper's reference). While it stands at a
reference site, its rows also have the values of that site's monitors.

Paper gap: the scripts that cut out the first co-location are unreleased; here it is the first unbroken stay at one
`_REF_` site. An empty Location.ID (a box in the field) ends a stay. A box that is never at such a site is left out.
Paper gap: "missing values dropped" here drops rows where the sensor or the reference of this pollutant is missing.
Paper gap: rows may repeat a time; the first in the file is kept.
Paper gap: the split is called alphabetical but follows the list order of the code; both orders are available.
"""

import logging
import zlib
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path, PurePath
from zipfile import BadZipFile, ZipFile

import numpy as np
import polars as pl

from scare.data.readings import REFERENCE, TIME, Channel, Readings
from scare.errors import DataError

logger = logging.getLogger(__name__)

UNIT = "ug/m3"
DATE, LOCATION, REFERENCE_SITE = "date", "Location.ID", "_REF_"


class City(StrEnum):
    """The three cities, as file names spell them."""

    ANTWERP = "Antwerp"
    OSLO = "Oslo"
    ZAGREB = "Zagreb"


class Pollutant(StrEnum):
    """Particulate matter up to 10, 2.5 and 1 micrometres."""

    PM10 = "PM10"
    PM25 = "PM25"
    PM1 = "PM1"


class ReferenceKind(StrEnum):
    """The reference: the OPC-N3 in the same box (as in the paper) or the site's monitor."""

    OPC = "opc"
    MONITOR = "monitor"


class SensorOrder(StrEnum):
    """How sensors are listed: the last one is for testing, the one before it for validation."""

    PUBLISHED = "published"
    ALPHABETICAL = "alphabetical"


class WindowRule(StrEnum):
    """Which windows are valid where rows have gaps."""

    RECENT = "recent"  # on a time grid, with 80 % of the newest hour present (`windowing.windows`)
    TESLA = "tesla"  # consecutive rows, whatever the gaps, as in TESLA's code
    STRICT = "strict"  # consecutive rows that span at most 1.2 times the window


SENSOR_COLUMNS = {Pollutant.PM10: "5310CAT", Pollutant.PM25: "5325CAT", Pollutant.PM1: "5301CAT"}
REFERENCE_COLUMNS = {
    ReferenceKind.OPC: {
        Pollutant.PM10: "OPCN3PM10",
        Pollutant.PM25: "OPCN3PM25",
        Pollutant.PM1: "OPCN3PM1",
    },
    ReferenceKind.MONITOR: {
        Pollutant.PM10: "Ref.PM10",
        Pollutant.PM25: "Ref.PM2.5",
        Pollutant.PM1: "Ref.PM1",
    },
}
PUBLISHED_LISTS = {
    City.ANTWERP: """
        402B00 4043AE 4043B1 4047CD 4047DD 4047E0 4047E7 4049A6 4065D0 4065D3
        4065DA 4065DD 4065E0 4065E3 4065EA 4067B0 4067B3 4067BA 4067BD 40623F
        40641B 40642B 402723 406246 406249 406424 408165 408168 408175 408178
    """,
    City.OSLO: """
        64A291 64CB6D 64CB70 64CB78 64E9C5 425FB3 647D5A 648B91 651EF5 651EFC 652A32
        652D3A 652FA4 652FAF 6517DD 40817F 40642E 426178 649312 649526 653257
    """,
    City.ZAGREB: """
        64C52B 64C225 652A38 652FA1 4047D0 40641E 42816D 64876B 64876C 427906 428164 648157 648169 649738
    """,
}
SENSORS = {city: published.split() for city, published in PUBLISHED_LISTS.items()}


def split_sensors(city: City, order: SensorOrder = SensorOrder.PUBLISHED) -> tuple[list[str], str, str]:
    """Return a city's training sensors, its validation sensor and its test sensor.

    >>> split_sensors(City.ZAGREB)[1:]
    ('648169', '649738')
    >>> split_sensors(City.ZAGREB, SensorOrder.ALPHABETICAL)[1:]
    ('652A38', '652FA1')
    """
    sensors = SENSORS[city] if order == SensorOrder.PUBLISHED else sorted(SENSORS[city])
    return sensors[:-2], sensors[-2], sensors[-1]


def split_readings(
    readings: Sequence[Readings], city: City, order: SensorOrder = SensorOrder.PUBLISHED
) -> tuple[list[Readings], Readings, Readings]:
    """Split readings by `split_sensors`; training sensors without readings are skipped with a warning."""
    by_device = {box.device: box for box in readings}
    training, validation, test = split_sensors(city, order)
    for role, sensor in (("validation", validation), ("test", test)):
        if sensor not in by_device:
            raise DataError(f"no readings of {city} {sensor}, the {role} sensor of the {order} split; add its file")
    missing = [sensor for sensor in training if sensor not in by_device]
    if missing:
        logger.warning("%s: no readings of training sensors %s", city, ", ".join(missing))
    present = [by_device[sensor] for sensor in training if sensor in by_device]
    return present, by_device[validation], by_device[test]


def tesla_windows(times: np.ndarray, window: int) -> np.ndarray:
    """Return the newest row of each window that TESLA's code accepts, int [windows], for `times` in seconds [rows].

    The span it tests reaches one row beyond the window, so the last row is never a target. The longest span it
    allows is years for 360 rows, so gaps pass: it rejects only windows of rows less than a minute apart.

    >>> tesla_windows(np.array([0, 60, 120, 9000, 9060]), window=2)
    array([1, 2, 3])
    """
    minutes = (times[window:] - times[:-window]) / 60
    longest = window * 6 // 5 * 15000  # in minutes, as in TESLA's code
    return np.flatnonzero((minutes >= window) & (minutes <= longest)) + window - 1


def strict_windows(times: np.ndarray, window: int) -> np.ndarray:
    """Return the newest row of each window that spans at most 1.2 minutes per row, int [windows]: no long gaps.

    >>> strict_windows(np.array([0, 60, 120, 9000, 9060]), window=2)
    array([1, 2, 4])
    """
    oldest = times[: max(len(times) - window + 1, 0)]
    longest = 72 * window  # 1.2 minutes per row, in seconds
    return np.flatnonzero(times[window - 1 :] - oldest <= longest) + window - 1


def complete_rows(readings: Readings) -> Readings:
    """Return the rows in which neither a sensor value nor the reference is missing."""
    return readings.rows(~np.isnan(readings.values).any(axis=1) & ~np.isnan(readings.targets))


def close_gaps(readings: Readings, rule: WindowRule, window: int) -> Readings:
    """Move the complete rows to consecutive time steps, so that any `window` of them form a window without gaps.

    A row keeps its reference only if `rule` accepts the window that ends there, judged by the original times.
    """
    rows = complete_rows(readings)
    ends = {WindowRule.TESLA: tesla_windows, WindowRule.STRICT: strict_windows}[rule](rows.times, window)
    targets = np.full(len(rows), np.nan)
    targets[ends] = rows.targets[ends]
    elapsed = pl.Series(np.rint(np.arange(len(rows)) * rows.step_seconds * 1e6).astype(np.int64))
    times = rows.frame[TIME][0] + elapsed.cast(pl.Duration("us")) if len(rows) else rows.frame[TIME]
    columns = times.alias(TIME), pl.Series(REFERENCE, targets)
    return replace(rows, frame=rows.frame.with_columns(*columns))


def read_senseurcity(
    path: Path | str,
    city: City,
    pollutant: Pollutant,
    reference: ReferenceKind = ReferenceKind.OPC,
) -> list[Readings]:
    r"""Read the first co-location of each listed sensor of a city, in list order, with missing values kept.

    `path` is the record's zip, or a folder with its files at any depth; files of other sensors are ignored.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "Oslo_64A291.csv").write_text(
    ...     "date,Location.ID,5310CAT,OPCN3PM10\n"
    ...     "2020-09-11T09:11:00Z,OSL_REF_KVN,12.5,10\n"
    ...     "2020-09-11T09:12:00Z,,3,\n")
    >>> for readings in read_senseurcity(folder, City.OSLO, Pollutant.PM10):
    ...     print(readings.device, readings.site, readings.values, readings.targets)
    64A291 OSL_REF_KVN [[12.5]] [10.]
    """
    path = Path(path)
    channel = Channel(SENSOR_COLUMNS[pollutant], UNIT)
    truth = Channel(REFERENCE_COLUMNS[reference][pollutant], UNIT)
    colocations = []
    for sensor, member in _find_members(path, city).items():
        table = _parse(_read_member(path, member), PurePath(member).name, [channel.name, truth.name])
        rows = table.drop_nulls(DATE).unique(DATE, keep="first", maintain_order=True).sort(DATE)
        numbered = rows.with_columns(pl.col(LOCATION).rle_id().alias("stay"))  # a new number whenever the box moves
        at_reference = numbered.filter(pl.col(LOCATION).str.contains(REFERENCE_SITE, literal=True))
        first_stay = at_reference.filter(pl.col("stay") == pl.col("stay").first())
        if first_stay.is_empty():
            logger.warning("%s is left out: the box was never at a reference site", PurePath(member).name)
            continue
        frame = first_stay.rename({DATE: TIME, truth.name: REFERENCE})
        colocations.append(Readings(sensor, frame, (channel,), truth, site=first_stay[LOCATION][0]))
    return colocations


def _parse(content: bytes, name: str, numbers: list[str]) -> pl.DataFrame:
    """Parse a CSV file's date (as UTC), its location and the columns `numbers`; `name` is the file's, for messages."""
    columns = [DATE, LOCATION, *numbers]
    types = {DATE: pl.String, LOCATION: pl.String} | dict.fromkeys(numbers, pl.Float64)
    try:
        header = pl.read_csv(content, n_rows=0).columns
        missing = [column for column in columns if column not in header]
        if missing:
            raise DataError(f"{name} has no column {', '.join(missing)}")
        table = pl.read_csv(content, columns=columns, schema_overrides=types, null_values=["NA"])
        return table.with_columns(pl.col(DATE).str.to_datetime(time_unit="us", time_zone="UTC"))
    except pl.exceptions.PolarsError as error:
        raise DataError(f"cannot read {name}: {str(error).splitlines()[0]}") from error


def _find_members(path: Path, city: City) -> dict[str, str]:
    """Find the file of each of the city's `SENSORS`, as a path inside the zip or folder, in the order of that list."""
    try:
        if path.is_dir():
            members = [str(file.relative_to(path)) for file in path.rglob("*.csv")]
        else:
            with ZipFile(path) as archive:
                members = archive.namelist()
    except BadZipFile as error:
        raise DataError(f"{path} is not a complete zip archive; download it again") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    sensors = {f"{city}_{sensor}.csv": sensor for sensor in SENSORS[city]}
    file_of_sensor: dict[str, str] = {}
    for member in members:
        sensor = sensors.get(PurePath(member).name)
        if sensor in file_of_sensor:
            raise DataError(
                f"{path} has both {file_of_sensor[sensor]} and {member}; name the folder that holds only one"
            )
        if sensor:
            file_of_sensor[sensor] = member
    if not file_of_sensor:
        raise DataError(
            f"{path} has no file of a {city} sensor, such as {city}_{SENSORS[city][0]}.csv;"
            " name the record's zip or the folder of its files"
        )
    return {sensor: file_of_sensor[sensor] for sensor in SENSORS[city] if sensor in file_of_sensor}


def _read_member(path: Path, member: str) -> bytes:
    try:
        if path.is_dir():
            return (path / member).read_bytes()
        with ZipFile(path) as archive:
            return archive.read(member)
    except (OSError, BadZipFile, EOFError, NotImplementedError, zlib.error) as error:
        raise DataError(f"cannot read {member} in {path}: {error}") from error
