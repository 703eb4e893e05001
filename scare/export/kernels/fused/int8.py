"""How the fused kernels are called in integers."""

import numpy as np

from scare.errors import NotApplicableError
from scare.export.kernels.c_form import CForm, MakeForm, PlacedStep, view
from scare.export.kernels.int8_tables import USUAL, after_bias, by_four, fits, padded, table


def _token_rows(placed: PlacedStep) -> CForm:
    weights, name, (rows, channels) = placed.step.weights, placed.step.output, placed.shapes[0]
    local, outputs = weights["local"], placed.out[1]
    if outputs % 4:
        raise NotApplicableError(f"float32 only: tokens of {outputs} numbers; integer kernels take four at a time")
    mix = weights.get("mix", np.zeros((0, outputs), np.int16))
    bias = weights["bias"].reshape(rows, -1, 4).swapaxes(0, 1)  # [outputs / 4, rows, 4]
    share = np.broadcast_to(weights["share"][:, None], (*bias.shape[:2], 1))
    tables = (
        table(local.reshape(channels, -1, 4).swapaxes(0, 1), f"{name} local"),
        table(by_four(mix) if len(mix) else local, f"{name} mix"),
        table(np.concatenate([share, bias], axis=2), f"{name} share and bias", np.int32),
    )
    if local.shape == (1, USUAL):
        return CForm((*tables, rows, len(mix)), function="token_rows_1_8")
    return CForm((*tables, rows, channels, len(mix), outputs))


def _feed_forward(placed: PlacedStep) -> CForm:
    weights, settings, name, (rows, width) = placed.step.weights, placed.step.settings, placed.step.output, placed.out
    inner = after_bias(weights["inner_bias"], weights["inner"])
    outer = padded(padded(weights["outer"], 4).T, 8)  # [D, F]
    tables = (
        table(padded(inner.T, 8).T, f"{name} inner bias and weights"),
        table(outer.reshape(len(outer) // 4, 4, -1, 2).swapaxes(1, 2), f"{name} outer"),
        table(padded(weights["outer_bias"], 4), f"{name} outer bias"),
    )
    rest = fits("hidden", len(inner)), settings["most"], settings["bits"]
    if width == USUAL:
        return CForm((*tables, rows, *rest), function="feed_forward_8")
    return CForm((*tables, rows, fits("width", width), *rest))


INT8: dict[str, MakeForm] = {
    "token_rows_s8": _token_rows,
    "feed_forward_s8": _feed_forward,
    "part": view,
}
