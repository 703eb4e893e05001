"""A run: the card and every device's series, as `scare score --out` writes them to a folder and a report shows them.

RUN/scorecard.json    the card of `scare score`, with its provenance and a summary of each device
RUN/series.parquet    device, time, channels (null: missing or unusable), reference, calibrated, low, high, flags,
                      outside_ranges, outside_channel
"""

import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import scare
from scare.calibrator.calibrator import Calibrator
from scare.data.quantities import find_quantity, guess_unit, quantity_of_unit, spell_unit
from scare.data.readings import CALIBRATED, DEVICE, FLAGS, REFERENCE, TIME, Channel
from scare.data.tables import check_readable
from scare.errors import DataError
from scare.files import sha256_of
from scare.scorecard.accuracy import limits_of_agreement, measure, squared_correlation
from scare.scorecard.assessment import assess
from scare.scorecard.averages import Averaging, uptime
from scare.scorecard.card import Card, read_card
from scare.scorecard.requirements import ScoreProtocol
from scare.scorecard.series import DeviceSeries, device_series
from scare.scorecard.targets import TargetSet, choose_sets

NEEDED = {  # keys of a card that a report reads
    "target": ("name", "unit"),
    "dataset": ("channels", "inputs", "training_devices", "training_period", "validation_devices", "validation_period"),
    "board": ("title", "fits", "reasons", "arithmetic"),
}
COMPLETE = 0.75  # share of its readings that an hour of data capture needs
AGAIN = "write the folder again with scare score --out"  # the remedy at the end of error messages
PACKAGES = ("numpy", "polars", "jax", "ziglang", "unicorn", "capstone")  # whose versions a card records


@dataclass(frozen=True)
class Run:
    """A card and the series of its devices; `raw` is the channel that was calibrated."""

    card: Card
    target: Channel
    raw: Channel
    humidity: Channel | None
    series: tuple[DeviceSeries, ...]

    @property
    def comparable(self) -> bool:
        """Whether raw readings and reference are in the same unit, so that their difference has a meaning."""
        return bool(self.target.unit) and spell_unit(self.raw.unit) == spell_unit(self.target.unit)


def read_run(folder: Path | str) -> Run:
    """Read the run in a folder that `scare score --out` wrote."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; give one that scare score --out wrote")
    card = read_card(folder / "scorecard.json")
    for part, names in NEEDED.items():
        facts = getattr(card, part)
        if facts is None and part == "board":
            continue
        missing = names if not isinstance(facts, Mapping) else [name for name in names if name not in facts]
        if missing:
            raise DataError(f"{folder / 'scorecard.json'}: its {part} has no {', '.join(missing)}; {AGAIN}")
    run = make_run(card, _read_series(folder / "series.parquet"))
    if not any(len(series.scored) for series in run.series):
        raise DataError(f"{folder / 'series.parquet'}: no row to score has a reference and a calibrated value; {AGAIN}")
    return run


def make_run(card: Card, frame: pl.DataFrame) -> Run:
    """Build a run from a card and the frame of its series."""
    channels = _channels(card.dataset, frame)
    raw = channels[0]
    humidity = next((channel for channel in channels if spell_unit(channel.unit) == "%"), None)
    temperature = next((channel for channel in channels if is_temperature(channel)), None)
    series = device_series(frame, raw.name, humidity.name if humidity else None, card.dataset, temperature)
    return Run(card, Channel(card.target["name"], card.target["unit"]), raw, humidity, series)


def _read_series(path: Path) -> pl.DataFrame:
    """Read the series of all devices; raises a DataError that says how to write the file again."""
    try:
        check_readable(path)
        frame = pl.read_parquet(path)
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file; {AGAIN}") from error
    except (OSError, DataError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{path} is not readable as Parquet; {AGAIN}") from error
    missing = [name for name in (DEVICE, TIME, REFERENCE, CALIBRATED, FLAGS) if name not in frame.columns]
    if missing or not isinstance(frame[TIME].dtype, pl.Datetime):
        problem = f"no column {', '.join(missing)}" if missing else f"'{TIME}' holds no times"
        raise DataError(f"{path}: {problem}; {AGAIN}")
    return frame.with_columns(pl.col(DEVICE).cast(pl.String).fill_null(""))


def is_temperature(channel: Channel) -> bool:
    """Whether a channel is a temperature, by its unit or its name."""
    quantity = quantity_of_unit(channel.unit) or find_quantity(channel.name)
    return quantity is not None and quantity.device_class == "temperature"


def _channels(dataset: Mapping[str, Any], frame: pl.DataFrame) -> list[Channel]:
    """Return the channels that the series hold, the one that was calibrated first."""
    units = {channel["name"]: channel["unit"] for channel in dataset["channels"]}
    names = dict.fromkeys([*dataset["inputs"], *units])
    channels = [Channel(name, units.get(name) or guess_unit(name)) for name in names if name in frame.columns]
    if not channels:
        raise DataError(f"the series hold none of the channels {', '.join(names)}; {AGAIN}")
    return channels


def describe_provenance(
    model: str, files: Sequence[Path], calibrator: Calibrator, arithmetic: str, protocol: ScoreProtocol
) -> dict[str, Any]:
    """Record a card's provenance: files by their SHA-256, seed, versions, computer and time.

    A published correction has no file, and an untrained calibrator has no seed.
    """
    settings = calibrator.facts.get("settings") or {}
    is_file = Path(model).is_file()
    versions = {}
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "model_file": Path(model).name if is_file else None,
        "model_sha256": sha256_of(Path(model)) if is_file else None,
        "data": [{"file": path.name, "sha256": sha256_of(path)} for path in files],
        "seed": settings.get("seed"),
        "arithmetic": arithmetic,
        "protocol": asdict(protocol),
        "versions": {"scare": scare.__version__, "python": platform.python_version(), **versions},
        "computer": {"system": platform.system(), "machine": platform.machine(), "processor": platform.processor()},
    }


def summarize(run: Run, targets: Sequence[TargetSet] = (), reference_uncertainty: str = "") -> dict[str, Any]:
    """Compute a card's `devices`, the accuracy of each, and its `targets`, by default against all sets that apply."""
    sets = targets or choose_sets("")
    assessments = [assess(run.series, run.target, target_set, reference_uncertainty) for target_set in sets]
    devices = tuple(_device_summary(device_series, run.comparable) for device_series in run.series)
    return {"devices": devices, "targets": tuple(asdict(assessment) for assessment in assessments if assessment)}


def _device_summary(series: DeviceSeries, comparable: bool) -> dict[str, Any]:
    """Summarise a device: accuracy over scored rows, uptime, and the share of hours with data; or why none is scored.

    The raw reading's accuracy is stated if it is `comparable`, in the reference's unit.
    """
    scored = series.scored
    if not len(scored):
        return {"device": series.device, "rows_scored": 0, "why_not_scored": series.why_not_scored}
    raw = scored.rows(np.isfinite(scored.raw) & comparable)
    accuracy = asdict(measure(scored.calibrated, scored.reference, scored.changes))
    return {
        "device": series.device,
        "rows_scored": len(scored),
        "accuracy": {**accuracy, "r2_regression": squared_correlation(scored.calibrated, scored.reference)},
        "raw_accuracy": asdict(measure(raw.raw, raw.reference, raw.changes)) if len(raw) else None,
        "agreement": asdict(limits_of_agreement(scored.calibrated - scored.reference)),
        "uptime": uptime(series),
        "data_capture": Averaging(1, COMPLETE, through_hours=False).capture(series),
    }
