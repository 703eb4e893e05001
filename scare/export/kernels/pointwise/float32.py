"""How the pointwise kernels are called in float32."""

from math import prod

from scare.export.kernels.c_form import CForm, MakeForm, PlacedStep, View, every_number, view
from scare.export.kernels.float32_tables import USUAL, tables
from scare.export.program import WINDOW


def newest(placed: PlacedStep) -> CForm | View:
    """The newest rows: a view of the window or of codes, else a copy."""
    source, shape = placed.inputs[0], placed.shapes[0]
    if source.kind != "float" or source.name == WINDOW:
        return View(prod(shape) - prod(placed.out))
    width = prod(shape[1:])
    return CForm((shape[0], width, prod(placed.out) // width), function="newest_rows")


def _layer_norm(placed: PlacedStep) -> CForm:
    scales, (rows, width) = tables(placed, "gain", "bias"), placed.rows_and_width
    epsilon = float(placed.step.settings["epsilon"])
    if width == USUAL:
        return CForm((*scales, rows, epsilon), in_place=(0,), function="layer_norm_8")
    return CForm((*scales, rows, width, epsilon), in_place=(0,))


FLOAT32: dict[str, MakeForm] = {
    "add": every_number,
    "relu": every_number,
    "gelu": every_number,
    "flatten": view,
    "newest": newest,
    "layer_norm": _layer_norm,
}
