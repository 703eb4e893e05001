"""`scare update`: update a calibrator from a co-location session, or revert its updates."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan_passes import LEARNED
from scare.cli import options
from scare.cli.config import read_config
from scare.cli.console import STDOUT, emit, note
from scare.cli.options import read_for
from scare.cli.train import fit_with_progress, require_training
from scare.data.readings import Readings
from scare.errors import UsageError
from scare.files import replacing
from scare.upkeep.update import Update, adopt, make_learner
from scare.upkeep.update import revert as revert_updates
from scare.upkeep.update import update as update_calibrator
from scare.words import listed, suggestion


def update(
    calibrator: options.ModelFile,
    files: Annotated[
        list[Path] | None, typer.Argument(help="Tables of the co-location session, with a reference.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The calibrator to write.")] = Path("updated.scare"),
    device: Annotated[str, typer.Option("--device", help="Update only this box, which may be new.")] = "",
    full: Annotated[
        list[Path] | None, typer.Option("--full", help="Retrain, on these tables of the first training as well.")
    ] = None,
    revert: Annotated[bool, typer.Option("--revert", help="Undo all updates since training.")] = False,
    time: options.TimeColumns = "",
    channels: options.Channels = "",
    reference: options.Reference = "",
    reference_file: options.ReferenceFile = "",
    device_column: options.DeviceColumn = "",
    config: options.ConfigFile = None,
    settings: options.Settings = None,
    as_json: options.Json = False,
) -> None:
    """Update a calibrator from a co-location session; only a proven improvement changes values.

    Examples:
      scare update no2.scare session.csv --out no2-may.scare
      scare update no2-may.scare --revert --out no2.scare
      scare update fleet.scare hours.csv --device box-9 --out box-9.scare
      scare update no2.scare session.csv --full train.csv --out no2-new.scare
    """
    if files and not revert:
        model = options.open_for_table(calibrator, files[0], options.split_names(time) if time else ())
    else:
        model = options.open_calibrator(calibrator)
    if revert:
        if files:
            raise UsageError("--revert undoes updates and takes no tables")
        with replacing(out) as temporary:
            revert_updates(model).save(temporary)
        if as_json:
            emit({"file": str(out), "reverted": True})
        note(f"Reverted all updates since training. Wrote the calibrator to {out}.")
        return
    if not files:
        raise UsageError("name the tables of the co-location session, or use --revert")
    columns = options.columns(time, channels, reference, device_column, reference_file)
    loaded = read_config(config, settings or (), data=columns)
    if device and full:
        raise UsageError("--device updates one box, --full retrains for all; use one of them")
    with replacing(out) as temporary:
        readings = read_for(model, files, loaded.config.data)
        if full:
            trained = _retrain(model, read_for(model, full, loaded.config.data), readings)
            trained.calibrator.save(temporary)
        else:
            result = adopt(model, _of_device(readings, device)) if device else update_calibrator(model, readings)
            result.calibrator.save(temporary)
    if full:
        _print_retraining(trained, out, as_json)
        return
    names = {box.device for box in readings}
    others = sorted(set(model.inputs.scaling.devices) - names)
    if others and not device:  # all boxes share the file
        remedy = f"add --device {min(names)}" if len(names) == 1 else "use --device"
        note(f"This also changes {listed(others)}; {remedy} to change one box.")
    _print_update(result, out, as_json)


def _retrain(model: Calibrator, old: Sequence[Readings], new: Sequence[Readings]) -> Any:
    """Fit the calibrator's recipe to everything before the newest day; keep the better of the two on that day."""
    require_training()
    from scare.training.retrain import NewestDay, join_devices, recipe_of

    recipe = recipe_of(model)
    newest = NewestDay.split_off(join_devices(old, new), recipe.window_readings * model.inputs.step_seconds)
    return newest.choose(model, fit_with_progress(newest.before, (), recipe))


def _of_device(readings: Sequence[Readings], device: str) -> Readings:
    """Return the readings of the device; a single table under another name is taken as this device's."""
    by_device = {box.device: box for box in readings}
    if device in by_device:
        return by_device[device]
    if len(readings) > 1:
        raise UsageError(f"the tables have no device '{device}'{suggestion(device, list(by_device))}")
    return replace(readings[0], device=device)


def _print_retraining(retraining: Any, out: Path, as_json: bool) -> None:
    """Print the errors of the old and the retrained calibrator, and which one was kept."""
    if as_json:
        emit(
            {
                "file": str(out),
                "changed": retraining.changed,
                "rmse_before": retraining.before,
                "rmse_after": retraining.after,
            }
        )
    else:
        unit = retraining.calibrator.target.unit
        before = f"RMSE on the newest day: {retraining.before:.4g} {unit}".rstrip()
        STDOUT.print(f"{before} before, {retraining.after:.4g} retrained.", markup=False)
    remark = "" if retraining.changed else " It is the old one, because retraining did not improve it."
    note(f"Wrote the calibrator to {out}.{remark}")


def _print_update(result: Update, out: Path, as_json: bool) -> None:
    """Print how many pairs of reading and reference there were, whether the update is used, and the errors."""
    learned = result.calibrator.facts[LEARNED]
    unit = result.calibrator.target.unit
    if as_json:
        facts: dict[str, Any] = {"file": str(out), "changed": result.changed, "pairs": result.pairs}
        emit({**facts, "rmse_before": result.before, "rmse_after": result.after, LEARNED: learned})
    else:
        outcome = "No update was proven better, so calibrated values stay the same."
        if result.changed and result.coefficients.any():
            outcome = "The update was better on pairs that it had not seen, and is used from now on."
        elif result.changed:
            outcome = "The previous update was worse than the trained calibrator, and is reverted."
        STDOUT.print(f"{result.pairs:,} pairs. {outcome}", markup=False)
        numbers = ", ".join(f"{name} {number:+.3f}" for name, number in learned["numbers"].items())
        STDOUT.print(f"All updates since training, in scaled units: {numbers}", markup=False)
        before = f"RMSE on these pairs: {result.before:.4g} {unit}".rstrip()
        STDOUT.print(f"{before} before, {result.after:.4g} now.", markup=False)
        if factor := learned.get("interval_factor"):
            STDOUT.print(f"Intervals are {factor:.3g} times as wide as after training.", markup=False)
    if not result.changed:
        pairs = make_learner(result.calibrator).settings.round
        note(f"An update is fitted every {pairs:,} pairs and tested on the next {pairs:,}.")
    note(f"Wrote the calibrator to {out}.")
