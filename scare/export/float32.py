"""Float32: a plan as a program of `_f32` kernels, its weights laid out in the order in which C reads them.

One function for each kernel says what its C twin takes besides the output and the inputs (`runtime/src/
scare_kernels.h` says how it lies in memory). Comes from `calibrator.fuse`, goes to `memory` and `c_source`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import e, log2, prod, sqrt

import numpy as np

from scare.calibrator.kernels import PERIODS, Shape, count_patches
from scare.calibrator.plan import INPUT, Plan, Step
from scare.export.program import WINDOW, Branch, Call, Program, Table, Value

USUAL = 8  # numbers in a token for which kernels are compiled anew
FOUR = 4  # sums side by side
CHUNK = 16  # supports or hidden numbers at a time


@dataclass(frozen=True)
class Site:
    """A step of a plan, the values it reads and the shapes of its inputs and its output."""

    step: Step
    inputs: tuple[Value, ...]
    shapes: tuple[Shape, ...]
    out: Shape

    def weight(self, name: str) -> np.ndarray:
        """A weight in double precision."""
        return self.step.weights[name].astype(np.float64)

    def table(self, name: str) -> Table:
        """A weight as it is."""
        return _table(self.weight(name), name)

    def bias(self, *shape: int) -> np.ndarray:
        """The bias in double precision, zero if there is none."""
        return np.broadcast_to(self.weight("bias") if "bias" in self.step.weights else 0.0, shape)


@dataclass(frozen=True)
class Rest:
    """What a kernel's C twin takes after the output and the inputs: tables, sizes, numbers.

    `over` are the inputs whose memory the output may take; `work` numbers follow the output.
    """

    arguments: tuple[Table | int | float, ...]
    over: tuple[int, ...] = ()
    work: int = 0
    function: str = ""  # where it is not the kernel's name


def lower(plan: Plan) -> Program:
    """The program of a plan, fused or not.

    >>> dot = Step("dense", ("flat",), "y", {"weight": np.ones((3, 1), np.float32)})
    >>> program = lower(Plan(3, 1, (Step("flatten", ("x",), "flat"), dot)))
    >>> [call.function for call in program.every_call()], program.result.shape
    (['scare_dense_f32'], (1,))
    """
    last = plan.steps[-1]
    result = Value(last.output, "float", (1,))
    if plan.branches is None:
        calls, result = _calls(plan)
        return Program("float", plan.window, plan.channels, calls, result)
    decision, *branches = plan.branches
    simple, deep = (_calls(_renamed(branch, last.output))[0] for branch in branches)
    simple_period, deep_period = (last.settings[name] for name in PERIODS)
    branch = Branch(_calls(decision)[0], simple, deep, simple_period, deep_period, result)
    return Program("float", plan.window, plan.channels, (branch,), result)


def _renamed(plan: Plan, output: str) -> Plan:
    """The plan with another name for what it gives."""
    return replace(plan, steps=(*plan.steps[:-1], replace(plan.steps[-1], output=output)))


def _calls(plan: Plan) -> tuple[tuple[Call, ...], Value]:
    """The calls of a plan without branches, and the value of its last step."""
    values = {INPUT: Value(WINDOW, "float", (plan.window, plan.channels))}
    calls: list[Call] = []
    for step in plan.steps:
        shapes = tuple(plan.shapes[name] for name in step.inputs)
        site = Site(step, tuple(values[name] for name in step.inputs), shapes, plan.shapes[step.output])
        view = _view(site)
        if view is None:
            call, view = make_call(site)
            calls.append(call)
        values[step.output] = view
    return tuple(calls), values[plan.steps[-1].output]


def _view(site: Site) -> Value | None:
    """The output as a part of the input's memory, where it is one."""
    source, shape = site.inputs[0], site.shapes[0]
    if site.step.kernel in ("flatten", "part"):
        start = site.step.settings.get("start", 0)
    elif site.step.kernel in ("newest", "newest_rows") and (source.kind != "float" or source.name == WINDOW):
        start = prod(shape) - prod(site.out)
    else:
        return None
    root = source.of or source.name
    return Value(site.step.output, source.kind, site.out, of=root, start=source.start + start)


def make_call(site: Site) -> tuple[Call, Value]:
    """The call of a step, and the step's value: the output or, where work follows it, its first part."""
    rest = KERNELS[site.step.kernel](site)
    codes = site.step.kernel == "hash_codes"
    name, kind, size = site.step.output, "uint32_t" if codes else "float", prod(site.out)
    own = [site.inputs[index] for index in rest.over if not site.inputs[index].of]
    over = tuple(value.name for value in own if value.name != WINDOW and prod(value.shape) == size)
    value = written = Value(name, kind, site.out, over=over, kept=codes)
    if rest.work:
        written = Value(f"{name}.work", kind, (size + rest.work,))
        value = Value(name, kind, site.out, of=written.name)
    function = f"scare_{rest.function or site.step.kernel}_f32"
    return Call(function, (written, *site.inputs, *rest.arguments), written), value


def _table(values: np.ndarray, about: str) -> Table:
    return Table(np.ascontiguousarray(values, np.float32).ravel(), about)


def _in_fours(*matrices: np.ndarray) -> np.ndarray:
    """The columns of matrices on top of each other, four at a time, those left over one at a time: [...]."""
    matrix = np.concatenate(matrices)
    whole = matrix.shape[1] // FOUR * FOUR
    blocks = [matrix[:, o : o + FOUR] for o in range(0, whole, FOUR)]
    blocks += [matrix[:, o : o + 1] for o in range(whole, matrix.shape[1])]
    return np.concatenate([block.ravel() for block in blocks])


def _padded(array: np.ndarray, axis: int, multiple: int, value: float = 0.0) -> np.ndarray:
    """The array with its axis as long as the next multiple."""
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, -array.shape[axis] % multiple)
    return np.pad(array, widths, constant_values=value)


def _chunked(inner: np.ndarray, outer: np.ndarray) -> np.ndarray:
    """Columns of `inner`, then rows of `outer`, 16 at a time."""
    starts = range(0, len(outer), CHUNK)
    pieces = [(_in_fours(inner[:, at : at + CHUNK]), _in_fours(outer[at : at + CHUNK])) for at in starts]
    return np.concatenate([part for piece in pieces for part in piece])


def _every_number(site: Site) -> Rest:
    """Number by number, in place."""
    return Rest((prod(site.out),), over=tuple(range(len(site.inputs))))


def _rows_and_width(site: Site) -> tuple[int, int]:
    return prod(site.shapes[0][:-1]), site.shapes[0][-1]


def _hat_basis(site: Site) -> Rest:
    knots = site.step.weights["knot"].astype(np.int64)
    first = np.flatnonzero(np.diff(knots, prepend=-1))
    runs = np.stack([knots[first], np.diff(first, append=len(knots))], axis=1)
    tables = Table(runs.astype(np.uint16).ravel(), "runs"), site.table("fraction")
    return Rest((*tables, len(runs), site.out[1], site.out[0]))


def _lens(site: Site) -> Rest:
    lenses = site.out[0]
    weight = _in_fours(site.bias(1, lenses), site.weight("weight"))
    return Rest((_table(weight, "bias and weight"), *site.shapes[0], lenses))


def _bins(site: Site) -> Rest:
    lengths = np.diff(site.step.weights["start"], append=site.shapes[0][0]).astype(np.uint16)
    return Rest((Table(lengths, "lengths"), site.table("weight"), *site.out))


def _dense(site: Site) -> Rest:
    rows, inputs = _rows_and_width(site)
    outputs = site.out[-1]
    own = "bias" in site.step.weights and site.step.weights["bias"].ndim > 1
    bias = site.bias(rows, outputs) if own else site.bias(outputs)
    tables = _table(_in_fours(site.weight("weight")), "weight"), _table(bias, "bias")
    return Rest((*tables, rows, inputs, outputs, outputs if own else 0))


def _layer_norm(site: Site) -> Rest:
    tables, (rows, width) = (site.table("gain"), site.table("bias")), _rows_and_width(site)
    epsilon = float(site.step.settings["epsilon"])
    if width == USUAL:
        return Rest((*tables, rows, epsilon), over=(0,), function="layer_norm_8")
    return Rest((*tables, rows, width, epsilon), over=(0,))


def _hash_codes(site: Site) -> Rest:
    """Supports and sharpness in powers of two; supports and bits that only fill up change nothing."""
    supports = _padded(log2(e) * site.weight("supports").T, 1, CHUNK)
    projection = _padded(_padded(site.weight("projection"), 0, CHUNK), 1, FOUR)
    bias = _padded(site.bias(site.step.weights["projection"].shape[1]), 0, FOUR, -1.0)
    table = _table(np.concatenate([bias, _chunked(supports, projection)]), "bias, supports and projection")
    settings = site.step.settings
    numbers = log2(e) * settings["sharpness"], float(settings["epsilon"])
    return Rest((table, *site.shapes[0], *projection.shape, *numbers))


def _bitwise_attention(site: Site) -> Rest:
    return _attention_on_bits(site, "bitwise_attention")


def _memory_attention(site: Site) -> Rest:
    """Pair by pair: less than a memory for the one query that models ask."""
    return _attention_on_bits(site, "memory_attention" if site.step.settings["own"] else "bitwise_attention")


def _attention_on_bits(site: Site, function: str) -> Rest:
    (keys, width), settings = site.shapes[2], site.step.settings
    sizes = prod(site.shapes[0]), keys, width, int(settings["bits"]), int(settings["bias"])
    return Rest(sizes, work=keys, function=function)


def _softmax_attention(site: Site) -> Rest:
    (queries, width), (keys, values), heads = site.shapes[0], site.shapes[2], site.step.settings["heads"]
    sizes = queries, keys, heads, width // heads, values // heads
    return Rest((*sizes, 1 / sqrt(width // heads)), work=keys)


def _attention_scores(site: Site) -> Rest:
    heads, queries, keys = site.out
    return Rest((queries, keys, heads, site.shapes[0][1] // heads))


def _softmax_mix(site: Site) -> Rest:
    heads, queries, keys = site.shapes[0]
    return Rest((queries, keys, heads, site.out[1] // heads), work=keys)


def _rms_norm(site: Site) -> Rest:
    return Rest((*_rows_and_width(site), float(site.step.settings["epsilon"])), over=(0,))


def _newest(site: Site) -> Rest:
    rows, width = site.shapes[0][0], prod(site.shapes[0][1:])
    return Rest((rows, width, prod(site.out) // width), function="newest_rows")


def _causal_convolution(site: Site) -> Rest:
    tables = site.table("taps"), site.table("bias")
    return Rest((*tables, *site.out, len(site.step.weights["taps"])), over=(0,))


def _state_space(site: Site) -> Rest:
    (rows, inner), (states,), heads = site.shapes[0], site.shapes[2], site.shapes[3][1]
    return Rest((site.table("decay"), site.table("direct"), rows, heads, states, inner // heads), work=heads)


def _patches(site: Site) -> Rest:
    rows, patch, stride = site.shapes[0][0], site.step.settings["patch"], site.step.settings["stride"]
    return Rest((*site.shapes[0], count_patches(rows, patch, stride), patch, stride))


def _affine(site: Site) -> Rest:
    return Rest((site.table("scale"), site.table("shift"), *_rows_and_width(site)), over=(0,))


def _window_moments(site: Site) -> Rest:
    return Rest((*site.shapes[0], float(site.step.settings["epsilon"])))


def _standardize(site: Site) -> Rest:
    return Rest(site.out, over=(0,))


def _restore(site: Site) -> Rest:
    return Rest((site.shapes[1][1],), over=(0,))


def _add_outer(site: Site) -> Rest:
    return Rest((site.table("share"), *site.out), over=(0,))


def _polynomial(site: Site) -> Rest:
    powers = np.array(site.step.settings["powers"], np.uint8)
    weight = np.concatenate([site.bias(1, *site.out), site.weight("weight")])
    tables = Table(powers.ravel(), "powers"), _table(weight, "bias and weight")
    return Rest((*tables, *powers.shape, *site.out))


def _products(site: Site) -> Rest:
    return Rest((*site.shapes[0], float(site.step.settings["limit"])))


def _blend(site: Site) -> Rest:
    passages = np.stack([site.weight(name) for name in ("low", "high", "slope", "offset")], axis=1)
    return Rest((_table(passages, "low, high, slope, offset"), len(passages)))


def _leaky_relu(site: Site) -> Rest:
    return Rest((prod(site.out), float(site.step.settings["slope"])), over=(0,))


def _sigmoid_mean(site: Site) -> Rest:
    return Rest(site.shapes[0])


def _lstm(site: Site) -> Rest:
    """The four gates of a unit side by side."""
    (size,) = site.out
    gates = np.concatenate([site.bias(1, 4 * size), site.weight("input"), site.weight("hidden")])
    units = gates.reshape(len(gates), 4, size).transpose(2, 0, 1)
    return Rest((_table(units, "bias, input and hidden of each unit"), *site.shapes[0], size), work=2 * size)


def _token_rows(site: Site) -> Rest:
    (rows, channels), (inputs,), outputs = *site.shapes, site.out[1]
    mix = site.weight("mix") if "mix" in site.step.weights else np.zeros((0, outputs))
    table = _table(_in_fours(mix, site.weight("local"), site.weight("bias")), "mix, local and bias")
    return Rest((site.table("share"), table, rows, channels, inputs if len(mix) else 0, outputs))


def _feed_forward(site: Site) -> Rest:
    """C's relu gives twice as much, so half of `outer`: the same bits. Hidden numbers that only fill up are zero."""
    relu = site.step.settings["activation"] == "relu"
    inner = np.concatenate([site.weight("inner_bias")[None], site.weight("inner")])
    outer = site.weight("outer") * (0.5 if relu else 1.0)
    inner, outer = _padded(inner, 1, CHUNK), _padded(outer, 0, CHUNK)
    table = _table(np.concatenate([site.weight("outer_bias"), _chunked(inner, outer)]), "outer bias, inner and outer")
    (rows, width), sizes = _rows_and_width(site), (len(outer), site.out[-1])
    if relu and width == USUAL:
        return Rest((table, rows, *sizes), function="feed_forward_8")
    return Rest((table, rows, width, *sizes), function="feed_forward" if relu else "feed_forward_gelu")


KERNELS: dict[str, Callable[[Site], Rest]] = {
    "hat_basis": _hat_basis,
    "lens": _lens,
    "bins": _bins,
    "dense": _dense,
    "add_outer": _add_outer,
    "add": _every_number,
    "relu": _every_number,
    "gelu": _every_number,
    "newest": _newest,
    "layer_norm": _layer_norm,
    "hash_codes": _hash_codes,
    "bitwise_attention": _bitwise_attention,
    "memory_attention": _memory_attention,
    "softmax_attention": _softmax_attention,
    "attention_scores": _attention_scores,
    "softmax_mix": _softmax_mix,
    "rms_norm": _rms_norm,
    "silu": _every_number,
    "multiply": _every_number,
    "newest_rows": _newest,
    "causal_convolution": _causal_convolution,
    "state_space": _state_space,
    "patches": _patches,
    "affine": _affine,
    "window_moments": _window_moments,
    "standardize": _standardize,
    "restore": _restore,
    "polynomial": _polynomial,
    "products": _products,
    "blend": _blend,
    "divide": _every_number,
    "leaky_relu": _leaky_relu,
    "sigmoid_mean": _sigmoid_mean,
    "lstm": _lstm,
    "token_rows": _token_rows,
    "feed_forward": _feed_forward,
}
