"""`scare fetch` and `scare data`: public archives of sensors and reference stations, and the paper's data."""

from collections.abc import Iterable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from scare.cli.console import emit, note, progress
from scare.cli.options import Json, split_names
from scare.data.download import ZENODO, RecordFile, download_record
from scare.data.fetch import (
    SOURCES,
    FetchRequest,
    FetchSource,
    Read,
    SearchArea,
    airnow_files,
    fetch,
    find_airnow_stations,
    openaq_files,
    read_airnow,
    read_openaq,
    read_purpleair,
    read_sensor_community,
    read_source,
    sensor_community_files,
    write_months,
    write_sidecar,
)
from scare.data.readings import TIME
from scare.errors import UsageError

SENSEURCITY = "7669644"  # record of the paper's data on Zenodo

app = typer.Typer(help="Fetch public archives of sensors and reference stations.", no_args_is_help=True)
data_app = typer.Typer(help="Download public co-location data.", no_args_is_help=True)
Devices = Annotated[list[str] | None, typer.Argument(help="IDs of locations, sensors or stations.")]
Out = Annotated[Path, typer.Option("--out", help="Folder for the readings; run again to resume.")]
From = Annotated[str, typer.Option("--from", help="First day: 2026-01-01.")]
To = Annotated[str, typer.Option("--to", help="Last day.")]
Near = Annotated[str, typer.Option("--near", help="Search around LAT,LON instead of IDs.")]
Within = Annotated[float, typer.Option("--within", min=0, help="Radius of the search, in km.")]
Sources = Annotated[Path, typer.Option("--sources", help="TOML file with other addresses.", show_default="built in")]


@app.command()
def openaq(
    out: Out,
    first: From,
    last: To,
    locations: Devices = None,
    near: Near = "",
    within: Within = 5.0,
    sources: Sources = SOURCES,
    as_json: Json = False,
) -> None:
    """Fetch from OpenAQ's archive, without a key; only --near needs one (OPENAQ_API_KEY).

    It has reference stations and low-cost sensors: check which one a location is before you use it as a reference.

    Examples:
      scare fetch openaq 2178 --from 2022-05-01 --to 2022-05-31 --out openaq
    """
    request, source = _request(locations, first, last, near, within), read_source("openaq", sources)
    files, read = openaq_files(request, source), partial(read_openaq, source=source)
    _fetch("openaq", source, files, read, request, out, as_json)


@app.command("sensor-community")
def sensor_community(
    out: Out,
    first: From,
    last: To,
    sensors: Devices = None,
    near: Near = "",
    within: Within = 5.0,
    sources: Sources = SOURCES,
    as_json: Json = False,
) -> None:
    """Fetch from Sensor.Community's archive, which has one file per sensor and day.

    Examples:
      scare fetch sensor-community 12345 12346 --from 2023-01-01 --to 2023-01-31 --out sensors
      scare fetch sensor-community --near 48.78,9.18 --within 3 --from 2023-01-01 --to 2023-01-07 --out sensors
    """
    request, source = _request(sensors, first, last, near, within), read_source("sensor-community", sources)
    files, read = sensor_community_files(request, source), partial(read_sensor_community, source=source)
    _fetch("sensor-community", source, files, read, request, out, as_json)


@app.command()
def airnow(
    out: Out,
    first: From,
    last: To,
    stations: Devices = None,
    near: Near = "",
    within: Within = 25.0,
    aqs: Annotated[str, typer.Option("--aqs", help="AQS codes (88101,44201): use EPA's yearly files.")] = "",
    sources: Sources = SOURCES,
    as_json: Json = False,
) -> None:
    """Fetch U.S. reference stations: AirNow's hourly files, or EPA's yearly ones (--aqs).

    Examples:
      scare fetch airnow 060371103 --from 2023-01-01 --to 2023-01-31 --out airnow
      scare fetch airnow 060371103 --aqs 88101 --from 2022-01-01 --to 2022-12-31 --out aqs
    """
    request, source = _request(stations, first, last, near, within), read_source("airnow", sources)
    # A station's code has nine digits: AQS writes 06-037-1103, others put the country before it, 840060371103.
    named = frozenset(device.replace("-", "")[-9:] for device in request.devices)
    codes = named | find_airnow_stations(request, source).keys()
    if not codes:
        raise UsageError(f"there is no station within {within:g} km of {near}; search farther with --within")
    files = airnow_files(request, source, split_names(aqs) if aqs else ())
    read = partial(read_airnow, source=source, stations=codes)
    _fetch("airnow", source, files, read, request, out, as_json)


@app.command()
def purpleair(
    files: Annotated[list[Path], typer.Argument(help="CSV files from PurpleAir's download tool.")],
    out: Out,
    sources: Sources = SOURCES,
    as_json: Json = False,
) -> None:
    """Convert files downloaded from PurpleAir to the layout of the other `scare fetch` commands.

    Examples:
      scare fetch purpleair '12345 2023-01-01 2023-02-01 0-Minute Average.csv' --out purpleair
    """
    source = read_source("purpleair", sources)
    rows = pl.concat([read_purpleair(file, source) for file in files], how="diagonal_relaxed")
    months = rows.with_columns(pl.col(TIME).dt.strftime("%Y-%m").alias("month")).partition_by("month", as_dict=True)
    by_month = ((str(month), frame.drop("month")) for (month,), frame in months.items())
    _print_result("purpleair", source, write_months(by_month, out), out, as_json)


def _request(devices: list[str] | None, first: str, last: str, near: str, within: float) -> FetchRequest:
    """Parse the options that all archives share."""
    return FetchRequest(tuple(devices or ()), _day(first, "--from"), _day(last, "--to"), _place(near, within))


def _day(text: str, option: str) -> date:
    """Parse a day, the value of an option."""
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{option} takes a day like 2026-01-31, not '{text}'") from error


def _place(near: str, within: float) -> SearchArea | None:
    """Parse the value of --near, LAT,LON; `within` is the radius in km."""
    if not near:
        return None
    try:
        latitude, longitude = map(float, near.split(","))
    except ValueError as error:
        raise UsageError(f"--near takes LAT,LON in degrees, such as 48.78,9.18, not '{near}'") from error
    if abs(latitude) > 90 or abs(longitude) > 180:
        raise UsageError(f"--near {near} is out of range: latitude goes from -90 to 90, longitude from -180 to 180")
    return SearchArea(latitude, longitude, within)


def _fetch(
    name: str,
    source: FetchSource,
    files: Iterable[tuple[str, RecordFile]],
    read: Read,
    request: FetchRequest,
    out: Path,
    as_json: bool,
) -> None:
    """Download the (month, file) pairs of a source with a progress bar, write them by device and month, and report."""
    with progress("fetching", "file") as (bar, task):

        def report(done: int, total: int, file: str) -> None:
            bar.update(task, completed=done, total=total, file=f"{file} {done >> 10:,} of {total >> 10:,} kB")

        try:
            summary = write_months(fetch(files, read, out, report), out, request)
        except KeyboardInterrupt:
            note(f"Downloaded files stay in {out}. Run the same command to resume.")
            raise
    _print_result(name, source, summary, out, as_json)


def _print_result(name: str, source: FetchSource, summary: dict[str, Any], out: Path, as_json: bool) -> None:
    """Write the sidecar file and print what was fetched; `summary` is what `write_months` returns."""
    sidecar = write_sidecar(out, name, source, summary)
    if as_json:
        emit({"folder": str(out), "sidecar": str(sidecar), "devices": summary["rows"]})
    rows = summary["rows"]
    note(f"Wrote {sum(rows.values()):,} rows of {len(rows):,} devices to {out}. Licence: {source.licence}")


@data_app.callback()
def data() -> None:
    """Download public co-location data."""
    # Typer runs an app of a single command without its name; with a callback it stays `scare data senseurcity`.


@data_app.command()
def senseurcity(
    out: Annotated[Path, typer.Option("--out", help="Folder for the files.")],
    server: Annotated[str, typer.Option("--server", help="Server of the records.")] = ZENODO,
    as_json: Json = False,
) -> None:
    """Download SensEURCity (Antwerp, Oslo, Zagreb), the paper's data; run again to resume.

    Examples:
      scare data senseurcity --out senseurcity
    """
    with progress("downloading", "file") as (bar, task):

        def report(done: int, total: int, name: str) -> None:
            bar.update(task, completed=done, total=total, file=f"{name} {done >> 20:,} of {total >> 20:,} MB")

        try:
            files = download_record(SENSEURCITY, out, server, report)
        except KeyboardInterrupt:
            note(f"Downloaded files stay in {out}. Run the same command to resume.")
            raise
    if as_json:
        emit({"files": [str(file) for file in files]})
    note(f"{len(files)} files are in {out}.")
