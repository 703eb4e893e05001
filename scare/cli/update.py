"""`scare update`: update a calibrator from a co-location session, or revert what it learned."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.passes import LEARNED
from scare.cli import options
from scare.cli.config import read_config
from scare.cli.console import STDOUT, emit, note
from scare.cli.options import read_for
from scare.cli.train import fit_with_progress, require_training
from scare.data.readings import Readings
from scare.errors import UsageError
from scare.files import replacing
from scare.upkeep.update import Update, adopt, make_learner
from scare.upkeep.update import revert as take_back
from scare.upkeep.update import update as learn
from scare.words import suggestion


def update(
    calibrator: Annotated[Path, typer.Argument(help="A .scare file.")],
    files: Annotated[list[Path] | None, typer.Argument(help="Tables of the session, with a reference.")] = None,
    out: Annotated[Path, typer.Option("--out", help="The calibrator to write.")] = Path("updated.scare"),
    device: Annotated[str, typer.Option("--device", help="For this box alone, which may be new to it.")] = "",
    full: Annotated[
        list[Path] | None, typer.Option("--full", help="Train anew with these tables, which it was trained on, too.")
    ] = None,
    revert: Annotated[bool, typer.Option("--revert", help="Revert all that was learned from sessions.")] = False,
    time: options.TimeColumns = "",
    channels: options.Channels = "",
    reference: options.Reference = "",
    reference_file: options.ReferenceFile = "",
    device_column: options.DeviceColumn = "",
    config: options.ConfigFile = None,
    settings: options.Settings = None,
    as_json: options.Json = False,
) -> None:
    """Learn from a co-location session; a correction that is not proved to be better changes no value.

    Examples:
      scare update no2.scare session.csv --out no2-may.scare
      scare update no2-may.scare --revert --out no2.scare
      scare update fleet.scare hours.csv --device box-9 --out box-9.scare
      scare update no2.scare session.csv --full train.csv --out no2-new.scare
    """
    model = Calibrator.load(calibrator)
    if revert:
        _revert(model, files or [], out, as_json)
        return
    if not files:
        raise UsageError("name the tables of the co-location session, or --revert")
    columns = options.columns(time, channels, reference, device_column, reference_file)
    given = read_config(config, settings or (), data=columns)
    if device and full:
        raise UsageError("--device learns a scaling and a few numbers, --full trains anew; give one of them")
    with replacing(out) as temporary:
        readings = read_for(model, files, given.config.data)
        if full:
            trained = _train_anew(model, read_for(model, full, given.config.data), readings)
            trained.calibrator.save(temporary)
        else:
            found = adopt(model, _of_device(readings, device)) if device else learn(model, readings)
            found.calibrator.save(temporary)
    if full:
        _tell_training(trained, out, as_json)
        return
    if not device:
        _say_devices(model, readings)
    _tell(found, out, as_json)


def _train_anew(model: Calibrator, old: Sequence[Readings], new: Sequence[Readings]) -> Any:
    """The calibrator, or its recipe fitted to everything before the newest day, if that is better on it."""
    require_training()
    from scare.training.retrain import NewestDay, join_devices, recipe_of

    recipe = recipe_of(model)
    newest = NewestDay.split_off(join_devices(old, new), model.window * model.inputs.step_seconds)
    return newest.choose(model, fit_with_progress(newest.before, (), recipe))


def _of_device(readings: Sequence[Readings], device: str) -> Readings:
    """The readings of the device, which a table without a device column may be."""
    named = [one for one in readings if one.device == device]
    if not named and len(readings) > 1:
        names = [one.device for one in readings]
        raise UsageError(f"the tables hold no device called '{device}'{suggestion(device, names)}")
    return named[0] if named else replace(readings[0], device=device)


def _tell_training(found: Any, out: Path, as_json: bool) -> None:
    """Which of the two was better, and that it was written."""
    if as_json:
        emit({"file": str(out), "changed": found.changed, "rmse_before": found.before, "rmse_after": found.after})
    else:
        unit = found.calibrator.target.unit
        said = f"RMSE on the newest day: {found.before:.4g} as it was, {found.after:.4g} trained anew {unit}"
        STDOUT.print(said.rstrip(), markup=False)
    kept = "" if found.changed else ", which is the old one: the new one is no better"
    note(f"calibrator written to {out}{kept}")


def _revert(model: Calibrator, files: Sequence[Path], out: Path, as_json: bool) -> None:
    if files:
        raise UsageError("--revert takes back what was learned and reads no tables")
    with replacing(out) as temporary:
        take_back(model).save(temporary)
    if as_json:
        emit({"file": str(out), "reverted": True})
    note(f"all that was learned since it was made is taken back, written to {out}")


def _say_devices(model: Calibrator, readings: Sequence[Readings]) -> None:
    """Whom it holds for: what one box teaches is in the file of all."""
    known, seen = model.inputs.scaling.devices, {one.device for one in readings}
    others = sorted(set(known) - seen)
    if others:
        note(f"this also changes {' and '.join(others)}; add --device {min(seen)} to change one box")


def _tell(found: Update, out: Path, as_json: bool) -> None:
    """What was learned, and what changed."""
    learned, unit = found.calibrator.facts[LEARNED], found.calibrator.target.unit
    if as_json:
        facts: dict[str, Any] = {"file": str(out), "changed": found.changed, "pairs": found.pairs}
        emit({**facts, "rmse_before": found.before, "rmse_after": found.after, LEARNED: learned})
    else:
        STDOUT.print(f"{found.pairs:,} pairs; {_outcome(found)}", markup=False)
        numbers = ", ".join(f"{name} {number:+.3f}" for name, number in learned["numbers"].items())
        STDOUT.print(f"learned since it was made, in scaled units: {numbers}", markup=False)
        STDOUT.print(
            f"RMSE on these pairs: {found.before:.4g} before, {found.after:.4g} now {unit}".rstrip(), markup=False
        )
    if not found.changed:
        pairs = make_learner(found.calibrator).settings.round
        note(f"a candidate is fitted every {pairs:,} pairs and tested on the next {pairs:,}")
    note(f"calibrator written to {out}")


def _outcome(found: Update) -> str:
    if not found.changed:
        return "nothing that they teach was proved to be better: values stay as they are"
    if found.numbers.any():
        return "what they teach was better on pairs that it had not seen, and holds now"
    return "what was learned before was worse than what was shipped, and is taken back"
