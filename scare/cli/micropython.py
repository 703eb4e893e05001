"""`scare export micropython`: a calibrator in plain Python, for boards without a compiler."""

from typing import Annotated, Any

import typer

from scare.cli.console import say
from scare.cli.exporting import Device, Force, Out, help_with_examples, say_scaling, show_facts
from scare.cli.opening import CorrectionStep, Model, open_calibrator
from scare.cli.options import Json
from scare.export.arithmetic import Arithmetic
from scare.export.micropython.package import PythonPackage, export_micropython

ABOUT = "Write a module in plain Python, for MicroPython and boards without a compiler."
EXAMPLES = ("pm.scare --out pm", "barkjohn-2021 --step 120 --out pm25")


def add_micropython(app: typer.Typer) -> None:
    """Give `scare export` this command."""
    app.command(name="micropython", help=help_with_examples("micropython", ABOUT, EXAMPLES))(micropython)


def micropython(
    model: Model,
    out: Out,
    arithmetic: Annotated[Arithmetic, typer.Option(help="Of Python's numbers: float32 only.")] = Arithmetic.FLOAT32,
    device: Device = "",
    name: Annotated[str, typer.Option("--name", help="What the module is called.")] = "model",
    step: CorrectionStep = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the module."""
    calibrator = open_calibrator(model, step)
    package = export_micropython(calibrator, arithmetic, out, device, name, force)
    facts = _facts(package, arithmetic)
    sizes = (
        f"arrays {facts['ram_bytes']:,} bytes: window {facts['window_bytes']:,}, scratch {facts['scratch_bytes']:,},"
        f" constants {facts['constant_bytes']:,}"
    )
    show_facts(facts, [sizes], as_json)
    say_scaling(calibrator, package.device, guessed=not device)
    say(f"it is in {out}, with a README.md that says what goes to the board; to try it: scare verify {out}")


def _facts(package: PythonPackage, arithmetic: Arithmetic) -> dict[str, Any]:
    module = package.module
    facts: dict[str, Any] = {"folder": str(package.folder), "name": package.name, "arithmetic": str(arithmetic)}
    facts |= {"device": package.device, "ram_bytes": module.memory_bytes, "window_bytes": module.window_bytes}
    return facts | {"scratch_bytes": module.scratch_bytes, "constant_bytes": module.constant_bytes}
