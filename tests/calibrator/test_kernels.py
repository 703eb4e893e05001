"""Each kernel against its plain sentence in loops, and what every kernel promises."""

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from scare.calibrator.kernels import KERNELS, hash_activations, hat_fractions, hat_matrix

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
        "dense": [
            Call([numbers(0, BATCH, 6)], {"weight": numbers(1, 6, 2)}),
            Call([tokens], {"weight": numbers(1, 4, 3), "bias": numbers(2, 3)}),
            Call([tokens], {"weight": numbers(1, 4, 3), "bias": numbers(2, 5, 3)}),
        ],
        "add_outer": [Call([tokens, numbers(1, BATCH, 4)], {"share": numbers(2, 5)})],
        "add": [Call([tokens, numbers(1, BATCH, 5, 4)]), Call([tokens[:, 0], tokens[:, 1]])],
        "relu": [Call([tokens]), Call([tokens[:, 0]])],
        "flatten": [Call([tokens])],
        "newest": [Call([tokens])],
        "layer_norm": [Call([tokens], {"gain": numbers(1, 4), "bias": numbers(2, 4)}, {"epsilon": 1e-3})],
        "hash_codes": [Call([tokens], hashing, sharp), Call([tokens], wide_hashing, sharp)],
        "bitwise_attention": [
            Call([codes(0, BATCH, 5, bits=16), codes(1, BATCH, 5, bits=16), tokens], {}, {"bias": 17, "bits": 16}),
            Call([codes(0, BATCH, 2, bits=9), codes(1, BATCH, 5, bits=9), tokens], {}, {"bias": 16, "bits": 9}),
        ],
        "softmax_attention": [
            Call([numbers(0, BATCH, 5, 8), numbers(1, BATCH, 5, 8), numbers(2, BATCH, 5, 8)], {}, {"heads": 4}),
            Call([numbers(0, BATCH, 3, 6), numbers(1, BATCH, 5, 6), numbers(2, BATCH, 5, 4)], {}, {"heads": 2}),
        ],
    }


CALLS = make_calls()
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
    if name == "hash_codes":
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


def test_softmax_attention_bears_large_scores() -> None:
    q, k = np.full((1, 2, 2), 1e4, np.float32), np.array([[[1e4, 1e4], [-1e4, -1e4]]], np.float32)
    v = np.array([[[1.0, 2.0], [3.0, 4.0]]], np.float32)
    got = Call([q, k, v], {}, {"heads": 1}).run("softmax_attention")
    assert_allclose(got[0], [[1, 2], [1, 2]])


@pytest.mark.parametrize(
    ("name", "shapes", "weights", "settings"),
    [
        ("dense", [(5, 4)], {"weight": (3, 2)}, {}),
        ("dense", [(5, 4)], {"weight": (4, 2, 2)}, {}),
        ("dense", [(5, 4)], {"weight": (4, 2), "bias": (4, 2)}, {}),
        ("dense", [(5, 4)], {"weight": (4, 2), "bias": (1, 2)}, {}),
        ("lens", [(5, 4)], {"weight": (4, 2)}, {}),
        ("lens", [(5,)], {"weight": (5, 2)}, {}),
        ("lens", [(5, 4)], {"weight": (5, 2, 2)}, {}),
        ("lens", [(5, 4)], {"weight": (5, 2), "bias": (5,)}, {}),
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
        ("softmax_attention", [(5, 6), (5, 4), (5, 4)], {}, {"heads": 2}),
        ("softmax_attention", [(5, 4), (4, 4), (5, 4)], {}, {"heads": 2}),
        ("softmax_attention", [(5, 4), (5, 4), (5, 3)], {}, {"heads": 2}),
        ("softmax_attention", [(5, 3), (5, 3), (5, 4)], {}, {"heads": 2}),
        ("softmax_attention", [(5, 4), (5, 4), (5, 4)], {}, {"heads": 0}),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    name: str, shapes: list[tuple[int, ...]], weights: dict[str, tuple[int, ...]], settings: dict[str, int]
) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        KERNELS[name].shape(*shapes, weights, settings)
