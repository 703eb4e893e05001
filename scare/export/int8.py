"""The integer lowering: each step of a quantized plan as one call, its tables in the order in which C reads them."""

from collections.abc import Callable

import numpy as np

from scare.calibrator.kernels.integer import POWER_BITS, score_bits, spare_room, value_bits
from scare.calibrator.plan import INPUT, Plan, Step
from scare.calibrator.quantize import WINDOW as STEPS
from scare.errors import NotApplicableError
from scare.export.program import WINDOW, Argument, Call, Program, Table, Value

LARGEST = {"width": 32, "supports": 64, "hidden": 128, "value pairs": 128, "tokens": 32, "bits": 16}  # scare_integer.h


def lower(plan: Plan) -> Program:
    """A plan made by `quantize` as a program."""
    lowering = _Lowering(plan)
    calls = [call for step in plan.steps[1:] if (call := lowering.call(step)) is not None]
    quanta = tuple(float(number) for number in plan.steps[0].weights["quantum"])
    return Program("int16_t", plan.window, plan.channels, tuple(calls), calls[-1].output, quanta)


class _Lowering:
    """Values by their names in the plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        window = Value(WINDOW, "int16_t", (plan.channels, plan.window))
        self.values = {INPUT: window, STEPS: window}

    def call(self, step: Step) -> Call | None:
        """The call that a step becomes, or None for a view."""
        shape, source = self.plan.shapes[step.output], self.values[step.inputs[0]]
        if step.kernel in ("flatten", "part"):
            start = source.start + step.settings.get("start", 0)
            self.values[step.output] = Value(step.output, "int32_t", shape, source.of or source.name, start)
            return None
        kind = {"hash_codes_s8": "uint32_t", "result_s8": "float"}.get(step.kernel, "int32_t")
        over = tuple(self.values[name].name for name in step.inputs) if step.kernel in IN_PLACE else ()
        output = Value(step.output, kind, shape, over=over, kept=step.kernel == "hash_codes_s8")
        self.values[step.output] = output
        inputs = [self.values[name] for name in step.inputs]
        arguments = ARGUMENTS[step.kernel](self.plan, step, inputs)
        return make_call(_function(self.plan, step), arguments, output)


def make_call(function: str, arguments: tuple[Argument, ...], output: Value) -> Call:
    """The call in C's order: the output, then values, tables, sizes and numbers."""
    ordered = sorted(arguments, key=lambda argument: 2 - isinstance(argument, Table) - 2 * isinstance(argument, Value))
    return Call(function, (output, *ordered), output)


def _function(plan: Plan, step: Step) -> str:
    """The C function: one for the usual sizes where there is one."""
    if step.kernel == "dense_s8" and _is_dot(plan, step):
        return "scare_dense_1_s8"
    if step.kernel == "token_rows_s8" and _usual_rows(step):
        return "scare_token_rows_1_8_s8"
    if step.kernel == "hash_codes_s8" and _usual_hash(step):
        return "scare_hash_codes_8_16_s8"
    if step.kernel in BY_EIGHT and len(step.weights[BY_EIGHT[step.kernel]]) == 8:
        return f"scare_{step.kernel.removesuffix('_s8')}_8_s8"
    return f"scare_{step.kernel}"


BY_EIGHT = {"feed_forward_s8": "inner", "layer_norm_s8": "gain"}  # kernels compiled for tokens of eight numbers
IN_PLACE = {"add_s8", "layer_norm_s8"}


def _fits(what: str, size: int) -> int:
    """A size that the kernels have room for."""
    if size > LARGEST[what]:
        raise NotApplicableError(f"float32 only: {what} of {size}; the integer kernels have room for {LARGEST[what]}")
    return size


def _padded(array: np.ndarray, multiple: int) -> np.ndarray:
    """The last axis filled up with zeros."""
    missing = -array.shape[-1] % multiple
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)])


def _table(array: np.ndarray, about: str, kind: type[np.integer] | None = None) -> Table:
    return Table(np.ascontiguousarray(array if kind is None else array.astype(kind)).reshape(-1), about)


def _project(plan: Plan, step: Step, inputs: list[Value]) -> tuple[Argument, ...]:
    older, newer = (np.moveaxis(step.weights[name], 0, -1) for name in ("older", "newer"))  # [C, R, T]
    newer = _padded(newer, 2)
    scales = np.stack([step.weights[name] for name in ("coarse", "fine", "bias")], axis=1)
    swapped = older.reshape(*older.shape[:2], -1, 4)[..., [0, 2, 1, 3]]
    pairs = newer.reshape(*newer.shape[:2], -1, 2)
    return (
        *inputs,
        *(plan.window, plan.channels, int(step.settings["apart"])),
        *(older.shape[2], newer.shape[2], older.shape[1]),
        _table(_blocked(swapped), f"{step.output} older"),
        _table(_blocked(pairs), f"{step.output} newer"),
        _table(scales, f"{step.output} coarse, fine, bias"),
        step.settings["shift"],
    )


def _blocked(weights: np.ndarray) -> np.ndarray:
    """[C, R, groups, g] in blocks of four of the R; of what is left three filled up with zeros, or one by one.

    Their order is block, channel, group, projection, g.
    """
    filled = np.pad(weights, ((0, 0), (0, 1), (0, 0), (0, 0))) if weights.shape[1] % 4 == 3 else weights
    fours = filled.shape[1] // 4 * 4
    borders = [*range(4, fours + 1, 4), *range(fours + 1, filled.shape[1])]
    parts = np.split(filled, borders, axis=1)
    return np.concatenate([part.swapaxes(1, 2).reshape(-1) for part in parts])


def _hats(plan: Plan, step: Step, inputs: list[Value]) -> tuple[Argument, ...]:
    """Segments oldest first; a pair of samples that two segments share is read in both, with zeros for the other."""
    knots, knot = step.settings["knots"], step.weights["knot"]
    segments, shares = [], []
    for lower in range(knots - 2, -1, -1):
        inside = np.flatnonzero(knot == lower)
        first, last = (int(inside[0]) // 2, int(inside[-1]) // 2) if len(inside) else (0, -1)
        segments.append((first, last - first + 1))
        for row in range(2 * first, 2 * last + 2):
            own = row < plan.window and knot[row] == lower
            shares.append(step.weights["shares"][row] if own else (0, 0))
    pairs = np.array(shares).reshape(-1, 2, 2).swapaxes(1, 2)  # pair, knot, row of the pair
    return (
        *inputs,
        *(plan.window, plan.channels, knots),
        _table(np.array(segments), "first pair and pairs of each segment", np.uint16),
        _table(pairs, "shares of the nearer and the farther knot", np.int16),
    )


def _bins(plan: Plan, step: Step, inputs: list[Value]) -> tuple[Argument, ...]:
    weights = step.weights
    return (
        *inputs,
        *(plan.window, plan.window, plan.channels, len(weights["start"])),
        _table(weights["weight"], "bin weights"),
        _table(weights["start"], "first row of each bin", np.uint16),
        _table(weights["scale"], "scale of each bin"),
        step.settings["shift"],
    )


def _newest(plan: Plan, step: Step, inputs: list[Value]) -> tuple[Argument, ...]:
    return (*inputs, plan.window, plan.window, plan.channels)


def _dense(plan: Plan, step: Step, inputs: list[Value]) -> tuple[Argument, ...]:
    weight, bias = step.weights["weight"], step.weights["bias"]
    rows = int(np.prod(plan.shapes[step.inputs[0]][:-1]))
    tables = (
        _table(_by_four(weight) if weight.shape[1] > 1 else _padded(weight.T, 2), f"{step.output} weights"),
        _table(_padded(bias, 4) if weight.shape[1] > 1 else bias, f"{step.output} bias"),
        _table(step.weights["shift"], f"{step.output} shifts", np.uint8),
    )
    if _is_dot(plan, step):
        return (*inputs, tables[0], len(weight), int(bias[0]), int(step.weights["shift"][0]))
    return (*inputs, *tables, rows, *weight.shape)


def _is_dot(plan: Plan, step: Step) -> bool:
    """Whether a dense step has one row and one output."""
    return step.weights["weight"].shape[1] == 1 and len(plan.shapes[step.inputs[0]]) == 1


def _by_four(weight: np.ndarray) -> np.ndarray:
    """Weights [I, O] in blocks of four outputs and two inputs: [O / 4, I / 2, 2, 4]."""
    filled = _padded(_padded(weight, 4).T, 2).T
    return filled.reshape(len(filled) // 2, 2, -1, 4).transpose(2, 0, 1, 3)


def _lens(plan: Plan, step: Step, inputs: list[Value]) -> tuple[Argument, ...]:
    weight = step.weights["weight"]
    sizes = (len(weight), plan.channels, weight.shape[1])
    return (*inputs, *sizes, _table(weight.T, f"{step.output} weights"))


def _token_rows(plan: Plan, step: Step, inputs: list[Value]) -> tuple[Argument, ...]:
    weights, (rows, channels) = step.weights, plan.shapes[step.inputs[0]]
    local, outputs = weights["local"], weights["local"].shape[1]
    if outputs % 4:
        raise NotApplicableError(f"float32 only: tokens of {outputs} numbers; integer kernels take four at a time")
    mix = weights.get("mix", np.zeros((0, outputs), np.int16))
    bias = weights["bias"].reshape(rows, -1, 4).swapaxes(0, 1)  # [outputs / 4, rows, 4]
    share = np.broadcast_to(weights["share"][:, None], (*bias.shape[:2], 1))
    return (
        *inputs,
        *((rows, len(mix)) if _usual_rows(step) else (rows, channels, len(mix), outputs)),
        _table(local.reshape(channels, -1, 4).swapaxes(0, 1), f"{step.output} local"),
        _table(_by_four(mix) if len(mix) else local, f"{step.output} mix"),
        _table(np.concatenate([share, bias], axis=2), f"{step.output} share and bias", np.int32),
    )


def _usual_rows(step: Step) -> bool:
    """Whether a step is of the sizes that a kernel is compiled for."""
    return step.weights["local"].shape == (1, 8)


def _hash(plan: Plan, step: Step, inputs: list[Value]) -> tuple[Argument, ...]:
    weights, rows = step.weights, plan.shapes[step.output][0]
    (supports, width), bits = weights["supports"].shape, weights["projection"].shape[1]
    _fits("width", width), _fits("supports", supports)
    degree = len(weights["coefficients"]) - 1
    support = _table(_padded(_padded(weights["supports"], 8).T, 8).T, "supports")
    coefficients = _table(weights["coefficients"], "kernel polynomial")
    signs = _table(_after_bias(weights["bias"], weights["projection"])[::-1], "hash bias and projection")
    if _usual_hash(step):
        return (*inputs, rows, bits, support, coefficients, signs)
    return (*inputs, rows, width, supports, bits, support, coefficients, degree, signs)


def _after_bias(bias: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """For each output of weights [I, O] the two halves of a word, its bias, then its weights, padded to eight."""
    return np.concatenate([bias.astype("<i4").view("<i2").reshape(-1, 2), _padded(weight.T, 8)], axis=1)


def _usual_hash(step: Step) -> bool:
    """Whether a step is of the sizes that a kernel is compiled for."""
    return step.weights["supports"].shape == (16, 8) and len(step.weights["coefficients"]) == 5


def _bitwise(plan: Plan, step: Step, inputs: list[Value]) -> tuple[Argument, ...]:
    rows, width = plan.shapes[step.inputs[2]]
    _fits("tokens", rows)
    _fits("value pairs", (rows + 1) // 2 * width)
    _fits("bits", step.settings["bits"])
    most = step.settings["bits"] + step.settings["bias"]
    return (*inputs, rows, width, most, spare_room(rows, most))


def _softmax(plan: Plan, step: Step, inputs: list[Value]) -> tuple[Argument, ...]:
    heads, rows = step.settings["heads"], plan.shapes[step.output][0]
    width, values = (plan.shapes[step.inputs[place]][1] // heads for place in (0, 2))
    sizes = (_fits("tokens", rows), heads, width, values)
    scaling = (step.settings["sharpness"], step.settings["bits"])
    most = 1 << POWER_BITS
    return (*inputs, *sizes, *scaling, score_bits(width), value_bits(rows, most), spare_room(rows, most))


def _norm(plan: Plan, step: Step, inputs: list[Value]) -> tuple[Argument, ...]:
    rows, width = plan.shapes[step.output]
    return (
        *inputs,
        *((rows,) if width == 8 else (rows, _fits("width", width))),
        _table(_padded(np.stack([step.weights["gain"], step.weights["bias"]]), 2).T, f"{step.output} gain and bias"),
        *(step.settings["epsilon"], step.settings["epsilon_bits"]),
    )


def _feed_forward(plan: Plan, step: Step, inputs: list[Value]) -> tuple[Argument, ...]:
    rows, width = plan.shapes[step.output]
    inner = _after_bias(step.weights["inner_bias"], step.weights["inner"])
    outer = step.weights["outer"]
    outer = _padded(_padded(outer, 4).T, 8)  # [D, F]
    blocks = outer.reshape(len(outer) // 4, 4, -1, 2).swapaxes(1, 2)
    return (
        *inputs,
        *((rows,) if width == 8 else (rows, _fits("width", width))),
        _fits("hidden", len(inner)),
        _table(_padded(inner.T, 8).T, f"{step.output} inner bias and weights"),
        _table(blocks, f"{step.output} outer"),
        _table(_padded(step.weights["outer_bias"], 4), f"{step.output} outer bias"),
        *(step.settings["most"], step.settings["bits"]),
    )


def _products(plan: Plan, step: Step, inputs: list[Value]) -> tuple[Argument, ...]:
    factor = step.weights["factor"]
    return (*inputs, len(factor), _table(factor, f"{step.output} factors"), step.settings["top"])


def _add(plan: Plan, step: Step, inputs: list[Value]) -> tuple[Argument, ...]:
    return (*inputs, int(np.prod(plan.shapes[step.output])), step.settings["shift"])


def _result(plan: Plan, step: Step, inputs: list[Value]) -> tuple[Argument, ...]:
    return (*inputs, float(step.settings["unit"]))


ARGUMENTS: dict[str, Callable[[Plan, Step, list[Value]], tuple[Argument, ...]]] = {
    "project_s8": _project,
    "hat_basis_s8": _hats,
    "bins_s8": _bins,
    "newest_s8": _newest,
    "dense_s8": _dense,
    "lens_s8": _lens,
    "token_rows_s8": _token_rows,
    "hash_codes_s8": _hash,
    "bitwise_attention_s8": _bitwise,
    "softmax_attention_s8": _softmax,
    "layer_norm_s8": _norm,
    "feed_forward_s8": _feed_forward,
    "products_s8": _products,
    "add_s8": _add,
    "result_s8": _result,
}
