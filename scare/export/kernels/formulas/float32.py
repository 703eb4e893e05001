"""How the formula kernels are called in float32."""

import numpy as np

from scare.export.kernels.c_form import CForm, MakeForm, PlacedStep, every_number
from scare.export.kernels.float32_tables import table
from scare.export.program import Table


def _polynomial(placed: PlacedStep) -> CForm:
    powers = np.array(placed.step.settings["powers"], np.uint8)
    weight = np.concatenate([placed.bias(1, *placed.out), placed.weight("weight")])
    terms = Table(powers.ravel(), "powers")
    return CForm((terms, table(weight, "bias and weight"), *powers.shape, *placed.out))


def _products(placed: PlacedStep) -> CForm:
    return CForm((*placed.shapes[0], float(placed.step.settings["limit"])))


def _blend(placed: PlacedStep) -> CForm:
    passages = np.stack([placed.weight(name) for name in ("low", "high", "slope", "offset")], axis=1)
    return CForm((table(passages, "low, high, slope, offset"), len(passages)))


FLOAT32: dict[str, MakeForm] = {
    "polynomial": _polynomial,
    "products": _products,
    "blend": _blend,
    "divide": every_number,
}
