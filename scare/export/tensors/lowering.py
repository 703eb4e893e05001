"""Lowering writes each kernel of a plan as tensor operations; a test holds every one of them to its NumPy body.

Hash codes are signs here, ±1 for each bit: formats without words of bits compute with them as numbers.
"""

from collections.abc import Callable
from math import pi, sqrt

import numpy as np

from scare.calibrator.kernels import Shape, hat_matrix, patch_rows
from scare.calibrator.kernels.choice import THRESHOLD
from scare.calibrator.kernels.kernel import Settings, Weights
from scare.calibrator.plan import INPUT, Plan
from scare.errors import NotApplicableError
from scare.export.tensors.tensor import Tensor, as_tensor, concatenate, window

Lowering = Callable[..., Tensor]


def lower(plan: Plan, scale: float = 1.0, center: float = 0.0) -> Tensor:
    """What the plan gives for a scaled window, times `scale` plus `center`, as a tensor [1].

    Where the plan chooses a branch, both are computed and every window chooses for itself.
    """
    held = {INPUT: window(plan.window, plan.channels)}
    for step in plan.steps:
        if step.kernel not in LOWERINGS:
            raise NotApplicableError(f"the kernel '{step.kernel}' has no tensor operations")
        inputs = [held[name] for name in step.inputs]
        held[step.output] = LOWERINGS[step.kernel](*inputs, step.weights, step.settings)
    return held[plan.steps[-1].output] * scale + center


# --- linear ---


def _time_mix(x: Tensor, matrix: np.ndarray) -> Tensor:
    return (x.transposed @ matrix).transposed


def hat_basis(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """As a matrix: no format has hats."""
    return _time_mix(x, hat_matrix(weights["knot"], weights["fraction"], settings["knots"]))


def lens(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Each lens with its bias, then time where the channels were."""
    mixed = x.transposed @ weights["weight"]
    return (mixed + weights["bias"] if "bias" in weights else mixed).transposed


def bins(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Runs of rows as a matrix with one weight a row."""
    start, rows = weights["start"], np.arange(x.shape[0])
    run = np.searchsorted(start, rows, side="right") - 1
    matrix = np.zeros((x.shape[0], len(start)), np.float32)
    matrix[rows, run] = weights["weight"]
    return _time_mix(x, matrix)


def dense(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """A matrix and, if there is one, a bias."""
    return _affine(x, weights["weight"], weights.get("bias"))


def _affine(x: Tensor, weight: np.ndarray, bias: np.ndarray | None) -> Tensor:
    rows = x.reshape(1, *x.shape) if len(x.shape) == 1 else x
    mixed = rows @ weight
    return (mixed if bias is None else mixed + bias).reshape(*x.shape[:-1], weight.shape[1])


def add_outer(z: Tensor, g: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Share by share."""
    return z + g.reshape(1, *g.shape) * weights["share"][:, None]


def token_rows(seen: Tensor, shared: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """What tokens see, and their share of what they share."""
    common = _affine(shared, weights["mix"], None) if "mix" in weights else shared
    own = _affine(seen, weights["local"], weights["bias"])
    return own + common.reshape(1, *common.shape) * weights["share"][:, None]


def feed_forward(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Dense, activation, dense."""
    hidden = LOWERINGS[settings["activation"]](_affine(x, weights["inner"], weights["inner_bias"]), {}, {})
    return _affine(hidden, weights["outer"], weights["outer_bias"])


def part(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """A run of numbers in another shape."""
    shape: Shape = tuple(settings["shape"])
    return x.rows(settings["start"], settings["start"] + int(np.prod(shape))).reshape(*shape)


# --- pointwise ---


def gelu(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """x σ(2 √(2/π) (x + 0.044715 x³)), which is the form with tanh."""
    inner = x * (x * x * 0.044715 + 1.0) * (2 * sqrt(2 / pi))
    return x * inner.apply("sigmoid")


def flatten(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """One row."""
    return x.reshape(int(np.prod(x.shape)))


def newest(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """The last row."""
    return x.rows(x.shape[0] - 1, x.shape[0]).reshape(x.shape[1])


def newest_rows(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """The last rows."""
    return x.rows(x.shape[0] - settings["rows"], x.shape[0])


def layer_norm(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Mean 0 and variance 1, then gain and bias."""
    centred = x - x.mean()
    root = ((centred * centred).mean() + settings["epsilon"]).apply("inverse_root")
    return centred * root * weights["gain"] + weights["bias"]


def rms_norm(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Divided by the root mean square of its row."""
    return x * ((x * x).mean() + settings["epsilon"]).apply("inverse_root")


def leaky_relu(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """The larger of the number and its small multiple."""
    return x.largest(x * settings["slope"])


def sigmoid_mean(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Over time."""
    return x.apply("sigmoid").mean(0).reshape(x.shape[1])


def select(decision: Tensor, simple: Tensor, deep: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Both branches are there; `decision > threshold` as its contrary."""
    return as_tensor(THRESHOLD).at_least(decision).choose(simple, deep)


# --- patches ---


def patches(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Rows by number, patch after patch."""
    rows = patch_rows(x.shape[0], settings["patch"], settings["stride"])
    return x.take(rows.ravel()).reshape(len(rows), rows.shape[1] * x.shape[1])


def affine(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Feature by feature."""
    return x * weights["scale"] + weights["shift"]


def window_moments(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Mean, and the standard deviation as variance times its inverse root."""
    mean = x.mean(0)
    centred = x - mean
    variance = (centred * centred).mean(0) + settings["epsilon"]
    return concatenate([mean, variance * variance.apply("inverse_root")])


def standardize(x: Tensor, moments: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Channel by channel."""
    return (x - moments.rows(0, 1)) / moments.rows(1, 2)


def restore(y: Tensor, moments: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """With the moments of the first channel."""
    mean, deviation = (moments.rows(at, at + 1).rows(0, 1, axis=1).reshape(1) for at in (0, 1))
    return y * deviation + mean


# --- attention ---


def hash_codes(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Signs, ±1, of the activations of `kernels.attention.hash_activations`: [L, bits]."""
    unit = x * ((x * x).sum() + settings["epsilon"]).apply("inverse_root")
    kernel = (unit @ weights["supports"].T - settings["sharpness"]).apply("exp")
    return _affine(kernel, weights["projection"], weights.get("bias")).at_least(0.0).choose(1.0, -1.0)


def bitwise_attention(q: Tensor, k: Tensor, v: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Pair by pair: signs times signs."""
    similarity = q @ k.transposed + settings["bias"]
    return (similarity @ v) / similarity.sum()


def memory_attention(q: Tensor, k: Tensor, v: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Keys into one memory, read by each query; a query alone is a row here."""
    keys, rows = v.shape[0], q if len(q.shape) == 2 else q.reshape(1, *q.shape)
    favoured = v.rows(keys - rows.shape[0], keys) if settings["own"] else v.sum(0)
    read = rows @ (k.transposed @ v) + favoured * settings["bias"]
    mixed = read / (rows @ k.sum(0).transposed + settings["bias"] * keys)
    return mixed if len(q.shape) == 2 else mixed.reshape(v.shape[1])


def _heads(x: Tensor, count: int) -> Tensor:
    """[L, heads·width] as [heads, L, width]."""
    return x.reshape(x.shape[0], count, x.shape[1] // count).permute(1, 0, 2)


def _joined(x: Tensor) -> Tensor:
    """[heads, L, width] as [L, heads·width]."""
    return x.permute(1, 0, 2).reshape(x.shape[1], x.shape[0] * x.shape[2])


def softmax_attention(q: Tensor, k: Tensor, v: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Head by head."""
    scale = 1 / sqrt(q.shape[1] // settings["heads"])
    return softmax_mix(attention_scores(q * scale, k, weights, settings), v, weights, settings)


def attention_scores(q: Tensor, k: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Dot products, head by head."""
    return _heads(q, settings["heads"]) @ _heads(k, settings["heads"]).transposed


def softmax_mix(scores: Tensor, v: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Values weighted by the softmax of the scores."""
    return _joined(scores.apply("softmax") @ _heads(v, scores.shape[0]))


# --- states ---


def causal_convolution(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Shifted rows, each with its tap."""
    taps, rows = weights["taps"], x.shape[0]
    mixed = x * taps[-1] + weights["bias"]
    for lag in range(1, min(len(taps), rows)):
        mixed = mixed + x.rows(0, rows - lag).after_zeros(lag) * taps[-1 - lag]
    return mixed


def state_space(x: Tensor, b: Tensor, c: Tensor, dt: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """The newest output as a weighted sum of rows, each fading with the steps after it."""
    (rows, inner), heads = x.shape, dt.shape[1]
    step = dt.largest(0.0) + ((dt.apply("abs") * -1.0).apply("exp") + 1.0).apply("log")
    share = (step.later_sum() * weights["decay"]).apply("exp") * step * (b @ c.reshape(c.shape[0], 1))
    values = x.reshape(rows, heads, inner // heads).permute(1, 0, 2)
    mixed = share.transposed.reshape(heads, 1, rows) @ values
    last = x.rows(rows - 1, rows).reshape(heads, 1, inner // heads)
    return (mixed + last * weights["direct"][:, None, None]).reshape(inner)


def lstm(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """One operation, which each format writes in its own way."""
    size = weights["hidden"].shape[0]
    return Tensor("lstm", (x, *(as_tensor(weights[name]) for name in ("input", "hidden", "bias"))), (size,))


# --- formulas ---


def polynomial(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Each term as a product of single numbers."""
    numbers = [x.rows(at, at + 1) for at in range(x.shape[0])]
    terms = []
    for powers in settings["powers"]:
        factors = [number for number, power in zip(numbers, powers, strict=True) for _ in range(power)]
        term = factors[0]
        for factor in factors[1:]:
            term = term * factor
        terms.append(term)
    return _affine(concatenate(terms), weights["weight"], weights.get("bias"))


def products(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Row by row of the upper triangle: a number times those from itself on."""
    held = x.least(settings["limit"]).largest(-settings["limit"])
    count = x.shape[0]
    return concatenate([held.rows(at, count) * held.rows(at, at + 1) for at in range(count)])


def blend(formulas: Tensor, x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """The first formula, and of each passage its share of the difference to the next."""
    decides, count = x.rows(0, 1), formulas.shape[0]
    share = decides * weights["slope"] + weights["offset"]
    share = decides.at_least(weights["low"]).choose(decides.at_least(weights["high"]).choose(1.0, share), 0.0)
    return formulas.rows(0, 1) + (share * (formulas.rows(1, count) - formulas.rows(0, count - 1))).sum()


NAMED: tuple[Lowering, ...] = (
    *(hat_basis, lens, bins, dense, add_outer, token_rows, feed_forward, part),
    *(gelu, flatten, newest, newest_rows, layer_norm, rms_norm, leaky_relu, sigmoid_mean, select),
    *(patches, affine, window_moments, standardize, restore),
    *(hash_codes, bitwise_attention, memory_attention, softmax_attention, attention_scores, softmax_mix),
    *(causal_convolution, state_space, lstm, polynomial, products, blend),
)
LOWERINGS: dict[str, Lowering] = {
    **{lowering.__name__: lowering for lowering in NAMED},
    "add": lambda a, b, weights, settings: a + b,
    "multiply": lambda a, b, weights, settings: a * b,
    "divide": lambda a, b, weights, settings: a / b,
    "relu": lambda x, weights, settings: x.apply("relu"),
    "silu": lambda x, weights, settings: x * x.apply("sigmoid"),
}
