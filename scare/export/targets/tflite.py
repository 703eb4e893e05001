"""A FlatBuffer for LiteRT (TensorFlow Lite) and TFLite-Micro, with large matrices in int8 where that is asked for."""

from dataclasses import replace

import numpy as np

from scare.calibrator.parity import INTEGER_WEIGHTS_TOLERANCE, deviation
from scare.errors import NotApplicableError
from scare.export.arithmetic import Arithmetic
from scare.export.compiled import Compiled
from scare.export.exchange import NAMES, exchange_artefact, tensor_of
from scare.export.naming import check_file_name
from scare.export.target_contract import Artefact, Target
from scare.export.tensors.flatbuffer import flatbuffer, flatbuffer_operators, run_flatbuffer
from scare.export.tensors.integer_matrices import FlatBuffer, with_integer_matrices
from scare.extras import require

MARGIN = 0.75  # of what int8 may cost, so that other runtimes, which round otherwise, stay within it too
EXAMPLES = 128  # windows that integers are fitted to


def make(compiled: Compiled) -> Artefact:
    """The file."""
    made = make_flatbuffer(compiled)
    operators = flatbuffer_operators(made.content)
    if compiled.arithmetic is Arithmetic.FLOAT32:
        return exchange_artefact(compiled, "tflite", made.content, operators, run_flatbuffer)
    counted = {
        "matrix_weights": made.weights,
        "int8_weights": made.integer_weights,
        "float32_bytes": made.float32_bytes,
    }
    artefact = exchange_artefact(compiled, "tflite", made.content, operators, run_flatbuffer, counted)
    share = (
        f"int8: {made.integer_weights:,} of the {made.weights:,} weights of its matrices; in float32 the file has"
        f" {made.float32_bytes:,} bytes"
    )
    return replace(artefact, summary=(*artefact.summary, share))


def make_flatbuffer(compiled: Compiled) -> FlatBuffer:
    """Its content, with int8 weights where the result stays within what they may cost."""
    require("tflite")
    content = flatbuffer(tensor_of(compiled), NAMES)
    if compiled.arithmetic is Arithmetic.FLOAT32:
        return FlatBuffer(content)
    calibrator = compiled.calibrator
    examples = np.concatenate([calibrator.golden.windows, calibrator.validation.windows])[:EXAMPLES]
    if not len(examples):
        raise NotApplicableError("it holds no windows that int8 could be fitted to: export it in float32")
    share, scale = MARGIN * INTEGER_WEIGHTS_TOLERANCE, float(calibrator.inputs.scaling.target.scale[0])
    found = with_integer_matrices(content, examples, share * deviation(calibrator) * abs(scale))
    if not found.integer_weights:
        raise NotApplicableError(
            "none of its matrices (FULLY_CONNECTED) makes the file smaller in int8 without moving a result by"
            f" {share:.1%} of the target's standard deviation: export it in float32"
        )
    return found


TARGET = Target(
    "tflite",
    "Write a FlatBuffer for LiteRT (TensorFlow Lite) and TFLite-Micro.",
    ("no2.scare --out no2", "no2.scare --arithmetic int8 --out no2"),
    make,
    runner="tflite",
    check_name=check_file_name,
    name_help="What the file is called.",
    arithmetic_help="What its large matrices are in.",
)
