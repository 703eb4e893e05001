"""`scare progress`: how far a co-location is, what to expect if it stopped today, and whether to go on."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from glob import glob
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from scare.cli import options
from scare.cli.config import read_config
from scare.cli.console import STDOUT, emit, note, show_table
from scare.cli.options import DATA, OUTPUT, option
from scare.data.alignment import average
from scare.data.colocation import read_colocation
from scare.data.column_guess import find_time_and_device
from scare.data.column_mapping import ColumnMapping, read_readings
from scare.data.quantities import display_unit
from scare.data.readings import Channel
from scare.data.tables import open_table
from scare.errors import DataError
from scare.live.config import CoLocationSettings
from scare.report.targets import class_label, why_no_target
from scare.scorecard.averages import HOUR
from scare.scorecard.progress import CoLocationProgress, assess_progress
from scare.scorecard.targets import choose_sets
from scare.words import plural


def progress(
    files: options.Files,
    config: options.ConfigFile = None,
    time: options.TimeColumns = "",
    channels: options.Channels = "",
    reference: options.Reference = "",
    reference_file: options.ReferenceFile = "",
    device_column: options.DeviceColumn = "",
    deployment: Annotated[
        list[Path] | None,
        option(DATA, "--deployment", "Readings of the conditions to come: a climate file, last year, the archive."),
    ] = None,
    targets: Annotated[str, option(OUTPUT, "--targets", options.TARGETS_HELP)] = "",
    reference_uncertainty: options.ReferenceUncertainty = "",
    as_json: options.Json = False,
) -> None:
    """Say how far a co-location is, which error and class to expect if it stopped today, and whether to go on.

    Run it again whenever you like while the box stands beside the reference.

    Examples:
      scare progress box.csv --reference-file station.csv
      scare progress box*.csv --reference Ref.NO2 --deployment lastyear.csv --targets cen
    """
    loaded = read_config(config, data=options.columns(time, channels, reference, device_column, reference_file))
    sets = choose_sets(targets) if targets else ()
    readings = read_colocation(files, loaded.config.data, note)
    conditions = _read_conditions(deployment or (), readings[0].channels)
    status = assess_progress(readings, sets, conditions, reference_uncertainty)
    target = readings[0].reference or Channel("")
    advice, rows = _advice(status), _summary(status, display_unit(target.unit))
    if as_json:
        emit({"advice": advice, "summary": rows, **asdict(status)})
    else:
        STDOUT.print(advice, markup=False)
        show_table("The co-location so far", ["", ""], rows)
    for line in status.missing:
        note(f"Missing: {line}.")
    for assessment in status.assessments:
        if assessment.second_hand:
            note(f"{assessment.title}: second-hand, {assessment.second_hand}.")
    graded = {assessment.name for assessment in status.assessments}
    for target_set in sets:
        if target_set.name not in graded:
            note(f"{target_set.title} was not applied. {why_no_target(target, [target_set])}")


def assess_live(files: Sequence[Path], settings: CoLocationSettings) -> dict[str, Any]:
    """Assess the hours that `scare live` keeps, as a run of this command with --json would."""
    loaded = read_config(None, data=options.columns("time", "", settings.reference, "", settings.reference_file))
    readings = read_colocation(files, loaded.config.data, lambda text: None)
    sets = choose_sets(settings.targets) if settings.targets else ()
    status = assess_progress(readings, sets, _find_conditions(settings.deployment, readings[0].channels))
    unit = readings[0].reference.unit if readings[0].reference else ""
    return {"advice": _advice(status), "summary": _summary(status, display_unit(unit)), **asdict(status)}


def _find_conditions(patterns: Sequence[str], channels: Sequence[Channel]) -> Mapping[str, np.ndarray]:
    """Read the files that these patterns find, again only if one has changed."""
    versions: list[tuple[str, int]] = []  # files, and when each was changed [ns]
    for pattern in patterns:
        names = sorted(glob(pattern, recursive=True))
        if not names:
            raise DataError(f"{pattern}: co_location.deployment names it, but there is no such file")
        versions += [(name, Path(name).stat().st_mtime_ns) for name in names]
    return _read_versions(tuple(versions), tuple(channels))


@lru_cache(maxsize=1)
def _read_versions(versions: Sequence[tuple[str, int]], channels: Sequence[Channel]) -> Mapping[str, np.ndarray]:
    """Read files, each with the time when it was changed, so that the cache does not return what a file was before."""
    return _read_conditions([Path(name) for name, _ in versions], channels)


def _advice(status: CoLocationProgress) -> str:
    """Return the advice, to stop or to go on, as a sentence with its reason."""
    more = plural(status.go_on_days or 1, "day")
    return f"{'Stop' if status.stop else f'Go on for at least {more}'}: {status.reason}."


def _read_conditions(files: Sequence[Path], channels: Sequence[Channel]) -> dict[str, np.ndarray]:
    """Read hourly means of the channels that the files have, by channel."""
    parts: dict[str, list[np.ndarray]] = {}
    for file in files:
        present = [channel for channel in channels if channel.name in open_table(file).columns]
        if not present:
            names = ", ".join(channel.name for channel in channels)
            raise DataError(f"{file}: it has none of the columns {names}; call its columns as those of the sensor")
        times, device = find_time_and_device(file)
        mapping = ColumnMapping(times, tuple(present), None, device, sort=True)
        for box in read_readings(file, mapping):
            hourly = average(box, HOUR) if box.step_seconds < HOUR else box
            for index, channel in enumerate(present):
                parts.setdefault(channel.name, []).append(hourly.values[:, index])
    return {name: np.concatenate(values) for name, values in parts.items()}


def _summary(status: CoLocationProgress, unit: str) -> list[list[str]]:
    """Return what the advice is based on, as rows of a label and a value."""
    captured = f"{status.hours:,} of {plural(status.devices, 'device')} ({100 * status.capture:.0f} %)"
    rows = [["days", f"{status.days:.1f}"], ["hours with sensor and reference", captured]]
    if status.error is not None:
        interval = f"{status.error:.3g} {unit} (80 %: {status.low:.3g} to {status.high:.3g})"
        rows.append(["expected error of hourly means if stopped today", interval])
        rows.append(["estimated with", status.family])
    if status.in_a_week is not None:
        rows.append(["after another week", f"{status.in_a_week:.3g} {unit}"])
    if status.raw_error is not None:
        rows.append(["error of the sensor as it reads", f"{status.raw_error:.3g} {unit}"])
    for condition in status.conditions:
        rows.append([f"conditions seen: {condition.name}", f"{100 * condition.share:.0f} %"])
    return rows + _class_rows(status)


def _class_rows(status: CoLocationProgress) -> list[list[str]]:
    """Return a row for each device and set of targets: class, uncertainty, and how sure the class is."""
    rows: list[list[str]] = []
    for assessment in status.assessments:
        mark = " (second-hand)" if assessment.second_hand else ""
        for device in assessment.devices:
            value = device.values.get("uncertainty")
            uncertainty = ""
            if value and assessment.limit:
                limit = f"{assessment.limit:.3g} {display_unit(assessment.unit)}"
                uncertainty = f", U {100 * value:.0f} % at {limit}"
            beyond = ", extrapolated" if assessment.beyond(device) else ""
            label = class_label(device.reached, assessment) if device.reached else "not judged"
            reached = f"{label}{mark}{uncertainty}{beyond}; {device.certainty or 'too few averages'}"
            rows.append([f"{assessment.title}, {device.device}", reached])
    return rows
