"""`scare update`: a calibrator learns from a visit beside a reference, or takes back what it learned."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.learned import LEARNED
from scare.cli import options
from scare.cli.config import read_config
from scare.cli.console import STDOUT, emit, say
from scare.cli.opening import read_for
from scare.data.readings import Readings
from scare.errors import UsageError
from scare.files import replacing
from scare.upkeep.update import Update, learner_of
from scare.upkeep.update import revert as take_back
from scare.upkeep.update import update as learn


def update(
    calibrator: Annotated[Path, typer.Argument(help="A .scare file.")],
    files: Annotated[list[Path] | None, typer.Argument(help="Tables of the visit, with a reference.")] = None,
    out: Annotated[Path, typer.Option("--out", help="The calibrator to write.")] = Path("updated.scare"),
    revert: Annotated[bool, typer.Option("--revert", help="Take back all that was learned from visits.")] = False,
    time: options.TimeColumns = "",
    channels: options.Channels = "",
    reference: options.Reference = "",
    reference_file: options.ReferenceFile = "",
    device_column: options.DeviceColumn = "",
    config: options.ConfigFile = None,
    as_json: options.Json = False,
) -> None:
    """Learn from a visit beside a reference; what is not proved to be better changes no value.

    Examples:
      scare update no2.scare visit.csv --out no2-may.scare
      scare update no2-may.scare --revert --out no2.scare
    """
    model = Calibrator.load(calibrator)
    if revert:
        _revert(model, files or [], out, as_json)
        return
    if not files:
        raise UsageError("name the tables of the visit, or --revert")
    given = read_config(config, data=options.columns(time, channels, reference, device_column, reference_file))
    with replacing(out) as temporary:
        readings = read_for(model, files, given.config.data)
        found = learn(model, readings)
        found.calibrator.save(temporary)
    _say_devices(model, readings)
    _tell(found, out, as_json)


def _revert(model: Calibrator, files: Sequence[Path], out: Path, as_json: bool) -> None:
    if files:
        raise UsageError("--revert takes back what was learned and reads no tables")
    with replacing(out) as temporary:
        take_back(model).save(temporary)
    if as_json:
        emit({"file": str(out), "reverted": True})
    say(f"all that was learned from {model.facts[LEARNED]['visits']} visits is taken back, written to {out}")


def _say_devices(model: Calibrator, readings: Sequence[Readings]) -> None:
    """Whom it holds for: what one box teaches is in the file of all."""
    known, seen = model.inputs.scaling.devices, {one.device for one in readings}
    others = sorted(set(known) - seen)
    if others:
        say(f"what {', '.join(sorted(seen))} taught holds for {', '.join(others)}, too: the file is the same for all")


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
        rules = learner_of(found.calibrator).rules
        say(f"a candidate is made every {rules.round:,} pairs and judged on the next {rules.round:,}")
    say(f"calibrator written to {out}")


def _outcome(found: Update) -> str:
    if not found.changed:
        return "nothing that they teach was proved to be better: values stay as they are"
    if found.numbers.any():
        return "what they teach was better on pairs that it had not seen, and holds now"
    return "what was learned before was worse than what was shipped, and is taken back"
