"""`scare network`: calibrate a fleet through who stood beside whom, and plan the next encounters."""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from scare.archive.input_files import find_files
from scare.calibrator.calibrator import Calibrator
from scare.cli import options
from scare.cli.console import emit, note, progress, show_table
from scare.data.column_guess import find_time_and_device
from scare.data.column_mapping import ColumnMapping, read_readings
from scare.data.readings import CALIBRATED, TIME, Channel, Readings
from scare.data.simulated_city import Journey, deploy, simulate_city, write_city
from scare.data.sites import read_places, read_sites
from scare.data.tables import open_table
from scare.errors import DataError, UsageError
from scare.files import replacing
from scare.report.network_page import describe_age, describe_path, make_map, make_network_page
from scare.schema import load_json, read_toml
from scare.upkeep.network.calibrators import as_it_reads, for_box
from scare.upkeep.network.encounters import EncounterRules
from scare.upkeep.network.fleet import SolvedNetwork, as_dict, solve_network
from scare.upkeep.network.hours import NetworkHours, hourly, with_wind
from scare.upkeep.network.trips import plan_trips
from scare.words import listed

app = typer.Typer(
    help="Calibrate boxes that never stood beside a reference, through those who stood beside whom.",
    no_args_is_help=True,
)
FilesOfBoxes = Annotated[list[str], typer.Argument(help="Readings of the boxes: files, folders or globs in quotes.")]
ReferenceTables = Annotated[
    list[str], typer.Option("--references", help="Readings of the reference instruments. May be repeated.")
]
Stays = Annotated[Path, typer.Option("--sites", help="CSV site,device,from,to: who stood where and when.")]
Places = Annotated[Path, typer.Option("--places", help="CSV site,latitude,longitude,kind: where the sites are.")]
Fleet = Annotated[str, typer.Option("--model", help="The fleet's calibrator, applied first: a .scare file.")]
Column = Annotated[
    str,
    typer.Option(
        "--column", help="Column to compare, if there is no --model.", show_default="calibrated, or the only one"
    ),
]
ReferenceColumn = Annotated[
    str, typer.Option("--reference-column", help="Column of the references.", show_default="the only one")
]
Rules = Annotated[Path | None, typer.Option("--rules", help="TOML with rules for encounters (docs/network.md).")]
SHOWN = 20  # boxes that are printed
Distant = Annotated[
    bool | None,
    typer.Option(
        "--distant/--no-distant",
        help="Compare boxes with stations kilometres away, too.",
        show_default="by the rules: yes",
    ),
]


@app.command("simulate")
def simulate_network(
    out: Annotated[Path, typer.Option("--out", help="Folder to write to.")],
    journey: Annotated[Journey, typer.Option("--journey", help="What kind of network.")] = Journey.STATION,
    boxes: Annotated[int, typer.Option("--boxes", min=2, max=2000, help="How many boxes.")] = 30,
    days: Annotated[float, typer.Option("--days", min=14, help="Days of hourly readings.")] = 90.0,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Write a simulated network: readings, references, stays, places, and the truth of each box.

    Examples:
      scare network simulate --journey station --boxes 30 --out town
      scare network simulate --journey traveller --boxes 20 --out town
    """
    files = write_city(simulate_city(deploy(journey, boxes, days, seed), seed), out)
    if as_json:
        emit({"files": [str(file) for file in files]})
    else:
        note(f"Wrote {listed([file.name for file in files])} to {out}.")


@app.command("solve")
def solve(
    files: FilesOfBoxes,
    references: ReferenceTables,
    sites: Stays,
    places: Places,
    out: Annotated[Path, typer.Option("--out", help="Folder of the results.")],
    model: Fleet = "",
    column: Column = "",
    reference_column: ReferenceColumn = "",
    time: options.TimeColumns = "",
    device_column: options.DeviceColumn = "",
    rules: Rules = None,
    distant: Distant = None,
    as_json: options.Json = False,
) -> None:
    """Calibrate each box through its encounters, with an uncertainty; write calibrators, network.json and a map.

    Examples:
      scare network solve town/readings.csv --references town/references.csv --sites town/stays.csv
      --places town/places.csv --out out/network
    """
    network, fleet = _solve(
        files,
        references,
        sites,
        places,
        model,
        column,
        reference_column,
        time,
        device_column,
        _read_rules(rules, distant),
    )
    described = as_dict(network, fleet.target.unit)
    rows = []
    with progress("writing", "device") as (bar, task):
        bar.update(task, total=len(network.solution.boxes))
        for box in network.solution.boxes:
            if "/" in box or "\\" in box or box.startswith("."):
                raise DataError(f"the box '{box}' cannot name a file; rename it in the readings and in the stays")
            for_box(fleet, network.solution, box).save(out / "calibrators" / f"{box}.scare")
            rows.append((box, f"calibrators/{box}.scare"))
            bar.update(task, advance=1, device=box)
    with replacing(out / "models.csv") as temporary, temporary.open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle).writerows([("device", "model"), *rows])
    with replacing(out / "network.json") as temporary:
        temporary.write_text(json.dumps(described, indent=1, allow_nan=False), encoding="utf-8")
    _write_page(described, out)
    if as_json:
        emit(described)
    else:
        cells = [
            [
                box["device"],
                f"{box['uncertainty']:.3g}",
                describe_age(box["age_days"]),
                f"{box['gain']:.3f}",
                f"{box['intercept']:.3g}",
                box["identified"],
                describe_path(box),
            ]
            for box in described["boxes"][:SHOWN]
        ]
        head = ["box", "uncertainty", "age", "gain", "intercept", "known", "path"]
        show_table("boxes, the most uncertain first", head, cells)
        if len(cells) < len(rows):
            note(f"{len(rows) - len(cells)} more boxes are in {out / 'network.json'}.")
    for sentence in network.notes:
        note(f"Not identifiable: {sentence}.")
    for doubt in network.doubts:
        note(f"Doubtful: {doubt.sentence}.")
    note(f"Wrote {len(rows)} calibrators, models.csv, network.json, network.html and network.svg to {out}.")


@app.command("plan")
def plan(
    files: FilesOfBoxes,
    references: ReferenceTables,
    sites: Stays,
    places: Places,
    trips: Annotated[int, typer.Option("--trips", min=1, help="How many trips to propose.")] = 5,
    days: Annotated[float, typer.Option("--days", min=1, help="How long an encounter lasts.")] = 7.0,
    stay: Annotated[str, typer.Option("--stay", help="Boxes that cannot be carried: box-01,box-02.")] = "",
    model: Fleet = "",
    column: Column = "",
    reference_column: ReferenceColumn = "",
    time: options.TimeColumns = "",
    device_column: options.DeviceColumn = "",
    rules: Rules = None,
    distant: Distant = None,
    as_json: options.Json = False,
) -> None:
    """Propose which box to carry beside which, so that the worst uncertainty falls most with each trip.

    Examples:
      scare network plan town/readings.csv --references town/references.csv --sites town/stays.csv
      --places town/places.csv --trips 3
    """
    network, fleet = _solve(
        files,
        references,
        sites,
        places,
        model,
        column,
        reference_column,
        time,
        device_column,
        _read_rules(rules, distant),
    )
    names = [name for name in network.hours.names if name in network.hours.references]
    fixed = options.split_names(stay) if stay else ()
    if unknown := sorted(set(fixed) - set(network.solution.boxes)):
        raise UsageError(f"--stay names {listed(unknown)}, which the network does not have")
    proposals = plan_trips(network.solution, names, trips, days, fixed)
    if as_json:
        emit({"unit": fleet.target.unit, "trips": [vars(trip) for trip in proposals]})
        return
    show_table(
        f"trips of {days:g} days, the most useful first",
        ["box", "beside", "its uncertainty", "after", "worst of the fleet", "after"],
        [
            [
                trip.box,
                trip.beside,
                *(f"{value:.3g}" for value in (trip.before, trip.after, trip.worst_before, trip.worst_after)),
            ]
            for trip in proposals
        ],
    )
    note("The gain is computed for encounters like those so far, as if they took place at the end of the readings.")


@app.command("report")
def report(folder: Annotated[Path, typer.Argument(help="Folder that scare network solve has written.")]) -> None:
    """Make the map and the table of a solved network again, as one offline page.

    Examples:
      scare network report out/network
    """
    _write_page(load_json(folder / "network.json"), folder)
    note(f"Wrote {folder / 'network.html'}, which opens in any browser, even offline, and network.svg, its map.")


def _write_page(described: dict[str, Any], out: Path) -> None:
    """Write the page and the map of a network, described as in network.json, to a folder."""
    for name, text in (("network.html", make_network_page(described)), ("network.svg", make_map(described))):
        with replacing(out / name) as temporary:
            temporary.write_text(text, encoding="utf-8")


def _solve(
    files: Sequence[str],
    references: Sequence[str],
    sites: Path,
    places: Path,
    model: str,
    column: str,
    reference_column: str,
    time: str,
    device_column: str,
    rules: EncounterRules,
) -> tuple[SolvedNetwork, Calibrator]:
    """Read and solve a network; also return the calibrator of the fleet.

    The network corrects the calibrator's values for each box, by a gain and an intercept. Without a `model`, the
    calibrator returns the compared column as it is.
    """
    if model and column:
        raise UsageError("--column is for networks without --model: a model states what it reads")
    reference_series = [
        (box, Channel(name, box.channels[0].unit))
        for box, name in _read(references, (reference_column,) if reference_column else (), time, device_column)
    ]
    stations = {box.device for box, _ in reference_series}
    tables = [(box.device, box.frame.rename({channel.name: CALIBRATED})) for box, channel in reference_series]
    fleet = options.open_calibrator(model) if model else None
    columns: tuple[str, ...] = (column,) if column else ()
    if fleet:
        columns = tuple(channel.name for channel in fleet.inputs.channels)
    steps: list[float] = []  # seconds between readings, of each box
    compared = None  # the column that is compared without a model
    with progress("reading", "device") as (bar, task):
        for box, name in _read(files, columns, time, device_column):
            if box.device in stations:
                raise DataError(f"'{box.device}' is among the boxes and among the references; rename one of them")
            frame = fleet.predict(box) if fleet else box.frame.rename({name: CALIBRATED})
            tables.append((box.device, frame.select(TIME, CALIBRATED)))
            compared = compared or Channel(name)
            steps += [box.step_seconds] if len(box) > 1 else []
            bar.update(task, advance=1, device=box.device)
    if fleet is None:
        if compared is None or not steps:
            raise DataError(f"{', '.join(files)}: no box has two readings")
        _, reference = reference_series[0]
        fleet = as_it_reads(compared, Channel("calibrated", reference.unit), median(steps))
    hours = hourly(((name, frame.select(TIME, CALIBRATED)) for name, frame in tables), CALIBRATED, stations)
    if rules.wind_column:
        hours = with_wind(hours, _read_wind([*references, *files], rules.wind_column, time, device_column))
    return solve_network(hours, read_sites(sites), read_places(places), rules), fleet


def _read_rules(path: Path | None, distant: bool | None) -> EncounterRules:
    rules = read_toml(path, EncounterRules) if path else EncounterRules()
    return rules if distant is None else replace(rules, distant=distant)


def _read(
    places: Sequence[str], columns: Sequence[str], time: str, device_column: str
) -> Iterator[tuple[Readings, str]]:
    """Yield the readings of each device in each file, with the name of the first column."""
    for file in find_files(places):
        times, guessed_column = find_time_and_device(Path(file.path), options.split_names(time) if time else ())
        devices = device_column or guessed_column
        names = tuple(columns) or (_only_column(file.path, (*times, devices)),)
        mapping = ColumnMapping(times, tuple(map(Channel, names)), None, devices, sort=True)
        for box in read_readings(Path(file.path), mapping, file.device or None):
            yield box, names[0]


def _read_wind(places: Sequence[str], column: str, time: str, device_column: str) -> NetworkHours:
    """Return the hourly wind of the instruments whose tables have this column."""
    having = [file.path for file in find_files(places) if column in open_table(Path(file.path)).columns]
    if not having:
        raise DataError(f"the rules state wind_column = '{column}', which no table of references or boxes has")
    return hourly(((box.device, box.frame) for box, _ in _read(having, (column,), time, device_column)), column)


def _only_column(path: str, labels: Sequence[str]) -> str:
    """Return `calibrated`, or the only column that is not among the `labels`, those of time and device."""
    names = [name for name in open_table(Path(path)).columns if name not in labels]
    if CALIBRATED in names:
        return CALIBRATED
    if len(names) != 1:
        raise UsageError(f"{path}: which column is to be compared? Name it with --column: {', '.join(names)}")
    return names[0]
