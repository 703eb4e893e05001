"""How the window kernels are called in float32."""

import numpy as np

from scare.export.kernels.c_form import CForm, MakeForm, PlacedStep
from scare.export.kernels.float32_tables import in_fours, table, tables
from scare.export.program import Table


def _hat_basis(placed: PlacedStep) -> CForm:
    knots = placed.step.weights["knot"].astype(np.int64)
    first = np.flatnonzero(np.diff(knots, prepend=-1))
    runs = np.stack([knots[first], np.diff(first, append=len(knots))], axis=1)
    segments = Table(runs.astype(np.uint16).ravel(), "runs")
    return CForm((segments, *tables(placed, "fraction"), len(runs), placed.out[1], placed.out[0]))


def _lens(placed: PlacedStep) -> CForm:
    lenses = placed.out[0]
    weight = in_fours(placed.bias(1, lenses), placed.weight("weight"))
    return CForm((table(weight, "bias and weight"), *placed.shapes[0], lenses))


def _bins(placed: PlacedStep) -> CForm:
    lengths = np.diff(placed.step.weights["start"], append=placed.shapes[0][0]).astype(np.uint16)
    return CForm((Table(lengths, "lengths"), *tables(placed, "weight"), *placed.out))


FLOAT32: dict[str, MakeForm] = {
    "hat_basis": _hat_basis,
    "lens": _lens,
    "bins": _bins,
}
