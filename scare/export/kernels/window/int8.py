"""How the window kernels are called in integers."""

import numpy as np

from scare.export.kernels.c_form import CForm, MakeForm, PlacedStep
from scare.export.kernels.int8_tables import padded, table


def _hat_basis(placed: PlacedStep) -> CForm:
    """Segments oldest first; a pair of samples that two segments share is read in both, with zeros for the other."""
    (window, channels), knots, knot = placed.shapes[0], placed.out[0], placed.step.weights["knot"]
    segments, shares = [], []
    for lower in range(knots - 2, -1, -1):
        inside = np.flatnonzero(knot == lower)
        first, last = (int(inside[0]) // 2, int(inside[-1]) // 2) if len(inside) else (0, -1)
        segments.append((first, last - first + 1))
        for row in range(2 * first, 2 * last + 2):
            own = row < window and knot[row] == lower
            shares.append(placed.step.weights["shares"][row] if own else (0, 0))
    pairs = np.array(shares).reshape(-1, 2, 2).swapaxes(1, 2)  # pair, knot, row of the pair
    tables = (
        table(np.array(segments), "first pair and pairs of each segment", np.uint16),
        table(pairs, "shares of the nearer and the farther knot", np.int16),
    )
    return CForm((*tables, window, channels, knots))


def _project(placed: PlacedStep) -> CForm:
    weights, settings, name = placed.step.weights, placed.step.settings, placed.step.output
    older, newer = (np.moveaxis(weights[one], 0, -1) for one in ("older", "newer"))  # [C, R, T]
    newer = padded(newer, 2)
    swapped = older.reshape(*older.shape[:2], -1, 4)[..., [0, 2, 1, 3]]
    pairs = newer.reshape(*newer.shape[:2], -1, 2)
    scales = np.stack([weights[one] for one in ("coarse", "fine", "bias")], axis=1)
    tables = (
        table(_blocked(swapped), f"{name} older"),
        table(_blocked(pairs), f"{name} newer"),
        table(scales, f"{name} coarse, fine, bias"),
    )
    sizes = int(settings["apart"]), older.shape[2], newer.shape[2], older.shape[1]
    return CForm((*tables, *placed.shapes[0], *sizes, settings["shift"]))


def _blocked(weights: np.ndarray) -> np.ndarray:
    """[C, R, groups, g] in blocks of four of the R; of what is left three filled up with zeros, or one by one.

    Their order is block, channel, group, projection, g.
    """
    filled = np.pad(weights, ((0, 0), (0, 1), (0, 0), (0, 0))) if weights.shape[1] % 4 == 3 else weights
    fours = filled.shape[1] // 4 * 4
    borders = [*range(4, fours + 1, 4), *range(fours + 1, filled.shape[1])]
    parts = np.split(filled, borders, axis=1)
    return np.concatenate([part.swapaxes(1, 2).reshape(-1) for part in parts])


def _bins(placed: PlacedStep) -> CForm:
    weights, (window, channels) = placed.step.weights, placed.shapes[0]
    tables = (
        table(weights["weight"], "bin weights"),
        table(weights["start"], "first row of each bin", np.uint16),
        table(weights["scale"], "scale of each bin"),
    )
    return CForm((*tables, window, window, channels, placed.out[0], placed.step.settings["shift"]))


def _lens(placed: PlacedStep) -> CForm:
    weight = placed.step.weights["weight"]
    return CForm((table(weight.T, f"{placed.step.output} weights"), *placed.shapes[0], weight.shape[1]))


INT8: dict[str, MakeForm] = {
    "hat_basis_s8": _hat_basis,
    "project_s8": _project,
    "bins_s8": _bins,
    "lens_s8": _lens,
}
