"""How the recurrent kernels are called in float32."""

import numpy as np

from scare.export.kernels.c_form import CForm, MakeForm, PlacedStep
from scare.export.kernels.float32_tables import table


def _lstm(placed: PlacedStep) -> CForm:
    """The four gates of a unit side by side."""
    (size,) = placed.out
    gates = np.concatenate([placed.bias(1, 4 * size), placed.weight("input"), placed.weight("hidden")])
    units = gates.reshape(len(gates), 4, size).transpose(2, 0, 1)
    return CForm((table(units, "bias, input and hidden of each unit"), *placed.shapes[0], size), work=2 * size)


FLOAT32: dict[str, MakeForm] = {
    "lstm": _lstm,
}
