"""Attention kernels: hash codes, bitwise attention over pairs or through an associative memory, softmax attention."""

from math import ceil, e, log2, prod, sqrt
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le

from scare.errors import NotApplicableError
from scare.kernels.c_arguments import (
    BLOCK,
    CHUNK,
    LARGEST_SIZES,
    SPECIALISED_WIDTH,
    CForm,
    MakeForm,
    PlacedStep,
    bias_then_weights,
    checked_size,
    chunks_f32,
    pad_axis,
    table_f32,
    table_q,
)
from scare.kernels.c_extents import extents, near
from scare.kernels.contract import (
    BITS,
    Codes,
    Kernel,
    Operations,
    Settings,
    Shape,
    Shapes,
    Step,
    Weights,
    expect,
    one_product,
    row_sums,
)
from scare.kernels.fixed_point import (
    FULL,
    LARGEST,
    MOST_SUM,
    TINY,
    QuantisationRule,
    QuantisationState,
    checked_round,
    multiply_half,
    multiply_wide,
    spare_bits,
    to_int64,
    to_top,
    to_word,
    unit_rows,
)
from scare.kernels.linear import tensor_mix_features
from scare.kernels.tensor import MakeTensor, Tensor
from scare.schema import Count, Positive

BIAS = Annotated[int, Ge(1), Le(1 << 20)]  # added to the similarity of two codes, so that all weights are positive
SCORES = 1 << 20  # scores that softmax attention computes at once, so that they stay in a CPU cache
MOST_HALVINGS = 31 << 16  # a fixed-point softmax weight is 2^−power; from this power (in Q16) on it is zero
POWER_BITS = 13  # fractional bits of the fixed-point softmax weights
POWERS = (65531, -45287, 15078, -2557)  # 2^−f for f in [0, 1) as a cubic in f, Q16, within 10⁻⁴
KERNEL_ERROR = 1e-4  # most error of the hash kernel's polynomial, as a share of the kernel's range
HIGHEST_DEGREE = 12  # highest degree of that polynomial
SPECIALISED_HASH = (16, 8), 4  # supports, width and coefficients for which C has a specialised function


def hash_codes(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Hash the rows of x [L, D] to binary codes, one word each, bit j set where activation j ≥ 0: [L]."""
    return _packed(hash_activations(x, weights, settings) >= 0)


def hash_activations(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Project the RBF kernel values between the rows of x [L, D] and the supports: [L, bits].

    `supports` are unit vectors divided by the bandwidth σ, so exp(x̂·support − 1/σ) = exp(−‖x̂ − ŝ‖² / 2σ).
    """
    number = x.dtype.type  # settings in the precision of x, so that float32 stays float32
    length = np.sqrt(row_sums(x, x) + number(settings["epsilon"]))
    kernel = one_product(x / length, weights["supports"].T)
    kernel -= number(settings["sharpness"])
    activations = one_product(np.exp(kernel, out=kernel), weights["projection"])
    return activations + weights["bias"] if "bias" in weights else activations


def _packed(signs: np.ndarray) -> np.ndarray:
    """Pack booleans [..., bits] into words, the lowest bit first: [...]."""
    packed = np.packbits(signs, axis=-1, bitorder="little")  # [..., bytes]
    words = np.zeros((*packed.shape[:-1], 4), np.uint8)  # the four bytes of each word
    words[..., : packed.shape[-1]] = packed
    return words.view("<u4")[..., 0]


def _hash_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the shape: from x [L, D], supports [m, D], projection [m, bits] (and bias [bits]) to codes [L]."""
    supports, projection = weights["supports"], weights["projection"]
    expect(len(supports) == len(projection) == 2, "hash")
    expect(len(x) == 2 and supports[1] == x[1] and projection[0] == supports[0] and projection[1] <= 32, "hash")
    expect("bias" not in weights or weights["bias"] == projection[1:], "hash bias")
    return x[:1]


def _hash_scratch(x: Shape, weights: Shapes, settings: Settings) -> int:
    """Count the numbers in scratch memory: for each row, the kernel value of each support and each bit's activation."""
    return x[0] * sum(weights["projection"])


def _hash_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Count for each row its length and unit vector, a dot product and exponential per support, and the projection."""
    (tokens, width), (supports, bits) = x, weights["projection"]
    return Operations(
        multiply_adds=tokens * (2 * width + supports * width + supports * bits),
        additions=tokens * supports,
        exponentials=tokens * supports,
        divisions=2 * tokens,  # the square root of a length, and its inverse
    )


def hash_codes_q(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Hash the rows of words x [L, D] to binary codes: [L].

    The RBF kernel is approximated by a polynomial in c / 4, where c is the cosine between row and support. Its
    `coefficients` start with the highest power; its constant term is part of the `bias`.
    """
    signs = hash_activations_q(x, weights, settings) >= 0
    return (signs.astype(np.uint32) << np.arange(signs.shape[-1], dtype=np.uint32)).sum(axis=-1, dtype=np.uint32)


def hash_activations_q(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Compute `hash_activations` in fixed point: [L, bits]."""
    rows = unit_rows(x.astype(np.int64)).astype(float)
    cosines = to_int64(rows @ weights["supports"].T.astype(float))  # Q30
    coefficients = weights["coefficients"].astype(np.int64)
    kernel = np.full_like(cosines, coefficients[0])
    # Horner's scheme; the upper half of Q30, read as Q16, is cosine / 4. The constant term is 0: `bias` contains it.
    for coefficient in (*coefficients[1:], 0):
        kernel = multiply_half(kernel, cosines >> 16) + coefficient
    return to_int64((kernel >> 16).astype(float) @ weights["projection"].astype(float)) + weights["bias"]


def _hash_shape_q(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Like `_hash_shape`, with a bias and the coefficients of the kernel's polynomial."""
    supports, projection = weights["supports"], weights["projection"]
    expect(len(x) == 2 and supports[1] == x[1] and projection[0] == supports[0], "hash_codes_q")
    expect(projection[1] <= 32, "hash_codes_q bits")
    expect(weights["bias"] == projection[1:] and len(weights["coefficients"]) == 1, "hash_codes_q bias")
    return x[:1]


def _no_bound(q: QuantisationState, step: Step) -> np.ndarray:
    """Return zero as the bound and the unit of hash codes: they are bit patterns and have neither."""
    return np.zeros(())


def _quantise_hash(q: QuantisationState, step: Step) -> Step:
    """Make `hash_codes_q`, from a polynomial in place of the kernel's exponential.

    Only the signs of the activations matter, so the kernel and the projection to each bit get scales of their own, with
    which their integers use all the bits they have.
    """
    sharpness = step.settings["sharpness"]
    # Supports are unit vectors times the sharpness. Longer ones would not fit int16; 0.1 % is for rounding.
    if np.linalg.norm(step.weights["supports"], axis=1).max() > 1.001 * sharpness:
        raise NotApplicableError("float32 only: the supports of a hash are not unit vectors")
    supports = checked_round(step.weights["supports"] / sharpness * FULL, np.int16)
    powers, constant = _kernel_powers(sharpness)
    # C keeps the upper half of each word. So the largest number on the way to a kernel value is scaled to a half-word,
    # less 1 % for rounding.
    kernel_scale = 0.99 * 2.0**15 / _largest_partial(powers)
    projection = step.weights["projection"]
    # The polynomial in C has no constant term: projected to each bit, it is part of the bias.
    bias = step.weights.get("bias", 0.0) + constant * projection.sum(axis=0)  # [bits]
    # Smallest unit of each bit's weights for which their sums fit a word, they themselves int16 and the bias a word.
    unit = np.maximum(np.abs(projection).sum(axis=0) / MOST_SUM, np.abs(projection).max(axis=0) / FULL)
    unit = np.maximum(np.maximum(unit, np.abs(bias) * kernel_scale / LARGEST), TINY)
    rounded = checked_round(projection / unit, np.int16)
    weights = {
        "supports": supports,
        "coefficients": checked_round(powers[::-1] * kernel_scale * 65536, np.int32),
        "projection": rounded,
        # C rounds kernel values down, by half a step on average; half the sum of the weights makes up for it.
        "bias": checked_round(bias * kernel_scale / unit + 0.5 * rounded.sum(axis=0), np.int32),
    }
    return Step("hash_codes_q", step.inputs, step.output, weights)


def _kernel_powers(sharpness: float) -> tuple[np.ndarray, float]:
    """Approximate the kernel exp(sharpness (c − 1)) of the cosine c in [−1, 1] by a polynomial in c / 4.

    A quarter, because `hash_activations_q` has the cosine as Q30 and reads its upper 16 bits as Q16. Returns the
    coefficients of (c / 4)¹, (c / 4)², … and the constant term.
    """
    grid = np.linspace(-1.0, 1.0, 1001)
    exact = np.exp(sharpness * (grid - 1))
    for degree in range(1, HIGHEST_DEGREE + 1):
        series = np.polynomial.chebyshev.Chebyshev.interpolate(lambda c: np.exp(sharpness * (c - 1)), degree)
        if np.abs(series(grid) - exact).max() <= KERNEL_ERROR * np.ptp(exact):
            powers = np.asarray(series.convert(kind=np.polynomial.Polynomial).coef, float)  # of c⁰, c¹, …
            powers *= 4.0 ** np.arange(degree + 1)  # of (c / 4)⁰, (c / 4)¹, …
            return powers[1:], float(powers[0])
    raise NotApplicableError(
        f"float32 only: the hash kernel is too sharp ({sharpness:.3g}) for a polynomial of degree {HIGHEST_DEGREE}"
    )


def _largest_partial(powers: np.ndarray) -> float:
    """Find the largest intermediate magnitude of Horner's scheme for these coefficients of t¹, t², … with |t| ≤ ¼."""
    grid = np.linspace(-0.25, 0.25, 201)
    partial = np.zeros(201)
    largest = 0.0
    for coefficient in (*powers[::-1], 0.0):  # the constant term is 0
        partial = partial * grid + coefficient
        largest = max(largest, float(np.abs(partial).max()))
    return largest


def _c_hash_codes_f32(placed: PlacedStep) -> CForm:
    """Make the C call of the float32 hash.

    C computes 2^x instead of exp, so supports and sharpness are multiplied by log2(e).
    Supports and bits are padded to the block size of the kernel, which changes no code.
    """
    supports = pad_axis(log2(e) * placed.weight("supports").T, 1, CHUNK)
    projection = pad_axis(pad_axis(placed.weight("projection"), 0, CHUNK), 1, BLOCK)
    bias = pad_axis(placed.bias(placed.step.weights["projection"].shape[1]), 0, BLOCK, -1.0)
    numbers = table_f32(np.concatenate([bias, chunks_f32(supports, projection)]), "bias, supports and projection")
    sharpness, epsilon = (float(placed.step.settings[name]) for name in ("sharpness", "epsilon"))
    sizes = *placed.shapes[0], *projection.shape
    return CForm((numbers, *sizes, log2(e) * sharpness, epsilon), kind="uint32_t", kept=True)


def _c_hash_codes_q(placed: PlacedStep) -> CForm:
    """Make the call `scare_hash_codes_q`.

    Its arguments are (codes, x, support, coefficients, projection, rows, width, supports, bits, degree); the table
    `projection` has the bias of each bit, too. The usual sizes have a specialised function, `scare_hash_codes_8_16_q`,
    without the sizes.
    """
    weights, (rows, width) = placed.step.weights, placed.shapes[0]
    supports, bits = weights["projection"].shape
    for what, size in (("width", width), ("supports", supports)):
        checked_size(what, size)  # raises if it is too large
    bias, projection = weights["bias"], weights["projection"]
    specialised = (weights["supports"].shape, len(weights["coefficients"])) == SPECIALISED_HASH
    if specialised:  # it makes four bits at a time; those that are added have a negative bias, so they are never set
        bias, projection = pad_axis(bias, 0, 4, -1), pad_axis(projection, 1, 4)
    tables = (
        # Padded with zeros, because C reads them in fours of pairs without a remainder.
        table_q(pad_axis(pad_axis(weights["supports"], -1, 8), 0, 8), "supports"),
        table_q(weights["coefficients"], "kernel polynomial"),
        # In reverse, because C shifts a code left by one for each bit: the highest bit comes first.
        table_q(bias_then_weights(bias, projection)[::-1], "hash bias and projection"),
    )
    if specialised:
        return CForm((*tables, rows, len(bias)), function="hash_codes_8_16", kind="uint32_t", kept=True)
    sizes = rows, width, supports, bits, len(weights["coefficients"])
    return CForm((*tables, *sizes), kind="uint32_t", kept=True)


def _tensor_hash_codes(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Return the codes as signs ±1 instead of packed words: [L, bits]."""
    unit = x * ((x * x).sum() + settings["epsilon"]).apply("inverse_root")
    supports = weights["supports"]  # unit vectors times the sharpness, so that kernel = exp(sharpness · (cosine − 1))
    kernel = tensor_mix_features(unit, supports.T, np.full(len(supports), -settings["sharpness"])).apply("exp")
    return tensor_mix_features(kernel, weights["projection"], weights.get("bias")).apply("sign")


def raw_hash_codes(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Like `hash_codes`, for rows of any length instead of unit vectors: the formula exactly as the paper prints it."""
    return _packed(raw_hash_activations(x, weights, settings) >= 0)


def raw_hash_activations(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Like `hash_activations`, for rows x and supports s of any length: the kernel is exp(−‖x − s‖² / 2σ)."""
    number, supports = x.dtype.type, weights["supports"]
    distance = row_sums(x, x) - number(2) * one_product(x, supports.T) + row_sums(supports, supports)[:, 0]
    return one_product(np.exp(distance * number(-settings["sharpness"] / 2)), weights["projection"])


def _raw_hash_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Count for each row its length, a dot product, a distance and an exponential per support, and the projection."""
    (tokens, width), (supports, bits) = x, weights["projection"]
    pairs = tokens * supports  # each has a dot product, a product with the sharpness, and its share of every bit
    return Operations(
        multiply_adds=tokens * width + pairs * (width + 1 + bits), additions=2 * pairs, exponentials=pairs
    )


def bitwise_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Return the attention of codes q [L] over codes k [M] and values v [M, D]: [L, D].

    The signs h = ±1 of a token are packed as the bits of one word, so a weight bias + h(q)·h(k), which is positive, is
    bias + bits − 2·popcount(q XOR k).
    """
    differing = np.bitwise_count(q[:, :, None] ^ k[:, None, :]).astype(v.dtype)
    similarity = settings["bias"] + settings["bits"] - 2 * differing
    return (similarity @ v) / similarity.sum(axis=-1, keepdims=True)


def _bitwise_shape(q: Shape, k: Shape, v: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from codes q [L] and k [M] and values v [M, D] to [L, D]."""
    expect(len(q) == len(k) == 1 and len(v) == 2 and k[0] == v[0], "bitwise_attention")
    expect(settings["bias"] > settings["bits"], "bitwise_attention bias: every weight must stay positive")
    return (*q, v[1])


def _bitwise_cost(q: Shape, k: Shape, v: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Count XOR and popcount of each pair, the weighted sum of values, the sum of weights, and a division by query."""
    pairs = q[0] * k[0]
    return Operations(multiply_adds=pairs * v[1], additions=pairs, bit_operations=2 * pairs, divisions=q[0])


def bitwise_attention_q(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, weights: Weights, settings: Settings
) -> np.ndarray:
    """Compute `bitwise_attention` in fixed point for codes q, k [L] and words v [L, D]: [L, D], in the unit of v."""
    differing = np.bitwise_count(q[:, :, None] ^ k[:, None, :]).astype(np.int64)
    similarity = settings["bias"] + settings["bits"] - 2 * differing  # [n, L, L]
    keys, largest = k.shape[1], settings["bias"] + settings["bits"]
    bits, headroom = value_bits(keys, largest), headroom_bits(keys, largest)
    spare = spare_bits(v.reshape(len(v), 1, -1).astype(np.int64))  # one number for all values of a window
    values = to_top(v.astype(np.int64), spare, bits)
    return _average(similarity @ values, similarity.sum(-1, keepdims=True), spare, bits, headroom)


def _average(sums: np.ndarray, total: np.ndarray, spare: np.ndarray, bits: int, headroom: int) -> np.ndarray:
    """Compute sums / total, the weighted means of values that `to_top` shifted, in the unit the values had before.

    `to_top` shifted left by `spare` and right by 31 − `bits` bits, which lowered each value by half a step on average:
    so half of `total`, the sum of the weights, is added. `headroom` is how many bits of the sums are unused; shifting
    left by them first makes the multiplication by 2^31 / total precise.
    """
    reciprocal = 0x7FFFFFFF // total  # 2^31 / total
    mean = multiply_wide((sums + (total >> 1)) << headroom, reciprocal)  # mean · 2^(headroom − 1)
    # Shift left by 31 − bits, as `to_top` shifted right, less headroom − 1; then right by the spare bits.
    shifted = mean << (31 - bits - (headroom - 1))
    return to_word(shifted >> spare)


def value_bits(keys: int, largest: int) -> int:
    """Return the bits to which values are shifted: a sum of `keys` of them with weights up to `largest` fits a word."""
    return min(15, 31 - int(keys * largest).bit_length())


def headroom_bits(keys: int, largest: int) -> int:
    """Return by how many bits an attention's weighted sum of `keys` values can be shifted left within a word.

    The values have been scaled to `value_bits` bits, the weights are at most `largest`. Without the sign, a word has 31
    bits and a half-word 15. The assembly shifts the weights before it adds, which gives the same sum, and multiplies
    half-words: so a shifted weight must fit one.
    """
    unused = 31 - value_bits(keys, largest) - int(keys * largest).bit_length()
    return min(unused, 15 - int(largest).bit_length())


def _value_bound(q: QuantisationState, step: Step) -> np.ndarray:
    """Return the bound of an attention's output: that of its values (input 2), of which it is a weighted mean."""
    return np.full(q.shapes[step.output], q.bounds[step.inputs[2]].max())


def _value_unit(q: QuantisationState, step: Step) -> np.ndarray:
    """Return the unit of an attention's output: that of its values (input 2)."""
    return np.asarray(q.unit(step.inputs[2]))


def _quantise_bitwise(q: QuantisationState, step: Step) -> Step:
    """Make `bitwise_attention_q`, which has the same settings and no weights."""
    return Step("bitwise_attention_q", step.inputs, step.output, settings=step.settings)


def _c_attention_on_bits_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_bitwise_attention_f32(out, q, k, v, queries, keys, width, bits, bias)`.

    With the setting `own` it is `scare_memory_attention_f32`, with the same arguments. Both add pair by pair in C: for
    the single query of our models that costs less than building the associative memory.
    """
    (keys, width), settings = placed.shapes[2], placed.step.settings
    sizes = prod(placed.shapes[0]), keys, width, int(settings["bits"]), int(settings["bias"])
    return CForm(sizes, work=keys, function="memory_attention" if settings.get("own") else "bitwise_attention")


def _c_bitwise_attention_q(placed: PlacedStep) -> CForm:
    """Make the call `scare_bitwise_attention_q(out, queries, keys, values, rows, width, most, headroom)`."""
    (rows, width), settings = placed.shapes[2], placed.step.settings
    for what, size in (("tokens", rows), ("bits", settings["bits"])):
        checked_size(what, size)  # raises if it is too large
    most = settings["bits"] + settings["bias"]  # the largest weight, of a query and a key with equal codes
    headroom = headroom_bits(rows, most)
    # Scratch memory, in words. Half-words of two rows share a word: so many for the values, one for the weights of both
    # rows, and one for their keys.
    work = (rows + 1) // 2 * (width + 1 + 1)
    if width == SPECIALISED_WIDTH:
        return CForm((rows, most, headroom), work=work, function="bitwise_attention_8")
    return CForm((rows, width, most, headroom), work=work)


def _tensor_bitwise_attention(q: Tensor, k: Tensor, v: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Tensor form of `bitwise_attention`: codes are signs ±1 here, so their similarity is a dot product."""
    similarity = q @ k.transposed + settings["bias"]
    return (similarity @ v) / similarity.sum()


def memory_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Like `bitwise_attention`, in linear time: all keys go into one memory M = Σ h(k) ⊗ v, and each query reads it.

    A query h gives (h·M + bias Σ v) / (h·Σ h(k) + bias L) for v [L, D]: [Q, D], or [D] if q is a single code. With
    the setting `own` the bias multiplies the query's own value instead of Σ v; queries are then the newest rows.
    """
    is_single = q.ndim == 1  # besides the batch, one code for each window
    query_codes = q[:, None] if is_single else q
    queries, keys = (_signs(codes, settings["bits"], v.dtype) for codes in (query_codes, k))  # [n, Q or L, bits]
    # The values that the bias multiplies: each query's own, or the sum of all.
    biased = v[:, v.shape[1] - queries.shape[1] :] if settings["own"] else v.sum(axis=1, keepdims=True)
    numerator = queries @ (keys.swapaxes(1, 2) @ v) + settings["bias"] * biased
    denominator = queries @ keys.sum(axis=1)[:, :, None] + settings["bias"] * v.shape[1]
    mixed = numerator / denominator
    return mixed[:, 0] if is_single else mixed


def _signs(words: np.ndarray, bits: int, number: np.dtype) -> np.ndarray:
    """Unpack codes, one word each, to signs ±1 of the type `number`: [..., bits]."""
    set_bits = words[..., None] >> np.arange(bits, dtype=np.uint32) & 1
    return 2 * set_bits.astype(number) - 1


def _memory_shape(q: Shape, k: Shape, v: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from codes q [L], or one code [], and k [M] and values v [M, D] to [L, D] or [D]."""
    expect(len(q) <= 1 and len(k) == 1 and len(v) == 2 and k[0] == v[0], "memory_attention")
    expect(not settings["own"] or prod(q) <= k[0], "memory_attention own values")
    expect(settings["bias"] > settings["bits"], "memory_attention bias: no denominator may be zero")
    return (*q, v[1])


def _memory_cost(q: Shape, k: Shape, v: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Count signed additions that fill and read the memory, products of bias and values, and a division by query."""
    (keys, width), queries, bits = v, prod(q), settings["bits"]
    additions = (keys + queries) * bits * (width + 1)  # width + 1: M = Σ h(k) ⊗ v, and Σ h(k) beside it
    return Operations(
        multiply_adds=(queries if settings["own"] else 1) * width,
        additions=additions + (0 if settings["own"] else keys * width),
        divisions=queries,
    )


def _tensor_memory_attention(q: Tensor, k: Tensor, v: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Tensor form of `memory_attention`: codes are signs ±1 here, and a single query becomes one row."""
    keys, rows = v.shape[0], q if len(q.shape) == 2 else q.reshape(1, *q.shape)
    biased = v.rows(keys - rows.shape[0], keys) if settings["own"] else v.sum(0)
    numerator = rows @ (k.transposed @ v) + biased * settings["bias"]
    mixed = numerator / (rows @ k.sum(0).transposed + settings["bias"] * keys)
    return mixed if len(q.shape) == 2 else mixed.reshape(v.shape[1])


def softmax_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Compute multi-head attention for q, k [L, heads·width] and v [L, heads·values]: [L, heads·values]."""
    heads = settings["heads"]
    windows = max(1, SCORES // (heads * q.shape[1] * k.shape[1]))  # computed at once
    if len(q) > windows:
        groups = [slice(start, start + windows) for start in range(0, len(q), windows)]
        return np.concatenate([softmax_attention(q[group], k[group], v[group], weights, settings) for group in groups])
    queries, keys, values = (_by_head(x, heads) for x in (q, k, v))
    scores = queries / q.dtype.type(np.sqrt(queries.shape[-1])) @ keys.swapaxes(2, 3)  # [batch, heads, L, L]
    scores -= scores.max(axis=-1, keepdims=True)  # so that no exponential overflows
    np.exp(scores, out=scores)
    mixed = scores @ values / scores.sum(axis=-1, keepdims=True)
    return mixed.swapaxes(1, 2).reshape(*q.shape[:2], v.shape[2])


def _by_head(x: np.ndarray, heads: int) -> np.ndarray:
    """Split x [batch, L, heads·width] into heads: [batch, heads, L, width]."""
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads).swapaxes(1, 2)


def _softmax_shape(q: Shape, k: Shape, v: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the shape: from q [L, heads·width], k [M, heads·width] and v [M, heads·values] to [L, heads·values]."""
    heads = settings["heads"]
    expect(len(q) == len(k) == len(v) == 2 and q[1] == k[1] and k[0] == v[0], "softmax_attention")
    expect(heads >= 1 and q[1] % heads == v[1] % heads == 0, "softmax_attention heads")
    return (q[0], v[1])


def _softmax_cost(q: Shape, k: Shape, v: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Count scores and weighted values; for each score a difference to the largest, an exponential and a sum.

    There is one division for each query and head.
    """
    pairs, heads = q[0] * k[0], settings["heads"]
    return Operations(
        multiply_adds=pairs * (q[1] + v[1]),
        additions=2 * pairs * heads,
        exponentials=pairs * heads,
        divisions=q[0] * heads,
    )


def softmax_attention_q(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, weights: Weights, settings: Settings
) -> np.ndarray:
    """Compute `softmax_attention` in fixed point for words q, k [n, L, heads·width] and v [n, L, heads·values].

    The result [n, L, heads·values] is in the unit of v. A score that is d below the largest one has the weight
    2^−power, where d · `sharpness` · 2^(`bits` − 32 − spare bits of q and k) is the power in Q16.
    """
    heads, length = settings["heads"], k.shape[1]
    largest = 1 << POWER_BITS  # largest weight
    bits = score_bits(q.shape[2] // heads)

    def scaled(x: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
        """Shift x to `top` bits; returns it by head [n, heads, L, width], and each window's spare bits [n, 1, 1]."""
        spare = spare_bits(x.reshape(len(x), 1, -1).astype(np.int64))
        return _by_head(to_top(x.astype(np.int64), spare, top), heads), spare

    (queries, query_spare), (keys, key_spare) = scaled(q, bits), scaled(k, bits)
    values, value_spare = scaled(v, value_bits(length, largest))
    scores = queries @ keys.swapaxes(2, 3)
    below_largest = multiply_wide(scores.max(axis=-1, keepdims=True) - scores, settings["sharpness"])
    # Shift to Q16: `down` bits to the right or, where that is negative, `up` bits to the left. The minimum keeps the
    # result at MOST_HALVINGS, beyond which a weight is zero; shifts of 20 and 31 bits are as good as longer ones.
    down = (query_spare + key_spare - settings["bits"])[:, None]
    up = np.clip(-down, 0, 20)
    power = np.minimum(below_largest >> np.clip(down, 0, 31), MOST_HALVINGS >> up) << up
    shares = power_of_two(power)  # the weights before they are divided by their sum
    sums, total = shares @ values, shares.sum(axis=-1, keepdims=True)
    spare = value_spare[:, None]  # [n, 1, 1, 1]
    mixed = _average(sums, total, spare, value_bits(length, largest), headroom_bits(length, largest))
    return mixed.swapaxes(1, 2).reshape(*q.shape[:2], v.shape[2])


def score_bits(width: int) -> int:
    """Return the bits to which queries and keys are shifted, so that the difference of two scores fits a word."""
    return (30 - int(width).bit_length()) // 2


def power_of_two(power: np.ndarray) -> np.ndarray:
    """Return 2^−power for a power ≥ 0 in Q16, as Q13, by the polynomial `POWERS`.

    >>> power_of_two(np.array([0, 1 << 15, 1 << 16, 5 << 16]))
    array([8191, 5792, 4095,  255])
    """
    fraction, value = power & 0xFFFF, np.full_like(power, POWERS[3])
    for coefficient in POWERS[2::-1]:
        value = ((value * fraction) >> 16) + coefficient
    return (value >> (16 - POWER_BITS)) >> (power >> 16)


def _quantise_softmax(q: QuantisationState, step: Step) -> Step:
    """Make `softmax_attention_q`, whose `sharpness` and `bits` turn a score into a power of two in Q16."""
    heads = step.settings["heads"]
    width = q.shapes[step.inputs[0]][1] // heads
    down = 2 * (31 - score_bits(width))  # bits that `to_top` drops from the product of a query and a key
    unit = q.unit(step.inputs[0]) * q.unit(step.inputs[1]) * 2.0**down  # unit of that product
    power_per_score = unit / sqrt(width) / np.log(2) * 65536  # in Q16, because e^−s = 2^(−s / ln 2)
    bits = ceil(log2(power_per_score)) + 2  # so that `sharpness` is from 2^29 to 2^30
    settings = {"heads": heads, "sharpness": round(power_per_score * 2.0 ** (32 - bits)), "bits": bits}
    return Step("softmax_attention_q", step.inputs, step.output, settings=settings)


def _c_softmax_attention_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_softmax_attention_f32(out, q, k, v, queries, keys, heads, width, values, factor)`."""
    (queries, width), (keys, values), heads = placed.shapes[0], placed.shapes[2], placed.step.settings["heads"]
    sizes = queries, keys, heads, width // heads, values // heads
    return CForm((*sizes, 1 / sqrt(width // heads)), work=keys)


def _c_softmax_attention_q(placed: PlacedStep) -> CForm:
    """Make the call `scare_softmax_attention_q`.

    Its arguments are (out, queries, keys, values, rows, heads, width, value_width, sharpness, bits, score_bits,
    value_bits, headroom).
    """
    settings, rows = placed.step.settings, placed.out[0]
    heads, largest = settings["heads"], 1 << POWER_BITS
    (_, all_widths), _, (_, all_values) = placed.shapes  # of queries, keys and values, all heads side by side
    width, values = all_widths // heads, all_values // heads
    sizes = checked_size("tokens", rows), heads, width, values
    bits = settings["bits"], score_bits(width), value_bits(rows, largest), headroom_bits(rows, largest)
    # Scratch memory, in words of two half-words: pairs of a row's numbers for queries and keys, of rows for values.
    work = rows * heads * 2 * ((width + 1) // 2) + (rows + 1) // 2 * heads * values
    return CForm((*sizes, settings["sharpness"], *bits), work=work)


def _tensor_softmax_attention(q: Tensor, k: Tensor, v: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Tensor form of `softmax_attention`: scale the queries, then compute scores and mix the values."""
    scale = 1 / sqrt(q.shape[1] // settings["heads"])
    return _tensor_softmax_mix(_tensor_attention_scores(q * scale, k, weights, settings), v, weights, settings)


def attention_scores(q: np.ndarray, k: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Multiply queries q [L, heads·width] by keys k [M, heads·width], head by head: dot products [heads, L, M]."""
    return _by_head(q, settings["heads"]) @ _by_head(k, settings["heads"]).swapaxes(2, 3)


def _scores_shape(q: Shape, k: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from q [L, heads·width] and k [M, heads·width] to [heads, L, M]."""
    heads = settings["heads"]
    expect(len(q) == len(k) == 2 and q[1] == k[1] and heads >= 1 and q[1] % heads == 0, "attention_scores")
    return (heads, q[0], k[0])


def _scores_cost(q: Shape, k: Shape, weights: Shapes, settings: Settings) -> Operations:
    return Operations(multiply_adds=q[0] * k[0] * q[1])


def _c_attention_scores_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_attention_scores_f32(out, q, k, queries, keys, heads, width)`."""
    heads, queries, keys = placed.out
    return CForm((queries, keys, heads, placed.shapes[0][1] // heads))


def _tensor_attention_scores(q: Tensor, k: Tensor, weights: Weights, settings: Settings) -> Tensor:
    return _tensor_heads(q, settings["heads"]) @ _tensor_heads(k, settings["heads"]).transposed


def _tensor_heads(x: Tensor, count: int) -> Tensor:
    """Split heads: [L, heads·width] to [heads, L, width]."""
    return x.reshape(x.shape[0], count, x.shape[1] // count).permute(1, 0, 2)


def softmax_mix(scores: np.ndarray, v: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Mix values v [M, heads·values] by the softmax over M of scores [heads, L, M]: [L, heads·values]."""
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))  # less the largest, so that none overflows
    mixed = (shares @ _by_head(v, scores.shape[1])) / shares.sum(axis=-1, keepdims=True)
    return mixed.swapaxes(1, 2).reshape(len(v), scores.shape[2], v.shape[2])


def _mix_shape(scores: Shape, v: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from scores [heads, L, M] and v [M, heads·values] to [L, heads·values]."""
    expect(len(scores) == 3 and len(v) == 2 and scores[2] == v[0] and v[1] % scores[0] == 0, "softmax_mix")
    return (scores[1], v[1])


def _mix_cost(scores: Shape, v: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Count weighted values; for each score a difference to the largest, an exponential and a sum.

    There is one division for each query and head.
    """
    heads, queries, _ = scores
    count = prod(scores)
    return Operations(
        multiply_adds=queries * prod(v), additions=2 * count, exponentials=count, divisions=heads * queries
    )


def _c_softmax_mix_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_softmax_mix_f32(out, score, v, queries, keys, heads, values)`."""
    heads, queries, keys = placed.shapes[0]
    return CForm((queries, keys, heads, placed.out[1] // heads), work=keys)


def _tensor_softmax_mix(scores: Tensor, v: Tensor, weights: Weights, settings: Settings) -> Tensor:
    mixed = scores.apply("softmax") @ _tensor_heads(v, scores.shape[0])  # [heads, L, values]
    return mixed.permute(1, 0, 2).reshape(mixed.shape[1], mixed.shape[0] * mixed.shape[2])


ACTIVATIONS = {"hash_codes": hash_activations, "raw_hash_codes": raw_hash_activations}  # their signs are the codes
FLOAT_KERNELS = {
    "hash_codes": Kernel(
        hash_codes,
        _hash_shape,
        _hash_cost,
        takes={"sharpness": Positive, "epsilon": Positive},
        scratch=_hash_scratch,
    ),
    "raw_hash_codes": Kernel(
        raw_hash_codes, _hash_shape, _raw_hash_cost, takes={"sharpness": Positive}, scratch=_hash_scratch
    ),
    "bitwise_attention": Kernel(
        bitwise_attention,
        _bitwise_shape,
        _bitwise_cost,
        takes={"bits": BITS, "bias": BIAS},
        scratch=lambda q, k, v, *_: q[0] * k[0],
    ),
    "memory_attention": Kernel(
        memory_attention,
        _memory_shape,
        _memory_cost,
        takes={"bits": BITS, "bias": BIAS, "own": bool},
        scratch=lambda q, k, v, weights, settings: settings["bits"] * (prod(q) + k[0] + v[1]),
    ),
    "softmax_attention": Kernel(
        softmax_attention,
        _softmax_shape,
        _softmax_cost,
        takes={"heads": Count},
        scratch=lambda q, k, v, weights, settings: settings["heads"] * q[0] * k[0],
    ),
    "attention_scores": Kernel(attention_scores, _scores_shape, _scores_cost, takes={"heads": Count}),
    "softmax_mix": Kernel(softmax_mix, _mix_shape, _mix_cost, scratch=lambda scores, *_: prod(scores)),
}
FIXED_KERNELS = {
    "hash_codes_q": Kernel(hash_codes_q, _hash_shape_q, _hash_cost),
    "bitwise_attention_q": Kernel(bitwise_attention_q, _bitwise_shape, _bitwise_cost),
    "softmax_attention_q": Kernel(softmax_attention_q, _softmax_shape, _softmax_cost),
}
QUANTISATION = {
    "hash_codes": QuantisationRule(_no_bound, _no_bound, _quantise_hash),
    "bitwise_attention": QuantisationRule(_value_bound, _value_unit, _quantise_bitwise),
    "softmax_attention": QuantisationRule(_value_bound, _value_unit, _quantise_softmax),
}
C_FLOAT32: dict[str, MakeForm] = {
    "hash_codes": _c_hash_codes_f32,
    "bitwise_attention": _c_attention_on_bits_f32,
    "memory_attention": _c_attention_on_bits_f32,
    "softmax_attention": _c_softmax_attention_f32,
    "attention_scores": _c_attention_scores_f32,
    "softmax_mix": _c_softmax_mix_f32,
}
C_FIXED: dict[str, MakeForm] = {
    "hash_codes_q": _c_hash_codes_q,
    "bitwise_attention_q": _c_bitwise_attention_q,
    "softmax_attention_q": _c_softmax_attention_q,
}
_ON_BITS = {"q": "queries", "k": "keys", "v": "keys * width", "out": "queries * width + keys"}
C_EXTENTS = {
    "hash_codes_f32": extents(
        codes="rows",
        x="rows * width",
        table="bits + supports * (width + bits)",
        where="supports % 16 == 0, bits % 4 == 0, bits <= 32",
    ),
    "bitwise_attention_f32": extents(**_ON_BITS, where="keys * (bits + bias) < 2 ** 31", words="bias"),
    "memory_attention_f32": extents(**_ON_BITS, where="keys * (bits + bias) < 2 ** 31, queries <= keys", words="bias"),
    "softmax_attention_f32": extents(
        q="queries * heads * width",
        k="keys * heads * width",
        v="keys * heads * values",
        out="queries * heads * values + keys",
        where="keys >= 1",
    ),
    "attention_scores_f32": extents(
        q="queries * heads * width", k="keys * heads * width", out="heads * queries * keys"
    ),
    "softmax_mix_f32": extents(
        score="heads * queries * keys",
        v="keys * heads * values",
        out="queries * heads * values + keys",
        where="keys >= 1",
    ),
    "hash_codes_q": extents(
        codes="rows",
        x="rows * width",
        support="up(supports, 8) * up(width, 8)",
        coefficients="degree",
        projection="bits * (2 + up(supports, 8))",
        where=f"1 <= width <= {LARGEST_SIZES['width']}, 1 <= supports <= {LARGEST_SIZES['supports']}, 1 <= bits <= 32,"
        f" 1 <= degree <= {HIGHEST_DEGREE}",
    ),
    "hash_codes_8_16_q": extents(
        codes="rows",
        x="rows * 8",
        support="128",
        coefficients="4",
        projection="bits * 18",
        where="1 <= bits <= 32, bits % 4 == 0",
    ),
    "bitwise_attention_q": extents(
        queries="rows",
        keys="rows",
        values="rows * width",
        out="rows * width + (rows + 1) // 2 * (width + 2)",
        where=f"1 <= rows <= {LARGEST_SIZES['tokens']}, width % 4 == 0, rows * most <= 65536, headroom <= 17",
    ),
    "bitwise_attention_8_q": extents(
        queries="rows",
        keys="rows",
        values="rows * 8",
        out="rows * 8 + (rows + 1) // 2 * 10",
        where=f"1 <= rows <= {LARGEST_SIZES['tokens']}, rows * most <= 65536, headroom <= 14,"
        " most * 2 ** headroom <= 32767",
    ),
    "softmax_attention_q": extents(
        queries="rows * heads * width",
        keys="rows * heads * width",
        values="rows * heads * value_width",
        out="rows * heads * (value_width + 2 * ((width + 1) // 2)) + (rows + 1) // 2 * heads * value_width",
        where=f"1 <= rows <= {LARGEST_SIZES['tokens']}, 1 <= width, 0 <= sharpness, {near('bits')},"
        " width * 2 ** (2 * score_bits) <= 2 ** 30, rows * 2 ** (13 + value_bits) < 2 ** 31, value_bits <= 15,"
        " 1 <= value_bits + headroom <= 32",
    ),
}
TENSOR_FORMS: dict[str, MakeTensor] = {
    "hash_codes": _tensor_hash_codes,
    "bitwise_attention": _tensor_bitwise_attention,
    "memory_attention": _tensor_memory_attention,
    "softmax_attention": _tensor_softmax_attention,
    "attention_scores": _tensor_attention_scores,
    "softmax_mix": _tensor_softmax_mix,
}
CODES = {
    "hash_codes": Codes(hash_codes, hash_activations),
    "raw_hash_codes": Codes(raw_hash_codes, raw_hash_activations),
    "hash_codes_q": Codes(hash_codes_q, hash_activations_q),
}
