"""The target `onnx`: a tensor graph as an ONNX model with a dynamic batch, for ONNX Runtime on computers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from scare.export.lowering import Arithmetic, Compiled
from scare.export.target import NAMES, Artefact, Target, check_file_name, describe_inputs, model_file_artefact
from scare.export.tensor_graph import calibrator_graph
from scare.extras import require
from scare.kernels.tensor import INPUT, Tensor, in_order

if TYPE_CHECKING:
    from onnx import NodeProto

OPSET = 26  # the newest that ONNX Runtime 1.31 takes
BATCH = "batch"
OPERATORS = {  # operations that are one ONNX operator
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "matmul": "MatMul",
    "maximum": "Max",
    "minimum": "Min",
    "at_least": "GreaterOrEqual",
    "choose": "Where",
    "exp": "Exp",
    "log": "Log",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "relu": "Relu",
    "abs": "Abs",
}
GATES = (0, 3, 1, 2)  # LSTM gates: the order of ONNX (i, o, f, g) as indices into ours (i, f, g, o)


def make_onnx(compiled: Compiled) -> Artefact:
    """Make the model file, with the JSON description as metadata."""
    require("onnx")
    facts = {"scare": json.dumps(describe_inputs(compiled, "onnx"))}
    content = onnx_model(calibrator_graph(compiled.calibrator), NAMES, facts)
    return model_file_artefact(compiled, "onnx", content, onnx_operators(content), run_onnx)


ONNX = Target(
    "onnx",
    "Write an ONNX model with a dynamic batch.",
    ("no2.scare --out no2", "barkjohn-2021 --out pm25"),
    make_onnx,
    runner="onnx",
    refuses={Arithmetic.FIXED: "onnx is for computers, which gain nothing from fixed point: export it in float32"},
    check_name=check_file_name,
    name_help="Name of the file.",
    arithmetic_help="Number format: float32 only.",
)


def onnx_model(result: Tensor, names: tuple[str, str], facts: dict[str, str]) -> bytes:
    """Make an .onnx file with input [batch, window, channels] and output [batch, 1].

    `names` are those of input and output; `facts` are metadata.
    """
    from onnx import TensorProto, checker, helper

    builder = _GraphBuilder(names[0])
    for tensor in in_order(result):
        builder.add(tensor, names[1] if tensor is result else "")
    window = next(tensor for tensor in in_order(result) if tensor.operation == INPUT)
    source, output = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [BATCH, *shape])
        for name, shape in zip(names, (window.shape, result.shape), strict=True)
    )
    graph = helper.make_graph(builder.nodes, "scare", [source], [output], builder.constants)
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, producer_name="scare")
    model.ir_version = helper.find_min_ir_version_for(opsets)
    helper.set_model_props(model, facts)
    checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def run_onnx(content: bytes, windows: np.ndarray) -> np.ndarray:
    """Run a model on scaled windows [n, window, channels] in ONNX Runtime; returns results [n]."""
    from onnxruntime import InferenceSession

    session = InferenceSession(content, providers=["CPUExecutionProvider"])
    (source,), (result,) = session.get_inputs(), session.get_outputs()
    return np.asarray(session.run([result.name], {source.name: windows.astype(np.float32)})[0][:, 0], np.float64)


def onnx_operators(content: bytes) -> list[str]:
    """List the operator of each node."""
    from onnx import ModelProto

    return [node.op_type for node in ModelProto.FromString(content).graph.node]


class _GraphBuilder:
    """Collects the nodes and constants of an ONNX graph, and the name of each tensor in it.

    The method of an operation adds its node or nodes, the last of them called `name` (empty: any name), and returns the
    name of the output. Axes are one higher than those of a `Tensor`, because ONNX tensors have the batch first.
    """

    def __init__(self, source: str) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[Any] = []
        self._source = source
        self._names: dict[int, str] = {}

    def add(self, tensor: Tensor, name: str) -> None:
        """Add a tensor under this name (empty: any name); its inputs must have been added before."""
        if tensor.operation == INPUT:
            self._names[id(tensor)] = self._source
        elif tensor.constant is not None:
            self._names[id(tensor)] = self._constant(tensor.constant)
        else:
            self._names[id(tensor)] = self._operation(tensor, name)

    def _operation(self, tensor: Tensor, name: str) -> str:
        """Add a computed tensor: as one operator of OPERATORS, or by the method of its operation."""
        inputs = [self._names[id(operand)] for operand in tensor.inputs]
        if tensor.operation in OPERATORS:
            return self._node(OPERATORS[tensor.operation], inputs, name)
        return getattr(self, f"_{tensor.operation}")(tensor, inputs, name)

    def _node(self, operation: str, inputs: list[str], name: str = "", outputs: int = 1, **attributes: Any) -> str:
        """Add a node of which only the last output is used, and return that output's name."""
        from onnx import helper

        name = name or f"t{len(self.nodes)}"
        output_names = [*[""] * (outputs - 1), name]  # an empty name: not used
        self.nodes.append(helper.make_node(operation, inputs, output_names, **attributes))
        return name

    def _constant(self, numbers: np.ndarray) -> str:
        """Add a constant (an initializer of the graph) and return its name."""
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(numbers), name))
        return name

    def _integers(self, *numbers: int) -> str:
        """Add a constant vector of int64, as ONNX takes shapes and axes."""
        return self._constant(np.array(numbers, np.int64))

    def _reshape(self, tensor: Tensor, inputs: list[str], name: str) -> str:
        return self._node("Reshape", [*inputs, self._integers(-1, *tensor.shape)], name)

    def _permute(self, tensor: Tensor, inputs: list[str], name: str) -> str:
        return self._node("Transpose", inputs, name, perm=[0, *(axis + 1 for axis in tensor.settings["axes"])])

    def _slice(self, tensor: Tensor, inputs: list[str], name: str) -> str:
        start, stop, axis = (tensor.settings[key] for key in ("start", "stop", "axis"))
        return self._node(
            "Slice", [*inputs, self._integers(start), self._integers(stop), self._integers(axis + 1)], name
        )

    def _gather(self, tensor: Tensor, inputs: list[str], name: str) -> str:
        return self._node("Gather", [*inputs, self._integers(*tensor.settings["rows"])], name, axis=1)

    def _sum(self, tensor: Tensor, inputs: list[str], name: str) -> str:
        return self._node("ReduceSum", [*inputs, self._integers(tensor.settings["axis"] + 1)], name, keepdims=1)

    def _concatenate(self, tensor: Tensor, inputs: list[str], name: str) -> str:
        return self._node("Concat", inputs, name, axis=tensor.settings["axis"] + 1)

    def _softmax(self, tensor: Tensor, inputs: list[str], name: str) -> str:
        return self._node("Softmax", inputs, name, axis=-1)

    def _inverse_root(self, tensor: Tensor, inputs: list[str], name: str) -> str:
        return self._node("Reciprocal", [self._node("Sqrt", inputs)], name)

    def _sign(self, tensor: Tensor, inputs: list[str], name: str) -> str:
        zero, above, below = (self._constant(np.array(number, np.float32)) for number in (0, 1, -1))
        return self._node("Where", [self._node("GreaterOrEqual", [*inputs, zero]), above, below], name)

    def _later_sum(self, tensor: Tensor, inputs: list[str], name: str) -> str:
        axis = self._constant(np.array(1, np.int64))
        return self._node("CumSum", [*inputs, axis], name, exclusive=1, reverse=1)

    def _after_zeros(self, tensor: Tensor, inputs: list[str], name: str) -> str:
        other_axes = len(tensor.shape) - 1
        # ONNX takes the padding before each axis (batch, rows, others), then after each: only the rows get some before.
        before, after = [0, tensor.settings["rows"], *[0] * other_axes], [0] * (2 + other_axes)
        return self._node("Pad", [*inputs, self._integers(*before, *after)], name)

    def _lstm(self, tensor: Tensor, inputs: list[str], name: str) -> str:
        """Add an LSTM; in ONNX time is the first axis, gates have another order, weights begin with a direction axis.

        Ours are input weights [I, 4 size], recurrent weights [size, 4 size] and one bias [4 size]; ONNX has two biases.
        """
        size = tensor.shape[0]

        def in_onnx_order(operand: Tensor) -> np.ndarray:
            gates = np.split(np.asarray(operand.constant), 4, axis=-1)
            return np.concatenate([gates[gate] for gate in GATES], axis=-1)

        weights, recurrent, bias = map(in_onnx_order, tensor.inputs[1:])
        both_biases = np.concatenate([bias, np.zeros_like(bias)])
        constants = [self._constant(numbers[None]) for numbers in (weights.T, recurrent.T, both_biases)]
        source = self._node("Transpose", inputs[:1], perm=[1, 0, 2])
        last = self._node("LSTM", [source, *constants], outputs=2, hidden_size=size)
        return self._node("Reshape", [last, self._integers(-1, size)], name)
