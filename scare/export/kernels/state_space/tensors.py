"""The state-space kernels as tensor operations."""

from scare.calibrator.kernels.kernel import Settings, Weights
from scare.export.tensors.tensor import MakeTensor, Tensor


def rms_norm(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Divided by the root mean square of its row."""
    return x * ((x * x).mean() + settings["epsilon"]).apply("inverse_root")


def newest_rows(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """The last rows."""
    return x.rows(x.shape[0] - settings["rows"], x.shape[0])


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


TENSORS: dict[str, MakeTensor] = {
    "rms_norm": rms_norm,
    "silu": lambda x, weights, settings: x * x.apply("sigmoid"),
    "multiply": lambda a, b, weights, settings: a * b,
    "newest_rows": newest_rows,
    "causal_convolution": causal_convolution,
    "state_space": state_space,
}
