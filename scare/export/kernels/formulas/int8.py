"""How the formula kernels are called in integers."""

from scare.export.kernels.c_form import CForm, MakeForm, PlacedStep
from scare.export.kernels.int8_tables import table


def _products(placed: PlacedStep) -> CForm:
    factor = placed.step.weights["factor"]
    return CForm((table(factor, f"{placed.step.output} factors"), len(factor), placed.step.settings["top"]))


INT8: dict[str, MakeForm] = {"products_s8": _products}
