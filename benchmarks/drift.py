"""What `scare watch` finds: simulated drifts against false alarms, and real later days.

    python -m benchmarks.drift [--seeds 20] [--first 100] [--data FOLDER] [--models FOLDER] [--work out/drift]
        [--out docs/benchmarks/drift.md] [--json]

Units and thresholds were chosen with `--first 0 --units`, which prints what sound boxes show; the page is made with
other seeds. Without --data only simulated fleets are watched. What is simulated and fitted stays in `--work`.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from benchmarks.drift_fleets import (
    BOXES,
    DRIFTS,
    FOUND_WITHIN,
    SETTINGS,
    SOUND,
    Fleets,
    SimulatedSetting,
    draw_curves,
    false_alarms,
    make_days,
    waits,
    watch_fleet,
)
from benchmarks.drift_real import WatchedTask, by_day, mean_loss, rank_correlation, watch_tasks
from scare.data.quantities import display_unit
from scare.files import replacing
from scare.upkeep.drift import DriftState

SMALLER = (4, 2, 1)
ALL = (SOUND, *DRIFTS)
ASKED = (DriftState.LOOK, DriftState.RECOLLOCATE)
STATES = (DriftState.FINE, *ASKED)
PAGE = Template("""# Drift without a reference

[`scare watch`](../watch.md) finds large drifts of single boxes, at the false alarm rates below. It does not show how
much accuracy a box has lost: what a whole fleet loses together cannot be seen without a reference ([real
boxes](#real-later-days)).

![Drifts found against false alarms, for every threshold](drift.svg)

Made by `python -m benchmarks.drift --data DATA --models MODELS --out docs/benchmarks/drift.md`; do not edit.

## Simulated fleets

$settings

- *false alarms*: how often a sound box enters the state, per box and month of 30 days.
- *found*: the share of fleets in which the drifting box has the state within $within days of the start of its drift,
  and the median number of days. *none* is the same box without a drift: what chance finds.
- *gain −30 %*, *gain −50 %*: of the sensor. *offset*: 5 µg/m³ or 5 nA. *humidity*: acts twice as strongly on
  particles, or moves a cell's zero by 5 nA from dry to wet. *dying cell*: follows a tenth of the air, slowly.

Protocol, written before the numbers. Eight boxes stand side by side for 14 days, on which a line is fitted to their
channels. Then they are deployed, in the same air or in a town (`--apart 0.2`: a factor of about 20 % between places
that varies within hours), and watched for 60 days. On day 25 one of them begins to drift; the drift is complete after
14 days. Sound boxes drift in the simulator too: their gain walks by 1 % a day, 5 % a month. Units and thresholds were
chosen on seeds 0 to 19; these are seeds $first to $last.

### Smaller fleets

The first boxes of the same fleets, all four settings together. A single box is compared with training and with its own
first days. These settings have no season; over a year it would raise more false alarms.

$smaller

## Real later days

All boxes stood beside a reference, which `scare watch` does not see. They are watched from the start of training on;
units and errors are those of the days after training. Numbers are Spearman rank correlations between the units of a
box and what the reference shows.

$real

- *loss*: RMSE of the last days minus that of the first days.
- *loss beyond the fleet*: minus the fleet's median loss of that day. What all boxes lose together (a season, another
  regime) cannot be seen without a reference.
- *bias moved beyond the fleet*: how far the mean error has moved from that of the first days, up or down, minus the
  fleet's median. This can be seen; whether it moved away from the truth or towards it cannot.
- *by day*: between the boxes of one day, mean over days. The others are over all boxes and days.

No interval is given, because days overlap and boxes are few. JRC: ten days, the first five compared with the last
two; these lengths for short records were set with the ten days in view, before their numbers. Denver: nine months,
four boxes at three stations, three of which fall silent in the last week. Antwerp: eight months, boxes at several
stations. Units and thresholds were not chosen on these.

$boxes
""")


def main(arguments: Sequence[str] | None = None) -> None:
    """Watch simulated fleets and real tasks, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument("--units", action="store_true", help="print what one sound box in a hundred shows, and leave")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--models", type=Path, default=Path("out/drift"))
    parser.add_argument("--work", type=Path, default=Path("out/drift"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    seeds = range(given.first, given.first + given.seeds)
    if given.units:
        print_units(seeds, given.work)
        return
    found = {boxes: run_settings(boxes, seeds, given.work) for boxes in (BOXES, *SMALLER)}
    real = watch_tasks(given.data, given.models, given.work) if given.data else []
    if given.out:
        draw_curves(found[BOXES], given.out.with_suffix(".svg"))
        with replacing(given.out) as temporary:
            temporary.write_text(page(found, real, seeds), encoding="utf-8")
    print(json.dumps(as_plain(found, real), indent=1) if given.json else page(found, real, seeds))


def run_settings(boxes: int, seeds: Sequence[int], work: Path) -> dict[SimulatedSetting, Fleets]:
    """Simulate and watch fleets of this many boxes, one per seed; returns their units by setting and drift."""
    found: dict[SimulatedSetting, Fleets] = {}
    for setting in SETTINGS:
        print(f"{setting.name}: {boxes} boxes", file=sys.stderr)
        fleets = [make_days(setting, seed, work) for seed in seeds]
        found[setting] = {drift: [watch_fleet(one, drift, boxes) for one in fleets] for drift in ALL}
    return found


def print_units(seeds: Sequence[int], work: Path) -> None:
    """Print the 99th percentile of every measure over boxes without a drift."""
    for setting in SETTINGS:
        assessed = [one for seed in seeds for one in make_days(setting, seed, work).assessed(SOUND, BOXES)]
        sizes = np.nanquantile(np.abs(np.concatenate([one.values for one in assessed])), 0.99, axis=0)
        print(
            setting.name,
            *(f"{name} {size:.3g}" for name, size in zip(assessed[0].measures, sizes, strict=True)),
            sep="\n  ",
        )


def page(
    found: Mapping[int, Mapping[SimulatedSetting, Fleets]], real: Sequence[WatchedTask], seeds: Sequence[int]
) -> str:
    """Render the page in Markdown."""
    settings = [
        [setting.name, state.label, *_found_cells(fleets, state)]
        for state in ASKED
        for setting, fleets in found[BOXES].items()
    ]
    together = {
        boxes: {drift: [one for fleets in by_setting.values() for one in fleets[drift]] for drift in ALL}
        for boxes, by_setting in found.items()
    }
    smaller = [
        [str(boxes), state.label, *_found_cells(fleets, state)] for state in ASKED for boxes, fleets in together.items()
    ]
    head = ["state", "false alarms a box and month", *(f"found: {drift}" for drift in ALL)]
    return PAGE.substitute(
        first=seeds[0],
        last=seeds[-1],
        within=FOUND_WITHIN,
        settings=_table(["setting", *head], settings),
        smaller=_table(["boxes", *head], smaller),
        real=_table(REAL_HEAD, [_real_cells(one) for one in real]) if real else "Not run: no readings were given.",
        boxes="\n\n".join(map(_boxes, real)),
    )


def _found_cells(fleets: Fleets, state: DriftState) -> list[str]:
    """Write the false alarms of a state, then for each drift the share that was found and the median days."""
    alarms = {drift: [one.states >= state for one in some] for drift, some in fleets.items()}
    cells = [f"{false_alarms(alarms[SOUND]):.3f}"]
    for drift in ALL:
        days = waits(alarms[drift])
        inside = days[days < FOUND_WITHIN]
        cells.append(f"{len(inside) / len(days):.0%}" + (f", {np.median(inside):.0f} d" if len(inside) else ""))
    return cells


REAL_HEAD = ["task", "boxes", "days", "loss", "loss beyond the fleet", "the same, by day"]
REAL_HEAD += ["bias moved beyond the fleet", "the same, by day"]
REAL_HEAD += [f"mean loss beyond the fleet while {state.label} (box-days)" for state in STATES]


def _real_cells(one: WatchedTask) -> list[str]:
    """Write the line of a real task under `REAL_HEAD`."""
    numbers = [rank_correlation(one.units, one.loss)]
    numbers += [
        measure(one.units, truth) for truth in (one.beyond, one.moved) for measure in (rank_correlation, by_day)
    ]
    states = [mean_loss(one, state) for state in STATES]
    shares = [f"{share:+.0%} ({count:,})" if count else "none" for share, count in states]
    return [
        one.name,
        str(len(one.devices)),
        str(one.units.shape[1]),
        *(f"{number:+.2f}" for number in numbers),
        *shares,
    ]


def _boxes(one: WatchedTask) -> str:
    """Tabulate the boxes of a task, the one with the most units on the last day first."""
    unit = f" [{display_unit(one.unit)}]" if one.unit else ""
    head = [
        "box",
        "state on the last day",
        "units",
        "most units",
        f"RMSE, first days{unit}",
        "loss at the end",
        "largest loss",
    ]
    rows = []
    for box in np.argsort(-one.units[:, -1]):
        known = one.loss[box][np.isfinite(one.loss[box])]
        losses = [f"{known[-1]:+.3g}", f"{known.max():+.3g}"] if len(known) else ["", ""]
        units = [f"{one.units[box, -1]:.2f}", f"{one.units[box].max():.2f}"]
        rows.append([one.devices[box], DriftState(one.states[box, -1]).label, *units, f"{one.usual[box]:.3g}", *losses])
    return f"### {one.name}\n\n{_table(head, rows)}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def as_plain(found: Mapping[int, Mapping[SimulatedSetting, Fleets]], real: Sequence[WatchedTask]) -> dict[str, Any]:
    """The numbers of the page as plain values, for JSON."""
    simulated = [
        {
            "boxes": boxes,
            **asdict(setting),
            "states": {state.label: _found_cells(fleets, state) for state in ASKED},
        }
        for boxes, settings in found.items()
        for setting, fleets in settings.items()
    ]
    return {"simulated": simulated, "real": {one.name: _real_cells(one) for one in real}}


if __name__ == "__main__":
    main()
