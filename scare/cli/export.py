"""`scare export`: a calibrator in the language of its board."""

from functools import partial
from typing import Annotated, Any

import typer

from scare.board import boards
from scare.calibrator.calibrator import Calibrator
from scare.cli.board_room import check_fit
from scare.cli.console import say
from scare.cli.exchange import add_formats
from scare.cli.exporting import Device, Force, Out, help_with_examples, say_scaling, show_facts
from scare.cli.micropython import add_micropython
from scare.cli.opening import CorrectionStep, Model, open_calibrator
from scare.cli.options import Json
from scare.export.arithmetic import Arithmetic
from scare.export.library import export_library
from scare.export.package import Package, export_c, validation_rmse
from scare.export.packaging import check_free

SAMPLE = "barkjohn-2021"
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
    "esphome": (
        "Write an ESPHome external component, with YAML to paste.",
        (f"{SAMPLE} --name pm25 --out pm25", "no2.scare --board esp8266 --out no2"),
    ),
}
app = typer.Typer(help="Write a calibrator in the language of its board.", no_args_is_help=True)


@app.callback()
def root() -> None:
    """Write a calibrator in the language of its board."""


def _add(target: str, about: str, examples: tuple[str, ...]) -> None:
    """Make the command of a target; all take the same options."""

    def command(
        model: Model,
        out: Out,
        arithmetic: Annotated[Arithmetic, typer.Option(help="What it computes in.")] = Arithmetic.FLOAT32,
        device: Device = "",
        name: Annotated[str, typer.Option("--name", help="What the model is called in C.")] = "model",
        step: CorrectionStep = None,
        board: Annotated[str, typer.Option("--board", help="Refuse what does not fit it ('scare board list').")] = "",
        force: Force = False,
        as_json: Json = False,
    ) -> None:
        calibrator = open_calibrator(model, step)
        check_free(out, force)
        if board:
            check_fit(calibrator, arithmetic, boards.board(board))
        write = export_c if target == "c" else partial(export_library, door=target)
        package = write(calibrator, arithmetic=arithmetic, folder=out, device=device, name=name, force=force)
        _tell(calibrator, package, arithmetic, as_json, guessed=not device)

    app.command(name=target, help=help_with_examples(target, about, examples))(command)


for _target, (_about, _examples) in TARGETS.items():
    _add(_target, _about, _examples)
add_formats(app)
add_micropython(app)


def _tell(calibrator: Calibrator, package: Package, arithmetic: Arithmetic, as_json: bool, guessed: bool) -> None:
    """Sizes on stdout; whose scaling it has, where it reads less, and where it is, on stderr."""
    facts = _facts(calibrator, package, arithmetic)
    sizes = (
        f"RAM {facts['ram_bytes']:,} bytes (window {facts['window_bytes']:,}, scratch {facts['scratch_bytes']:,}),"
        f" constants {facts['constant_bytes']:,} bytes"
    )
    show_facts(facts, [sizes], as_json)
    say_scaling(calibrator, package.device, guessed)
    _warn_of_limits(calibrator, package)
    folder = package.folder
    say(f"it is in {folder}, with a README.md that says how it is built; to try it: scare verify {folder}")


def _warn_of_limits(calibrator: Calibrator, package: Package) -> None:
    """Say where an integer window ends before the channel does."""
    for channel, read in zip(calibrator.inputs.channels, package.model.descriptor.channels, strict=True):
        if read.quantum and (read.low > channel.low or read.high < channel.high):
            say(f"int8 reads {channel.name} from {read.low:.4g} to {read.high:.4g}; a reading beyond gives no value")


def _facts(calibrator: Calibrator, package: Package, arithmetic: Arithmetic) -> dict[str, Any]:
    model = package.model
    facts: dict[str, Any] = {"folder": str(package.folder), "name": model.name, "arithmetic": str(arithmetic)}
    facts |= {"device": package.device, "ram_bytes": model.memory_bytes, "window_bytes": model.window_bytes}
    facts |= {"scratch_bytes": model.layout.bytes, "constant_bytes": model.table_bytes}
    if arithmetic is not Arithmetic.FLOAT32 and len(calibrator.validation.windows):
        both = (Arithmetic.FLOAT32, arithmetic)
        facts["validation_rmse"] = {str(one): validation_rmse(calibrator, one) for one in both}
    return facts
