"""`scare export`: a calibrator in the language of its board."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.corrections import CORRECTIONS, EVERY, bind, find_correction
from scare.cli.console import STDOUT, emit, say
from scare.cli.fitting import check_fit
from scare.cli.options import Json
from scare.data.mapping import suggestion
from scare.device import boards
from scare.errors import DataError, UsageError
from scare.export.arithmetic import Arithmetic
from scare.export.library import export_library
from scare.export.package import Package, export_c, validation_rmse
from scare.export.packaging import check_free

SAMPLE = "barkjohn-2021"
STEP_SECONDS = 60.0  # between readings, for a published correction, which does not say
TARGETS = {
    "c": (
        "Write C99 that calibrates one reading after the other, with the runtime it needs.",
        (
            "no2.scare --out no2",
            "no2.scare --arithmetic int8 --device box-3 --out no2",
            f"{SAMPLE} --step 120 --out pm25",
        ),
    ),
    "arduino": (
        "Write an Arduino library with a sketch that reads a PMS5003 or a simulated sensor.",
        ("pm.scare --out pm.zip", "pm.scare --arithmetic int8 --board nano33ble --out pm", f"{SAMPLE} --out pm25.zip"),
    ),
    "platformio": (
        "Write a PlatformIO library with an example that runs on this computer.",
        ("no2.scare --out lib/no2", f"{SAMPLE} --board esp8266 --out lib/pm25"),
    ),
    "zephyr": (
        "Write a Zephyr module with a sample.",
        ("no2.scare --out modules/no2", f"{SAMPLE} --name pm25 --out modules/pm25"),
    ),
}
app = typer.Typer(help="Write a calibrator in the language of its board.", no_args_is_help=True)


@app.callback()
def root() -> None:
    """Write a calibrator in the language of its board."""


def _add(target: str, about: str, examples: tuple[str, ...]) -> None:
    """Make the command of a target; all take the same options."""

    def command(
        model: Annotated[str, typer.Argument(help="A .scare file, or a published correction such as barkjohn-2021.")],
        out: Annotated[Path, typer.Option("--out", help="Folder, new or empty; or a file that ends in .zip.")],
        arithmetic: Annotated[Arithmetic, typer.Option(help="What it computes in.")] = Arithmetic.FLOAT32,
        device: Annotated[str, typer.Option("--device", help="Device whose scaling it gets.")] = "",
        name: Annotated[str, typer.Option("--name", help="What the model is called in C.")] = "model",
        step: Annotated[
            float | None, typer.Option("--step", min=1e-3, help="Of a correction: seconds between readings, else 60.")
        ] = None,
        board: Annotated[str, typer.Option("--board", help="Refuse what does not fit it ('scare board list').")] = "",
        force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
        as_json: Json = False,
    ) -> None:
        if step is not None and model not in CORRECTIONS and model not in EVERY:
            raise UsageError("--step is for a published correction; the time step of a calibrator is in its file")
        calibrator = open_calibrator(model, step or STEP_SECONDS)
        check_free(out, force)
        if board:
            check_fit(calibrator, arithmetic, boards.board(board))
        write = export_c if target == "c" else partial(export_library, door=target)
        package = write(calibrator, arithmetic=arithmetic, folder=out, device=device, name=name, force=force)
        _tell(calibrator, package, arithmetic, as_json, guessed=not device)

    lines = "\n".join(f"  scare export {target} {example}" for example in examples)
    app.command(name=target, help=f"{about}\n\nExamples:\n{lines}")(command)


for _target, (_about, _examples) in TARGETS.items():
    _add(_target, _about, _examples)


def _tell(calibrator: Calibrator, package: Package, arithmetic: Arithmetic, as_json: bool, guessed: bool) -> None:
    """Sizes on stdout; whose scaling it has, where it reads less, and where it is, on stderr."""
    facts = _facts(calibrator, package, arithmetic)
    if as_json:
        emit(facts)
    else:
        _show(facts)
    if not package.device:
        known = ", ".join(calibrator.inputs.scaling.devices)
        say(f"scaled as the fleet is{f'; --device takes {known}' if known else ''}")
    elif guessed:
        say(f"scaled for {package.device}, the only device it knows")
    _warn_of_limits(calibrator, package)
    say(f"it is in {package.folder}, with a README.md that says how it is built")


def _warn_of_limits(calibrator: Calibrator, package: Package) -> None:
    """Say where an integer window ends before the channel does."""
    for channel, read in zip(calibrator.inputs.channels, package.model.descriptor.channels, strict=True):
        if read.quantum and (read.low > channel.low or read.high < channel.high):
            say(f"int8 reads {channel.name} from {read.low:.4g} to {read.high:.4g}; a reading beyond gives no value")


def open_calibrator(model: str, step_seconds: float = STEP_SECONDS) -> Calibrator:
    """The calibrator in a file, or a published correction that reads its own channels every `step_seconds`."""
    if (model in CORRECTIONS or model in EVERY) and not Path(model).exists():
        correction = find_correction(model)
        return bind(correction, {role.channel.name: role.channel for role in correction.roles}, step_seconds)
    if not (Path(model).exists() or model.endswith(".scare")):
        raise DataError(f"{model}: no such file, and no published correction{suggestion(model, CORRECTIONS)}")
    return Calibrator.load(model)


def _facts(calibrator: Calibrator, package: Package, arithmetic: Arithmetic) -> dict[str, Any]:
    model = package.model
    facts: dict[str, Any] = {"folder": str(package.folder), "name": model.name, "arithmetic": str(arithmetic)}
    facts |= {"device": package.device, "ram_bytes": model.memory_bytes, "window_bytes": model.window_bytes}
    facts |= {"scratch_bytes": model.layout.bytes, "constant_bytes": model.table_bytes}
    if arithmetic is not Arithmetic.FLOAT32 and len(calibrator.validation.windows):
        both = (Arithmetic.FLOAT32, arithmetic)
        facts["validation_rmse"] = {str(one): validation_rmse(calibrator, one) for one in both}
    return facts


def _show(facts: dict[str, Any]) -> None:
    """Sizes, and what the arithmetic costs."""
    STDOUT.print(
        f"RAM {facts['ram_bytes']:,} bytes (window {facts['window_bytes']:,}, scratch {facts['scratch_bytes']:,}),"
        f" constants {facts['constant_bytes']:,} bytes"
    )
    if "validation_rmse" in facts:
        before, after = facts["validation_rmse"].values()
        loss = f"{100 * (after / before - 1):+.2f} %" if before > 0 else "no error to compare with"
        both = f"float32 {before:.4g}, {facts['arithmetic']} {after:.4g}"
        STDOUT.print(f"RMSE on the validation windows: {both} ({loss})")
