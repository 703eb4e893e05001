"""Updating from co-location sessions: half of the time trains, then one day at the reference every two weeks.

A second part transfers a calibrator to a new box after hours next to the reference.

    python -m benchmarks.continual [--data FOLDER] [--tasks Denver,simulated] [--work out/continual]
        [--out docs/benchmarks/continual.md] [--json]

Without --data only simulated fleets are run. What is fitted stays in `--work` and is not fitted again.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.accuracy_tasks import load_tasks
from benchmarks.continual_page import page
from scare.baselines.classical import linear_regression
from scare.calibrator.calibrator import Calibrator
from scare.data.readings import CALIBRATED, REFERENCE, Readings
from scare.data.simulate import Simulation, SimulationKind, simulate
from scare.data.simulated_air import Drift, DriftKind
from scare.data.split import reference_times
from scare.errors import DataError
from scare.experiments.suite_tasks import SuiteTask, read_task, split_task
from scare.files import replacing
from scare.training.fit import fit
from scare.training.recipe import Recipe
from scare.upkeep.update import adopt, update

DAY = 86400.0
EVERY, LENGTH = 14 * DAY, DAY  # seconds from one co-location session to the next; length of a session
STEPS, SEED = 600, 0  # training steps and random seed of every fit: a short training
NEVER, UPDATED, FULL, LINE = "never updated", "updated", "retrained in full", "retrained line"
REAL = ("Denver PM2.5", "QUANT NO2", "QUANT O3")
LOOKED_AT = ("UCI CO", "Antwerp PM2.5")  # the rules of updates were chosen on these, and on simulated ones
NEW_BOX = "new box"  # prefix of the names of the tasks with a new box
HOURS = (2, 4, 8, 24, 48, 96)  # hours of co-location of a new box


@dataclass(frozen=True)
class CoLocatedFleet:
    """Readings of a task and the window of its models; after the first half, references are known in sessions only."""

    name: str
    readings: tuple[Readings, ...]
    window: int

    @property
    def start(self) -> float:
        """Seconds since 1970 at which half of the references have been seen."""
        times = reference_times(self.readings)
        return float(times[len(times) // 2])

    @property
    def sessions(self) -> list[float]:
        """Start of each co-location session [s since 1970]."""
        last = max(one.times[-1] for one in self.readings)
        return list(np.arange(self.start, last - LENGTH, EVERY))

    def known(self, sessions: Sequence[float]) -> list[Readings]:
        """All readings until the end of these sessions, with references only in the first half and in the sessions."""
        end = sessions[-1] + LENGTH if sessions else self.start

        def has_reference(times: np.ndarray) -> np.ndarray:
            during = [(times >= start) & (times < start + LENGTH) for start in sessions]
            return np.any([times < self.start, *during], axis=0)

        return [_keep_references(one.rows(one.times < end), has_reference) for one in self.readings]

    def session(self, start: float) -> list[Readings]:
        """Readings of one session, with the history that its first windows need."""
        parts = []
        for one in self.readings:
            history = start - self.window * one.step_seconds
            rows = one.rows((one.times >= history) & (one.times < start + LENGTH))
            parts.append(_keep_references(rows, lambda times: times >= start))
        return parts


def _keep_references(readings: Readings, has_reference: Callable[[np.ndarray], np.ndarray]) -> Readings:
    """Keep the references at times [rows] for which the function is true, and blank the others."""
    kept = np.where(has_reference(readings.times), readings.targets, np.nan)
    return replace(readings, frame=readings.frame.with_columns(pl.Series(REFERENCE, kept).fill_nan(None)))


def simulated_fleets() -> list[CoLocatedFleet]:
    """Three boxes each: healthy ones, ones whose gain and offset drift from the first sessions on, ones that die."""
    drifts = {
        "simulated PM, no drift": (SimulationKind.PM, 21, ()),
        "simulated PM, gain and offset": (SimulationKind.PM, 22, (DriftKind.GAIN, DriftKind.OFFSET)),
        "simulated gas, gain and offset": (SimulationKind.GAS, 23, (DriftKind.GAIN, DriftKind.OFFSET)),
        "simulated PM, humidity and dying": (SimulationKind.PM, 24, (DriftKind.HUMIDITY, DriftKind.DYING)),
    }
    fleets = []
    for name, (kind, seed, kinds) in drifts.items():
        wear = tuple(Drift(drift, box, day=100.0, ramp_days=60.0) for box, drift in enumerate(kinds))
        boxes = simulate(Simulation(boxes=3, days=180, step_seconds=3600, kind=kind, seed=seed, drifts=wear))
        fleets.append(CoLocatedFleet(name, tuple(boxes), 24))
    return fleets


def real_fleets(folder: Path | None) -> list[CoLocatedFleet]:
    """Read the real tasks whose files are there."""
    tasks = [task for task in load_tasks() if task.name in (*REAL, *LOOKED_AT)]
    fleets = (
        [CoLocatedFleet(task.name, tuple(read_task(task, folder)), task.window) for task in tasks] if folder else []
    )
    return [fleet for fleet in fleets if fleet.readings]


def run_fleet(fleet: CoLocatedFleet, work: Path) -> dict[str, Any]:
    """Compute the error of each method in the weeks after each session, and in all of them."""
    shipped = _fitted(fleet, (), work / "shipped.scare")
    boxes = {one.device: shipped for one in fleet.readings}
    sums, rows, changed_count = [], [], 0
    for index, start in enumerate(fleet.sessions):
        seen = fleet.sessions[: index + 1]
        for one in fleet.session(start):
            changed, boxes[one.device] = _updated(boxes[one.device], one)
            changed_count += changed
        retrained = _fitted(fleet, seen, work / f"retrained-{index}.scare")
        known = [one for one in fleet.known(seen) if np.isfinite(one.targets).any()]
        line = linear_regression(known, shipped.inputs, shipped.target, len(shipped.inputs.channels))
        # Functions from a device to its calibrator; only `update` gives devices different ones.
        methods = {NEVER: lambda _: shipped, UPDATED: boxes.__getitem__}
        methods |= {FULL: lambda _, model=retrained: model, LINE: lambda _, model=line: model}
        found, count = _score(fleet, start, methods)
        sums.append(found)
        rows.append(count)
        print(f"{fleet.name}: session {index + 1} of {len(fleet.sessions)}", file=sys.stderr)
    all_rows = max(sum(rows), 1)
    return {
        "boxes": len(fleet.readings),
        "visits": len(sums),
        "changed": changed_count,
        "rows": sum(rows),
        "rmse": {name: float(np.sqrt(sum(one[name] for one in sums) / all_rows)) for name in sums[0]},
        "periods": [
            {name: float(np.sqrt(total / count)) for name, total in one.items()}
            for one, count in zip(sums, rows, strict=True)
            if count
        ],
    }


def _fitted(fleet: CoLocatedFleet, sessions: Sequence[float], path: Path) -> Calibrator:
    """Fit a calibrator to all that is known after these sessions, or load it from its file."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        recipe = Recipe.preset("default", window=fleet.window, steps=STEPS, seed=SEED)
        readings = [one for one in fleet.known(sessions) if np.isfinite(one.targets).any()]
        fit(readings, (), recipe).save(path)
    return Calibrator.load(path)


def _updated(calibrator: Calibrator, session: Readings) -> tuple[bool, Calibrator]:
    """Update a box's calibrator by a session; returns whether it changed, and the calibrator.

    A rejected session changes nothing.
    """
    try:
        found = update(calibrator, [session])
    except DataError as error:
        print(f"  {session.device}: {error}", file=sys.stderr)
        return False, calibrator
    return found.changed, found.calibrator


def _score(
    fleet: CoLocatedFleet, start: float, methods: dict[str, Callable[[str], Calibrator]]
) -> tuple[dict[str, float], int]:
    """Sum each method's squared errors until the next session, on rows that all methods have; counts these rows."""
    totals, rows = dict.fromkeys(methods, 0.0), 0
    for one in fleet.readings:
        history = start + LENGTH - (fleet.window + 1) * one.step_seconds
        part = one.rows((one.times >= history) & (one.times < start + EVERY))
        if not len(part):
            continue
        values = {name: _values(method(one.device), part) for name, method in methods.items()}
        shared = np.isfinite([part.targets, *values.values()]).all(axis=0) & (part.times >= start + LENGTH)
        rows += int(shared.sum())
        for name, estimates in values.items():
            totals[name] += float(np.square(estimates - part.targets)[shared].sum())
    return totals, rows


def _values(calibrator: Calibrator, readings: Readings) -> np.ndarray:
    """Calibrated values [rows], NaN where there is none."""
    return calibrator.predict(readings)[CALIBRATED].fill_null(np.nan).to_numpy()


def run_transfer(data: Path, work: Path, words: Sequence[str]) -> dict[str, Any]:
    """Transfer a calibrator to the new box of each task whose files are there; returns the errors."""
    tasks = [task for task in load_tasks() if task.name.startswith(NEW_BOX)]
    wanted = [task for task in tasks if not words or any(word in task.name for word in words)]
    return {task.name: _transfer(task, data, work / task.name) for task in wanted if read_task(task, data)}


def _transfer(task: SuiteTask, data: Path, work: Path) -> dict[str, Any]:
    """Measure errors in the test: of known boxes, of the new one settled and unsettled, and after co-location.

    Unsettled, the new box is scaled as the fleet, and not by its own readings.
    """
    readings = read_task(task, data)
    split = split_task(task, readings, data)
    path = work / "fleet.scare"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fit(split.train, split.validation, Recipe.preset("default", window=task.window)).save(path)
    calibrator = Calibrator.load(path)
    scored = split.test[0]
    start = float(scored.times[np.isfinite(scored.targets)][0])
    box = next(one for one in readings if one.device == scored.device)
    known = [_rmse(calibrator, one, start) for one in readings if one.device != box.device]
    as_fleet = replace(calibrator.inputs.scaling, devices={box.device: calibrator.inputs.scaling.fleet})
    unsettled = replace(calibrator, inputs=replace(calibrator.inputs, scaling=as_fleet))
    return {
        "fleet": float(np.mean(known)),
        "settled": _rmse(calibrator, box, start),
        "unsettled": _rmse(unsettled, box, start),
        "hours": {str(hours): _rmse_after(calibrator, box, start, hours, hours) for hours in HOURS},
        "all rows": {str(hours): _rmse_after(calibrator, box, start, hours, np.inf) for hours in HOURS},
    }


def _rmse_after(calibrator: Calibrator, box: Readings, start: float, hours: float, rows: float) -> float | None:
    """Measure the error after a co-location of `hours` before the test; None if the session was rejected.

    The session has the readings of the last `rows` hours before the test, with references only in the last `hours`.
    """
    session = box.rows((box.times >= start - 3600 * rows) & (box.times < start))
    references = np.where(session.times >= start - 3600 * hours, session.targets, np.nan)
    frame = session.frame.with_columns(pl.Series(REFERENCE, references).fill_nan(None))
    try:
        return _rmse(adopt(calibrator, replace(session, frame=frame)).calibrator, box, start)
    except DataError as error:
        print(f"{hours} h: {error}", file=sys.stderr)
        return None


def _rmse(calibrator: Calibrator, readings: Readings, start: float) -> float:
    """RMSE over the rows from `start` on that have a value and a reference."""
    values = _values(calibrator, readings)
    rows = np.isfinite(values) & np.isfinite(readings.targets) & (readings.times >= start)
    return float(np.sqrt(np.square(values - readings.targets)[rows].mean()))


def kept(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Read a result from its file; make and write it if there is none."""
    if not path.exists():
        result = make()
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(result, indent=1), encoding="utf-8")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Run the fleets and transfers that are asked for and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the real readings")
    parser.add_argument("--tasks", default="", help="tasks with one of these words in their names")
    parser.add_argument("--work", type=Path, default=Path("out/continual"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    words = [word for word in options.tasks.split(",") if word]
    results: dict[str, Any] = {}
    for fleet in (*real_fleets(options.data), *simulated_fleets()):
        if not words or any(word in fleet.name for word in words):
            work = options.work / fleet.name
            results[fleet.name] = kept(work / "result.json", lambda fleet=fleet, work=work: run_fleet(fleet, work))
    transfers = run_transfer(options.data, options.work, words) if options.data else {}
    if options.out is not None:
        with replacing(options.out) as temporary:
            temporary.write_text(page(results, transfers, LOOKED_AT), encoding="utf-8", newline="\n")
    print(
        json.dumps({"visits": results, "transfer": transfers}, indent=1)
        if options.json
        else page(results, transfers, LOOKED_AT)
    )


if __name__ == "__main__":
    main()
