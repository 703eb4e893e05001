"""`scare export tflite` and `scare export onnx`: a calibrator as a file that other runtimes read."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from scare.calibrator.calibrator import Calibrator
from scare.cli.console import say
from scare.cli.exporting import Device, Force, Out, help_with_examples, say_scaling, show_facts
from scare.cli.opening import CorrectionStep, Model, open_calibrator
from scare.cli.options import Json
from scare.export.arithmetic import Arithmetic
from scare.export.exchange import Exchange, export_exchange, validation_rmse
from scare.export.package import validation_rmse as validation_rmse_of_plan

ABOUT = {
    "tflite": (
        "Write a FlatBuffer for LiteRT (TensorFlow Lite) and TFLite-Micro.",
        ("no2.scare --out no2", "no2.scare --arithmetic int8 --out no2"),
    ),
    "onnx": ("Write an ONNX model with a dynamic batch.", ("no2.scare --out no2", "barkjohn-2021 --out pm25")),
}


def add_formats(app: typer.Typer) -> None:
    """Give `scare export` a command for each format."""
    for form, (about, examples) in ABOUT.items():
        app.command(name=form, help=help_with_examples(form, about, examples))(_command(form))


def _command(form: str) -> Callable[..., None]:
    def command(
        model: Model,
        out: Out,
        arithmetic: Annotated[Arithmetic, typer.Option(help="What its large matrices are in.")] = Arithmetic.FLOAT32,
        device: Device = "",
        name: Annotated[str, typer.Option("--name", help="What the file is called.")] = "model",
        step: CorrectionStep = None,
        force: Force = False,
        as_json: Json = False,
    ) -> None:
        calibrator = open_calibrator(model, step)
        exchange = export_exchange(calibrator, form, arithmetic, out, device, name, force)
        facts = _facts(calibrator, form, arithmetic, exchange)
        show_facts(facts, _lines(facts), as_json)
        say_scaling(calibrator, exchange.device, guessed=not device)
        say(f"it is in {out}, with a README.md that says how it is used; to try it: scare verify {out}")

    return command


def _facts(calibrator: Calibrator, form: str, arithmetic: Arithmetic, exchange: Exchange) -> dict[str, Any]:
    facts: dict[str, Any] = {"folder": str(exchange.folder), "file": f"{exchange.name}.{form}"}
    facts |= {"arithmetic": str(arithmetic), "device": exchange.device}
    facts |= {"bytes": len(exchange.made.content), "operators": dict(exchange.operators)}
    if arithmetic is Arithmetic.INT8:
        facts |= {"matrix_weights": exchange.made.weights, "int8_weights": exchange.made.integer}
        facts["float32_bytes"] = exchange.made.float32_bytes
        facts["validation_rmse"] = {
            "float32": validation_rmse_of_plan(calibrator, Arithmetic.FLOAT32),
            "int8": validation_rmse(calibrator, form, exchange.made.content),
        }
    return facts


def _lines(facts: dict[str, Any]) -> list[str]:
    """Size, operators, and how much of it is int8."""
    operators = ", ".join(f"{name} {count}" for name, count in facts["operators"].items())
    lines = [f"{facts['file']}: {facts['bytes']:,} bytes", f"operators: {operators}"]
    if "int8_weights" in facts:
        share = f"int8: {facts['int8_weights']:,} of the {facts['matrix_weights']:,} weights of its matrices"
        lines.append(f"{share}; in float32 the file has {facts['float32_bytes']:,} bytes")
    return lines
