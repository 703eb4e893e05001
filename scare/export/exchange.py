"""Exchange formats: the calibrator as one file that other runtimes read, and beside it what it reads and must give.

The file is `Calibrator.compute`: scaled windows in, values in the target's unit out. Comes from `tensors`; goes to
`cli`.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

import scare
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.fuse import fuse
from scare.calibrator.parity import INTEGER_WEIGHTS_TOLERANCE, deviation
from scare.errors import NotApplicableError, UsageError
from scare.export.arithmetic import Arithmetic
from scare.export.descriptor import choose_device
from scare.export.golden_vectors import GOLDEN, golden_vectors, reference_rmse
from scare.export.packaging import check_free, write_files
from scare.export.tensors.flatbuffer import flatbuffer, flatbuffer_operators, run_flatbuffer
from scare.export.tensors.integer_matrices import FEWEST, Made, with_integer_matrices
from scare.export.tensors.lowering import lower
from scare.export.tensors.onnx_model import onnx_model, onnx_operators, run_onnx
from scare.export.tensors.tensor import Tensor
from scare.extras import require

HERE = Path(__file__).parent
NAMES = ("window", "calibrated")  # of input and output
README = "README.md"
MARGIN = 0.75  # of what int8 may cost, so that other runtimes, which round otherwise, stay within it too
EXAMPLES = 128  # windows that integers are fitted to


@dataclass(frozen=True)
class Format:
    """A format: what runs it, its extra, packages that make and run it, how that is done, operators, if it has int8."""

    runtime: str
    extra: str
    making: str
    running: str
    make: Callable[[Tensor, Mapping[str, Any]], bytes]
    run: Callable[[bytes, np.ndarray], np.ndarray]
    operators: Callable[[bytes], list[str]]
    integers: bool

    def check(self, *packages: str) -> None:
        """Refuse where one of these packages is missing."""
        require(self.extra, *packages)


FORMATS = {
    "tflite": Format(
        "LiteRT",
        "tflite",
        "tensorflow",
        "ai_edge_litert",
        lambda result, facts: flatbuffer(result, NAMES),
        run_flatbuffer,
        flatbuffer_operators,
        integers=True,
    ),
    "onnx": Format(
        "ONNX Runtime",
        "onnx",
        "onnx",
        "onnxruntime",
        lambda result, facts: onnx_model(result, NAMES, {"scare": json.dumps(facts)}),
        run_onnx,
        onnx_operators,
        integers=False,
    ),
}


@dataclass(frozen=True)
class Exchange:
    """What was written: where, whose scaling it needs (empty: the fleet's), its file, its operators."""

    folder: Path
    device: str
    name: str
    made: Made
    operators: Mapping[str, int]


def export_exchange(
    calibrator: Calibrator,
    form: str,
    arithmetic: str,
    folder: Path,
    device: str = "",
    name: str = "model",
    force: bool = False,
) -> Exchange:
    """Write a calibrator in one of `FORMATS` into a folder or, by a name in .zip, a zip."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise UsageError(f"'{name}' cannot name a file: take letters, digits, _ and -")
    check_free(folder, force)
    device = choose_device(calibrator.inputs.scaling, device)
    facts = describe_inputs(calibrator, form, arithmetic, device)
    integer = Arithmetic(arithmetic) is Arithmetic.INT8
    made = make_file(calibrator, form, integer, facts)
    operators = dict(sorted(Counter(FORMATS[form].operators(made.content)).items()))
    exchange = Exchange(folder, device, name, made, operators)
    page = Template((HERE / "pages" / f"{form}.md").read_text(encoding="utf-8"))
    files: dict[str, str | bytes] = {
        f"{name}.{form}": made.content,
        f"{name}.json": json.dumps(facts, indent=2) + "\n",
        README: page.substitute(_fields(facts, exchange)),
        GOLDEN: golden_vectors(calibrator, integer).as_bytes(name),
    }
    write_files(folder, files)
    return exchange


def validation_rmse(calibrator: Calibrator, form: str, content: bytes) -> float:
    """The root mean squared error of the file to the reference on the bundle's validation windows."""
    windows = calibrator.validation.windows
    return reference_rmse(calibrator, FORMATS[form].run(content, windows) if len(windows) else np.empty(0))


def describe_inputs(calibrator: Calibrator, form: str, arithmetic: str, device: str) -> dict[str, Any]:
    """What the file reads and gives, for JSON."""
    inputs, target = calibrator.inputs, calibrator.target
    affine = inputs.scaling.devices[device] if device else inputs.scaling.fleet
    channels = [
        {
            "name": channel.name,
            "unit": channel.unit,
            "low": channel.low if np.isfinite(channel.low) else None,
            "high": channel.high if np.isfinite(channel.high) else None,
            "center": float(center),
            "scale": float(scale),
        }
        for channel, center, scale in zip(inputs.channels, affine.center, affine.scale, strict=True)
    ]
    return {
        "format": form,
        "arithmetic": str(arithmetic),
        "made_by": f"scare {scare.__version__}",
        "scaled_for": device or "the fleet",
        "input": NAMES[0],
        "rows": inputs.window,
        "step_seconds": inputs.step_seconds,
        "channels": channels,
        "output": NAMES[1],
        "target": target.name,
        "unit": target.unit,
    }


def make_file(calibrator: Calibrator, form: str, integer: bool, facts: Mapping[str, Any]) -> Made:
    """The file's content, with int8 weights where the result stays within what they may cost."""
    if integer and not FORMATS[form].integers:
        raise NotApplicableError(f"{form} is for computers, which gain nothing from int8: export it in float32")
    FORMATS[form].check(FORMATS[form].making, FORMATS[form].running)
    target = calibrator.inputs.scaling.target
    scale, center = float(target.scale[0]), float(target.center[0])
    content = FORMATS[form].make(lower(fuse(calibrator.plan), scale, center), facts)
    if not integer:
        return Made(content)
    examples = np.concatenate([calibrator.golden.windows, calibrator.validation.windows])[:EXAMPLES]
    if not len(examples):
        raise NotApplicableError("it holds no windows that int8 could be fitted to: export it in float32")
    share = MARGIN * INTEGER_WEIGHTS_TOLERANCE
    found = with_integer_matrices(content, examples, share * deviation(calibrator) * abs(scale))
    if not found.integer:
        raise NotApplicableError(
            f"none of its matrices (FULLY_CONNECTED) has {FEWEST} weights or more that can be int8 without moving a"
            f" result by {share:.1%} of the target's standard deviation: export it in float32"
        )
    return found


def _fields(facts: Mapping[str, Any], exchange: Exchange) -> dict[str, str]:
    """What pages may name."""
    rows = [
        f"| {one['name']} | {one['unit']} | {one['center']:.9g} | {one['scale']:.9g} |" for one in facts["channels"]
    ]
    return {
        "name": exchange.name,
        "target": facts["target"],
        "unit": facts["unit"] or "the unit of the reference",
        "rows": str(facts["rows"]),
        "columns": str(len(facts["channels"])),
        "step": f"{facts['step_seconds']:g}",
        "scaled_for": facts["scaled_for"],
        "arithmetic": facts["arithmetic"],
        "channels": "\n".join(rows),
        "bytes": f"{len(exchange.made.content):,}",
        "operators": ", ".join(f"{name} {count}" for name, count in exchange.operators.items()),
        "version": scare.__version__,
    }
