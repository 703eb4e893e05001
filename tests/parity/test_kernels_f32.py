"""Each float32 kernel in C against its NumPy counterpart in float64, on sizes and numbers that hypothesis draws."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scare.board.build import STANDARD, STRICT, compile_c
from scare.calibrator.plan import Step
from scare.export.lowering import FLOAT32_LOWERING
from scare.kernels import C_FLOAT32 as FORMS
from scare.kernels import CODES, KERNELS, hash_activations, hat_fractions
from scare.kernels.c_arguments import CCall, CValue, PlacedStep
from tests.parity.native import FLOAT32, RUNTIME, array_of, call_on, call_on_new_memory, library

TOLERANCE = 4e-6  # of the largest number in the output, or of 1
TIE = 1e-5  # hash activations nearer to zero than this may fall on either side
M4 = ("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4+vfp4d16sp", "-ffreestanding")


@dataclass(frozen=True)
class Case:
    """Inputs (without a batch), weights and settings of one step."""

    inputs: list[np.ndarray]
    weights: dict[str, np.ndarray]
    settings: dict[str, Any]


class Drawing:
    """Sizes that hypothesis draws, numbers that a drawn seed gives."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data
        self._rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1), "seed"))
        self._spread = data.draw(st.sampled_from([0.1, 1.0, 5.0]), "spread")

    def size(self, most: int, least: int = 1) -> int:
        return self._data.draw(st.integers(least, most))

    def chance(self) -> bool:
        return self._data.draw(st.booleans())

    def numbers(self, *shape: int) -> np.ndarray:
        return (self._spread * self._rng.normal(size=shape)).astype(np.float32)

    def weights(self, *shape: int) -> np.ndarray:
        return self._rng.normal(size=shape).astype(np.float32)

    def codes(self, *shape: int, bits: int) -> np.ndarray:
        return self._rng.integers(0, 2**bits, shape, np.uint32)

    def bias(self, *shape: int) -> dict[str, np.ndarray]:
        return {"bias": self.weights(*shape)} if self.chance() else {}


def hat_basis(d: Drawing) -> Case:
    rows, knots, channels = d.size(60), d.size(7, 2), d.size(3)
    lower, fraction = hat_fractions(rows, np.linspace(0, max(np.log2(rows), 1), knots))
    weights = {"knot": lower[::-1].astype(np.int32), "fraction": fraction[::-1].astype(np.float32)}
    return Case([d.numbers(rows, channels)], weights, {"knots": knots})


def lens(d: Drawing) -> Case:
    rows, channels, lenses = d.size(20), d.size(3), d.size(9)
    return Case([d.numbers(rows, channels)], {"weight": d.weights(rows, lenses), **d.bias(lenses)}, {})


def bins(d: Drawing) -> Case:
    rows, channels = d.size(20), d.size(3)
    start = np.flatnonzero(np.append(True, d.weights(rows - 1) > 0)).astype(np.int32)
    return Case([d.numbers(rows, channels)], {"weight": d.weights(rows), "start": start}, {})


def dense(d: Drawing) -> Case:
    rows, inputs, outputs = d.size(4), d.size(21), d.size(9)
    shape = (rows,) if d.chance() else ()
    bias = d.bias(*shape, outputs) if d.chance() else d.bias(outputs)
    return Case([d.numbers(*shape, inputs)], {"weight": d.weights(inputs, outputs), **bias}, {})


def add_outer(d: Drawing) -> Case:
    rows, width = d.size(5), d.size(9)
    return Case([d.numbers(rows, width), d.numbers(width)], {"share": d.weights(rows)}, {})


def one_value(d: Drawing) -> Case:
    return Case([d.numbers(d.size(5), d.size(9))], {}, {})


def two_values(d: Drawing) -> Case:
    shape = d.size(5), d.size(9)
    return Case([d.numbers(*shape), d.numbers(*shape)], {}, {})


def divide(d: Drawing) -> Case:
    size = d.size(9)
    return Case([d.numbers(size), 1 + np.abs(d.numbers(size))], {}, {})


def newest_rows(d: Drawing) -> Case:
    rows = d.size(5)
    return Case([d.numbers(rows, d.size(5))], {}, {"rows": d.size(rows)})


def layer_norm(d: Drawing) -> Case:
    rows, width = d.size(4), d.size(12, 2)
    return Case([d.numbers(rows, width)], {"gain": d.weights(width), "bias": d.weights(width)}, {"epsilon": 1e-3})


def rms_norm(d: Drawing) -> Case:
    return Case([d.numbers(d.size(4), d.size(12))], {}, {"epsilon": 1e-3})


def hash_codes(d: Drawing) -> Case:
    rows, width, supports, bits = d.size(4), d.size(9), d.size(35), d.size(32)
    sigma = 0.25 + 2 * d.size(8)
    unit = d.weights(supports, width)
    unit /= np.sqrt(np.square(unit).sum(axis=1, keepdims=True))
    weights = {"supports": unit / np.float32(sigma), "projection": d.weights(supports, bits), **d.bias(bits)}
    return Case([d.numbers(rows, width)], weights, {"sharpness": 1 / sigma, "epsilon": 1e-12})


def bitwise_attention(d: Drawing) -> Case:
    queries, keys, width, bits = d.size(4), d.size(7), d.size(9), d.size(32)
    codes = [d.codes(count, bits=bits) for count in (queries, keys)]
    return Case([*codes, d.numbers(keys, width)], {}, {"bits": bits, "bias": bits + 1})


def memory_attention(d: Drawing) -> Case:
    keys, width, bits = d.size(7), d.size(9), d.size(16)
    queries = (d.size(keys),) if d.chance() else ()
    codes = [d.codes(*queries, bits=bits), d.codes(keys, bits=bits)]
    return Case([*codes, d.numbers(keys, width)], {}, {"bits": bits, "bias": bits + 1, "own": d.chance()})


def softmax_attention(d: Drawing) -> Case:
    queries, keys, heads, width, values = (d.size(most) for most in (4, 7, 3, 6, 6))
    shapes = (queries, heads * width), (keys, heads * width), (keys, heads * values)
    return Case([d.numbers(*shape) for shape in shapes], {}, {"heads": heads})


def attention_scores(d: Drawing) -> Case:
    queries, keys, heads, width = (d.size(most) for most in (4, 7, 3, 6))
    return Case([d.numbers(queries, heads * width), d.numbers(keys, heads * width)], {}, {"heads": heads})


def softmax_mix(d: Drawing) -> Case:
    queries, keys, heads, values = (d.size(most) for most in (4, 7, 3, 6))
    return Case([10 * d.numbers(heads, queries, keys), d.numbers(keys, heads * values)], {}, {})


def causal_convolution(d: Drawing) -> Case:
    rows, features = d.size(7), d.size(6)
    return Case([d.numbers(rows, features)], {"taps": d.weights(d.size(9), features), "bias": d.weights(features)}, {})


def state_space(d: Drawing) -> Case:
    rows, heads, states, width = (d.size(most) for most in (9, 3, 6, 5))
    inputs = [d.numbers(*shape) for shape in ((rows, heads * width), (rows, states), (states,), (rows, heads))]
    return Case(inputs, {"decay": -np.abs(d.weights(heads)), "direct": d.weights(heads)}, {})


def patches(d: Drawing) -> Case:
    patch, stride = d.size(6), d.size(4)
    rows = max(1, patch - stride) + d.size(9)
    return Case([d.numbers(rows, d.size(3))], {}, {"patch": patch, "stride": stride})


def affine(d: Drawing) -> Case:
    width = d.size(6)
    return Case([d.numbers(d.size(4), width)], {"scale": d.weights(width), "shift": d.weights(width)}, {})


def window_moments(d: Drawing) -> Case:
    return Case([d.numbers(d.size(30), d.size(3))], {}, {"epsilon": 1e-3})


def standardize(d: Drawing) -> Case:
    channels = d.size(3)
    moments = np.stack([d.numbers(channels), 0.5 + np.abs(d.numbers(channels))])
    return Case([d.numbers(d.size(9), channels), moments], {}, {})


def restore(d: Drawing) -> Case:
    return Case([d.numbers(1), d.numbers(2, d.size(3))], {}, {})


def polynomial(d: Drawing) -> Case:
    inputs, terms, outputs = d.size(3), d.size(4), d.size(3)
    powers = [[d.size(2, least=int(i == m % inputs)) for i in range(inputs)] for m in range(terms)]
    weights = {"weight": d.weights(terms, outputs), **d.bias(outputs)}
    return Case([d.weights(inputs)], weights, {"powers": powers})


def products(d: Drawing) -> Case:
    return Case([d.numbers(d.size(9))], {}, {"limit": d.size(3) / 3})


def blend(d: Drawing) -> Case:
    count = d.size(3)
    ends = np.cumsum(0.1 + np.abs(d.weights(2 * count))).astype(np.float32) - 1
    low, high = ends[::2], ends[1::2]
    slope = 1 / (high - low)
    weights = {"low": low, "high": high, "slope": slope, "offset": -low * slope}
    return Case([d.weights(count + 1), d.weights(2)], weights, {})


def leaky_relu(d: Drawing) -> Case:
    return Case([d.numbers(d.size(9))], {}, {"slope": 0.1})


def lstm(d: Drawing) -> Case:
    rows, channels, size = d.size(7), d.size(3), d.size(6)
    shapes = {"input": (channels, 4 * size), "hidden": (size, 4 * size), "bias": (4 * size,)}
    return Case([d.numbers(rows, channels)], {name: d.weights(*shape) for name, shape in shapes.items()}, {})


def token_rows(d: Drawing) -> Case:
    rows, channels, outputs = d.size(5), d.size(3), d.size(9)
    inputs, mixed = d.size(9), d.chance()
    weights = {"local": d.weights(channels, outputs), "bias": d.weights(rows, outputs), "share": d.weights(rows)}
    weights |= {"mix": d.weights(inputs, outputs)} if mixed else {}
    return Case([d.numbers(rows, channels), d.numbers(inputs if mixed else outputs)], weights, {})


def feed_forward(d: Drawing) -> Case:
    rows, width, hidden, outputs = d.size(4), d.size(9), d.size(35), d.size(9)
    shapes = {"inner": (width, hidden), "inner_bias": (hidden,), "outer": (hidden, outputs), "outer_bias": (outputs,)}
    weights = {name: d.weights(*shape) for name, shape in shapes.items()}
    return Case([d.numbers(rows, width)], weights, {"activation": "relu" if d.chance() else "gelu"})


def read_out(d: Drawing) -> Case:
    rows, width, hidden = d.size(4), d.size(9), d.size(35)
    shapes = {"inner": (width, hidden), "inner_bias": (hidden,), "straight": (rows, width), "outer": (rows, hidden)}
    weights = {name: d.weights(*shape) for name, shape in shapes.items()}
    return Case(
        [d.numbers(rows, width)], weights | {"bias": d.weights(1)}, {"activation": "relu" if d.chance() else "gelu"}
    )


def trees(d: Drawing) -> Case:
    inputs, depth, count = d.size(300) if d.chance() else d.size(9), d.size(6), d.size(9)
    guarded = d.size(min(inputs, 3), least=0)
    weights = {
        "feature": (np.abs(d.weights(count, 2**depth - 1)) * inputs).astype(np.int32) % inputs,
        "threshold": d.weights(count, 2**depth - 1),
        "leaf": d.weights(count, 2**depth),
        "low": -3 * np.abs(d.weights(guarded)),
        "high": 3 * np.abs(d.weights(guarded)),
    }
    return Case([d.numbers(inputs)], weights, {})


CASES: dict[str, Callable[[Drawing], Case]] = {
    "hat_basis": hat_basis,
    "lens": lens,
    "bins": bins,
    "dense": dense,
    "add_outer": add_outer,
    "add": two_values,
    "relu": one_value,
    "gelu": one_value,
    "newest": one_value,
    "layer_norm": layer_norm,
    "hash_codes": hash_codes,
    "bitwise_attention": bitwise_attention,
    "memory_attention": memory_attention,
    "softmax_attention": softmax_attention,
    "attention_scores": attention_scores,
    "softmax_mix": softmax_mix,
    "rms_norm": rms_norm,
    "silu": one_value,
    "multiply": two_values,
    "newest_rows": newest_rows,
    "causal_convolution": causal_convolution,
    "state_space": state_space,
    "patches": patches,
    "affine": affine,
    "window_moments": window_moments,
    "standardize": standardize,
    "restore": restore,
    "polynomial": polynomial,
    "products": products,
    "blend": blend,
    "divide": divide,
    "leaky_relu": leaky_relu,
    "sigmoid_mean": one_value,
    "lstm": lstm,
    "token_rows": token_rows,
    "feed_forward": feed_forward,
    "read_out": read_out,
    "trees": trees,
}


def test_every_kernel_that_is_lowered_is_drawn() -> None:
    assert CASES.keys() == {name for name in FORMS if KERNELS[name].copies}


def call_of(kernel: str, case: Case) -> tuple[CCall, CValue, dict[str, np.ndarray]]:
    """The call of a case, the value it gives, and its inputs in memory."""
    names = tuple(f"input {index}" for index in range(len(case.inputs)))
    kinds = ["uint32_t" if x.dtype == np.uint32 else "float" for x in case.inputs]
    values = [CValue(name, kind, x.shape) for name, kind, x in zip(names, kinds, case.inputs, strict=True)]
    step, shapes = Step(kernel, names, "output", case.weights, case.settings), tuple(x.shape for x in case.inputs)
    out = KERNELS[kernel].shape(*shapes, step.weight_shapes, case.settings)
    call, value = FLOAT32_LOWERING.call(PlacedStep(step, tuple(values), shapes, out))
    assert call is not None
    return call, value, {name: x.ravel().copy() for name, x in zip(names, case.inputs, strict=True)}


def widened(case: Case) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """Inputs with a batch in front, and weights, in float64."""

    def wide(array: np.ndarray) -> np.ndarray:
        return array.astype(np.float64) if array.dtype == np.float32 else array

    return [wide(x)[None] for x in case.inputs], {name: wide(weight) for name, weight in case.weights.items()}


@pytest.mark.parametrize("kernel", CASES)
@given(data=st.data())
@settings(deadline=None, max_examples=40)
def test_a_kernel_gives_what_its_counterpart_gives(kernel: str, data: st.DataObject) -> None:
    case = CASES[kernel](Drawing(data))
    call, value, arrays = call_of(kernel, case)
    inputs, weights = widened(case)
    call_on_new_memory(call, arrays)
    found = array_of(value, arrays)
    for name, x in zip(arrays, case.inputs, strict=False):
        np.testing.assert_array_equal(arrays[name], x.ravel())
    if kernel == "hash_codes":
        return assert_codes(found, hash_activations(*inputs, weights, case.settings)[0])
    expected = KERNELS[kernel].run(*inputs, weights, case.settings)[0].ravel()
    limit = TOLERANCE * max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=limit)


@given(st.lists(st.floats(width=32), min_size=1, max_size=9), st.floats(2**-10, 2**10, width=32))
@settings(deadline=None)
def test_products_are_the_same_bits(row: list[float], limit: float) -> None:
    case = Case([np.array(row, np.float32)], {}, {"limit": limit})
    call, value, arrays = call_of("products", case)
    call_on_new_memory(call, arrays)
    expected = KERNELS["products"].run(case.inputs[0][None], {}, case.settings)[0]
    found, known = array_of(value, arrays), ~np.isnan(expected)
    np.testing.assert_array_equal(found[known].view(np.uint32), expected[known].view(np.uint32))
    assert np.isnan(found[~known]).all()


@given(data=st.data())
@settings(deadline=None)
def test_trees_are_the_same_bits_and_so_are_their_paths(data: st.DataObject) -> None:
    case = trees(Drawing(data))
    for _ in range(data.draw(st.integers(0, 3))):  # on a threshold, and where nothing can be compared
        strange = st.sampled_from([*case.weights["threshold"].ravel().tolist(), np.nan, np.inf, -np.inf, 0.0, -0.0])
        case.inputs[0][data.draw(st.integers(0, case.inputs[0].size - 1))] = data.draw(strange)
    call, value, arrays = call_of("trees", case)
    call_on_new_memory(call, arrays)
    expected = KERNELS["trees"].run(case.inputs[0][None], case.weights, {})[0]
    np.testing.assert_array_equal(array_of(value, arrays).view(np.uint32), expected.view(np.uint32))
    codes = arrays[call.output.name].view(np.uint8)[4 : 4 + len(case.weights["leaf"]) + 1]
    np.testing.assert_array_equal(codes, CODES["trees"].read(case.inputs[0][None], case.weights, {})[0])


def assert_codes(codes: np.ndarray, activations: np.ndarray) -> None:
    bits = np.arange(activations.shape[1])
    found = codes[:, None] >> bits.astype(np.uint32) & 1
    clear = np.abs(activations) > TIE * np.abs(activations).max()
    np.testing.assert_array_equal(found[clear], (activations >= 0)[clear])
    assert (codes >> len(bits) == 0).all() or len(bits) == 32


@pytest.mark.parametrize("kernel", CASES)
@given(data=st.data())
@settings(deadline=None, max_examples=10)
def test_in_place_gives_the_same_bits(kernel: str, data: st.DataObject) -> None:
    call, value, arrays = call_of(kernel, CASES[kernel](Drawing(data)))
    call_on_new_memory(call, arrays)
    separate = array_of(value, arrays).copy()
    for name in call.output.over:
        shared = {**arrays, name: arrays[name].copy()}
        shared[call.output.name] = shared[name]
        call_on(call, shared)
        np.testing.assert_array_equal(array_of(value, shared), separate)


# a code cannot be NaN; NumPy's hats multiply every number by every hat, zeros too
@pytest.mark.parametrize("kernel", [name for name in CASES if name not in ("hash_codes", "hat_basis")])
@given(data=st.data())
@settings(deadline=None, max_examples=10)
def test_nan_gives_nan_wherever_the_counterpart_does(kernel: str, data: st.DataObject) -> None:
    case = CASES[kernel](Drawing(data))
    for x in case.inputs:
        if x.dtype == np.float32:
            x.ravel()[data.draw(st.integers(0, x.size - 1))] = np.nan
    call, value, arrays = call_of(kernel, case)
    inputs, weights = widened(case)
    call_on_new_memory(call, arrays)
    with np.errstate(invalid="ignore"):
        expected = KERNELS[kernel].run(*inputs, weights, case.settings)[0].ravel()
    assert np.isnan(array_of(value, arrays))[np.isnan(expected)].all()


FUNCTIONS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float, float, float]] = {
    "exp": (np.exp, -87, 88, 2),
    "exp2": (np.exp2, -126, 127, 2),
    "tanh": (np.tanh, -12, 12, 4),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -80, 80, 4),
    "softplus": (lambda x: np.logaddexp(x, 0), -80, 80, 4),
}


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The functions of one number, each for an array."""
    body = "void every_{0}(float *x, uint32_t n);\nvoid every_{0}(float *x, uint32_t n) {{\n"
    body += "    for (uint32_t i = 0; i < n; i++) x[i] = scare_{0}_f32(x[i]);\n}}\n"
    source = tmp_path_factory.mktemp("math") / "functions.c"
    source.write_text('#include "kernels/math_f32.h"\n' + "".join(body.format(name) for name in FUNCTIONS))
    return library([source])


def apply(functions: ctypes.CDLL, name: str, x: np.ndarray) -> np.ndarray:
    out = x.astype(np.float32).copy()
    getattr(functions, f"every_{name}")(ctypes.c_void_p(out.ctypes.data), len(out))
    return out


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_within_a_few_units_in_the_last_place(functions: ctypes.CDLL, name: str) -> None:
    exact, low, high, units = FUNCTIONS[name]
    x = np.concatenate(
        [np.linspace(low, high, 200_001), np.geomspace(1e-20, 1, 20_001), -np.geomspace(1e-20, 1, 20_001)]
    )
    x = x.astype(np.float32)
    expected = exact(x.astype(np.float64))
    wrong = np.abs(apply(functions, name, x) - expected) / np.spacing(np.abs(expected).astype(np.float32))
    assert wrong.max() <= units


@pytest.mark.parametrize(
    ("name", "at_minus_infinity", "at_infinity"),
    [("exp", 0, np.inf), ("tanh", -1, 1), ("sigmoid", 0, 1), ("softplus", 0, np.inf)],
)
def test_functions_end_as_they_should(
    functions: ctypes.CDLL, name: str, at_minus_infinity: float, at_infinity: float
) -> None:
    x = np.array([-np.inf, -3e38, -1e9, -200, 200, 1e9, 3e38, np.inf, np.nan], np.float32)
    found = apply(functions, name, x)
    np.testing.assert_array_equal(found[:4], at_minus_infinity)
    far = [200, 1e9, 3e38, np.inf] if name == "softplus" else [at_infinity] * 4
    np.testing.assert_array_equal(found[4:8], np.array(far, np.float32))
    assert np.isnan(found[8])


def test_exp_of_zero_is_one(functions: ctypes.CDLL) -> None:
    assert apply(functions, "exp", np.zeros(1))[0] == 1


@pytest.mark.parametrize("source", FLOAT32, ids=lambda path: path.stem)
def test_the_board_compiler_has_nothing_to_say(source: Path, tmp_path: Path) -> None:
    compile_c([source], tmp_path / "kernel.o", ["-c", *STRICT, *M4], [RUNTIME])


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc (Debian) would run it")
@pytest.mark.parametrize("source", FLOAT32, ids=lambda path: path.stem)
def test_gcc_has_nothing_to_say(source: Path, tmp_path: Path) -> None:
    command = ["gcc", *STANDARD, *STRICT, f"-I{RUNTIME}", "-c", str(source), "-o", str(tmp_path / "kernel.o")]
    assert subprocess.run(command, capture_output=True, text=True).stderr == ""
