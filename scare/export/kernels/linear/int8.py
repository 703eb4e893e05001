"""How the linear kernels are called in integers."""

import numpy as np

from scare.export.kernels.c_form import CForm, MakeForm, PlacedStep
from scare.export.kernels.int8_tables import by_four, padded, table


def _dense(placed: PlacedStep) -> CForm:
    weight, bias, shift = (placed.step.weights[name] for name in ("weight", "bias", "shift"))
    (rows, inputs), outputs, name = placed.rows_and_width, placed.out[-1], placed.step.output
    if rows == outputs == 1:
        dot = table(padded(weight.T, 2), f"{name} weights")
        return CForm((dot, inputs, int(bias[0]), int(shift[0])), function="dense_1")
    tables = table(by_four(weight), f"{name} weights"), table(padded(bias, 4), f"{name} bias")
    return CForm((*tables, table(shift, f"{name} shifts", np.uint8), rows, inputs, outputs))


INT8: dict[str, MakeForm] = {
    "dense_s8": _dense,
}
