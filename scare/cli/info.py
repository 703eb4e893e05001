"""`scare info`: show what a calibrator reads, how it was made, its scores and its cost."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from scare.calibrator.bundle import card
from scare.calibrator.calibrator import Calibrator
from scare.cli.console import STDOUT, emit, note
from scare.cli.options import Json
from scare.files import replacing


def info(
    calibrator: Annotated[Path, typer.Argument(help="A .scare file.")],
    as_json: Json = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write the card to this Markdown file.")] = None,
) -> None:
    """Show a calibrator's inputs, origin, scores and cost.

    Examples:
      scare info no2.scare
      scare info no2.scare --json
    """
    model = Calibrator.load(calibrator)
    cost = model.cost()
    if out is not None:
        with replacing(out) as temporary:
            temporary.write_text(card(model), encoding="utf-8")
        note(f"Wrote the card to {out}.")
    if as_json:
        inputs = model.inputs
        emit(
            {
                "channels": [asdict(channel) for channel in inputs.channels],
                "target": asdict(model.target),
                "window": inputs.window,
                "step_seconds": inputs.step_seconds,
                "gap_policy": inputs.policy.name,
                "scaling": inputs.scaling.method,
                "devices": list(inputs.scaling.devices),
                "settle_readings": inputs.scaling.settle,
                "training_range": asdict(inputs.training_range) if inputs.training_range else None,
                "floor": model.floor,
                "cost": asdict(cost),
                "steps": [step.kernel for step in model.plan.steps],
                "intervals": asdict(model.intervals) | {"origin": model.intervals.origin} if model.intervals else None,
                "facts": dict(model.facts),
            }
        )
        return
    STDOUT.print(card(model), markup=False)
    operations = ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in asdict(cost.operations).items())
    STDOUT.print(f"One calibrated reading takes {operations}.")
    STDOUT.print(
        f"{cost.weights:,} weights ({cost.weight_bytes:,} bytes), {cost.peak_bytes:,} bytes of working memory."
    )
