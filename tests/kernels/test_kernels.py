"""Each kernel against its definition in plain loops, and the promises of every kernel."""

import math
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from scare.errors import NotApplicableError
from scare.kernels import ACTIVATIONS, C_FIXED, hash_activations, hat_fractions, hat_matrix
from scare.kernels import FLOAT_KERNELS as KERNELS
from scare.kernels import attention as attention
from scare.kernels.c_arguments import CForm, CTable, PlacedStep
from scare.kernels.contract import Step
from scare.kernels.fixed_point import WINDOW
from scare.kernels.trees import tree_codes, tree_margins

BATCH = 3
CODES = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=6)


@dataclass(frozen=True)
class Call:
    """Inputs (with the batch in front), weights and settings of one kernel call."""

    inputs: list[np.ndarray]
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def run(self, name: str) -> np.ndarray:
        return KERNELS[name].run(*self.inputs, self.weights, self.settings)


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def codes(seed: int, *shape: int, bits: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**bits, shape, np.uint32)


def make_calls() -> dict[str, list[Call]]:
    knots = np.array([0.0, 1.0, 2.2, 3.5])
    knot, fraction = hat_fractions(11, knots)
    hats = {"knot": knot[::-1].copy(), "fraction": fraction[::-1].copy()}
    hashing = {"supports": numbers(1, 6, 4), "projection": numbers(2, 6, 13)}
    wide_hashing = {"supports": numbers(1, 6, 4), "projection": numbers(2, 6, 32), "bias": numbers(3, 32)}
    sharp = {"sharpness": 0.8, "epsilon": 1e-6}
    tokens = numbers(0, BATCH, 5, 4)
    return {
        "hat_basis": [Call([numbers(0, BATCH, 11, c)], hats, {"knots": 4}) for c in (1, 3)],
        "lens": [
            Call([numbers(0, BATCH, 7, 1)], {"weight": numbers(1, 7, 4)}),
            Call([numbers(0, BATCH, 7, 3)], {"weight": numbers(1, 7, 4), "bias": numbers(2, 4)}),
        ],
        "bins": [
            Call([numbers(0, BATCH, 7, c)], {"weight": numbers(1, 7), "start": np.array([0, 1, 5, 6], np.int32)})
            for c in (1, 3)
        ],
        "dense": [
            Call([numbers(0, BATCH, 6)], {"weight": numbers(1, 6, 2)}),
            Call([tokens], {"weight": numbers(1, 4, 3), "bias": numbers(2, 3)}),
            Call([tokens], {"weight": numbers(1, 4, 3), "bias": numbers(2, 5, 3)}),
        ],
        "add_outer": [Call([tokens, numbers(1, BATCH, 4)], {"share": numbers(2, 5)})],
        "add": [Call([tokens, numbers(1, BATCH, 5, 4)]), Call([tokens[:, 0], tokens[:, 1]])],
        "relu": [Call([tokens]), Call([tokens[:, 0]])],
        "gelu": [Call([tokens]), Call([3 * tokens[:, 0]])],
        "flatten": [Call([tokens])],
        "newest": [Call([tokens])],
        "layer_norm": [Call([tokens], {"gain": numbers(1, 4), "bias": numbers(2, 4)}, {"epsilon": 1e-3})],
        "hash_codes": [Call([tokens], hashing, sharp), Call([tokens], wide_hashing, sharp)],
        "raw_hash_codes": [Call([tokens], hashing, {"sharpness": 0.8})],
        "bitwise_attention": [
            Call([codes(0, BATCH, 5, bits=16), codes(1, BATCH, 5, bits=16), tokens], {}, {"bias": 17, "bits": 16}),
            Call([codes(0, BATCH, 2, bits=9), codes(1, BATCH, 5, bits=9), tokens], {}, {"bias": 16, "bits": 9}),
        ],
        "memory_attention": [
            Call([*words, tokens], {}, {"bias": 17, "bits": 16, "own": own})
            for own in (False, True)
            for words in (
                [codes(0, BATCH, 5, bits=16), codes(1, BATCH, 5, bits=16)],
                [codes(0, BATCH, 2, bits=16), codes(1, BATCH, 5, bits=16)],
                [codes(0, BATCH, bits=16), codes(1, BATCH, 5, bits=16)],
            )
        ],
        "softmax_attention": [
            Call([numbers(0, BATCH, 5, 8), numbers(1, BATCH, 5, 8), numbers(2, BATCH, 5, 8)], {}, {"heads": 4}),
            Call([numbers(0, BATCH, 3, 6), numbers(1, BATCH, 5, 6), numbers(2, BATCH, 5, 4)], {}, {"heads": 2}),
        ],
    }


def state_space_calls() -> dict[str, list[Call]]:
    tokens = numbers(0, BATCH, 5, 4)
    inputs = [numbers(0, BATCH, 7, 6), numbers(1, BATCH, 7, 3), numbers(2, BATCH, 3), numbers(3, BATCH, 7, 2)]
    heads = {"decay": np.array([-1.5, -0.2]), "direct": numbers(4, 2)}
    one = {"decay": np.array([-0.7]), "direct": numbers(4, 1)}
    return {
        "rms_norm": [Call([tokens], {}, {"epsilon": 1e-3}), Call([tokens[:, 0]], {}, {"epsilon": 1e-3})],
        "silu": [Call([20 * tokens])],
        "multiply": [Call([tokens, numbers(1, BATCH, 5, 4)])],
        "newest_rows": [Call([tokens], {}, {"rows": rows}) for rows in (1, 3, 5)],
        "causal_convolution": [
            Call([tokens], {"taps": numbers(1, taps, 4), "bias": numbers(2, 4)}) for taps in (1, 3, 8)
        ],
        "state_space": [
            Call(inputs, heads),
            Call([x[:, -1:] for x in inputs[:2]] + [inputs[2], inputs[3][:, :1, :1]], one),
        ],
    }


def formula_calls() -> dict[str, list[Call]]:
    powers = {"powers": [[1, 0], [0, 1], [2, 1], [0, 3]]}
    passages = {"low": [-0.5, 1.0], "high": [0.5, 1.5], "slope": [1.0, 1.8], "offset": [0.5, -1.7]}
    bands = {name: np.array(values) for name, values in passages.items()}
    return {
        "polynomial": [
            Call([numbers(0, BATCH, 2)], {"weight": numbers(1, 4, 3), "bias": numbers(2, 3)}, powers),
            Call([numbers(0, BATCH, 1)], {"weight": numbers(1, 1, 1)}, {"powers": [[2]]}),
        ],
        "blend": [
            Call([numbers(0, BATCH, 3), np.array([[decides, 9.0]] * BATCH) + 0.01 * numbers(1, BATCH, 2)], bands)
            for decides in (-0.7, 0.2, 0.8, 1.2, 2.0)
        ],
        "products": [Call([2 * numbers(0, BATCH, c)], {}, {"limit": 1.5}) for c in (1, 4)],
        "divide": [Call([numbers(0, BATCH, 3), 2 + numbers(1, BATCH, 3) ** 2])],
    }


def choice_calls() -> dict[str, list[Call]]:
    periods = {"deep_period": 12, "simple_period": 60}
    decisions = np.array([[0.2], [0.5], [0.8]])
    gates = {"input": numbers(1, 2, 12), "hidden": numbers(2, 3, 12), "bias": numbers(3, 12)}
    return {
        "leaky_relu": [Call([numbers(0, BATCH, 5, 4)], {}, {"slope": 0.1})],
        "sigmoid_mean": [Call([5 * numbers(0, BATCH, 7, c)]) for c in (1, 3)],
        "select": [Call([decisions, numbers(1, BATCH, 1), numbers(2, BATCH, 1)], {}, periods)],
        "lstm": [Call([numbers(0, BATCH, rows, 2)], gates) for rows in (1, 7)],
    }


def tree_calls() -> dict[str, list[Call]]:
    def weights(seed: int, trees: int, depth: int, inputs: int, guarded: int) -> dict[str, np.ndarray]:
        feature = np.random.default_rng(seed).integers(0, inputs, (trees, 2**depth - 1)).astype(np.int32)
        limits = {"low": -1 + 0 * numbers(seed, guarded), "high": 1 + 0 * numbers(seed, guarded)}
        return {
            "feature": feature,
            "threshold": numbers(seed, *feature.shape),
            "leaf": numbers(seed + 1, trees, 2**depth),
            **limits,
        }

    near, far = 0.3 * numbers(0, BATCH, 5), numbers(1, BATCH, 5)
    far[1, 1], far[2, 0] = 1.5, np.nan  # beyond the guard, and nowhere
    return {
        "trees": [
            Call([near], weights(2, 7, 3, 5, 5)),
            Call([far], weights(3, 4, 2, 5, 2)),
            Call([numbers(4, BATCH, 1)], weights(5, 1, 1, 1, 0)),
            Call([numbers(6, BATCH, 300)], weights(7, 9, 6, 300, 0)),
        ],
    }


def patch_calls() -> dict[str, list[Call]]:
    window, moments = numbers(0, BATCH, 11, 2), numbers(1, BATCH, 2, 2)
    scores = numbers(0, BATCH, 2, 3, 5)
    return {
        "patches": [
            Call([window], {}, {"patch": 4, "stride": 3}),
            Call([window[:, :3]], {}, {"patch": 5, "stride": 2}),
        ],
        "affine": [Call([window], {"scale": numbers(1, 2), "shift": numbers(2, 2)})],
        "window_moments": [Call([window], {}, {"epsilon": 1e-3})],
        "standardize": [Call([window, moments])],
        "restore": [Call([numbers(0, BATCH, 1), moments])],
        "attention_scores": [Call([numbers(0, BATCH, 3, 6), numbers(1, BATCH, 5, 6)], {}, {"heads": 2})],
        "softmax_mix": [Call([scores, numbers(1, BATCH, 5, 4)]), Call([scores[:, :, :1, :1], numbers(1, BATCH, 1, 2)])],
    }


def fused_calls() -> dict[str, list[Call]]:
    seen, rows = numbers(0, BATCH, 5, 2), {"local": numbers(2, 2, 3), "bias": numbers(3, 5, 3), "share": numbers(4, 5)}
    block = {
        "inner": numbers(1, 4, 6),
        "inner_bias": numbers(2, 6),
        "outer": numbers(3, 6, 3),
        "outer_bias": numbers(4, 3),
    }
    return {
        "token_rows": [
            Call([seen, numbers(1, BATCH, 3)], rows),
            Call([seen, numbers(1, BATCH, 4)], rows | {"mix": numbers(5, 4, 3)}),
        ],
        "feed_forward": [
            Call([x], block, {"activation": activation})
            for activation in ("relu", "gelu")
            for x in (numbers(0, BATCH, 5, 4), numbers(0, BATCH, 4))
        ],
        "read_out": [
            Call(
                [numbers(0, BATCH, 5, 4)],
                {
                    "inner": block["inner"],
                    "inner_bias": block["inner_bias"],
                    "straight": numbers(5, 5, 4),
                    "outer": numbers(6, 5, 6),
                    "bias": numbers(7, 1),
                },
                {"activation": activation},
            )
            for activation in ("relu", "gelu")
        ],
        "part": [
            Call([numbers(0, BATCH, 9)], {}, {"start": start, "shape": shape})
            for start, shape in ((0, [9]), (2, [3, 2]), (8, [1]))
        ],
    }


CALLS = fused_calls() | formula_calls() | make_calls() | state_space_calls() | patch_calls() | choice_calls()
CALLS |= tree_calls()
EVERY_CALL = [pytest.param(name, call, id=f"{name}-{i}") for name in KERNELS for i, call in enumerate(CALLS[name])]


def as_float32(call: Call) -> Call:
    def narrow(array: np.ndarray) -> np.ndarray:
        return array.astype(np.float32) if array.dtype.kind == "f" else array

    weights = {name: narrow(weight) for name, weight in call.weights.items()}
    return Call([narrow(x) for x in call.inputs], weights, call.settings)


def test_every_kernel_has_calls_and_a_test_of_its_name() -> None:
    assert CALLS.keys() == KERNELS.keys()
    assert [name for name in KERNELS if f"test_{name}" not in globals()] == []


@pytest.mark.parametrize(("name", "call"), EVERY_CALL)
def test_the_shape_a_kernel_declares_is_the_shape_it_gives(name: str, call: Call) -> None:
    shapes = [x.shape[1:] for x in call.inputs]
    weight_shapes = {key: weight.shape for key, weight in call.weights.items()}
    assert call.run(name).shape == (BATCH, *KERNELS[name].shape(*shapes, weight_shapes, call.settings))


@pytest.mark.parametrize(("name", "call"), EVERY_CALL)
def test_float32_stays_float32_and_near_float64(name: str, call: Call) -> None:
    narrow, wide = as_float32(call).run(name), call.run(name)
    if name in ACTIVATIONS:
        assert narrow.dtype == wide.dtype == np.uint32
        assert_array_equal(narrow, wide)  # no activation of these calls is near zero
    else:
        assert (narrow.dtype, wide.dtype) == (np.float32, np.float64)
        assert_allclose(narrow, wide, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "call"), EVERY_CALL)
def test_a_batch_is_its_members_one_by_one(name: str, call: Call) -> None:
    together = call.run(name)
    for i in range(BATCH):
        alone = Call([x[i : i + 1] for x in call.inputs], call.weights, call.settings).run(name)
        assert_allclose(alone[0], together[i], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("name", "call"), EVERY_CALL)
def test_a_kernel_leaves_its_inputs_alone(name: str, call: Call) -> None:
    before = [x.copy() for x in (*call.inputs, *call.weights.values())]
    call.run(name)
    for array, copy in zip((*call.inputs, *call.weights.values()), before, strict=True):
        assert_array_equal(array, copy)


@pytest.mark.parametrize(("name", "call"), EVERY_CALL)
def test_only_a_kernel_that_says_so_gives_a_view(name: str, call: Call) -> None:
    if not KERNELS[name].copies:
        assert np.shares_memory(call.run(name), call.inputs[0])


def test_hat_basis() -> None:
    knots = np.array([0.0, 1.0, 2.2, 3.5])
    for call in CALLS["hat_basis"]:
        (x,) = call.inputs
        expected = np.zeros((BATCH, 4, x.shape[2]))
        for b, row, channel in product(range(BATCH), range(11), range(x.shape[2])):
            position = np.log2(11 - row)  # lag 0 is the newest row, on the axis log2(lag + 1)
            for j in range(4):
                hat = np.interp(position, knots, np.eye(4)[j])  # one at knot j, zero at the others
                expected[b, j, channel] += hat * x[b, row, channel]
        assert_allclose(call.run("hat_basis"), expected, rtol=1e-12, atol=1e-12)


@settings(deadline=None)
@given(lags=st.integers(1, 400), knots=st.integers(2, 12))
def test_the_hats_of_every_lag_sum_to_one(lags: int, knots: int) -> None:
    lower, fraction = hat_fractions(lags, np.linspace(0, max(np.log2(lags), 1), knots))
    matrix = hat_matrix(lower, fraction, knots)
    assert_allclose(matrix.sum(axis=1), 1)
    assert (matrix >= -1e-12).all()


def test_lens() -> None:
    for call in CALLS["lens"]:
        (x,), weight = call.inputs, call.weights["weight"]
        bias = call.weights.get("bias", np.zeros(4))
        expected = np.empty((BATCH, 4, x.shape[2]))
        for b, j, channel in product(range(BATCH), range(4), range(x.shape[2])):
            expected[b, j, channel] = bias[j] + sum(weight[t, j] * x[b, t, channel] for t in range(7))
        assert_allclose(call.run("lens"), expected, rtol=1e-12)


def test_bins() -> None:
    for call in CALLS["bins"]:
        (x,), weight = call.inputs, call.weights["weight"]
        expected = np.empty((BATCH, 4, x.shape[2]))
        for b, (j, rows), channel in product(range(BATCH), enumerate([[0], [1, 2, 3, 4], [5], [6]]), range(x.shape[2])):
            expected[b, j, channel] = sum(weight[t] * x[b, t, channel] for t in rows)
        assert_allclose(call.run("bins"), expected, rtol=1e-12)


@pytest.mark.parametrize("start", [[1, 3], [0, 3, 3], [0, 4, 2], [0, 7]])
def test_bins_that_leave_rows_out_or_overlap_are_refused(start: list[int]) -> None:
    call = Call([numbers(0, 1, 7, 1)], {"weight": numbers(1, 7), "start": np.array(start, np.int32)})
    with pytest.raises(ValueError, match="bins start do not fit"):
        call.run("bins")


def test_dense() -> None:
    for call in CALLS["dense"]:
        (x,), weight = call.inputs, call.weights["weight"]
        bias = np.broadcast_to(call.weights.get("bias", 0.0), (*x.shape[1:-1], weight.shape[1]))
        expected = np.empty((*x.shape[:-1], weight.shape[1]))
        for place in np.ndindex(expected.shape):
            b, *token, out = place
            total = sum(x[(b, *token, i)] * weight[i, out] for i in range(x.shape[-1]))
            expected[place] = total + bias[(*token, out)]
        assert_allclose(call.run("dense"), expected, rtol=1e-12)


def test_add_outer() -> None:
    for call in CALLS["add_outer"]:
        (z, g), share = call.inputs, call.weights["share"]
        expected = z.copy()
        for b, token, feature in np.ndindex(z.shape):
            expected[b, token, feature] += share[token] * g[b, feature]
        assert_allclose(call.run("add_outer"), expected, rtol=1e-12)


def test_add() -> None:
    for call in CALLS["add"]:
        a, b = call.inputs
        expected = [one + other for one, other in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)]
        assert call.run("add").ravel().tolist() == expected


def test_relu() -> None:
    for call in CALLS["relu"]:
        (x,) = call.inputs
        assert call.run("relu").ravel().tolist() == [max(number, 0.0) for number in x.ravel().tolist()]


def test_gelu() -> None:
    for call in CALLS["gelu"]:
        (x,) = call.inputs
        inner = [math.sqrt(2 / math.pi) * (number + 0.044715 * number**3) for number in x.ravel()]
        bent = [number * 0.5 * (1 + math.tanh(u)) for number, u in zip(x.ravel(), inner, strict=True)]
        assert_allclose(call.run("gelu").ravel(), bent, rtol=1e-12)
        with_exponential = [number / (1 + math.exp(-2 * u)) for number, u in zip(x.ravel(), inner, strict=True)]
        assert_allclose(bent, with_exponential, rtol=1e-9)  # what its cost counts


def test_gelu_bears_large_numbers() -> None:
    assert Call([np.array([[-1e3, -40.0, 40.0, 1e3]], np.float32)]).run("gelu").tolist() == [[0.0, 0.0, 40.0, 1e3]]


def test_flatten() -> None:
    (call,) = CALLS["flatten"]
    (x,) = call.inputs
    assert call.run("flatten")[1].tolist() == [x[1, token, feature] for token in range(5) for feature in range(4)]


def test_newest() -> None:
    (call,) = CALLS["newest"]
    assert_array_equal(call.run("newest"), [window[4] for window in call.inputs[0]])


def test_layer_norm() -> None:
    (call,) = CALLS["layer_norm"]
    (x,), expected = call.inputs, np.empty((BATCH, 5, 4))
    for b, token in product(range(BATCH), range(5)):
        row = x[b, token].tolist()
        mean = sum(row) / 4
        deviation = (sum((number - mean) ** 2 for number in row) / 4 + 1e-3) ** 0.5
        unit = np.array([(number - mean) / deviation for number in row])
        expected[b, token] = unit * call.weights["gain"] + call.weights["bias"]
    assert_allclose(call.run("layer_norm"), expected, rtol=1e-12)


def test_hash_codes() -> None:
    for call in CALLS["hash_codes"]:
        (x,), weights = call.inputs, call.weights
        got, bits = call.run("hash_codes"), weights["projection"].shape[1]
        for b, token in product(range(BATCH), range(5)):
            unit = x[b, token] / np.sqrt(x[b, token] @ x[b, token] + 1e-6)
            kernel = [np.exp(unit @ support - 0.8) for support in weights["supports"]]
            word = 0
            for bit in range(bits):
                activation = sum(value * weights["projection"][j, bit] for j, value in enumerate(kernel))
                if activation + weights.get("bias", np.zeros(bits))[bit] >= 0:
                    word |= 1 << bit
            assert int(got[b, token]) == word


def test_raw_hash_codes() -> None:
    (call,) = CALLS["raw_hash_codes"]
    distance = np.square(call.inputs[0][:, :, None] - call.weights["supports"]).sum(axis=-1)
    activations = np.exp(-0.4 * distance) @ call.weights["projection"]
    assert_allclose(ACTIVATIONS["raw_hash_codes"](*call.inputs, call.weights, call.settings), activations, rtol=1e-12)
    assert_array_equal(call.run("raw_hash_codes"), (activations >= 0) @ (1 << np.arange(13)))


@pytest.mark.parametrize("bits", [1, 7, 8, 9, 16, 25, 32])
def test_hash_bits_are_the_signs_of_the_activations_in_order(bits: int) -> None:
    weights = {"supports": numbers(1, 6, 4), "projection": numbers(2, 6, bits)}
    call = Call([numbers(0, 50, 9, 4)], weights, {"sharpness": 0.8, "epsilon": 1e-6})
    signs = hash_activations(*call.inputs, call.weights, call.settings) >= 0
    words = call.run("hash_codes")
    assert words.shape == (50, 9)
    assert_array_equal((words[..., None] >> np.arange(bits, dtype=np.uint32)) & 1, signs)
    assert (words.astype(np.uint64) < 2**bits).all()


def test_an_activation_of_zero_sets_its_bit() -> None:
    weights = {"supports": np.ones((1, 2)), "projection": np.array([[0.0, -1.0, 1.0]])}
    call = Call([np.ones((1, 1, 2))], weights, {"sharpness": 0.0, "epsilon": 1e-6})
    assert call.run("hash_codes").tolist() == [[0b101]]


def test_the_hash_kernel_is_the_squared_distance_of_unit_vectors() -> None:
    sigma, x = 0.7, numbers(0, 1, 5, 4)
    units = numbers(1, 6, 4)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    weights = {"supports": units / sigma, "projection": np.eye(6)}
    unit_x = x / np.linalg.norm(x, axis=2, keepdims=True)
    distance = np.square(unit_x[0, :, None] - units).sum(axis=2)
    got = hash_activations(x, weights, {"sharpness": 1 / sigma, "epsilon": 0.0})
    assert_allclose(got[0], np.exp(-distance / (2 * sigma)), rtol=1e-12)


def signs_of(words: np.ndarray, bits: int) -> np.ndarray:
    """The codes as ±1, float64 [..., bits]."""
    return np.array([1.0 if int(word) >> bit & 1 else -1.0 for word in words.ravel() for bit in range(bits)]).reshape(
        *words.shape, bits
    )


def attend_by_weights(q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: float) -> np.ndarray:
    """Weights bias + h(q)·h(k) of every pair, normalised, times the values."""
    out = np.empty((len(q), v.shape[1]))
    for i in range(len(q)):
        weights = [bias + float(q[i] @ key) for key in k]
        out[i] = sum(weight * value for weight, value in zip(weights, v, strict=True)) / sum(weights)
    return out


def attend_by_memory(q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: float) -> np.ndarray:
    """The paper's form: M = Σ h(k)⊗v and k̄ = Σ h(k) once, then a query reads them; the bias adds Σ v and L."""
    memory = sum(np.outer(key, value) for key, value in zip(k, v, strict=True))
    total = k.sum(axis=0)
    return np.array([(query @ memory + bias * v.sum(axis=0)) / (query @ total + bias * len(k)) for query in q])


def test_bitwise_attention() -> None:
    for call in CALLS["bitwise_attention"]:
        (q, k, v), bits, bias = call.inputs, call.settings["bits"], call.settings["bias"]
        got = call.run("bitwise_attention")
        for b in range(BATCH):
            signs = signs_of(q[b], bits), signs_of(k[b], bits), v[b]
            assert_allclose(got[b], attend_by_weights(*signs, bias), rtol=1e-12, atol=1e-14)
            assert_allclose(got[b], attend_by_memory(*signs, bias), rtol=1e-12, atol=1e-14)


@settings(deadline=None)
@given(q=CODES, k=CODES, bits=st.integers(1, 32), extra=st.integers(1, 40), seed=st.integers(0, 99))
def test_bitwise_attention_has_three_equal_forms(q: list[int], k: list[int], bits: int, extra: int, seed: int) -> None:
    words = [np.array(some, np.uint32) & np.uint32(2**bits - 1) for some in (q, k)]
    v, bias = numbers(seed, len(k), 3), bits + extra
    call = Call([words[0][None], words[1][None], v[None]], {}, {"bias": bias, "bits": bits})
    signs = signs_of(words[0], bits), signs_of(words[1], bits), v
    by_words = call.run("bitwise_attention")[0]
    assert_allclose(by_words, attend_by_weights(*signs, bias), rtol=1e-10, atol=1e-12)
    assert_allclose(by_words, attend_by_memory(*signs, bias), rtol=1e-10, atol=1e-12)


def attention_weights(q: np.ndarray, k: np.ndarray, bits: int, bias: int) -> np.ndarray:
    """The normalised weights [queries, keys], read off with the unit vectors as values."""
    call = Call([q[None], k[None], np.eye(len(k))[None]], {}, {"bias": bias, "bits": bits})
    return call.run("bitwise_attention")[0]


def test_every_pair_of_four_bit_codes_has_a_positive_weight() -> None:
    every = np.arange(16, dtype=np.uint32)
    for word in every:
        alone = attention_weights(every, word[None], 4, 5)
        assert_array_equal(alone, 1.0)  # the denominator is this pair's weight; zero would give NaN
    together = attention_weights(every, every, 4, 5)
    assert (together > 0).all()
    unlike = np.array([[bin(a ^ b).count("1") for b in range(16)] for a in range(16)])
    expected = (9 - 2 * unlike) / (9 - 2 * unlike).sum(axis=1, keepdims=True)
    assert_allclose(together, expected, rtol=1e-12)


@settings(deadline=None)
@given(q=CODES, k=CODES, bits=st.integers(1, 32))
def test_weights_are_positive_and_each_row_sums_to_one(q: list[int], k: list[int], bits: int) -> None:
    mask = np.uint32(2**bits - 1)
    queries, keys = np.array(q, np.uint32) & mask, np.array(k, np.uint32) & mask
    opposite = np.concatenate([keys, ~queries & mask])  # the least alike there is
    weights = attention_weights(queries, opposite, bits, bits + 1)
    assert (weights > 0).all()
    assert_allclose(weights.sum(axis=1), 1, rtol=1e-12)


def test_memory_attention() -> None:
    for call in CALLS["memory_attention"]:
        (q, k, v), bits, bias = call.inputs, call.settings["bits"], call.settings["bias"]
        got = call.run("memory_attention").reshape(BATCH, -1, v.shape[2])
        for b in range(BATCH):
            queries, keys = signs_of(np.atleast_1d(q[b]), bits), signs_of(k[b], bits)
            expected = attend_by_weights(queries, keys, v[b], bias)
            if call.settings["own"]:
                own = v[b][len(v[b]) - len(queries) :]
                total = (bias + queries @ keys.T).sum(axis=1, keepdims=True)
                expected = (queries @ keys.T @ v[b] + bias * own) / total
            assert_allclose(got[b], expected, rtol=1e-12, atol=1e-14)


def test_memory_attention_costs_additions_in_proportion_to_the_keys() -> None:
    settings = {"bias": 17, "bits": 16, "own": True}
    every_token = KERNELS["memory_attention"].cost((360,), (360,), (360, 8), {}, settings)
    assert every_token.additions == 2 * 360 * 16 * 8 + 2 * 360 * 16  # 104 k, as published for 360 tokens
    assert every_token.multiply_adds == 360 * 8
    one = KERNELS["memory_attention"].cost((), (360,), (360, 8), {}, settings | {"own": False})
    assert one.additions == 361 * 16 * 9 + 360 * 8
    assert one.multiply_adds == 8


def test_softmax_attention() -> None:
    for call in CALLS["softmax_attention"]:
        (q, k, v), heads = call.inputs, call.settings["heads"]
        width, value_width = q.shape[2] // heads, v.shape[2] // heads
        expected = np.empty((BATCH, q.shape[1], v.shape[2]))
        for b, head, i in product(range(BATCH), range(heads), range(q.shape[1])):
            part = slice(head * width, (head + 1) * width)
            value_part = slice(head * value_width, (head + 1) * value_width)
            scores = [np.exp(q[b, i, part] @ key / width**0.5) for key in k[b, :, part]]
            mixed = sum(score * value for score, value in zip(scores, v[b, :, value_part], strict=True))
            expected[b, i, value_part] = mixed / sum(scores)
        assert_allclose(call.run("softmax_attention"), expected, rtol=1e-12)


def test_softmax_attention_of_many_windows_is_computed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for call in CALLS["softmax_attention"]:
        together = call.run("softmax_attention")
        for scores in (1, 60):  # one window at a time, or two and one
            monkeypatch.setattr(attention, "SCORES", scores)
            assert_allclose(call.run("softmax_attention"), together, rtol=1e-14)


def test_leaky_relu() -> None:
    (call,) = CALLS["leaky_relu"]
    expected = [number if number > 0 else 0.1 * number for number in call.inputs[0].ravel().tolist()]
    assert call.run("leaky_relu").ravel().tolist() == expected


def test_sigmoid_mean() -> None:
    for call in CALLS["sigmoid_mean"]:
        (x,), got = call.inputs, call.run("sigmoid_mean")
        for b, channel in product(range(BATCH), range(x.shape[2])):
            shares = [1 / (1 + np.exp(-number)) for number in x[b, :, channel]]
            assert_allclose(got[b, channel], sum(shares) / 7, rtol=1e-12)


def test_sigmoid_mean_bears_large_numbers() -> None:
    x = np.array([[[1e4], [-1e4], [-1e4], [0.0]]], np.float32)
    assert Call([x]).run("sigmoid_mean").tolist() == [[0.375]]


def test_select() -> None:
    (call,) = CALLS["select"]
    _, simple, deep = call.inputs
    assert call.run("select").tolist() == [simple[0].tolist(), simple[1].tolist(), deep[2].tolist()]


def test_lstm() -> None:
    def sigmoid(number: float) -> float:
        return float(1 / (1 + np.exp(-number)))

    for call in CALLS["lstm"]:
        (x,), weights = call.inputs, call.weights
        for b in range(BATCH):
            state, memory = [0.0] * 3, [0.0] * 3
            for row in x[b]:
                gates = row @ weights["input"] + np.array(state) @ weights["hidden"] + weights["bias"]
                for unit in range(3):
                    write, keep, new, show = gates[unit::3]
                    memory[unit] = sigmoid(keep) * memory[unit] + sigmoid(write) * np.tanh(new)
                    state[unit] = sigmoid(show) * np.tanh(memory[unit])
            assert_allclose(call.run("lstm")[b], state, rtol=1e-12)


def test_softmax_attention_bears_large_scores() -> None:
    q, k = np.full((1, 2, 2), 1e4, np.float32), np.array([[[1e4, 1e4], [-1e4, -1e4]]], np.float32)
    v = np.array([[[1.0, 2.0], [3.0, 4.0]]], np.float32)
    got = Call([q, k, v], {}, {"heads": 1}).run("softmax_attention")
    assert_allclose(got[0], [[1, 2], [1, 2]])


def test_rms_norm() -> None:
    for call in CALLS["rms_norm"]:
        (x,) = call.inputs
        expected = np.empty_like(x)
        for place in np.ndindex(x.shape[:-1]):
            row = x[place].tolist()
            root = (sum(number * number for number in row) / 4 + 1e-3) ** 0.5
            expected[place] = [number / root for number in row]
        assert_allclose(call.run("rms_norm"), expected, rtol=1e-12)


def test_silu() -> None:
    (call,) = CALLS["silu"]
    expected = [number * 0.5 * (1 + math.tanh(number / 2)) for number in call.inputs[0].ravel().tolist()]
    assert_allclose(call.run("silu").ravel(), expected, rtol=1e-9, atol=1e-13)


def test_silu_bears_large_numbers() -> None:
    far = np.array([[-1e4, 1e4, 0.0]], np.float32)
    assert_array_equal(Call([far]).run("silu"), [[0, 1e4, 0]])


def test_multiply() -> None:
    (call,) = CALLS["multiply"]
    a, b = (x.ravel().tolist() for x in call.inputs)
    assert call.run("multiply").ravel().tolist() == [one * other for one, other in zip(a, b, strict=True)]


def test_newest_rows() -> None:
    for call in CALLS["newest_rows"]:
        rows = call.settings["rows"]
        assert_array_equal(call.run("newest_rows"), [list(window)[5 - rows :] for window in call.inputs[0]])


def test_causal_convolution() -> None:
    for call in CALLS["causal_convolution"]:
        (x,), taps, bias = call.inputs, call.weights["taps"], call.weights["bias"]
        expected = np.empty_like(x)
        for b, row, feature in np.ndindex(x.shape):
            past = [(lag, row - lag) for lag in range(len(taps)) if row >= lag]
            mixed = sum(taps[len(taps) - 1 - lag, feature] * x[b, then, feature] for lag, then in past)
            expected[b, row, feature] = mixed + bias[feature]
        assert_allclose(call.run("causal_convolution"), expected, rtol=1e-12)


def recur(call: Call) -> np.ndarray:
    """The state space row by row: the state of each head decays, takes up the row, and is read at the end."""
    (x, b, c, dt), decay, direct = call.inputs, call.weights["decay"], call.weights["direct"]
    width, out = x.shape[2] // len(decay), np.empty((len(x), x.shape[2]))
    for window, head in product(range(len(x)), range(len(decay))):
        part = slice(head * width, (head + 1) * width)
        state = np.zeros((width, c.shape[1]))
        for row in range(x.shape[1]):
            step = math.log1p(math.exp(dt[window, row, head]))
            state = math.exp(step * decay[head]) * state + step * np.outer(x[window, row, part], b[window, row])
        out[window, part] = state @ c[window] + direct[head] * x[window, -1, part]
    return out


def test_state_space() -> None:
    for call in CALLS["state_space"]:
        assert_allclose(call.run("state_space"), recur(call), rtol=1e-12, atol=1e-13)


def test_the_newest_output_of_a_long_state_space_is_the_recurrences() -> None:
    shapes = ((1, 1440, 8), (1, 1440, 4), (1, 4), (1, 1440, 2))
    inputs = [numbers(seed, *shape) for seed, shape in enumerate(shapes)]
    inputs[3] -= [3.0, -3.0]  # one head that remembers, one that forgets at once
    call = Call(inputs, {"decay": np.array([-1.0, -16.0]), "direct": np.array([1.0, 0.5])})
    assert_allclose(call.run("state_space"), recur(call), rtol=1e-12, atol=1e-12)
    assert_allclose(as_float32(call).run("state_space"), call.run("state_space"), rtol=1e-4, atol=1e-4)


def test_polynomial() -> None:
    for call in CALLS["polynomial"]:
        (x,), weight, powers = call.inputs, call.weights["weight"], call.settings["powers"]
        expected = np.zeros((BATCH, weight.shape[1])) + call.weights.get("bias", 0.0)
        for b, (m, term), out in product(range(BATCH), enumerate(powers), range(weight.shape[1])):
            expected[b, out] += weight[m, out] * math.prod(float(x[b, c]) ** power for c, power in enumerate(term))
        assert_allclose(call.run("polynomial"), expected, rtol=1e-12, atol=1e-14)


def test_blend() -> None:
    for call in CALLS["blend"]:
        (formulas, x), bands = call.inputs, call.weights
        for b, (got,) in enumerate(call.run("blend")):
            first, second, third = formulas[b].tolist()
            expected = first
            for k, (before, after) in enumerate(((first, second), (second, third))):
                if x[b, 0] >= bands["high"][k]:
                    expected = after
                elif x[b, 0] >= bands["low"][k]:
                    share = bands["slope"][k] * x[b, 0] + bands["offset"][k]
                    expected = (1 - share) * before + share * after
            assert got == pytest.approx(expected, rel=1e-12)


def test_products() -> None:
    call = Call([np.array([[0.5, -7.0, 2.0]])], {}, {"limit": 3.0})
    assert call.run("products").tolist() == [[0.25, -1.5, 1.0, 9.0, -6.0, 4.0]]
    for call in CALLS["products"]:
        (x,), got = call.inputs, call.run("products")
        for b, row in enumerate(x.tolist()):
            clamped = [max(-1.5, min(1.5, number)) for number in row]
            assert got[b].tolist() == [one * other for i, one in enumerate(clamped) for other in clamped[i:]]


def test_divide() -> None:
    (call,) = CALLS["divide"]
    a, b = call.inputs
    expected = [one / other for one, other in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)]
    assert call.run("divide").ravel().tolist() == expected


@pytest.mark.parametrize("name", ["polynomial", "products", "blend", "divide"])
def test_a_formula_of_a_missing_number_is_missing(name: str) -> None:
    for call, index in product(CALLS[name], range(len(CALLS[name][0].inputs))):
        inputs = [x.copy() for x in call.inputs]
        inputs[index][1, 0] = np.nan
        got = Call(inputs, call.weights, call.settings).run(name)
        assert np.isnan(got[1, 0])
        assert np.isfinite(got[[0, 2]]).all()


def test_patches() -> None:
    for call in CALLS["patches"]:
        (x,), patch, stride = call.inputs, call.settings["patch"], call.settings["stride"]
        got = call.run("patches")
        for b, window in enumerate(x):
            longer = [*window, *[window[-1]] * stride]
            starts = [start for start in range(0, len(longer), stride) if start + patch <= len(longer)]
            assert_array_equal(got[b], [np.concatenate(longer[start : start + patch]) for start in starts])


def test_affine() -> None:
    (call,) = CALLS["affine"]
    (x,), expected = call.inputs, np.empty((BATCH, 11, 2))
    for b, row, feature in np.ndindex(x.shape):
        expected[b, row, feature] = x[b, row, feature] * call.weights["scale"][feature] + call.weights["shift"][feature]
    assert_allclose(call.run("affine"), expected, rtol=1e-12)


def test_window_moments() -> None:
    (call,) = CALLS["window_moments"]
    for b, channel in product(range(BATCH), range(2)):
        series = call.inputs[0][b, :, channel].tolist()
        mean = sum(series) / 11
        deviation = (sum((number - mean) ** 2 for number in series) / 11 + 1e-3) ** 0.5
        assert_allclose(call.run("window_moments")[b, :, channel], [mean, deviation], rtol=1e-12)


def test_standardize() -> None:
    (call,) = CALLS["standardize"]
    x, moments = call.inputs
    for b, row, channel in np.ndindex(x.shape):
        expected = (x[b, row, channel] - moments[b, 0, channel]) / moments[b, 1, channel]
        assert_allclose(call.run("standardize")[b, row, channel], expected, rtol=1e-12)


def test_restore() -> None:
    (call,) = CALLS["restore"]
    y, moments = call.inputs
    expected = [[y[b, 0] * moments[b, 1, 0] + moments[b, 0, 0]] for b in range(BATCH)]
    assert_allclose(call.run("restore"), expected, rtol=1e-12)


def test_attention_scores() -> None:
    (call,) = CALLS["attention_scores"]
    (q, k), got = call.inputs, call.run("attention_scores")
    for b, head, i, j in product(range(BATCH), range(2), range(3), range(5)):
        part = slice(3 * head, 3 * head + 3)
        assert_allclose(got[b, head, i, j], q[b, i, part] @ k[b, j, part], rtol=1e-12)


def test_softmax_mix() -> None:
    for call in CALLS["softmax_mix"]:
        (scores, v), got = call.inputs, call.run("softmax_mix")
        width = v.shape[2] // 2
        for b, head, i in product(range(BATCH), range(2), range(scores.shape[2])):
            part, shares = slice(head * width, (head + 1) * width), [math.exp(s) for s in scores[b, head, i]]
            mixed = sum(share * value for share, value in zip(shares, v[b, :, part], strict=True)) / sum(shares)
            assert_allclose(got[b, i, part], mixed, rtol=1e-12)


def test_scores_and_their_mix_are_softmax_attention() -> None:
    for call in CALLS["softmax_attention"]:
        (q, k, v), heads = call.inputs, call.settings["heads"]
        scores = Call([q / (q.shape[2] / heads) ** 0.5, k], {}, {"heads": heads}).run("attention_scores")
        assert_allclose(Call([scores, v]).run("softmax_mix"), call.run("softmax_attention"), rtol=1e-12, atol=1e-14)


def test_softmax_mix_bears_large_scores() -> None:
    scores = np.array([[[[1e8, -1e8]]]], np.float32)
    assert_array_equal(Call([scores, np.array([[[1.0], [3.0]]], np.float32)]).run("softmax_mix"), [[[1.0]]])


@pytest.mark.parametrize(
    ("name", "shapes", "weights", "settings"),
    [
        ("polynomial", [(2,)], {"weight": (2, 1)}, {"powers": [[1, 0]]}),
        ("polynomial", [(2,)], {"weight": (1, 1)}, {"powers": [[1]]}),
        ("polynomial", [(2,)], {"weight": (1, 1)}, {"powers": [[0, 0]]}),
        ("polynomial", [(2,)], {"weight": (1, 1)}, {"powers": [[2, -1]]}),
        ("polynomial", [(2,)], {"weight": (1, 1)}, {"powers": [[1000, 1]]}),
        ("polynomial", [(2,)], {"weight": (1, 2), "bias": (1,)}, {"powers": [[1, 0]]}),
        ("polynomial", [(3, 2)], {"weight": (1, 1)}, {"powers": [[1, 0]]}),
        ("blend", [(1,), (2,)], {"low": (0,), "high": (0,), "slope": (0,), "offset": (0,)}, {}),
        ("blend", [(3,), (2,)], {"low": (2,), "high": (2,), "slope": (2,), "offset": (3,)}, {}),
        ("blend", [(3, 1), (2,)], {"low": (2,), "high": (2,), "slope": (2,), "offset": (2,)}, {}),
        ("products", [(3, 2)], {}, {"limit": 3.0}),
        ("products", [(3,)], {}, {"limit": 0.0}),
        ("products", [(3,)], {}, {"limit": math.inf}),
        ("divide", [(3,), (1,)], {}, {}),
        ("dense", [(5, 4)], {"weight": (3, 2)}, {}),
        ("dense", [(5, 4)], {"weight": (4, 2, 2)}, {}),
        ("dense", [(5, 4)], {"weight": (4, 2), "bias": (4, 2)}, {}),
        ("dense", [(5, 4)], {"weight": (4, 2), "bias": (1, 2)}, {}),
        ("lens", [(5, 4)], {"weight": (4, 2)}, {}),
        ("lens", [(5,)], {"weight": (5, 2)}, {}),
        ("lens", [(5, 4)], {"weight": (5, 2, 2)}, {}),
        ("lens", [(5, 4)], {"weight": (5, 2), "bias": (5,)}, {}),
        ("bins", [(5, 4)], {"weight": (4,), "start": (2,)}, {}),
        ("bins", [(5,)], {"weight": (5,), "start": (2,)}, {}),
        ("bins", [(5, 4)], {"weight": (5,), "start": (6,)}, {}),
        ("bins", [(5, 4)], {"weight": (5,), "start": (2, 1)}, {}),
        ("hat_basis", [(5, 4)], {"knot": (4,), "fraction": (4,)}, {"knots": 3}),
        ("hat_basis", [(5, 4)], {"knot": (5,), "fraction": (5,)}, {"knots": 1}),
        ("add_outer", [(5, 4), (5,)], {"share": (5,)}, {}),
        ("add_outer", [(5, 4), (4,)], {"share": (4,)}, {}),
        ("add", [(5, 4), (4,)], {}, {}),
        ("layer_norm", [(5, 4)], {"gain": (5,), "bias": (4,)}, {}),
        ("hash_codes", [(5, 4)], {"supports": (6, 3), "projection": (6, 8)}, {}),
        ("hash_codes", [(5, 4)], {"supports": (6, 4), "projection": (5, 8)}, {}),
        ("hash_codes", [(5, 4)], {"supports": (6, 4), "projection": (6, 33)}, {}),
        ("hash_codes", [(5, 4)], {"supports": (6, 4), "projection": (6, 8), "bias": (6,)}, {}),
        ("bitwise_attention", [(5,), (4,), (5, 3)], {}, {"bias": 9, "bits": 8}),
        ("bitwise_attention", [(5,), (5,), (5, 3)], {}, {"bias": 8, "bits": 8}),
        ("memory_attention", [(5,), (4,), (5, 3)], {}, {"bias": 9, "bits": 8, "own": False}),
        ("memory_attention", [(5,), (5,), (5, 3)], {}, {"bias": 8, "bits": 8, "own": False}),
        ("memory_attention", [(6,), (5,), (5, 3)], {}, {"bias": 9, "bits": 8, "own": True}),
        ("softmax_attention", [(5, 6), (5, 4), (5, 4)], {}, {"heads": 2}),
        ("softmax_attention", [(5, 4), (4, 4), (5, 4)], {}, {"heads": 2}),
        ("softmax_attention", [(5, 4), (5, 4), (5, 3)], {}, {"heads": 2}),
        ("softmax_attention", [(5, 3), (5, 3), (5, 4)], {}, {"heads": 2}),
        ("softmax_attention", [(5, 4), (5, 4), (5, 4)], {}, {"heads": 0}),
        ("leaky_relu", [(5, 4)], {}, {"slope": 1.5}),
        ("sigmoid_mean", [(5,)], {}, {}),
        ("select", [(1,), (2,), (2,)], {}, {"deep_period": 12, "simple_period": 60}),
        ("select", [(1,), (1,), (1,)], {}, {"deep_period": 0, "simple_period": 60}),
        ("select", [(1,), (1,), (1,)], {}, {"deep_period": 12, "simple_period": 0.5}),
        ("lstm", [(5, 2)], {"input": (3, 12), "hidden": (3, 12), "bias": (12,)}, {}),
        ("lstm", [(5, 2)], {"input": (2, 12), "hidden": (3, 9), "bias": (12,)}, {}),
        ("lstm", [(5, 2)], {"input": (2, 12), "hidden": (3, 12), "bias": (3,)}, {}),
        ("patches", [(5, 4)], {}, {"patch": 8, "stride": 2}),
        ("patches", [(5,)], {}, {"patch": 4, "stride": 2}),
        ("affine", [(5, 4)], {"scale": (5,), "shift": (4,)}, {}),
        ("window_moments", [(5,)], {}, {}),
        ("standardize", [(5, 4), (2, 3)], {}, {}),
        ("restore", [(2,), (2, 3)], {}, {}),
        ("attention_scores", [(5, 4), (5, 6)], {}, {"heads": 2}),
        ("attention_scores", [(5, 4), (5, 4)], {}, {"heads": 3}),
        ("softmax_mix", [(2, 5, 5), (4, 4)], {}, {}),
        ("softmax_mix", [(2, 5, 5), (5, 3)], {}, {}),
        ("multiply", [(5, 4), (4,)], {}, {}),
        ("newest_rows", [(5, 4)], {}, {"rows": 6}),
        ("newest_rows", [(5, 4)], {}, {"rows": 0}),
        ("causal_convolution", [(5, 4)], {"taps": (3, 5), "bias": (4,)}, {}),
        ("causal_convolution", [(5, 4)], {"taps": (3, 4), "bias": (3,)}, {}),
        ("state_space", [(5, 4), (5, 3), (2,), (5, 2)], {"decay": (2,), "direct": (2,)}, {}),
        ("state_space", [(5, 4), (4, 3), (3,), (5, 2)], {"decay": (2,), "direct": (2,)}, {}),
        ("state_space", [(5, 4), (5, 3), (3,), (5, 3)], {"decay": (3,), "direct": (3,)}, {}),
        ("state_space", [(5, 4), (5, 3), (3,), (5, 2)], {"decay": (2,), "direct": (4,)}, {}),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    name: str, shapes: list[tuple[int, ...]], weights: dict[str, tuple[int, ...]], settings: dict[str, int]
) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        KERNELS[name].shape(*shapes, weights, settings)


def test_token_rows() -> None:
    for call in CALLS["token_rows"]:
        (seen, shared), weights = call.inputs, call.weights
        for b, row, j in product(range(BATCH), range(5), range(3)):
            common = sum(shared[b, i] * weights["mix"][i, j] for i in range(4)) if "mix" in weights else shared[b, j]
            own = weights["bias"][row, j] + sum(seen[b, row, c] * weights["local"][c, j] for c in range(2))
            assert_allclose(call.run("token_rows")[b, row, j], own + weights["share"][row] * common, rtol=1e-12)


def test_feed_forward() -> None:
    for call in CALLS["feed_forward"]:
        weights = call.weights
        inner = {"weight": weights["inner"], "bias": weights["inner_bias"]}
        outer = {"weight": weights["outer"], "bias": weights["outer_bias"]}
        active = Call([Call(call.inputs, inner).run("dense")]).run(call.settings["activation"])
        assert_allclose(call.run("feed_forward"), Call([active], outer).run("dense"), rtol=1e-12)


def test_read_out() -> None:
    for call in CALLS["read_out"]:
        (x,), weights = call.inputs, call.weights
        inner = {"weight": weights["inner"], "bias": weights["inner_bias"]}
        active = Call([Call([x], inner).run("dense")]).run(call.settings["activation"])
        for b in range(BATCH):
            total = weights["bias"][0] + (weights["straight"] * x[b]).sum() + (weights["outer"] * active[b]).sum()
            assert_allclose(call.run("read_out")[b], [total], rtol=1e-12)


def test_trees() -> None:
    for call in CALLS["trees"]:
        (x,), weights = call.inputs, call.weights
        trees, nodes = weights["feature"].shape
        for b, found in enumerate(call.run("trees")):
            total = 0.0
            for t in range(trees):
                node = 0
                while node < nodes:
                    node = 2 * node + 1 + int(x[b, weights["feature"][t, node]] > weights["threshold"][t, node])
                total += weights["leaf"][t, node - nodes]
            ends = zip(x[b], weights["low"], weights["high"], strict=False)
            assert found == (pytest.approx(total) if all(low <= number <= high for number, low, high in ends) else 0.0)


def test_trees_answer_zero_outside_what_they_have_seen() -> None:
    inside, outside = CALLS["trees"][:2]
    assert (inside.run("trees") != 0).all()
    assert (outside.run("trees")[1:] == 0).all()  # too large, and NaN
    at_the_ends = Call([np.ones((1, 5))], inside.weights), Call([-np.ones((1, 5))], inside.weights)
    assert all((call.run("trees") != 0).all() for call in at_the_ends)


@pytest.mark.parametrize("number", [-1, 5, 2**31 - 1])
def test_trees_compare_only_numbers_that_are_there(number: int) -> None:
    weights = {**CALLS["trees"][0].weights, "feature": CALLS["trees"][0].weights["feature"].copy()}
    weights["feature"][3, 4] = number
    for rows in (0, BATCH):
        with pytest.raises(ValueError, match=f"{number} .*of 5 inputs|or {number} of 5 inputs"):
            Call([numbers(0, rows, 5)], weights).run("trees")


def test_the_margins_of_trees_are_of_the_comparisons_on_the_way() -> None:
    for call in CALLS["trees"]:
        (x,), weights = call.inputs, call.weights
        codes, margins = tree_codes(x, weights, {}), tree_margins(x, weights, {})
        for b, t in np.ndindex(len(x), len(weights["feature"])):
            path = [int(codes[b, t]) >> up for up in range(margins.shape[2] + 1)]  # up to the root, 1
            assert path[-1] == 1
            for bit, node in enumerate(path[1:]):
                apart = x[b, weights["feature"][t, node - 1]] - weights["threshold"][t, node - 1]
                assert (apart > 0) == (path[bit] & 1)
                scale = max(1.0, abs(weights["threshold"][t, node - 1]))
                assert_allclose(margins[b, t, bit], abs(apart) / scale, rtol=1e-12)
        count = len(weights["low"])
        ends = np.abs(np.stack([x[:, :count] - weights["low"], x[:, :count] - weights["high"]]))
        assert_allclose(margins[:, -1, 0], ends.min(axis=(0, 2), initial=np.inf), rtol=1e-12)


def test_trees_refuse_a_window_whose_last_index_does_not_fit_in_c() -> None:
    """Channels of an odd number of rows have a row more in memory, so the last index is past 65,535."""

    def place(number: int) -> PlacedStep:
        ends = {"low": np.zeros(0, np.int32), "high": np.zeros(0, np.int32)}
        nodes = {"feature": np.array([[number]]), "threshold": np.zeros((1, 1), np.int16)}
        weights = {**nodes, **ends, "leaf": np.zeros((1, 2), np.int16)}
        step = Step("trees_q", (WINDOW,), "y", weights, {"shift": 0, "up": 0})
        return PlacedStep(step, (), ((21845, 3),), (1,))

    form = C_FIXED["trees_q"](place(3 * 21843 + 2))
    assert isinstance(form, CForm)
    assert isinstance(form.arguments[0], CTable)
    assert form.arguments[0].values.tolist() == [0, 2 * 21846 + 21843]
    with pytest.raises(NotApplicableError, match="21,845 × 3"):
        C_FIXED["trees_q"](place(3 * 21844 + 2))


@pytest.mark.parametrize(
    ("inputs", "changed"),
    [
        ((2, 5), {}),
        ((70_000,), {}),
        ((5,), {"feature": (0, 7), "threshold": (0, 7), "leaf": (0, 8)}),
        ((5,), {"feature": (4, 6), "threshold": (4, 6), "leaf": (4, 7)}),
        ((5,), {"feature": (4, 127), "threshold": (4, 127), "leaf": (4, 128)}),
        ((5,), {"feature": (28,), "threshold": (28,)}),
        ((5,), {"threshold": (4, 3)}),
        ((5,), {"leaf": (4, 7)}),
        ((5,), {"low": (6,), "high": (6,)}),
        ((5,), {"low": (2,)}),
        ((5,), {"low": (), "high": ()}),
    ],
)
def test_trees_refuse_what_does_not_fit(inputs: tuple[int, ...], changed: dict[str, tuple[int, ...]]) -> None:
    shapes = {"feature": (4, 7), "threshold": (4, 7), "leaf": (4, 8), "low": (3,), "high": (3,)}
    assert KERNELS["trees"].shape((5,), shapes, {}) == (1,)
    with pytest.raises(ValueError, match="do not fit"):
        KERNELS["trees"].shape(inputs, shapes | changed, {})


def test_part() -> None:
    (x,) = CALLS["part"][0].inputs
    assert_array_equal(CALLS["part"][0].run("part"), x)
    assert_array_equal(CALLS["part"][1].run("part"), np.stack([x[:, 2:4], x[:, 4:6], x[:, 6:8]], axis=1))
    assert_array_equal(CALLS["part"][2].run("part"), x[:, 8:])


@pytest.mark.parametrize(
    ("name", "shapes", "weights", "settings"),
    [
        ("token_rows", [(5, 2), (4,)], {"local": (2, 3), "bias": (5, 3), "share": (5,)}, {}),
        ("token_rows", [(5, 2), (3,)], {"local": (2, 3), "bias": (3,), "share": (5,)}, {}),
        ("token_rows", [(5, 2), (3,)], {"local": (2, 3), "bias": (5, 3), "share": (5,), "mix": (4, 3)}, {}),
        (
            "feed_forward",
            [(5, 4)],
            {"inner": (4, 6), "inner_bias": (6,), "outer": (5, 3), "outer_bias": (3,)},
            {"activation": "relu"},
        ),
        (
            "feed_forward",
            [(5, 4)],
            {"inner": (4, 6), "inner_bias": (6,), "outer": (6, 3), "outer_bias": (3,)},
            {"activation": "silu"},
        ),
        (
            "read_out",
            [(5, 4)],
            {"inner": (4, 6), "inner_bias": (6,), "straight": (5, 4), "outer": (6, 5), "bias": (1,)},
            {"activation": "relu"},
        ),
        ("part", [(9,)], {}, {"start": 4, "shape": [3, 2]}),
        ("part", [(3, 3)], {}, {"start": 0, "shape": [3]}),
    ],
)
def test_fused_kernels_refuse_what_does_not_fit(
    name: str, shapes: list[tuple[int, ...]], weights: dict[str, tuple[int, ...]], settings: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        KERNELS[name].shape(*shapes, weights, settings)
