"""An ONNX model, for computers."""

import json

from scare.export.arithmetic import Arithmetic
from scare.export.compiled import Compiled
from scare.export.exchange import NAMES, describe_inputs, exchange_artefact, tensor_of
from scare.export.naming import check_file_name
from scare.export.target_contract import Artefact, Target
from scare.export.tensors.onnx_model import onnx_model, onnx_operators, run_onnx
from scare.extras import require


def make(compiled: Compiled) -> Artefact:
    """The file, with the same facts in it as beside it."""
    require("onnx")
    facts = {"scare": json.dumps(describe_inputs(compiled, "onnx"))}
    content = onnx_model(tensor_of(compiled), NAMES, facts)
    return exchange_artefact(compiled, "onnx", content, onnx_operators(content), run_onnx)


TARGET = Target(
    "onnx",
    "Write an ONNX model with a dynamic batch.",
    ("no2.scare --out no2", "barkjohn-2021 --out pm25"),
    make,
    runner="onnx",
    refuses={Arithmetic.INT8: "onnx is for computers, which gain nothing from int8: export it in float32"},
    check_name=check_file_name,
    name_help="What the file is called.",
    arithmetic_help="Of its numbers: float32 only.",
)
