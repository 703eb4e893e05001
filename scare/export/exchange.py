"""Exchange formats: the calibrator as one file that other runtimes read, and beside it what it reads and must give.

The file is `Calibrator.compute`: scaled windows in, values in the target's unit out. Comes from `tensors`; goes to the
targets `tflite` and `onnx`.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

import scare
from scare.export.compiled import Compiled
from scare.export.lowering import Arithmetic
from scare.export.scare_json import describe_channels, golden_vectors
from scare.export.target import Artefact, markdown, templates
from scare.export.tensor_graph import lower
from scare.kernels.tensor import Tensor

INPUT, OUTPUT = NAMES = ("window", "calibrated")


def tensor_of(compiled: Compiled) -> Tensor:
    """The calibrator as tensor operations."""
    target = compiled.calibrator.inputs.scaling.target
    return lower(compiled.calibrator.plan, float(target.scale[0]), float(target.center[0]))


def exchange_artefact(
    compiled: Compiled,
    form: str,
    content: bytes,
    operators: Sequence[str],
    run: Callable[[bytes, np.ndarray], np.ndarray],
    integers: Mapping[str, int] | None = None,
) -> Artefact:
    """A file of this form and its page; `integers` says how much of it is int8."""
    model, facts = f"{compiled.name}.{form}", describe_inputs(compiled, form)
    counted = dict(sorted(Counter(operators).items()))
    listed = ", ".join(f"{name} {count}" for name, count in counted.items())
    sizes = {"bytes": len(content), "operators": counted, **(integers or {})}
    files: dict[str, str | bytes] = {
        model: content,
        f"{compiled.name}.json": json.dumps(facts, indent=2) + "\n",
        **templates(form, _fields(compiled.name, facts, len(content), listed)),
    }
    golden = golden_vectors(compiled.calibrator, compiled.arithmetic is Arithmetic.FIXED)
    summary = (f"{model}: {len(content):,} bytes", f"operators: {listed}")
    return Artefact(files, model, compiled.name, sizes, summary, lambda windows: run(content, windows), golden)


def describe_inputs(compiled: Compiled, form: str) -> dict[str, Any]:
    """What the file reads and gives, for JSON."""
    inputs, target = compiled.calibrator.inputs, compiled.calibrator.target
    return {
        "format": form,
        "arithmetic": "float32" if compiled.arithmetic is Arithmetic.FLOAT32 else "int8",  # only a FlatBuffer has it
        "made_by": f"scare {scare.__version__}",
        "scaled_for": compiled.device or "the fleet",
        "input": INPUT,
        "rows": inputs.window,
        "step_seconds": inputs.step_seconds,
        "channels": [asdict(one) for one in describe_channels(compiled.calibrator, compiled.device)],
        "output": OUTPUT,
        "target": target.name,
        "unit": target.unit,
    }


def _fields(name: str, facts: Mapping[str, Any], size: int, operators: str) -> dict[str, str]:
    """What pages may name."""
    rows = [
        f"| {markdown(one['name'])} | {markdown(one['unit'])} | {one['center']:.9g} | {one['scale']:.9g} |"
        for one in facts["channels"]
    ]
    return {
        "name": name,
        "target": markdown(facts["target"]),
        "unit": markdown(facts["unit"]) or "the unit of the reference",
        "rows": str(facts["rows"]),
        "columns": str(len(facts["channels"])),
        "step": f"{facts['step_seconds']:g}",
        "scaled_for": markdown(facts["scaled_for"]),
        "arithmetic": facts["arithmetic"],
        "channels": "\n".join(rows),
        "bytes": f"{size:,}",
        "operators": operators,
        "version": scare.__version__,
    }
