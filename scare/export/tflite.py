"""A tensor as a FlatBuffer, through TensorFlow's converter: one window at a time, operators that TFLite-Micro has."""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from scare.calibrator.parity import INTEGER_WEIGHTS_TOLERANCE, deviation
from scare.errors import NotApplicableError
from scare.export.compiled import Compiled
from scare.export.exchange import NAMES, exchange_artefact, tensor_of
from scare.export.lowering import Arithmetic
from scare.export.target import Artefact, Target, check_file_name
from scare.export.tensor_graph import MEMBER, Spans, batch_alike, join_products, spans_of, split_axes
from scare.extras import require
from scare.kernels import Shape
from scare.kernels.tensor import CONSTANT, INPUT, Tensor, in_order, size

# A FlatBuffer as objects and as bytes, as few as hold it: a board keeps the file in flash.
#
# What nothing reads is left out, with names, versions and notes of the converter. What is there twice is written once
# and pointed to: shapes, lists of what operators read, constants, whole tensors of the same kind.


IDENTIFIER = b"TFL3"


def read_flatbuffer(content: bytes) -> Any:
    """A .tflite file as objects."""
    from tensorflow.lite.tools import flatbuffer_utils

    return flatbuffer_utils.read_model_from_bytearray(bytearray(content))


def write_flatbuffer(model: Any) -> bytes:
    """Objects as a .tflite file; they are stripped of what it does not need."""
    builder, written = _builder(), dict[Any, int]()
    for graph in model.subgraphs:
        _drop_unread(graph, model.signatureDefs if graph is model.subgraphs[0] else [])
        _strip(graph)
    model.metadata = model.description = None
    _drop_buffers(model)
    for graph in model.subgraphs:
        graph.tensors = [_Once(tensor, written) for tensor in graph.tensors]
        for operator in graph.operators:
            operator.builtinOptions = operator.builtinOptions and _Once(operator.builtinOptions, written)
    builder.Finish(model.Pack(builder), file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def _drop_unread(graph: Any, signatures: Any) -> None:
    """Tensors that no operator knows; the others have new numbers then."""
    known = [*graph.inputs, *graph.outputs]
    for operator in graph.operators:
        known += [*operator.inputs, *operator.outputs]
    kept = sorted({int(index) for index in known} - {-1})
    numbers = {index: number for number, index in enumerate(kept)} | {-1: -1}
    graph.tensors = [graph.tensors[index] for index in kept]
    for owner in (graph, *graph.operators):
        owner.inputs, owner.outputs = (
            np.array([numbers[int(index)] for index in part], np.int32) for part in (owner.inputs, owner.outputs)
        )
    for signature in signatures:
        for named in (*signature.inputs, *signature.outputs):
            named.tensorIndex = numbers[named.tensorIndex]


def _strip(graph: Any) -> None:
    """Names but those of inputs and outputs, empty steps of integers, and that a shape is known."""
    for index, tensor in enumerate(graph.tensors):
        if index not in (*graph.inputs, *graph.outputs):
            tensor.name = None
        if tensor.quantization is not None and tensor.quantization.scale is None:
            tensor.quantization = None
        tensor.hasRank = not len(tensor.shape)


def _drop_buffers(model: Any) -> None:
    """What holds no numbers shares the first buffer, which is empty by the format's rule."""
    kept, places = [model.buffers[0]], dict[int, int]()
    for tensor in (tensor for graph in model.subgraphs for tensor in graph.tensors):
        buffer = model.buffers[tensor.buffer]
        if buffer.data is None or not len(buffer.data):
            tensor.buffer = 0
        else:
            if tensor.buffer not in places:
                places[tensor.buffer] = len(kept)
                kept.append(buffer)
            tensor.buffer = places[tensor.buffer]
    model.buffers = kept


def _builder() -> Any:
    """A builder that points to numbers that were written already."""
    from flatbuffers import Builder

    written: dict[tuple[str, bytes], int] = {}

    class SharingBuilder(Builder):
        def CreateNumpyVector(self, numbers: np.ndarray) -> int:
            key = numbers.dtype.str, numbers.tobytes()
            if key not in written:
                written[key] = super().CreateNumpyVector(numbers)
            return written[key]

    return SharingBuilder()


class _Once:
    """An object that is written if its like was not."""

    def __init__(self, thing: Any, written: dict[Any, int]) -> None:
        self._thing, self._written, self._key = thing, written, _key(thing)

    def Pack(self, builder: Any) -> int:
        """Where it is."""
        if self._key not in self._written:
            self._written[self._key] = self._thing.Pack(builder)
        return self._written[self._key]


def _key(thing: Any) -> Any:
    """All that an object says."""
    if isinstance(thing, np.ndarray):
        return thing.dtype.str, thing.tobytes()
    if hasattr(thing, "__dict__"):
        return type(thing), *((name, _key(value)) for name, value in vars(thing).items())
    return thing


# Which tensors are kept in arrays, and which are computed where they are read, once a graph is printed as loops.


VIEWS = ("reshape", "permute", "slice", "gather")
CALLS = ("softmax", "later_sum", "lstm")  # functions on whole arrays
MOSTLY_ZERO = 0.6  # from this share of zeros on, a constant matrix is kept as what is not zero


def choose_stored(result: Tensor) -> tuple[set[int], set[int]]:
    """The tensors that are kept: those read more often than they have numbers; and of them those kept as arrays."""
    reads, stored, arrays = defaultdict[int, list[int]](list), set[int](), set[int]()
    reads[id(result)].append(1)
    for tensor in reversed(in_order(result)):
        mine = reads[id(tensor)]
        if tensor.operation in (INPUT, CONSTANT):
            continue
        if tensor.operation in (*CALLS, "concatenate"):
            arrays.add(id(tensor))
        once = len(mine) == 1 and mine[0] <= size(tensor)
        if id(tensor) in arrays or not (once or tensor.operation in VIEWS):
            stored.add(id(tensor))
        if tensor.operation in CALLS:
            arrays |= {id(unshaped(part)) for part in tensor.inputs}
        if tensor.operation == "reshape" and split_axes(tensor.shape, unshaped(tensor).shape) is None:
            arrays.add(id(unshaped(tensor)))
        for times in [size(tensor)] if id(tensor) in stored else mine:
            for part, factor in zip(tensor.inputs, _factors(tensor), strict=True):
                reads[id(part)].append(times * factor)
    return stored, arrays


def _factors(tensor: Tensor) -> list[int]:
    """How many numbers of each input one number of the tensor needs, about."""
    if tensor.operation == "matmul":
        left, right = tensor.inputs
        if is_sparse(right):
            assert right.constant is not None
            return [-(-int(np.count_nonzero(right.constant)) // right.shape[-1])] * 2
        return [left.shape[-1]] * 2
    if tensor.operation == "sum":
        return [tensor.inputs[0].shape[tensor.settings["axis"]]]
    return [1] * len(tensor.inputs)


def unshaped(tensor: Tensor) -> Tensor:
    """The tensor without its reshapes: the same numbers."""
    while tensor.operation == "reshape":
        tensor = tensor.inputs[0]
    return tensor


def is_sparse(matrix: Tensor) -> bool:
    """Whether it is constant and mostly zero."""
    constant = matrix.constant
    return (
        constant is not None and constant.ndim == 2 and constant.size > 1 and bool((constant == 0).mean() > MOSTLY_ZERO)
    )


def nonzero_columns(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of what is not zero, column after column, rows and numbers; and where each column starts, and the last ends.

    >>> [part.tolist() for part in nonzero_columns(np.array([[0, 2], [0, 0], [0, 3]]))]
    [[0, 2], [2, 3], [0, 0, 2]]
    """
    columns, rows = np.nonzero(matrix.T)
    return rows, matrix[rows, columns], np.searchsorted(columns, np.arange(matrix.shape[1] + 1))


# A graph with fewer operations and the same result, for a format in which every operator takes memory.


def shortened(result: Tensor) -> Tensor:
    """The tensor with sums of products joined, and with chains that are alike computed as one."""
    ordered = in_order(result)
    readers = Counter(id(part) for tensor in ordered for part in tensor.inputs)
    shorter: dict[int, Tensor] = {}
    for tensor in ordered:
        own = replace(tensor, inputs=tuple(shorter[id(part)] for part in tensor.inputs))
        if all(readers[id(part)] == 1 for part in tensor.inputs):  # else it would be computed twice
            own = join_products(own)
        shorter[id(tensor)] = batch_alike(own)
    return shorter[id(result)]


# A silenced stderr, for packages that write to the terminal from C++, past Python.


@contextmanager
def silenced_stderr() -> Iterator[None]:
    """Nothing written to stderr in here is seen; what goes wrong is an exception all the same."""
    if sys.stderr is None:  # closed by the caller: nobody sees anything
        yield
        return
    sys.stderr.flush()
    before = os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)
        os.close(nothing)


if TYPE_CHECKING:
    import tensorflow as tf

HUGE = 2.0**64  # so many times a number is beyond ±1: its sign, which the matrix before it gives by its limits
ARENA = 1 << 27  # bytes that TFLite-Micro may use on a computer


def flatbuffer(result: Tensor, names: tuple[str, str]) -> bytes:
    """A .tflite file in float32 with input [1, window, channels] and output [1, 1] of these names."""
    import tensorflow as tf

    ordered = in_order(shortened(result))
    window = next(tensor for tensor in ordered if tensor.operation == INPUT)
    with silenced_stderr():
        layers = {id(tensor): _lstm_layer(tensor) for tensor in ordered if tensor.operation == "lstm"}

    class Model(tf.Module):  # the converter keeps what a module owns alive
        @tf.function(input_signature=[tf.TensorSpec((1, *window.shape), tf.float32, name=names[0])], autograph=False)
        def __call__(self, given: Any) -> dict[str, Any]:
            return {names[1]: tf.reshape(_compute(ordered, tf.reshape(given, window.shape), layers), (1, 1))}

    with silenced_stderr():
        model = Model()
        traced = [model.__call__.get_concrete_function()]
        content = tf.lite.TFLiteConverter.from_concrete_functions(traced, model).convert()
    return write_flatbuffer(read_flatbuffer(bytes(content)))


def run_flatbuffer(content: bytes, windows: np.ndarray) -> np.ndarray:
    """The results [n] of scaled windows [n, window, channels], in LiteRT."""
    interpreter = _interpreter(content)
    source, result = (
        details()[0]["index"] for details in (interpreter.get_input_details, interpreter.get_output_details)
    )
    results = np.empty(len(windows))
    for at, window in enumerate(windows):
        interpreter.set_tensor(source, window[None].astype(np.float32))
        interpreter.invoke()
        results[at] = interpreter.get_tensor(result)[0, 0]
    return results


def run_micro(content: bytes, windows: np.ndarray) -> np.ndarray:
    """The same in TFLite-Micro itself, on this computer."""
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(content, arena_size=ARENA)
    results = np.empty(len(windows))
    for at, window in enumerate(windows):
        interpreter.set_input(window[None].astype(np.float32), 0)
        interpreter.invoke()
        results[at] = interpreter.get_output(0)[0, 0]
    return results


def values_of(content: bytes, windows: np.ndarray, tensors: Collection[int]) -> dict[int, np.ndarray]:
    """What tensors of these numbers were for these windows, as rows: [n·rows, last axis]."""
    interpreter = _interpreter(content, experimental_preserve_all_tensors=True)
    source = interpreter.get_input_details()[0]["index"]
    found: dict[int, list[np.ndarray]] = {index: [] for index in tensors}
    for window in windows:
        interpreter.set_tensor(source, window[None].astype(np.float32))
        interpreter.invoke()
        for index, rows in found.items():
            numbers = interpreter.get_tensor(index)
            rows.append(numbers.reshape(-1, numbers.shape[-1]))
    return {index: np.concatenate(rows) for index, rows in found.items()}


def flatbuffer_operators(content: bytes) -> list[str]:
    """The operators, as often as they are called."""
    from tensorflow.lite.python.schema_py_generated import BuiltinOperator

    names = {code: name for name, code in vars(BuiltinOperator).items() if isinstance(code, int)}
    model = read_flatbuffer(content)
    codes = [model.operatorCodes[one.opcodeIndex].builtinCode for one in model.subgraphs[0].operators]
    return [names[code] for code in codes]


def _interpreter(content: bytes, **options: Any) -> Any:
    """LiteRT with its plain kernels: what a delegate computes may differ by a rounding."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=content, experimental_op_resolver_type=plain, **options)
    interpreter.allocate_tensors()
    return interpreter


def _compute(ordered: list[Tensor], window: tf.Tensor, layers: Mapping[int, Any]) -> tf.Tensor:
    import tensorflow as tf

    functions = _functions(tf, layers)
    held: dict[int, tf.Tensor] = {}
    for tensor in ordered:
        if tensor.operation == INPUT:
            held[id(tensor)] = window
        elif tensor.constant is not None:
            held[id(tensor)] = tf.constant(tensor.constant)
        else:
            inputs = [held[id(part)] for part in tensor.inputs]
            held[id(tensor)] = functions[tensor.operation](*inputs, tensor)
    return held[id(ordered[-1])]


def _functions(tf: Any, layers: Mapping[int, Any]) -> dict[str, Callable[..., Any]]:
    """Each operation in TensorFlow; the last argument is the tensor itself."""
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
    return {
        **{name: lambda *inputs, function=function: function(*inputs[:-1]) for name, function in plain.items()},
        "multiply": lambda a, b, own: tf.square(a) if a is b else tf.multiply(a, b),
        "matmul": lambda a, b, own: _product(tf, a, b, spans_of(own.inputs[1].constant)),
        "reshape": lambda x, own: tf.reshape(x, _in_rows(own.shape)),
        "permute": lambda x, own: tf.transpose(x, own.settings["axes"]),
        "slice": lambda x, own: tf.slice(x, _corner(own), _in_rows(own.shape)),
        "gather": lambda x, own: tf.gather(x, own.settings["rows"], axis=_axis(own, 0)),
        "sum": lambda x, own: tf.reduce_sum(x, _axis(own, own.settings["axis"]), keepdims=True),
        "concatenate": lambda *given: tf.concat(given[:-1], _axis(given[-1], given[-1].settings["axis"])),
        "later_sum": lambda x, own: tf.cumsum(x, _axis(own, 0), exclusive=True, reverse=True),
        "after_zeros": lambda x, own: tf.pad(x, [[own.settings["rows"], 0], *[[0, 0]] * (len(own.shape) - 1)]),
        "sign": lambda x, own: tf.clip_by_value(x * HUGE + 1.0, -1.0, 1.0),
        MEMBER: lambda x, own: tf.unstack(x)[own.settings["at"]],
        "choose": lambda *given: tf.reshape(tf.where(given[0][None], *given[1:3]), _in_rows(given[3].shape)),
        "lstm": lambda x, *rest: tf.reshape(layers[id(rest[-1])](x[None]), _in_rows(rest[-1].shape)),
    }


def _in_rows(shape: Shape) -> Shape:
    """Shapes as they are printed: a vector is a row, as matrices want it."""
    return (1, *shape) if len(shape) == 1 else shape


def _axis(own: Tensor, axis: int) -> int:
    """Where an axis is then."""
    return axis + len(_in_rows(own.shape)) - len(own.shape)


def _corner(own: Tensor) -> list[int]:
    """Where a slice begins."""
    begin = [0] * len(_in_rows(own.shape))
    begin[_axis(own, own.settings["axis"])] = own.settings["start"]
    return begin


def _product(tf: Any, x: tf.Tensor, matrix: tf.Tensor, spans: Spans | None) -> tf.Tensor:
    """x [C, rows] times a matrix, by cumulative sums from the newest row on where it has spans: [C, columns]."""
    if spans is None:
        return tf.matmul(x, matrix)
    layers = [x * layer for layer in spans.layers]
    if spans.shared:
        layers.append(x - layers[0])
    zero = tf.zeros((x.shape[0], 1))
    sums = tf.concat([*(tf.cumsum(layer, 1, reverse=True) for layer in layers), zero], axis=1)
    return tf.gather(sums, spans.starts, axis=1) - tf.gather(sums, spans.ends, axis=1)


def _lstm_layer(own: Tensor) -> Any:
    """As Keras has it, which the converter writes as a loop; the gates are in our order."""
    import tensorflow as tf

    layer = tf.keras.layers.LSTM(own.shape[0])
    layer.build((1, *own.inputs[0].shape))
    layer.set_weights([part.constant for part in own.inputs[1:]])
    return layer


# Matrices of a FlatBuffer in integers: int8 weights, int16 in and out, the rest as it was in float32.
#
# TensorFlow's converter makes all of a graph integer or none of it. All of it is no use here: a window of a sensor has
# more than the 256 steps of int8, and in int16 TFLite-Micro lacks some operators and others lose the result. So every
# matrix is tried, the largest first, and stays integer if the file is smaller with it and the result does not suffer.


INT8, INT16 = 127, 32767
DAMPING = 0.01  # of the mean square of the inputs, so that what the examples do not show stays as it was


@dataclass(frozen=True)
class FlatBuffer:
    """The content of a file, how many weights its matrices have, how many are int8, and its bytes without these."""

    content: bytes
    weights: int = 0
    integer_weights: int = 0
    float32_bytes: int = 0


def with_integer_matrices(content: bytes, examples: np.ndarray, limit: float) -> FlatBuffer:
    """As many matrices in integers as make the file smaller and leave results within `limit` of what they were.

    Results are those of these windows [n, window, channels], `limit` is in their unit.
    """
    matrices = _Matrices(content, examples)
    results = run_flatbuffer(content, examples)
    chosen, smallest = list[int](), content
    for index in matrices.largest_first:
        tried = matrices.rewritten([*chosen, index])
        if len(tried) < len(smallest) and np.allclose(run_flatbuffer(tried, examples), results, rtol=0.0, atol=limit):
            chosen, smallest = [*chosen, index], tried
    integer = sum(matrices.sizes[index] for index in chosen)
    return FlatBuffer(smallest, sum(matrices.sizes.values()), integer, len(content))


def fitted_rounding(weights: np.ndarray, scales: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """Weights [O, I] in int8 steps of `scales` [O] such that the products with these inputs [n, I] change least.

    One weight after the other is rounded, and what that changes is made up for by those not rounded yet, as far as
    the inputs go together (Frantar et al. 2023, GPTQ).

    >>> alike = np.ones((4, 3)) * [[1.0], [2.0], [-1.0], [0.5]]
    >>> int(fitted_rounding(np.array([[0.4, 0.4, 0.4]]), np.array([1.0]), alike).sum())
    1
    """
    together = inputs.T.astype(np.float64) @ inputs / len(inputs)
    together += DAMPING * max(float(np.trace(together)) / len(together), 1e-12) * np.eye(len(together))
    passing_on = np.linalg.cholesky(np.linalg.inv(together)).T
    left = weights.astype(np.float64) / scales[:, None]
    rounded = np.empty(weights.shape, np.int8)
    for at in range(weights.shape[1]):
        rounded[:, at] = np.clip(np.rint(left[:, at]), -INT8, INT8)
        error = (left[:, at] - rounded[:, at]) / passing_on[at, at]
        left[:, at:] -= error[:, None] * passing_on[at, at:]
    return rounded


class _Matrices:
    """The matrices of a FlatBuffer, by the number of their operator, and the values around them on the examples."""

    def __init__(self, content: bytes, examples: np.ndarray) -> None:
        from tensorflow.lite.python import schema_py_generated as schema

        self.content, self.schema = content, schema
        model = read_flatbuffer(content)
        kind, limited = schema.BuiltinOperator.FULLY_CONNECTED, schema.ActivationFunctionType.RELU_N1_TO_1
        self.weights: dict[int, np.ndarray] = {}
        self._signs, around = set[int](), set[int]()
        for index, operator in enumerate(model.subgraphs[0].operators):
            if model.operatorCodes[operator.opcodeIndex].builtinCode == kind:
                weights = _floats(model, operator.inputs[1])
                if weights is not None:
                    self.weights[index] = weights
                    around |= {int(operator.inputs[0]), int(operator.outputs[0])}
                    self._signs |= {index} if operator.builtinOptions.fusedActivationFunction == limited else set()
        self.sizes = {index: weights.size for index, weights in self.weights.items()}
        self.values = values_of(content, examples, around)
        self._steps: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    @property
    def largest_first(self) -> list[int]:
        """Those that may be integer: what gives signs, by numbers beyond any steps, may not."""
        return sorted(self.sizes.keys() - self._signs, key=lambda index: (-self.sizes[index], index))

    def rewritten(self, chosen: Sequence[int]) -> bytes:
        """The FlatBuffer with these matrices in integers."""
        model = read_flatbuffer(self.content)
        graph, replaced = _Graph(model, self.schema), []
        for index, operator in enumerate(graph.graph.operators):
            replaced += self._in_integers(graph, index, operator) if index in chosen else [operator]
        graph.graph.operators = replaced
        return write_flatbuffer(model)

    def steps(self, index: int, source: int) -> tuple[np.ndarray, np.ndarray]:
        """The scale of each row of a matrix, and its weights in such steps."""
        if index not in self._steps:
            weights = self.weights[index]
            scales = np.maximum(np.abs(weights).max(axis=1), 1e-12) / INT8
            self._steps[index] = scales, fitted_rounding(weights, scales, self.values[source])
        return self._steps[index]

    def _in_integers(self, graph: _Graph, index: int, operator: Any) -> list[Any]:
        """int16, the matrix, float32 again."""
        kinds, builtin = self.schema.TensorType, self.schema.BuiltinOperator
        source, weights, *rest = (int(one) for one in operator.inputs)
        (result,) = (int(one) for one in operator.outputs)
        scales, steps = self.steps(index, source)
        unit_in, unit_out = (max(float(np.abs(self.values[one]).max()), 1e-6) / INT16 for one in (source, result))
        inner = graph.tensor(source, kinds.INT16, [unit_in])
        outer = graph.tensor(result, kinds.INT16, [unit_out])
        read = [inner, graph.tensor(weights, kinds.INT8, scales, steps)]
        bias = _floats(graph.model, rest[0]) if rest and rest[0] >= 0 else None
        if bias is not None:
            units = scales * unit_in
            read.append(graph.tensor(rest[0], kinds.INT64, units, np.rint(bias / units).astype(np.int64)))
        first = graph.operator(builtin.QUANTIZE, [source], [inner])
        last = graph.operator(builtin.DEQUANTIZE, [outer], [result])
        operator.inputs, operator.outputs = np.array(read, np.int32), np.array([outer], np.int32)
        return [first, operator, last]


class _Graph:
    """A FlatBuffer's object form, to which tensors and operators are added."""

    def __init__(self, model: Any, schema: Any) -> None:
        self.model, self.graph, self.schema = model, model.subgraphs[0], schema

    def tensor(self, like: int, kind: int, scales: Any, numbers: np.ndarray | None = None) -> int:
        """A new tensor of the shape of another, in steps of these scales; its number."""
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
        """A new operator without options."""
        operator = self.schema.OperatorT()
        operator.opcodeIndex = self._code(builtin)
        operator.inputs, operator.outputs = np.array(inputs, np.int32), np.array(outputs, np.int32)
        return operator

    def _code(self, builtin: int) -> int:
        """The number of an operator's code, entered once."""
        for index, code in enumerate(self.model.operatorCodes):
            if code.builtinCode == builtin:
                return index
        code = self.schema.OperatorCodeT()
        code.builtinCode, code.deprecatedBuiltinCode, code.version = builtin, builtin, 1
        self.model.operatorCodes.append(code)
        return len(self.model.operatorCodes) - 1


def _floats(model: Any, index: int) -> np.ndarray | None:
    """The numbers of a constant; None of what is computed."""
    tensor = model.subgraphs[0].tensors[index]
    data = model.buffers[tensor.buffer].data
    if data is None or not len(data):
        return None
    return np.frombuffer(np.asarray(data, np.uint8).tobytes(), np.float32).reshape(tensor.shape)


# A FlatBuffer for LiteRT (TensorFlow Lite) and TFLite-Micro, with large matrices in int8 where that is asked for.


MARGIN = 0.75  # of what int8 may cost, so that other runtimes, which round otherwise, stay within it too
EXAMPLES = 128  # windows that integers are fitted to


def make_tflite(compiled: Compiled) -> Artefact:
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


TFLITE = Target(
    "tflite",
    "Write a FlatBuffer for LiteRT (TensorFlow Lite) and TFLite-Micro.",
    ("no2.scare --out no2", "no2.scare --arithmetic int8 --out no2"),
    make_tflite,
    runner="tflite",
    check_name=check_file_name,
    name_help="What the file is called.",
    arithmetic_help="What its large matrices are in.",
    fixed_name="int8",
)
