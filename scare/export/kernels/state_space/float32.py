"""How the state-space kernels are called in float32."""

from scare.export.kernels.c_form import CForm, MakeForm, PlacedStep, every_number
from scare.export.kernels.float32_tables import tables
from scare.export.kernels.pointwise.float32 import newest


def _rms_norm(placed: PlacedStep) -> CForm:
    return CForm((*placed.rows_and_width, float(placed.step.settings["epsilon"])), in_place=(0,))


def _causal_convolution(placed: PlacedStep) -> CForm:
    return CForm((*tables(placed, "taps", "bias"), *placed.out, len(placed.step.weights["taps"])), in_place=(0,))


def _state_space(placed: PlacedStep) -> CForm:
    (rows, inner), (states,), heads = placed.shapes[0], placed.shapes[2], placed.shapes[3][1]
    return CForm((*tables(placed, "decay", "direct"), rows, heads, states, inner // heads), work=heads)


FLOAT32: dict[str, MakeForm] = {
    "rms_norm": _rms_norm,
    "silu": every_number,
    "multiply": every_number,
    "newest_rows": newest,
    "causal_convolution": _causal_convolution,
    "state_space": _state_space,
}
