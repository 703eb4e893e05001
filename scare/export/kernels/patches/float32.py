"""How the patch kernels are called in float32."""

from scare.calibrator.kernels import count_patches
from scare.export.kernels.c_form import CForm, MakeForm, PlacedStep
from scare.export.kernels.float32_tables import tables


def _patches(placed: PlacedStep) -> CForm:
    rows, patch, stride = placed.shapes[0][0], placed.step.settings["patch"], placed.step.settings["stride"]
    return CForm((*placed.shapes[0], count_patches(rows, patch, stride), patch, stride))


def _affine(placed: PlacedStep) -> CForm:
    return CForm((*tables(placed, "scale", "shift"), *placed.rows_and_width), in_place=(0,))


def _window_moments(placed: PlacedStep) -> CForm:
    return CForm((*placed.shapes[0], float(placed.step.settings["epsilon"])))


def _standardize(placed: PlacedStep) -> CForm:
    return CForm(placed.out, in_place=(0,))


def _restore(placed: PlacedStep) -> CForm:
    return CForm((placed.shapes[1][1],), in_place=(0,))


FLOAT32: dict[str, MakeForm] = {
    "patches": _patches,
    "affine": _affine,
    "window_moments": _window_moments,
    "standardize": _standardize,
    "restore": _restore,
}
