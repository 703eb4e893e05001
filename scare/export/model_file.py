"""Exchange formats (TFLite, ONNX): the calibrator as one model file, with a JSON description and a README.

    tensor_graph.py -> tflite.py or onnx.py (bytes of the model) -> model_file_artefact -> Artefact

The model is `Calibrator.compute`: scaled windows in, values in the target's unit out. Making windows is left to the
caller.
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
from scare.export.target import Artefact, escape_markdown, fill_templates

INPUT, OUTPUT = NAMES = ("window", "calibrated")


def model_file_artefact(
    compiled: Compiled,
    form: str,
    content: bytes,
    operators: Sequence[str],
    run: Callable[[bytes, np.ndarray], np.ndarray],
    integers: Mapping[str, int] | None = None,
) -> Artefact:
    """Make the artefact of a model file; `form` is its extension, `integers` counts its int8 weights."""
    model, facts = f"{compiled.name}.{form}", describe_inputs(compiled, form)
    counted = dict(sorted(Counter(operators).items()))
    listed = ", ".join(f"{name} {count}" for name, count in counted.items())
    files: dict[str, str | bytes] = {
        model: content,
        f"{compiled.name}.json": json.dumps(facts, indent=2) + "\n",
        **fill_templates(form, readme_fields(compiled.name, facts, len(content), listed)),
    }
    return Artefact(
        files,
        model,
        compiled.name,
        sizes={"bytes": len(content), "operators": counted, **(integers or {})},
        summary=(f"{model}: {len(content):,} bytes", f"operators: {listed}"),
        compute=lambda windows: run(content, windows),
        golden=golden_vectors(compiled.calibrator, compiled.arithmetic is Arithmetic.FIXED),
    )


def describe_inputs(compiled: Compiled, form: str) -> dict[str, Any]:
    """Describe the model's input and output, for JSON."""
    inputs, target = compiled.calibrator.inputs, compiled.calibrator.target
    return {
        "format": form,
        "arithmetic": "float32" if compiled.arithmetic is Arithmetic.FLOAT32 else "int8",  # FlatBuffer weights
        "made_by": f"scare {scare.__version__}",
        "scaled_for": compiled.device or "the fleet",
        "input": INPUT,
        "rows": inputs.window,
        "step_seconds": inputs.step_seconds,
        "channels": [asdict(channel) for channel in describe_channels(compiled.calibrator, compiled.device)],
        "output": OUTPUT,
        "target": target.name,
        "unit": target.unit,
    }


def readme_fields(name: str, facts: Mapping[str, Any], size: int, operators: str) -> dict[str, str]:
    """Placeholders of the README, all user text escaped."""

    def row(channel: Mapping[str, Any]) -> str:
        texts = (escape_markdown(channel[key]) for key in ("name", "unit"))
        return f"| {' | '.join(texts)} | {channel['center']:.9g} | {channel['scale']:.9g} |"

    return {
        "name": name,
        "target": escape_markdown(facts["target"]),
        "unit": escape_markdown(facts["unit"]) or "the unit of the reference",
        "rows": str(facts["rows"]),
        "columns": str(len(facts["channels"])),
        "step": f"{facts['step_seconds']:g}",
        "scaled_for": escape_markdown(facts["scaled_for"]),
        "arithmetic": facts["arithmetic"],
        "channels": "\n".join(map(row, facts["channels"])),
        "bytes": f"{size:,}",
        "operators": operators,
        "version": scare.__version__,
    }
