"""Quantize turns a fused float plan into one that computes with integers only, from an int16 window to one word.

Every value between is a word of 32 bits with a unit, the real number that 1 stands for: a power of two, on the
window's side times the channel's quantum. Units come from exact bounds: no window, whatever it holds, can make a sum
overflow. The weights of long projections are int8 with the error of each rounding passed on along time, those of the
newest rows int16.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, floor, log2, prod, sqrt

import numpy as np

from scare.calibrator.kernels.integer import FULL, NEWEST_BITS, row_bits, score_bits
from scare.calibrator.kernels.linear import hat_matrix
from scare.calibrator.plan import INPUT, Plan, Step
from scare.errors import NotApplicableError

NEWEST, SHORT = 8, 16  # rows at the window's end whose weights have 16 bits; all of a window up to SHORT
HALF = 32767  # the largest weight of 16 bits
MOST_HELD = 28000  # that a number may become before products: half of its square is below LARGEST
LARGEST = 2.0**29  # that a word may become, so that the sum of two fits as well
KERNEL_ERROR, HIGHEST_DEGREE = 1e-4, 12  # of the hash kernel's polynomial; the error as a share of the kernel's range
VIEWS = {"flatten", "part"}
WINDOW = f"{INPUT}.steps"  # the window in whole steps of its quanta


def quantize(plan: Plan, quanta: np.ndarray) -> Plan:
    """The integer twin of a fused plan; `quanta` are the steps of the int16 window for 1, one for each channel."""
    missing = {step.kernel for step in plan.steps} - set(RULES) - VIEWS
    activations = {(step.kernel, step.settings.get("activation", "relu")) for step in plan.steps}
    missing |= {f"{kernel} with {activation}" for kernel, activation in activations if activation != "relu"}
    if missing:
        raise NotApplicableError(f"float32 only: there is no integer form of {', '.join(sorted(missing))}")
    return _Quantizer(plan.astype(np.float64), np.asarray(quanta, float)).make()


class _Quantizer:
    """Bounds and units of all values in the order of the steps, then the integer steps."""

    def __init__(self, plan: Plan, quanta: np.ndarray) -> None:
        self.plan, self.quanta = plan, quanta
        steps = np.broadcast_to(1 / quanta, plan.shapes[INPUT])
        self.bounds: dict[str, np.ndarray] = {INPUT: FULL * steps}  # the largest magnitudes, of the value's shape
        self.units: dict[str, np.ndarray] = {INPUT: steps}

    def make(self) -> Plan:
        """The integer plan."""
        for step in self.plan.steps:
            shape, name = self.plan.shapes[step.output], step.output
            if step.kernel in VIEWS:
                self.bounds[name], self.units[name] = self._view(step, self.bounds), self._view(step, self.units)
                continue
            rule = RULES[step.kernel]
            self.bounds[name] = np.broadcast_to(rule.bound(self, step), shape)
            self.units[name] = np.broadcast_to(rule.unit(self, step), shape)
        last = self.plan.steps[-1].output
        steps = [Step("window_s8", (INPUT,), WINDOW, {"quantum": self.quanta.astype(np.float32)})]
        for step in self.plan.steps:
            steps += self._emit(step)
        steps.append(Step("result_s8", (last,), f"{last}.real", settings={"unit": self.unit(last)}))
        return replace(self.plan, steps=tuple(steps))

    def _view(self, step: Step, arrays: dict[str, np.ndarray]) -> np.ndarray:
        shape, start = self.plan.shapes[step.output], step.settings.get("start", 0)
        return arrays[step.inputs[0]].reshape(-1)[start : start + prod(shape)].reshape(shape)

    def _emit(self, step: Step) -> list[Step]:
        if step.kernel not in VIEWS:
            return [RULES[step.kernel].emit(self, step)]
        return [] if self.is_window(step.output) else [step]

    def is_window(self, name: str) -> bool:
        """Whether a value is the window, flattened or not."""
        maker = next((step for step in self.plan.steps if step.output == name), None)
        return name == INPUT or (maker is not None and maker.kernel == "flatten" and self.is_window(maker.inputs[0]))

    def unit(self, name: str) -> float:
        """The one unit of all numbers of a value."""
        unit = self.units[name]
        assert (unit == unit.flat[0]).all(), name
        return float(unit.flat[0])

    def feature_units(self, name: str) -> np.ndarray:
        """The unit of each number of the last axis, the same in every row."""
        rows = self.units[name].reshape(-1, self.plan.shapes[name][-1])
        assert (rows == rows[0]).all(), name
        return rows[0]


def power_above(number: np.ndarray | float) -> np.ndarray:
    """The next power of two, of zero a very small one."""
    return 2.0 ** np.ceil(np.log2(np.maximum(number, 2.0**-80)))


def holding(bound: np.ndarray) -> np.ndarray:
    """The units in which numbers up to these bounds fit a word."""
    return power_above(bound / LARGEST)


def whole(numbers: np.ndarray, kind: type[np.signedinteger]) -> np.ndarray:
    """Rounded, and checked to fit."""
    rounded = np.rint(numbers)
    assert np.abs(rounded).max(initial=0) <= np.iinfo(kind).max
    return rounded.astype(kind)


def halves(weight: np.ndarray) -> np.ndarray:
    """Weights of 16 bits, for products that drop their lowest 16."""
    return whole(weight * 65536, np.int16)


def finest(weight: np.ndarray) -> np.ndarray:
    """The smallest units of the outputs [O] in which weights [I, O], units of the input in them, fit as `halves`."""
    return power_above(np.abs(weight).max(axis=0, initial=0.0) * 65536 / HALF)


def bits_between(coarse: np.ndarray | float, fine: np.ndarray | float) -> np.ndarray:
    """By how many bits a word is shifted right to go from one unit to another."""
    return np.rint(np.log2(coarse / fine)).astype(np.int32)


def words(bias: np.ndarray, unit: np.ndarray | float) -> np.ndarray:
    """A bias as words."""
    return whole(bias / unit, np.int32)


# linear: bound, unit and integer step


def _absolute(x: np.ndarray, weights: np.ndarray, bias: np.ndarray | float = 0.0) -> np.ndarray:
    return x @ np.abs(weights) + np.abs(bias)


def _dense_bound(q: _Quantizer, step: Step) -> np.ndarray:
    if step.inputs[0] == INPUT:
        raise NotApplicableError("float32 only: a token for each reading has no integer form")
    if step.weights.get("bias", np.empty(0)).ndim > 1:
        raise NotApplicableError("float32 only: a bias for each token has no integer form")
    return _absolute(q.bounds[step.inputs[0]], step.weights["weight"], step.weights.get("bias", 0.0))


def _dense_finest(q: _Quantizer, step: Step) -> np.ndarray:
    """The unit of each output's sum, before it is shifted."""
    bound = q.bounds[step.output]
    most = holding(bound.reshape(-1, bound.shape[-1]).max(axis=0))
    if q.is_window(step.inputs[0]):
        return most
    return np.maximum(most, finest(step.weights["weight"] * q.feature_units(step.inputs[0])[:, None]))


def _dense_unit(q: _Quantizer, step: Step) -> np.ndarray:
    """One unit for all outputs that are read together."""
    units, readers = _dense_finest(q, step), q.plan.readers(step.output)
    if any(reader.kernel != "part" for reader in readers):
        return units.max()
    for reader in readers:
        start = reader.settings["start"]
        part = slice(start, start + prod(q.plan.shapes[reader.output]))
        units[part] = units[part].max()
    return units


def _dense(q: _Quantizer, step: Step) -> Step:
    weight, units = step.weights["weight"], q.feature_units(step.output)
    bias = step.weights.get("bias", np.zeros(len(units)))
    if q.is_window(step.inputs[0]):
        matrix = weight.reshape(q.plan.window, q.plan.channels, -1) / q.quanta[:, None]
        return _project(q, step, matrix / units, bias / units, apart=False)
    fine = _dense_finest(q, step)
    shift = bits_between(units, fine)
    weights = {
        "weight": halves(weight * q.feature_units(step.inputs[0])[:, None] / fine),
        "bias": words(bias, fine) + (1 << shift >> 1),
        "shift": shift,
    }
    return Step("dense_s8", step.inputs, step.output, weights)


def _lens_bound(q: _Quantizer, step: Step) -> np.ndarray:
    bias = np.asarray(step.weights.get("bias", 0.0))
    return np.abs(step.weights["weight"]).T @ q.bounds[step.inputs[0]] + np.abs(bias)[..., None]


def _channel_units(q: _Quantizer, step: Step) -> np.ndarray:
    """One power of two for all numbers of a value, times the channel's unit."""
    return holding((q.bounds[step.output] * q.quanta).max()) / q.quanta


def _lens_unit(q: _Quantizer, step: Step) -> np.ndarray:
    if step.inputs[0] == INPUT:
        return _channel_units(q, step)
    return np.maximum(_channel_units(q, step), finest(step.weights["weight"] * _knots(q, step)).max() / q.quanta)


def _knots(q: _Quantizer, step: Step) -> np.ndarray:
    """The units of a lens's rows, the channels' quanta apart."""
    return (q.units[step.inputs[0]] * q.quanta)[:, :1]


def _lens(q: _Quantizer, step: Step) -> Step:
    weight = step.weights["weight"]
    if "bias" in step.weights:
        raise NotApplicableError("float32 only: a lens with a bias has no integer form")
    unit = float((q.units[step.output] * q.quanta).flat[0])
    if step.inputs[0] == INPUT:
        return _project(q, step, weight[:, None] / unit, np.zeros(weight.shape[1]), apart=True)
    return Step("lens_s8", step.inputs, step.output, {"weight": halves(weight * _knots(q, step) / unit)})


def _project(q: _Quantizer, step: Step, matrix: np.ndarray, bias: np.ndarray, apart: bool) -> Step:
    """Weights [T, C, R], in units of the output a step of the window, split into older and newer rows."""
    rows = len(matrix)
    aligned = q.plan.channels == 1 or rows % 2 == 0  # every channel begins on a word boundary
    newer = NEWEST + (rows - NEWEST) % 8 if rows > SHORT and aligned else rows
    older, coarse = _diffused(matrix[: rows - newer])
    fine = np.maximum(np.abs(matrix[rows - newer :]).sum(axis=(0, 1)) / 65000, _largest(matrix[rows - newer :]) / HALF)
    fine = np.maximum(fine, 1e-30)
    shift = 30 - max(1, ceil(log2(max(coarse.max(), fine.max()))) + 1)
    shift = int(min(shift, 62))
    weights = {
        "older": older,
        "newer": whole(matrix[rows - newer :] / fine, np.int16),
        "coarse": whole(coarse * 2.0**shift, np.int32),
        "fine": whole(fine * 2.0**shift, np.int32),
        "bias": whole(bias, np.int32),
    }
    return Step("project_s8", (WINDOW,), step.output, weights, {"apart": apart, "shift": shift})


def _largest(weights: np.ndarray) -> np.ndarray:
    return np.abs(weights).max(axis=(0, 1), initial=0.0)


def _diffused(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights [T, C, R] as int8 and the scale of each of the R."""
    scale = np.maximum(np.maximum(_largest(weights) / 127, np.abs(weights).sum(axis=(0, 1)) / 65000), 1e-30)
    return _rounded_along_time(weights / scale, 127).astype(np.int8), scale


def _rounded_along_time(weights: np.ndarray, most: int) -> np.ndarray:
    """Weights [T, ...] as whole numbers within ±most; what a rounding loses the next row makes up for."""
    lost, rounded = np.zeros(weights.shape[1:]), np.empty(weights.shape)
    for row, exact in enumerate(weights):
        rounded[row] = np.clip(np.rint(exact + lost), -most, most)
        lost = exact + lost - rounded[row]
    return rounded


def _hats_bound(q: _Quantizer, step: Step) -> np.ndarray:
    return np.abs(_hat_sums(step))[:, None] * q.bounds[INPUT][:1]


def _hat_sums(step: Step) -> np.ndarray:
    """The sum of the weights under each hat."""
    knot, fraction = step.weights["knot"], step.weights["fraction"]
    count = step.settings["knots"]
    return np.bincount(knot, 1 - fraction, count) + np.bincount(knot + 1, fraction, count)


def _hats_unit(q: _Quantizer, step: Step) -> np.ndarray:
    return holding(_hat_sums(step) * FULL)[:, None] / q.quanta


def _hats(q: _Quantizer, step: Step) -> Step:
    knot, knots = step.weights["knot"], step.settings["knots"]
    unit = holding(_hat_sums(step) * FULL)
    matrix = _rounded_along_time(hat_matrix(knot, step.weights["fraction"], knots) / unit, HALF)
    shares = np.take_along_axis(matrix, knot[:, None] + np.arange(2), axis=1).astype(np.int16)
    return Step("hat_basis_s8", (WINDOW,), step.output, {"knot": knot, "shares": shares}, step.settings)


def _bins_bound(q: _Quantizer, step: Step) -> np.ndarray:
    return np.add.reduceat(np.abs(step.weights["weight"])[:, None] * q.bounds[INPUT], step.weights["start"], axis=0)


def _bins(q: _Quantizer, step: Step) -> Step:
    weight, start = step.weights["weight"], step.weights["start"]
    unit = float((q.units[step.output] * q.quanta).flat[0])
    sums = np.add.reduceat(np.abs(weight), start)
    scale = np.maximum(np.maximum(sums / 65000, np.maximum.reduceat(np.abs(weight), start) / HALF), 1e-30)
    each = np.repeat(scale, np.diff([*start, len(weight)]))
    shift = int(min(30 - ceil(log2((scale / unit).max())), 62))
    weights = {
        "weight": whole(weight / each, np.int16),
        "start": start,
        "scale": whole(scale / unit * 2.0**shift, np.int32),
    }
    return Step("bins_s8", (WINDOW,), step.output, weights, {"shift": shift})


def _newest_bound(q: _Quantizer, step: Step) -> np.ndarray:
    return q.bounds[INPUT][-1]


def _newest_unit(q: _Quantizer, step: Step) -> np.ndarray:
    return 2.0**-NEWEST_BITS / q.quanta


def _newest(q: _Quantizer, step: Step) -> Step:
    return Step("newest_s8", (WINDOW,), step.output)


def _tokens_bound(q: _Quantizer, step: Step) -> np.ndarray:
    rows = _absolute(q.bounds[step.inputs[0]], step.weights["local"], step.weights["bias"])
    return rows + np.abs(step.weights["share"])[:, None] * _mixed_bound(q, step)


def _mixed_bound(q: _Quantizer, step: Step) -> np.ndarray:
    shared = q.bounds[step.inputs[1]]
    return shared @ np.abs(step.weights["mix"]) if "mix" in step.weights else shared


def _mixed_unit(q: _Quantizer, step: Step) -> float:
    """The unit of what all rows share, once mixed."""
    unit = q.unit(step.inputs[1])
    if "mix" not in step.weights:
        return unit
    return float(np.maximum(holding(_mixed_bound(q, step).max()), finest(step.weights["mix"] * unit).max()))


def _tokens_unit(q: _Quantizer, step: Step) -> np.ndarray:
    local = step.weights["local"] * q.feature_units(step.inputs[0])[:, None]
    share = step.weights["share"] * _mixed_unit(q, step)
    return np.max([holding(q.bounds[step.output].max()), finest(local).max(), *finest(share[:, None])])


def _tokens(q: _Quantizer, step: Step) -> Step:
    unit, mixed = q.unit(step.output), _mixed_unit(q, step)
    weights = {
        "local": halves(step.weights["local"] * q.feature_units(step.inputs[0])[:, None] / unit),
        "share": halves(step.weights["share"] * mixed / unit),
        "bias": words(step.weights["bias"], unit),
    }
    if "mix" in step.weights:
        weights["mix"] = halves(step.weights["mix"] * q.unit(step.inputs[1]) / mixed)
    return Step("token_rows_s8", step.inputs, step.output, weights)


# attention


def _none(q: _Quantizer, step: Step) -> np.ndarray:
    """Codes have neither bound nor unit."""
    return np.zeros(())


def _hash(q: _Quantizer, step: Step) -> Step:
    """Only signs are wanted: each bit's projection, and the kernel, may be scaled at will."""
    sharpness = step.settings["sharpness"]
    if np.linalg.norm(step.weights["supports"], axis=1).max() > 1.001 * sharpness:
        raise NotApplicableError("float32 only: the supports of a hash are not unit vectors")
    supports = whole(step.weights["supports"] / sharpness * HALF, np.int16)
    powers, constant = _kernel_powers(sharpness)
    size = 2.0**31 * 0.99 / 65536 / _largest_partial(powers)
    projection = step.weights["projection"]
    bias = step.weights.get("bias", 0.0) + constant * projection.sum(axis=0)
    room = np.maximum(np.abs(projection).sum(axis=0) / 65000, np.abs(projection).max(axis=0) / HALF)
    room = np.maximum(np.maximum(room, np.abs(bias) * size / LARGEST), 1e-30)
    scaled = whole(projection / room, np.int16)
    weights = {
        "supports": supports,
        "coefficients": whole(np.array([*powers[::-1], 0.0]) * size * 65536, np.int32),
        "projection": scaled,
        "bias": whole(bias * size / room + 0.5 * scaled.sum(axis=0), np.int32),  # the kernel is rounded down
    }
    return Step("hash_codes_s8", step.inputs, step.output, weights)


def _largest_partial(powers: np.ndarray) -> float:
    """The largest magnitude that evaluating the powers 1, 2, … of |t| ≤ ¼, highest first, comes by."""
    quarter, partial, largest = np.linspace(-0.25, 0.25, 201), np.zeros(201), 0.0
    for power in (*powers[::-1], 0.0):
        partial = partial * quarter + power
        largest = max(largest, float(np.abs(partial).max()))
    return largest


def _kernel_powers(sharpness: float) -> tuple[np.ndarray, float]:
    """exp(sharpness (c − 1)) for c in [−1, 1] as powers 1, 2, … of c / 4, and the constant."""
    grid = np.linspace(-1.0, 1.0, 1001)
    exact = np.exp(sharpness * (grid - 1))
    for degree in range(1, HIGHEST_DEGREE + 1):
        series = np.polynomial.chebyshev.Chebyshev.interpolate(lambda c: np.exp(sharpness * (c - 1)), degree)
        if np.abs(series(grid) - exact).max() <= KERNEL_ERROR * np.ptp(exact):
            power = np.asarray(series.convert(kind=np.polynomial.Polynomial).coef, float)
            power *= 4.0 ** np.arange(degree + 1)
            return power[1:], float(power[0])
    raise NotApplicableError(
        f"float32 only: the hash kernel is too sharp ({sharpness:.3g}) for a polynomial of degree {HIGHEST_DEGREE}"
    )


def _value_bound(q: _Quantizer, step: Step) -> np.ndarray:
    return np.full(q.plan.shapes[step.output], q.bounds[step.inputs[2]].max())


def _value_unit(q: _Quantizer, step: Step) -> np.ndarray:
    return np.asarray(q.unit(step.inputs[2]))


def _own_unit(q: _Quantizer, step: Step) -> np.ndarray:
    return holding(q.bounds[step.output].max())


def _bitwise(q: _Quantizer, step: Step) -> Step:
    return Step("bitwise_attention_s8", step.inputs, step.output, settings=step.settings)


def _softmax(q: _Quantizer, step: Step) -> Step:
    """`sharpness` · 2^(`bits` − 32) is what a score, of rows shifted to the top, is worth as a power of two in Q16."""
    heads = step.settings["heads"]
    width = q.plan.shapes[step.inputs[0]][1] // heads
    down = 2 * (31 - score_bits(width))
    worth = q.unit(step.inputs[0]) * q.unit(step.inputs[1]) * 2.0**down / sqrt(width) / np.log(2) * 65536
    bits = ceil(log2(worth)) + 2
    settings = {"heads": heads, "sharpness": round(worth * 2.0 ** (32 - bits)), "bits": bits}
    return Step("softmax_attention_s8", step.inputs, step.output, settings=settings)


# the rest of a block


def _norm_bound(q: _Quantizer, step: Step) -> np.ndarray:
    width = q.plan.shapes[step.output][-1]
    return np.abs(step.weights["gain"]) * sqrt(width) + np.abs(step.weights["bias"])


def _norm(q: _Quantizer, step: Step) -> Step:
    unit, width = q.unit(step.output), q.plan.shapes[step.output][-1]
    top = 2.0 ** (-62 + 29 - width.bit_length() + row_bits(width)) / q.unit(step.inputs[0])
    epsilon = step.settings["epsilon"] * width**3 * top**2
    bits = 30 - floor(log2(epsilon))
    weights = {
        "gain": words(step.weights["gain"] * sqrt(width) * 2, unit),
        "bias": words(step.weights["bias"], unit),
    }
    settings = {"epsilon": round(epsilon * 2.0**bits), "epsilon_bits": bits}
    return Step("layer_norm_s8", step.inputs, step.output, weights, settings)


def _feed_bound(q: _Quantizer, step: Step) -> np.ndarray:
    hidden = _absolute(q.bounds[step.inputs[0]], step.weights["inner"], step.weights["inner_bias"])
    return _absolute(hidden, step.weights["outer"], step.weights["outer_bias"])


def _feed(q: _Quantizer, step: Step) -> Step:
    """Each hidden number is multiplied by a factor of its own, so that it uses its 16 bits; the biases must fit too."""
    unit = q.unit(step.inputs[0])
    scales = 32700 / np.maximum(np.abs(step.weights["inner"]).sum(axis=0), 1e-30)
    for_no_spare_bits = scales / unit / 65536
    scales *= min(1.0, LARGEST / max(float(np.abs(step.weights["inner_bias"] * for_no_spare_bits).max()), 1e-30))
    bias = step.weights["inner_bias"] * scales / unit / 65536
    most = int(np.clip(floor(log2(LARGEST / max(float(np.abs(bias).max()), 1e-30))), 0, 31))
    outer = step.weights["outer"] / scales[:, None]
    top = max(float(np.abs(outer).max()) / HALF, float(np.abs(outer).sum(axis=0).max()) / 43000)
    bits = floor(-log2(max(top, 2.0**-60)))
    weights = {
        "inner": whole(step.weights["inner"] * scales, np.int16),
        "inner_bias": whole(bias * 2.0**most, np.int32),
        "outer": whole(outer * 2.0**bits, np.int16),
        "outer_bias": words(step.weights["outer_bias"], q.unit(step.output)),
    }
    down = bits - 32 + int(bits_between(q.unit(step.output), unit))
    return Step("feed_forward_s8", step.inputs, step.output, weights, {"most": most, "bits": down})


def _products_bound(q: _Quantizer, step: Step) -> np.ndarray:
    return np.asarray(step.settings["limit"] ** 2)


def _held_bits(step: Step) -> int:
    """The bits after the point of the numbers that `products` multiplies."""
    return floor(log2(MOST_HELD / step.settings["limit"]))


def _products_unit(q: _Quantizer, step: Step) -> np.ndarray:
    return np.asarray(2.0 ** (1 - 2 * _held_bits(step)))


def _products(q: _Quantizer, step: Step) -> Step:
    limit, bits = step.settings["limit"], _held_bits(step)
    factor = np.rint(q.feature_units(step.inputs[0]) * 2.0 ** (bits + 32))
    if factor.max() >= 2.0**31:
        raise NotApplicableError(f"float32 only: ±{limit:g} is too few steps of a reading for products")
    weights = {"factor": whole(factor, np.int32)}
    return Step("products_s8", step.inputs, step.output, weights, {"top": floor(limit * 2.0**bits)})


def _add_bound(q: _Quantizer, step: Step) -> np.ndarray:
    return q.bounds[step.inputs[0]] + q.bounds[step.inputs[1]]


def _add_unit(q: _Quantizer, step: Step) -> np.ndarray:
    """The coarser of the two: what is held by it leaves room for two additions."""
    unit = max(q.unit(name) for name in step.inputs)
    if q.bounds[step.output].max() / unit >= 2.0**31:
        raise NotApplicableError("float32 only: a sum of more than three values has no integer form")
    return np.asarray(unit)


def _add(q: _Quantizer, step: Step) -> Step:
    coarse, fine = sorted(step.inputs, key=q.unit, reverse=True)
    shift = int(bits_between(q.unit(coarse), q.unit(fine)))
    return Step("add_s8", (coarse, fine), step.output, settings={"shift": shift})


@dataclass(frozen=True)
class Rule:
    """How one kernel becomes integers: bound of its output, smallest unit of its output, integer step."""

    bound: Callable[[_Quantizer, Step], np.ndarray]
    unit: Callable[[_Quantizer, Step], np.ndarray]
    emit: Callable[[_Quantizer, Step], Step]


RULES = {
    "dense": Rule(_dense_bound, _dense_unit, _dense),
    "lens": Rule(_lens_bound, _lens_unit, _lens),
    "hat_basis": Rule(_hats_bound, _hats_unit, _hats),
    "bins": Rule(_bins_bound, _channel_units, _bins),
    "newest": Rule(_newest_bound, _newest_unit, _newest),
    "token_rows": Rule(_tokens_bound, _tokens_unit, _tokens),
    "hash_codes": Rule(_none, _none, _hash),
    "bitwise_attention": Rule(_value_bound, _value_unit, _bitwise),
    "softmax_attention": Rule(_value_bound, _value_unit, _softmax),
    "layer_norm": Rule(_norm_bound, _own_unit, _norm),
    "feed_forward": Rule(_feed_bound, _own_unit, _feed),
    "products": Rule(_products_bound, _products_unit, _products),
    "add": Rule(_add_bound, _add_unit, _add),
}
