"""How the choice kernels are called in float32."""

from math import prod

from scare.export.kernels.c_form import CForm, MakeForm, PlacedStep


def _leaky_relu(placed: PlacedStep) -> CForm:
    return CForm((prod(placed.out), float(placed.step.settings["slope"])), in_place=(0,))


def _sigmoid_mean(placed: PlacedStep) -> CForm:
    return CForm(placed.shapes[0])


FLOAT32: dict[str, MakeForm] = {
    "leaky_relu": _leaky_relu,
    "sigmoid_mean": _sigmoid_mean,
}
