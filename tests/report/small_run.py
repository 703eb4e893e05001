"""A run folder of simulated boxes, made without training: the reference with noise stands for calibrated values."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scare.data.flags import flag
from scare.data.quantities import guess_unit
from scare.data.readings import CALIBRATED, DEVICE, FLAGS, REFERENCE, TIME
from scare.data.simulate import Simulation, SimulationKind, simulate
from scare.scorecard.card import Card
from scare.scorecard.requirements import Entry, Grade
from scare.scorecard.run_folder import make_run, summarize

NASTY = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>\"&'"
GRADES = ((Grade.GOOD, 1.2), (Grade.FAIR, 3.0), (Grade.POOR, 9.0), (None, 4.0))


def card(table: pl.DataFrame, **changes: Any) -> Card:
    """A card of a series with an entry of every grade, a board, and no study."""
    dimensions = ("accuracy", "accuracy", "real-time", "efficiency")
    entries = tuple(entry(str(index), dimensions[index], *grade) for index, grade in enumerate(GRADES))
    known = Card(
        model={"model": "scare", "window": 60, "step_seconds": 60.0},
        target={"name": "Ref.PM2.5", "unit": "ug/m3"},
        entries=entries,
        dataset=dataset(table),
        board=board(),
        provenance={"data": [{"file": "sim.parquet", "sha256": "ab" * 32}], "seed": 5, "versions": {"scare": "0.1.0"}},
    )
    return replace(known, **changes)


def dataset(table: pl.DataFrame, **changes: Any) -> dict[str, Any]:
    """A card's facts on the series: nothing of it was used in training."""
    channels = [name for name in table.columns if name not in (DEVICE, TIME, REFERENCE, CALIBRATED, FLAGS)]
    facts = {
        "devices": table[DEVICE].unique(maintain_order=True).to_list(),
        "channels": [{"name": name, "unit": guess_unit(name)} for name in channels],
        "inputs": channels,
        "rows": table.height,
        "training_devices": [],
        "training_period": [],
        "validation_devices": [],
        "validation_period": [],
        "flags": {},
    }
    return {**facts, **changes}


def entry(name: str, dimension: str, grade: Grade | None, value: float) -> Entry:
    bounds = {
        "better": "lower",
        "good": 0.5,
        "fair": 1.0,
        "yardstick": "sd",
        "yardstick_value": 4.0,
        "ratio": value / 4,
    }
    return Entry(
        requirement=f"requirement-{name}",
        title=f"Requirement {name}",
        dimension=dimension,
        measure=f"measure_{name}",
        label=f"label {name}",
        value=value,
        unit="ug/m3",
        source="measured",
        grade=grade,
        threshold=bounds if grade else None,
        detail={},
    )


def board(**changes: Any) -> dict[str, Any]:
    """A model that fits and is in time."""
    facts = {
        "board": "nano33ble",
        "title": "Arduino Nano 33 BLE Sense (nRF52840)",
        "ram_available": 262144,
        "flash_available": 1048576,
        "arithmetic": "fixed",
        "supported": True,
        "fits": True,
        "reasons": [],
        "instructions": {"mean": 23500.0, "min": 23500, "max": 23500},
        "cycles": {"low": 25600.0, "typical": 38400.0, "high": 57600.0},
        "milliseconds": {"low": 0.4, "typical": 0.6, "high": 0.9},
        "worst": {"reading_ms": 0.93},
        "deadline_ms": 60000,
        "meets_deadline": True,
        "ram_bytes": 2355,
        "flash_bytes": 12288,
        "duty_cycle": 1e-5,
        "energy_microjoules": 6.1,
        "battery_share": 1.2e-4,
    }
    return {**facts, **changes}


def method(name: str, rmse: float, **more: Any) -> dict[str, Any]:
    scores = {"rows": 1000, "mae": rmse / 2, "top5_rmse": 2 * rmse, "r2": 0.5, "slope": 0.9, "bytes": 100.0}
    return {"method": name, "window": 60, "seeds": 1, "failed": "", "rmse": rmse, **scores, **more}


def series(
    boxes: int = 1, days: float = 1.0, names: Sequence[str] = (), kind: SimulationKind = SimulationKind.PM
) -> pl.DataFrame:
    """Simulated boxes with flags and calibrated values of known error."""
    frames = []
    for index, one in enumerate(simulate(Simulation(boxes=boxes, days=days, seed=3, kind=kind))):
        noise = np.random.default_rng(index).normal(0.5, 1.0, len(one))
        columns = [pl.lit(names[index] if names else one.device).alias(DEVICE), TIME]
        channels = [channel.name for channel in one.channels]
        calibrated = pl.Series(CALIBRATED, one.targets + noise)
        calibrated = (
            pl.select(pl.when(pl.Series(np.arange(len(one)) >= 60)).then(calibrated)).to_series().alias(CALIBRATED)
        )
        frames.append(
            flag(one).frame.with_columns(calibrated).select(*columns, *channels, REFERENCE, CALIBRATED, FLAGS)
        )
    return pl.concat(frames)


def write_run(folder: Path, table: pl.DataFrame, **changes: Any) -> Path:
    """The folder with both files."""
    made = card(table, **changes)
    return write_files(folder, table, replace(made, **summarize(make_run(made, table))))


def write_files(folder: Path, table: pl.DataFrame, made: Card) -> Path:
    """The folder with these files, whatever is in them."""
    folder.mkdir(parents=True, exist_ok=True)
    table.write_parquet(folder / "series.parquet")
    (folder / "scorecard.json").write_text(made.to_json(), encoding="utf-8")
    return folder
