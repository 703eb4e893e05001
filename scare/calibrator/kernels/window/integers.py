"""The integer twins of the window kernels, equal to `window_s8.c` in every bit.

All but `lens_s8`, which mixes what hats have left, read the int16 window itself: `project_s8` is a lens or a dense step
of the whole window.
"""

from math import prod

import numpy as np

from scare.calibrator.kernels.fixed import exact, mixed, rounded, word
from scare.calibrator.kernels.kernel import Kernel, Operations, Settings, Shape, Shapes, Weights, expect
from scare.calibrator.kernels.window.floats import FLOATS


def hat_basis_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Sums of the window x [T, C] under the hats, of which each row has two `shares` [T, 2]: [knots, C]."""
    rows, matrix = np.arange(x.shape[1]), np.zeros((x.shape[1], settings["knots"]))
    for place in (0, 1):
        matrix[rows, weights["knot"] + place] = weights["shares"][:, place]
    return word(exact(matrix.T @ x))


def _hat_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    expect(len(x) == 2 and weights["knot"] == x[:1] and weights["shares"] == (x[0], 2), "hat_basis_s8")
    return (settings["knots"], x[1])


def project_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Projections of the window x [T, C]: Σ older · x scaled by `coarse`, plus Σ newer · x scaled by `fine`.

    Weights `older` [T − n, C, R] and `newer` [n, C, R] mix all channels: [R]. With the setting `apart` there is one
    set of weights [·, 1, R] for every channel: [R, C].
    """
    border = len(weights["older"])
    mix = "btc,tr->brc" if settings["apart"] else "btc,tcr->br"
    sums = []
    for part, name in ((x[:, :border], "older"), (x[:, border:], "newer")):
        weight = weights[name].astype(float)
        weight = weight[:, 0] if settings["apart"] else weight
        sums.append(exact(np.einsum(mix, part.astype(float), weight, optimize=True)))
    scales = [weights[name].astype(np.int64) for name in ("coarse", "fine")]
    bias = weights["bias"].astype(np.int64)
    if settings["apart"]:
        scales, bias = [scale[:, None] for scale in scales], bias[:, None]
    return word(rounded(sums[0] * scales[0] + sums[1] * scales[1], settings["shift"]) + bias)


def _project_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    older, newer = weights["older"], weights["newer"]
    expect(len(x) == 2 and older[0] + newer[0] == x[0] and older[1:] == newer[1:], "project_s8 rows")
    expect(older[1] == (1 if settings["apart"] else x[1]), "project_s8 channels")
    expect(all(weights[name] == older[2:] for name in ("coarse", "fine", "bias")), "project_s8 scales")
    return (older[2], x[1]) if settings["apart"] else (older[2],)


def _project_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    return Operations(multiply_adds=prod(x) * weights["older"][2])


def bins_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Weighted sums of the window x [T, C] over runs of rows, each scaled: [L, C]."""
    products = x.astype(np.int64) * weights["weight"][:, None]
    sums = np.add.reduceat(products, weights["start"], axis=1)
    return word(rounded(sums * weights["scale"].astype(np.int64)[:, None], settings["shift"]))


def lens_s8(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Mixes time: weightᵀ x for words x [T, C]: [L, C]."""
    return word(mixed(x.swapaxes(1, 2), weights["weight"])).swapaxes(1, 2)


INTEGERS = {
    "hat_basis_s8": Kernel(hat_basis_s8, _hat_shape, FLOATS["hat_basis"].cost),
    "project_s8": Kernel(project_s8, _project_shape, _project_cost),
    "bins_s8": Kernel(bins_s8, FLOATS["bins"].shape, FLOATS["bins"].cost),
    "lens_s8": Kernel(lens_s8, FLOATS["lens"].shape, FLOATS["lens"].cost),
}
