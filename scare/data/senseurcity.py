"""SensEURCity, the data of the paper (Zenodo record 7669644): reader, window protocols and sensor splits.

Each box carries a PMS5003 (to calibrate), an OPC-N3 (the paper's reference) and, while it stands at a
reference site, the values of that site's monitors. Comes from `download`; goes to `windowing`.

Paper gap: unreleased scripts cut the first co-location; here: the first unbroken stay at one `_REF_` site.
Paper gap: an empty Location.ID (a box in the field) ends a stay; a box never at a `_REF_` site is left out.
Paper gap: "missing values dropped" is taken as sensor or reference missing, of the pollutant at hand only.
Paper gap: of rows with the same time, the first in the file counts.
Paper gap: the split is called alphabetical but follows the list order of the code; both orders are here.
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

RECORD = "7669644"
UNIT = "ug/m3"
DATE, LOCATION, REFERENCE_SITE = "date", "Location.ID", "_REF_"


class City(StrEnum):
    """The three cities, as their files are named."""

    ANTWERP = "Antwerp"
    OSLO = "Oslo"
    ZAGREB = "Zagreb"


class Pollutant(StrEnum):
    """Particulate matter up to 10, 2.5 and 1 micrometres."""

    PM10 = "PM10"
    PM25 = "PM25"
    PM1 = "PM1"


class ReferenceKind(StrEnum):
    """The reference: the OPC-N3 in the same box (as in the paper) or the monitor of the site."""

    OPC = "opc"
    MONITOR = "monitor"


class SensorOrder(StrEnum):
    """The order of the list whose last sensor is for testing and the one before it for validation."""

    PUBLISHED = "published"
    ALPHABETICAL = "alphabetical"


class WindowRule(StrEnum):
    """How windows are cut from rows with gaps."""

    RECENT = "recent"  # by time, 80 % of the newest hour there (`windowing.grid`)
    TESLA = "tesla"  # by rows, whatever the gaps, as in TESLA's code
    STRICT = "strict"  # by rows that span at most 1.2 times the window


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
    """List the training sensors, the validation sensor and the test sensor of a city.

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
    """Split readings into those of the training sensors that exist, the validation sensor and the test sensor."""
    by_device = {one.device: one for one in readings}
    training, validation, test = split_sensors(city, order)
    for role, sensor in (("validation", validation), ("test", test)):
        if sensor not in by_device:
            raise DataError(f"no readings of {city} {sensor}, the {role} sensor of the {order} split")
    missing = [sensor for sensor in training if sensor not in by_device]
    if missing:
        logger.warning("%s: no readings of training sensors %s", city, ", ".join(missing))
    there = [by_device[sensor] for sensor in training if sensor in by_device]
    return there, by_device[validation], by_device[test]


def tesla_windows(times: np.ndarray, window: int) -> np.ndarray:
    """The newest row of each window that TESLA's code accepts, int [windows], for `times` in seconds [rows].

    The span it tests reaches one row beyond the window, so the last row is never a target. Its upper bound is
    years for 360 rows, so gaps pass; only windows of rows denser than one a minute are rejected.

    >>> tesla_windows(np.array([0, 60, 120, 9000, 9060]), window=2)
    array([1, 2, 3])
    """
    minutes = (times[window:] - times[:-window]) / 60
    longest = window * 6 // 5 * 15000
    return np.flatnonzero((minutes >= window) & (minutes <= longest)) + window - 1


def strict_windows(times: np.ndarray, window: int) -> np.ndarray:
    """The newest row of each window that spans at most 1.2 minutes per row, int [windows]; gaps are rejected.

    >>> strict_windows(np.array([0, 60, 120, 9000, 9060]), window=2)
    array([1, 2, 4])
    """
    oldest = times[: max(len(times) - window + 1, 0)]
    return np.flatnonzero(times[window - 1 :] - oldest <= 72 * window) + window - 1


def complete_rows(readings: Readings) -> Readings:
    """The rows with both sensor and reference, to which the window protocols apply."""
    return readings.rows(~np.isnan(readings.values).any(axis=1) & ~np.isnan(readings.targets))


def close_gaps(readings: Readings, rule: WindowRule, window: int) -> Readings:
    """The complete rows as if each came one step after the one before it: any `window` rows in a row are a window.

    References are left where the rule accepts the window that ends there, by the times that the rows really had.
    """
    rows = complete_rows(readings)
    ends = {WindowRule.TESLA: tesla_windows, WindowRule.STRICT: strict_windows}[rule](rows.times, window)
    targets = np.full(len(rows), np.nan)
    targets[ends] = rows.targets[ends]
    since = pl.Series(np.rint(np.arange(len(rows)) * rows.step_seconds * 1e6).astype(np.int64))
    times = rows.frame[TIME][0] + since.cast(pl.Duration("us")) if len(rows) else rows.frame[TIME]
    columns = times.alias(TIME), pl.Series(REFERENCE, targets)
    return replace(rows, frame=rows.frame.with_columns(*columns))


def read_senseurcity(
    path: Path | str,
    city: City,
    pollutant: Pollutant,
    reference: ReferenceKind = ReferenceKind.OPC,
) -> list[Readings]:
    r"""The first co-location of each listed sensor of a city, in list order, missing values kept.

    `path` is the zip or a folder with the original files, at any depth; files of other sensors are ignored.

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
        stay = _first_stay(table)
        if stay.is_empty():
            logger.warning("%s left out: it never stays at a reference site", PurePath(member).name)
            continue
        frame = stay.rename({DATE: TIME, truth.name: REFERENCE})
        colocations.append(Readings(sensor, frame, (channel,), truth, site=stay[LOCATION][0]))
    return colocations


def _first_stay(table: pl.DataFrame) -> pl.DataFrame:
    rows = table.drop_nulls(DATE).unique(DATE, keep="first", maintain_order=True).sort(DATE)
    rows = rows.with_columns(pl.col(LOCATION).rle_id().alias("stay"))
    rows = rows.filter(pl.col(LOCATION).str.contains(REFERENCE_SITE, literal=True))
    return rows.filter(pl.col("stay") == pl.col("stay").first())


def _parse(content: bytes, name: str, numbers: list[str]) -> pl.DataFrame:
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
    sensors = {f"{city}_{sensor}.csv": sensor for sensor in SENSORS[city]}
    found: dict[str, str] = {}
    for member in _list_members(path):
        sensor = sensors.get(PurePath(member).name)
        if sensor in found:
            raise DataError(f"{path} holds both {found[sensor]} and {member}; give the folder of one of them")
        if sensor:
            found[sensor] = member
    if not found:
        raise DataError(
            f"no file of a listed sensor, such as {city}_{SENSORS[city][0]}.csv, in {path};"
            " give the zip of the record or the folder of its files"
        )
    return {sensor: found[sensor] for sensor in SENSORS[city] if sensor in found}


def _list_members(path: Path) -> list[str]:
    if path.is_dir():
        return [str(file.relative_to(path)) for file in path.rglob("*.csv")]
    try:
        with ZipFile(path) as archive:
            return archive.namelist()
    except BadZipFile as error:
        raise DataError(f"{path} is not a complete zip archive; download it again") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error


def _read_member(path: Path, member: str) -> bytes:
    try:
        if path.is_dir():
            return (path / member).read_bytes()
        with ZipFile(path) as archive:
            return archive.read(member)
    except (OSError, BadZipFile, EOFError, NotImplementedError, zlib.error) as error:
        raise DataError(f"cannot read {member} in {path}: {error}") from error
