"""How the pointwise kernels are called in integers."""

from math import prod

import numpy as np

from scare.export.kernels.c_form import CForm, MakeForm, PlacedStep, view
from scare.export.kernels.int8_tables import USUAL, fits, padded, table


def _add(placed: PlacedStep) -> CForm:
    return CForm((prod(placed.out), placed.step.settings["shift"]), in_place=(0, 1))


def _newest(placed: PlacedStep) -> CForm:
    window, channels = placed.shapes[0]
    return CForm((window, window, channels))


def _layer_norm(placed: PlacedStep) -> CForm:
    weights, settings, (rows, width) = placed.step.weights, placed.step.settings, placed.out
    both = padded(np.stack([weights["gain"], weights["bias"]]), 2).T
    scales = table(both, f"{placed.step.output} gain and bias")
    numbers = settings["epsilon"], settings["epsilon_bits"]
    if width == USUAL:
        return CForm((scales, rows, *numbers), in_place=(0,), function="layer_norm_8")
    return CForm((scales, rows, fits("width", width), *numbers), in_place=(0,))


INT8: dict[str, MakeForm] = {
    "add_s8": _add,
    "newest_s8": _newest,
    "layer_norm_s8": _layer_norm,
    "flatten": view,
}
