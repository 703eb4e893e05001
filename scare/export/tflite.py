"""The target `tflite`: a FlatBuffer for LiteRT (TensorFlow Lite) and TFLite-Micro.

    Tensor (tensor_graph.py) -> TensorFlow's converter -> smaller FlatBuffer -> int8 matrices, if asked for -> Artefact

It computes one window at a time, with operators that TFLite-Micro has. A board keeps the file in flash, so it is
written as small as possible: names, versions and metadata of the converter are dropped, and equal shapes, constants and
tensors are written once.

TensorFlow's converter quantises a whole graph or nothing. A whole graph does not work here: a sensor's window needs
more than the 256 steps of int8, and in int16 TFLite-Micro lacks some operators and others lose too much accuracy. So
matrices are tried one by one, the largest first: int8 weights, int16 in and out, the rest in float32. A matrix stays
int8 if the file gets smaller and the results hardly change.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from scare.calibrator.parity_tolerance import INTEGER_WEIGHTS_TOLERANCE, deviation
from scare.errors import NotApplicableError
from scare.export.lowering import Arithmetic, Compiled
from scare.export.target import NAMES, Artefact, Target, check_file_name, model_file_artefact
from scare.export.tensor_graph import MEMBER, Spans, calibrator_graph, find_spans, simplify
from scare.extras import require
from scare.kernels import Shape
from scare.kernels.tensor import INPUT, Tensor, in_order

if TYPE_CHECKING:
    import tensorflow as tf

IDENTIFIER = b"TFL3"  # file identifier of the format
HUGE = 2.0**64  # clipping x · HUGE to ±1 gives the sign of x, and is fused into the matrix before it
ARENA = 1 << 27  # bytes that TFLite-Micro may use on a computer
INT8, INT16 = 127, 32767  # largest integers, symmetric about zero
DAMPING = 0.01  # share of the inputs' mean square added to the Hessian: directions without examples keep weights
MARGIN = 0.75  # share of the tolerance of int8 weights to use up; runtimes that round differently need the rest
EXAMPLES = 128  # windows that int8 weights are fitted to


@dataclass(frozen=True)
class FlatBuffer:
    """A .tflite file; how many weights its matrices have, how many of them are int8, and its size in float32."""

    content: bytes
    weights: int = 0
    integer_weights: int = 0
    float32_bytes: int = 0


def make_tflite(compiled: Compiled) -> Artefact:
    """Make the model file, and report how much of it is int8."""
    model = make_flatbuffer(compiled)
    operators = flatbuffer_operators(model.content)
    if compiled.arithmetic is Arithmetic.FLOAT32:
        return model_file_artefact(compiled, "tflite", model.content, operators, run_flatbuffer)
    sizes = {
        "matrix_weights": model.weights,
        "int8_weights": model.integer_weights,
        "float32_bytes": model.float32_bytes,
    }
    artefact = model_file_artefact(compiled, "tflite", model.content, operators, run_flatbuffer, sizes)
    share = (
        f"int8: {model.integer_weights:,} of the {model.weights:,} weights of its matrices; in float32 the file has"
        f" {model.float32_bytes:,} bytes"
    )
    return replace(artefact, summary=(*artefact.summary, share))


def make_flatbuffer(compiled: Compiled) -> FlatBuffer:
    """Convert a calibrator; in fixed point with as many int8 weights as the tolerance of its results allows."""
    require("tflite")
    content = flatbuffer(calibrator_graph(compiled.calibrator), NAMES)
    if compiled.arithmetic is Arithmetic.FLOAT32:
        return FlatBuffer(content)
    calibrator = compiled.calibrator
    examples = np.concatenate([calibrator.golden.windows, calibrator.validation.windows])[:EXAMPLES]
    if not len(examples):
        raise NotApplicableError("the file holds no windows to fit int8 weights to: export it in float32")
    share = MARGIN * INTEGER_WEIGHTS_TOLERANCE  # of the target's standard deviation
    target_sd = deviation(calibrator) * abs(float(calibrator.inputs.scaling.target.scale[0]))
    quantised = quantise_matrices(content, examples, share * target_sd)
    if not quantised.integer_weights:
        raise NotApplicableError(
            "no matrix (FULLY_CONNECTED) makes the file smaller in int8 without changing a result by more than"
            f" {share:.1%} of the target's standard deviation: export it in float32"
        )
    return quantised


TFLITE = Target(
    "tflite",
    "Write a FlatBuffer for LiteRT (TensorFlow Lite) and TFLite-Micro.",
    ("no2.scare --out no2", "no2.scare --arithmetic int8 --out no2"),
    make_tflite,
    runner="tflite",
    check_name=check_file_name,
    name_help="Name of the file.",
    arithmetic_help="Number format of its large matrices.",
    fixed_name="int8",
)


def flatbuffer(result: Tensor, names: tuple[str, str]) -> bytes:
    """Convert a graph to a .tflite file in float32 with input [1, window, channels] and output [1, 1].

    `names` are those of input and output.
    """
    import tensorflow as tf

    ordered = in_order(simplify(result))
    window = next(tensor for tensor in ordered if tensor.operation == INPUT)
    with silence_stderr():
        layers = {id(tensor): _lstm_layer(tensor) for tensor in ordered if tensor.operation == "lstm"}

    class Model(tf.Module):  # as a module, so that its variables live until the converter is done
        @tf.function(input_signature=[tf.TensorSpec((1, *window.shape), tf.float32, name=names[0])], autograph=False)
        def __call__(self, batch: Any) -> dict[str, Any]:
            numbers = tf.reshape(batch, window.shape)  # without the batch axis of length 1
            return {names[1]: tf.reshape(_compute(ordered, numbers, layers), (1, 1))}

    with silence_stderr():
        model = Model()
        traced = [model.__call__.get_concrete_function()]
        content = tf.lite.TFLiteConverter.from_concrete_functions(traced, model).convert()
    return write_flatbuffer(read_flatbuffer(bytes(content)))


def run_flatbuffer(content: bytes, windows: np.ndarray) -> np.ndarray:
    """Run scaled windows [n, window, channels] in LiteRT: results [n]."""
    interpreter = _interpreter(content)
    source = interpreter.get_input_details()[0]["index"]
    result = interpreter.get_output_details()[0]["index"]
    results = np.empty(len(windows))
    for number, window in enumerate(windows):
        interpreter.set_tensor(source, window[None].astype(np.float32))
        interpreter.invoke()
        results[number] = interpreter.get_tensor(result)[0, 0]
    return results


def run_micro(content: bytes, windows: np.ndarray) -> np.ndarray:
    """Like `run_flatbuffer`, in TFLite-Micro on this computer."""
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(content, arena_size=ARENA)
    results = np.empty(len(windows))
    for number, window in enumerate(windows):
        interpreter.set_input(window[None].astype(np.float32), 0)
        interpreter.invoke()
        results[number] = interpreter.get_output(0)[0, 0]
    return results


def read_tensors(content: bytes, windows: np.ndarray, tensors: Collection[int]) -> dict[int, np.ndarray]:
    """Run windows and record these tensors, by index, as rows [n·rows, last axis]."""
    interpreter = _interpreter(content, experimental_preserve_all_tensors=True)
    source = interpreter.get_input_details()[0]["index"]
    recorded: dict[int, list[np.ndarray]] = {index: [] for index in tensors}
    for window in windows:
        interpreter.set_tensor(source, window[None].astype(np.float32))
        interpreter.invoke()
        for index, rows in recorded.items():
            numbers = interpreter.get_tensor(index)
            rows.append(numbers.reshape(-1, numbers.shape[-1]))
    return {index: np.concatenate(rows) for index, rows in recorded.items()}


def flatbuffer_operators(content: bytes) -> list[str]:
    """List the name of each operator call."""
    from tensorflow.lite.python.schema_py_generated import BuiltinOperator

    names = {code: name for name, code in vars(BuiltinOperator).items() if isinstance(code, int)}
    model = read_flatbuffer(content)
    codes = [model.operatorCodes[operator.opcodeIndex].builtinCode for operator in model.subgraphs[0].operators]
    return [names[code] for code in codes]


def quantise_matrices(content: bytes, examples: np.ndarray, limit: float) -> FlatBuffer:
    """Make matrices int8, the largest first, if the file gets smaller and no result changes by more than `limit`.

    Results are those of the examples, scaled windows [n, window, channels]; `limit` is in their unit.
    """
    matrices = _Matrices(content, examples)
    results = run_flatbuffer(content, examples)
    chosen, smallest = list[int](), content
    for index in matrices.largest_first:
        candidate = matrices.quantised([*chosen, index])
        if len(candidate) < len(smallest):
            changes = np.abs(run_flatbuffer(candidate, examples) - results)
            if changes.max() <= limit:
                chosen, smallest = [*chosen, index], candidate
    integer_weights = sum(matrices.sizes[index] for index in chosen)
    return FlatBuffer(smallest, sum(matrices.sizes.values()), integer_weights, len(content))


def gptq_round(weights: np.ndarray, scales: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """Round weights [O, I] to int8 steps of `scales` [O] so that products with the inputs [n, I] change least.

    GPTQ (Frantar et al. 2023): columns are rounded one after the other, and those not rounded yet compensate for the
    error as far as the inputs are correlated.

    >>> alike = np.ones((4, 3)) * [[1.0], [2.0], [-1.0], [0.5]]
    >>> int(gptq_round(np.array([[0.4, 0.4, 0.4]]), np.array([1.0]), alike).sum())
    1
    """
    hessian = inputs.T.astype(np.float64) @ inputs / len(inputs)  # [I, I]
    mean_square = max(float(np.trace(hessian)) / len(hessian), 1e-12)
    hessian += DAMPING * mean_square * np.eye(len(hessian))
    compensation = np.linalg.cholesky(np.linalg.inv(hessian)).T  # upper-triangular [I, I]
    remaining = weights.astype(np.float64) / scales[:, None]  # in steps, with compensations so far [O, I]
    rounded = np.empty(weights.shape, np.int8)
    for column in range(weights.shape[1]):
        rounded[:, column] = np.clip(np.rint(remaining[:, column]), -INT8, INT8)
        error = (remaining[:, column] - rounded[:, column]) / compensation[column, column]
        remaining[:, column:] -= error[:, None] * compensation[column, column:]
    return rounded


def read_flatbuffer(content: bytes) -> Any:
    """Read a .tflite file into objects."""
    from tensorflow.lite.tools import flatbuffer_utils

    return flatbuffer_utils.read_model_from_bytearray(bytearray(content))


def write_flatbuffer(model: Any) -> bytes:
    """Write a model as a small .tflite file: drop what inference does not need, and write equal objects only once.

    This changes the model.
    """
    builder, written = _builder(), dict[Any, int]()
    for graph in model.subgraphs:
        _drop_unread(graph, model.signatureDefs if graph is model.subgraphs[0] else [])
        for index, tensor in enumerate(graph.tensors):
            if index not in (*graph.inputs, *graph.outputs):
                tensor.name = None
            if tensor.quantization is not None and tensor.quantization.scale is None:
                tensor.quantization = None
            tensor.hasRank = not len(tensor.shape)  # scalars need it; False is the default and takes no bytes
    model.metadata = model.description = None
    _drop_buffers(model)
    for graph in model.subgraphs:
        graph.tensors = [_WrittenOnce(tensor, written) for tensor in graph.tensors]
        for operator in graph.operators:
            operator.builtinOptions = operator.builtinOptions and _WrittenOnce(operator.builtinOptions, written)
    builder.Finish(model.Pack(builder), file_identifier=IDENTIFIER)
    return bytes(builder.Output())


@contextmanager
def silence_stderr() -> Iterator[None]:
    """Redirect the file descriptor of stderr, because TensorFlow logs from C++; exceptions still propagate."""
    if sys.stderr is None:  # closed by the caller
        yield
        return
    sys.stderr.flush()
    stderr_copy = os.dup(2)
    null_device = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null_device, 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(stderr_copy, 2)
        os.close(stderr_copy)
        os.close(null_device)


def _interpreter(content: bytes, **options: Any) -> Any:
    """Make a LiteRT interpreter without delegates, because their results differ by roundings."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=content, experimental_op_resolver_type=resolver, **options)
    interpreter.allocate_tensors()
    return interpreter


def _compute(ordered: list[Tensor], window: tf.Tensor, layers: Mapping[int, Any]) -> tf.Tensor:
    """Evaluate a graph in TensorFlow, for tracing; `layers` are Keras layers of its LSTMs by tensor id."""
    import tensorflow as tf

    functions = _tensorflow_functions(tf, layers)
    values: dict[int, tf.Tensor] = {}
    for tensor in ordered:
        if tensor.operation == INPUT:
            values[id(tensor)] = window
        elif tensor.constant is not None:
            values[id(tensor)] = tf.constant(tensor.constant)
        else:
            inputs = [values[id(operand)] for operand in tensor.inputs]
            values[id(tensor)] = functions[tensor.operation](*inputs, tensor)
    return values[id(ordered[-1])]


def _tensorflow_functions(tf: Any, layers: Mapping[int, Any]) -> dict[str, Callable[..., Any]]:
    """Return a TensorFlow function by operation; it takes the inputs and, last, the `Tensor` that it computes."""
    plain = {
        "add": tf.add,
        "subtract": tf.subtract,
        "divide": tf.divide,
        "maximum": tf.maximum,
        "minimum": tf.minimum,
        "at_least": tf.greater_equal,
        "exp": tf.exp,
        "log": tf.math.log,
        "tanh": tf.tanh,
        "sigmoid": tf.sigmoid,
        "inverse_root": tf.math.rsqrt,
        "relu": tf.nn.relu,
        "abs": tf.abs,
        "softmax": tf.nn.softmax,
    }

    def pad_front(x: Any, tensor: Tensor) -> Any:
        return tf.pad(x, [[tensor.settings["rows"], 0], *[[0, 0]] * (len(tensor.shape) - 1)])

    return {
        # These do not need the `Tensor`, which comes last.
        **{name: lambda *inputs, function=function: function(*inputs[:-1]) for name, function in plain.items()},
        "multiply": lambda a, b, tensor: tf.square(a) if a is b else tf.multiply(a, b),
        "matmul": lambda a, b, tensor: _matmul(tf, a, b, find_spans(tensor.inputs[1].constant)),
        "reshape": lambda x, tensor: tf.reshape(x, _as_row_shape(tensor.shape)),
        "permute": lambda x, tensor: tf.transpose(x, tensor.settings["axes"]),
        "slice": lambda x, tensor: tf.slice(x, _slice_begin(tensor), _as_row_shape(tensor.shape)),
        "gather": lambda x, tensor: tf.gather(x, tensor.settings["rows"], axis=_axis(tensor, 0)),
        "sum": lambda x, tensor: tf.reduce_sum(x, _axis(tensor, tensor.settings["axis"]), keepdims=True),
        "concatenate": lambda *inputs: tf.concat(inputs[:-1], _axis(inputs[-1], inputs[-1].settings["axis"])),
        "later_sum": lambda x, tensor: tf.cumsum(x, _axis(tensor, 0), exclusive=True, reverse=True),
        "after_zeros": pad_front,
        "sign": lambda x, tensor: tf.clip_by_value(x * HUGE + 1.0, -1.0, 1.0),  # 1 for 0
        MEMBER: lambda x, tensor: tf.unstack(x)[tensor.settings["at"]],
        # The axis in front of the test makes the converter write SELECT_V2: TFLite-Micro has no SELECT.
        "choose": lambda test, a, b, tensor: tf.reshape(tf.where(test[None], a, b), _as_row_shape(tensor.shape)),
        "lstm": lambda x, *others: tf.reshape(layers[id(others[-1])](x[None]), _as_row_shape(others[-1].shape)),
    }


def _as_row_shape(shape: Shape) -> Shape:
    """Return the shape of a tensor in TensorFlow, where a vector is one row, because matrix products need two axes."""
    return (1, *shape) if len(shape) == 1 else shape


def _axis(tensor: Tensor, axis: int) -> int:
    """Return the position of an axis of a tensor in its `_as_row_shape`."""
    return axis + len(_as_row_shape(tensor.shape)) - len(tensor.shape)


def _slice_begin(tensor: Tensor) -> list[int]:
    """Return the index at which a slice begins, for each axis."""
    begin = [0] * len(_as_row_shape(tensor.shape))
    begin[_axis(tensor, tensor.settings["axis"])] = tensor.settings["start"]
    return begin


def _matmul(tf: Any, x: tf.Tensor, matrix: tf.Tensor, spans: Spans | None) -> tf.Tensor:
    """Multiply x [C, rows] by a matrix, with cumulative sums from the newest row if it has spans: [C, columns]."""
    if spans is None:
        return tf.matmul(x, matrix)
    layers = [x * layer for layer in spans.layers]
    if spans.shared:  # the weights of two layers sum to 1 for each row, so only the first is stored
        layers.append(x - layers[0])
    zero = tf.zeros((x.shape[0], 1))
    sums = tf.concat([*(tf.cumsum(layer, 1, reverse=True) for layer in layers), zero], axis=1)
    return tf.gather(sums, spans.starts, axis=1) - tf.gather(sums, spans.ends, axis=1)


def _lstm_layer(tensor: Tensor) -> Any:
    """Make a Keras LSTM, which the converter writes as a loop; its order of gates is ours."""
    import tensorflow as tf

    layer = tf.keras.layers.LSTM(tensor.shape[0])
    layer.build((1, *tensor.inputs[0].shape))
    layer.set_weights([operand.constant for operand in tensor.inputs[1:]])
    return layer


class _Matrices:
    """The constant matrices of a FlatBuffer, with the values of their inputs and outputs for the examples.

    A matrix is known by the index of its operator (FULLY_CONNECTED), a value by the index of its tensor.
    """

    def __init__(self, content: bytes, examples: np.ndarray) -> None:
        from tensorflow.lite.python import schema_py_generated as schema

        self.content, self.schema = content, schema
        model = read_flatbuffer(content)
        clipping = schema.ActivationFunctionType.RELU_N1_TO_1  # what a sign has become
        self.weights: dict[int, np.ndarray] = {}
        self._before_sign = set[int]()
        inputs_and_outputs = set[int]()
        for index, operator in enumerate(model.subgraphs[0].operators):
            if model.operatorCodes[operator.opcodeIndex].builtinCode == schema.BuiltinOperator.FULLY_CONNECTED:
                weights = _floats(model, operator.inputs[1])
                if weights is not None:
                    self.weights[index] = weights
                    inputs_and_outputs |= {int(operator.inputs[0]), int(operator.outputs[0])}
                    if operator.builtinOptions.fusedActivationFunction == clipping:
                        self._before_sign.add(index)
        self.sizes = {index: weights.size for index, weights in self.weights.items()}
        self.values = read_tensors(content, examples, inputs_and_outputs)
        self._steps: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # cache of `steps`

    @property
    def largest_first(self) -> list[int]:
        """The matrices that may be int8, largest first.

        Not those whose outputs only give a sign, as in hash codes: they exceed int16.
        """
        return sorted(self.sizes.keys() - self._before_sign, key=lambda index: (-self.sizes[index], index))

    def quantised(self, chosen: Sequence[int]) -> bytes:
        """Write the FlatBuffer with the chosen matrices, by operator index, in int8."""
        model = read_flatbuffer(self.content)
        graph, operators = _Graph(model, self.schema), []
        for index, operator in enumerate(graph.graph.operators):
            operators += self._quantise(graph, index, operator) if index in chosen else [operator]
        graph.graph.operators = operators
        return write_flatbuffer(model)

    def steps(self, index: int, source: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the scale of each row of a matrix [O], and its weights as int8 steps [O, I].

        `source` is the index of the tensor that it multiplies.
        """
        if index not in self._steps:
            weights = self.weights[index]
            scales = np.maximum(np.abs(weights).max(axis=1), 1e-12) / INT8
            self._steps[index] = scales, gptq_round(weights, scales, self.values[source])
        return self._steps[index]

    def _quantise(self, graph: _Graph, index: int, operator: Any) -> list[Any]:
        """Replace an operator by three: quantise to int16, multiply, dequantise."""
        kinds, builtin = self.schema.TensorType, self.schema.BuiltinOperator
        source, weights, *biases = (int(tensor) for tensor in operator.inputs)  # no bias, or one; -1: left out
        (result,) = (int(tensor) for tensor in operator.outputs)
        scales, steps = self.steps(index, source)
        # The size of an int16 step: the largest value of the examples is 32767 steps.
        unit_in, unit_out = (max(float(np.abs(self.values[end]).max()), 1e-6) / INT16 for end in (source, result))
        integer_source = graph.tensor(source, kinds.INT16, [unit_in])
        integer_result = graph.tensor(result, kinds.INT16, [unit_out])
        inputs = [integer_source, graph.tensor(weights, kinds.INT8, scales, steps)]
        bias = _floats(graph.model, biases[0]) if biases and biases[0] >= 0 else None
        if bias is not None:
            units = scales * unit_in  # of the sums that it is added to [O]
            inputs.append(graph.tensor(biases[0], kinds.INT64, units, np.rint(bias / units).astype(np.int64)))
        quantise = graph.operator(builtin.QUANTIZE, [source], [integer_source])
        dequantise = graph.operator(builtin.DEQUANTIZE, [integer_result], [result])
        operator.inputs, operator.outputs = np.array(inputs, np.int32), np.array([integer_result], np.int32)
        return [quantise, operator, dequantise]


class _Graph:
    """A FlatBuffer as objects, with methods that add tensors and operators."""

    def __init__(self, model: Any, schema: Any) -> None:
        self.model, self.graph, self.schema = model, model.subgraphs[0], schema

    def tensor(self, like: int, kind: int, scales: Any, numbers: np.ndarray | None = None) -> int:
        """Add a quantised tensor with the shape of tensor `like`, and return its index.

        `kind` is a TensorType, `scales` has one number or one for each row; `numbers` are integers, if it is constant.
        """
        tensor, buffer, steps = self.schema.TensorT(), self.schema.BufferT(), self.schema.QuantizationParametersT()
        steps.scale = np.asarray(scales, np.float32)
        steps.zeroPoint = np.zeros(len(steps.scale), np.int64)
        tensor.shape, tensor.type, tensor.quantization = self.graph.tensors[like].shape, kind, steps
        if numbers is not None:
            buffer.data = np.frombuffer(numbers.tobytes(), np.uint8)
        self.model.buffers.append(buffer)
        tensor.buffer = len(self.model.buffers) - 1
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def operator(self, builtin: int, inputs: list[int], outputs: list[int]) -> Any:
        """Make an operator without options."""
        operator = self.schema.OperatorT()
        operator.opcodeIndex = self._code(builtin)
        operator.inputs, operator.outputs = np.array(inputs, np.int32), np.array(outputs, np.int32)
        return operator

    def _code(self, builtin: int) -> int:
        """Return the index of an operator code in the model, which is added on first use."""
        codes = self.model.operatorCodes
        for index, code in enumerate(codes):
            if code.builtinCode == builtin:
                return index
        code = self.schema.OperatorCodeT()
        code.builtinCode, code.deprecatedBuiltinCode, code.version = builtin, builtin, 1
        codes.append(code)
        return len(codes) - 1


def _floats(model: Any, index: int) -> np.ndarray | None:
    """Read a constant tensor; None if the tensor is computed."""
    tensor = model.subgraphs[0].tensors[index]
    data = model.buffers[tensor.buffer].data
    if data is None or not len(data):
        return None
    return np.frombuffer(np.asarray(data, np.uint8).tobytes(), np.float32).reshape(tensor.shape)


def _drop_unread(graph: Any, signatures: Any) -> None:
    """Drop tensors that no operator uses, and renumber the others in the graph, its operators and the signatures."""
    used = {-1}  # stands for an optional input that is left out
    for user in (graph, *graph.operators):
        used |= {int(index) for index in (*user.inputs, *user.outputs)}
    remaining = sorted(used - {-1})
    new_index = {old: new for new, old in enumerate(remaining)} | {-1: -1}
    graph.tensors = [graph.tensors[index] for index in remaining]
    for user in (graph, *graph.operators):
        user.inputs = np.array([new_index[int(index)] for index in user.inputs], np.int32)
        user.outputs = np.array([new_index[int(index)] for index in user.outputs], np.int32)
    for signature in signatures:
        for named in (*signature.inputs, *signature.outputs):
            named.tensorIndex = new_index[named.tensorIndex]


def _drop_buffers(model: Any) -> None:
    """Drop empty and unused buffers; tensors without data share the first one, which the format defines as empty."""
    buffers, new_index = [model.buffers[0]], dict[int, int]()
    for tensor in (tensor for graph in model.subgraphs for tensor in graph.tensors):
        buffer = model.buffers[tensor.buffer]
        if buffer.data is None or not len(buffer.data):
            tensor.buffer = 0
        else:
            if tensor.buffer not in new_index:
                new_index[tensor.buffer] = len(buffers)
                buffers.append(buffer)
            tensor.buffer = new_index[tensor.buffer]
    model.buffers = buffers


def _builder() -> Any:
    """Make a FlatBuffers builder that writes equal vectors once."""
    from flatbuffers import Builder

    written: dict[tuple[str, bytes], int] = {}

    class SharingBuilder(Builder):
        def CreateNumpyVector(self, numbers: np.ndarray) -> int:
            key = numbers.dtype.str, numbers.tobytes()
            if key not in written:
                written[key] = super().CreateNumpyVector(numbers)
            return written[key]

    return SharingBuilder()


class _WrittenOnce:
    """Wrapper that writes a FlatBuffers object only if no equal one is in `written`, offsets by content."""

    def __init__(self, thing: Any, written: dict[Any, int]) -> None:
        self._thing, self._written, self._key = thing, written, _content_key(thing)

    def Pack(self, builder: Any) -> int:
        """Write the object, or find the equal one, and return its offset."""
        if self._key not in self._written:
            self._written[self._key] = self._thing.Pack(builder)
        return self._written[self._key]


def _content_key(thing: Any) -> Any:
    """Make a hashable key from the content of an object, so that equal objects have equal keys."""
    if isinstance(thing, np.ndarray):
        return thing.dtype.str, thing.tobytes()
    if hasattr(thing, "__dict__"):
        return type(thing), *((name, _content_key(value)) for name, value in vars(thing).items())
    return thing
