"""A tensor as a FlatBuffer, through TensorFlow's converter: one window at a time, operators that TFLite-Micro has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from scare.export.tensors.alike import MEMBER
from scare.export.tensors.flatbuffer_bytes import read_flatbuffer, write_flatbuffer
from scare.export.tensors.shortened import shortened
from scare.export.tensors.silenced_stderr import silenced_stderr
from scare.export.tensors.spans import Spans, spans_of
from scare.kernels import Shape
from scare.kernels.tensor import INPUT, Tensor, in_order

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
