"""How the linear kernels are called in float32."""

from scare.export.kernels.c_form import CForm, MakeForm, PlacedStep
from scare.export.kernels.float32_tables import in_fours, table, tables


def _dense(placed: PlacedStep) -> CForm:
    rows, inputs = placed.rows_and_width
    outputs = placed.out[-1]
    own = "bias" in placed.step.weights and placed.step.weights["bias"].ndim > 1
    bias = placed.bias(rows, outputs) if own else placed.bias(outputs)
    weight = table(in_fours(placed.weight("weight")), "weight")
    return CForm((weight, table(bias, "bias"), rows, inputs, outputs, outputs if own else 0))


def _add_outer(placed: PlacedStep) -> CForm:
    return CForm((*tables(placed, "share"), *placed.out), in_place=(0,))


FLOAT32: dict[str, MakeForm] = {
    "dense": _dense,
    "add_outer": _add_outer,
}
