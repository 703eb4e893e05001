"""Window kernels: mixing time by a triangular (hat) basis, lenses and bins over the rows of a window.

A hat is a triangle function between neighbouring knots on a logarithmic time axis; each row lies under two hats. In
fixed point all but `lens_q` read the int16 window itself: `project_q` is a lens or a dense layer over the whole window.
Its weights are int8, rounded by error diffusion along time, and int16 for the newest rows.
"""

from math import ceil, log2, prod
from typing import Annotated

import numpy as np
from annotated_types import Ge

from scare.errors import NotApplicableError
from scare.kernels.c_arguments import (
    CForm,
    CTable,
    MakeForm,
    PlacedStep,
    blocks_f32,
    blocks_q,
    even,
    pad_axis,
    table_f32,
    table_q,
    tables_f32,
)
from scare.kernels.c_extents import extents
from scare.kernels.contract import INPUT, Kernel, Operations, Settings, Shape, Shapes, Step, Weights, expect, per_number
from scare.kernels.fixed_point import (
    FULL,
    MOST_SUM,
    TINY,
    WINDOW,
    QuantisationRule,
    QuantisationState,
    checked_round,
    error_diffused,
    finest_unit,
    matmul_half,
    round_along_time,
    rounding_shift,
    to_int64,
    to_q16,
    to_word,
    weight_scales,
    word_unit,
)
from scare.kernels.tensor import MakeTensor, Tensor

HAT_COST = per_number(multiply_adds=1, additions=2)  # t = f·x and its sum, then x − t and its sum
NEWEST = 8  # at least this many of the newest rows have int16 weights; the others have int8
SHORT = 16  # all rows of a window of at most this many have int16 weights
WHOLE_SHARE = 2.0**-14  # smallest unit of the shares under a hat


def hat_basis(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Project x [T, C] onto overlapping hats in log time: [knots, C]."""
    return _time_mix(x, hat_matrix(weights["knot"], weights["fraction"], settings["knots"]))


def hat_fractions(lags: int, knots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the two hats over each lag 0 … lags − 1: the index of the lower knot, and the upper knot's share.

    `knots` are positions on the axis log2(lag + 1). Both results are [lags]; the lower knot's share is the rest to 1.
    """
    position = np.log2(np.arange(lags) + 1.0)
    lower = np.clip(np.searchsorted(knots, position, side="right") - 1, 0, len(knots) - 2)
    return lower, (position - knots[lower]) / (knots[lower + 1] - knots[lower])


def hat_matrix(knot: np.ndarray, fraction: np.ndarray, knots: int) -> np.ndarray:
    """Build the hat basis as a matrix [T, knots] from each row's lower knot and share of the knot above it."""
    expect(knot.min() >= 0 and knot.max() < knots - 1, "hats")
    rows = np.arange(len(knot))
    matrix = np.zeros((len(knot), knots), fraction.dtype)
    matrix[rows, knot] = 1 - fraction
    matrix[rows, knot + 1] += fraction
    return matrix


def _time_mix(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Compute matrixᵀ x for x [batch, T, C] and matrix [T, L]: [batch, L, C]."""
    if x.shape[2] == 1:  # one product for the whole batch is faster
        return (x[:, :, 0] @ matrix)[:, :, None]
    return matrix.T @ x


def _hat_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from x [T, C], with a knot and a fraction for each row, to [knots, C]."""
    expect(len(x) == 2 and weights["knot"] == weights["fraction"] == x[:1] and settings["knots"] >= 2, "hats")
    return (settings["knots"], x[1])


def hat_basis_q(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Compute `hat_basis` in fixed point for the int16 window x [T, C]: words [knots, C].

    `shares` [T, 2] are each row's weights in its two hats. A share of 1 in hat k is stored as 2^bits[k].
    """
    rows, matrix = np.arange(x.shape[1]), np.zeros((x.shape[1], settings["knots"]))
    for hat in (0, 1):  # the lower and the upper one
        matrix[rows, weights["knot"] + hat] = weights["shares"][:, hat]
    return to_word(to_int64(matrix.T @ x))


def _hat_shape_q(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from the window x [T, C], with a knot and two shares for each row, to [knots, C]."""
    expect(len(x) == 2 and weights["knot"] == x[:1] and weights["shares"] == (x[0], 2), "hat_basis_q")
    expect(weights["bits"] == (settings["knots"],), "hat_basis_q bits")
    return (settings["knots"], x[1])


def _hats_bound(q: QuantisationState, step: Step) -> np.ndarray:
    """Return the sum of each hat's weights times the bound of a reading, which is the same in every row: [knots, C]."""
    return np.abs(_hat_sums(step))[:, None] * q.bounds[INPUT][:1]


def _hat_sums(step: Step) -> np.ndarray:
    """Return the sum of the weights under each hat [knots]."""
    knot, fraction = step.weights["knot"], step.weights["fraction"]
    count = step.settings["knots"]
    return np.bincount(knot, 1 - fraction, count) + np.bincount(knot + 1, fraction, count)


def _hats_unit(q: QuantisationState, step: Step) -> np.ndarray:
    """Return the units of each hat, a power of two, divided by each channel's quantum: [knots, C]."""
    return _share_units(step)[:, None] / q.quanta


def _share_units(step: Step) -> np.ndarray:
    """Return the unit of each hat's shares, its weights of rows, as a power of two: [knots].

    C shifts sums from a hat's unit to that of the next older hat, and only to the right, so units never fall with age.
    Sums may reach twice `LARGEST`, because nothing adds two of them. `WHOLE_SHARE` keeps a share of 1 within int16.
    """
    half_bound = _hat_sums(step) * FULL / 2  # half the largest sum of int16 readings under each hat
    units = np.maximum(word_unit(half_bound), WHOLE_SHARE)
    return np.maximum.accumulate(units)


def _quantise_hats(q: QuantisationState, step: Step) -> Step:
    """Make `hat_basis_q`, which stores each row's share in its two hats as int16.

    Only shares of the farther knot are rounded: those of the nearer one are exactly the rest, so that C needs no table
    of them.
    """
    knot, fraction, units = step.weights["knot"], step.weights["fraction"], _share_units(step)
    rows = np.arange(len(knot))
    exact = np.zeros((len(knot), step.settings["knots"]))  # shares of the farther knot [T, knots]
    exact[rows, knot + 1] = fraction
    farther = round_along_time(exact / units, FULL)[rows, knot + 1]
    nearer = (1 - farther * units[knot + 1]) / units[knot]
    shares = checked_round(np.stack([nearer, farther], axis=1), np.int16)
    weights = {"knot": knot, "shares": shares, "bits": np.rint(-np.log2(units)).astype(np.int32)}
    return Step("hat_basis_q", (WINDOW,), step.output, weights, step.settings)


def _c_hat_basis_f32(placed: PlacedStep) -> CForm:
    """Make the C call; lower knots are run-length encoded: (knot, number of rows) for each run of equal knots."""
    knots = placed.step.weights["knot"].astype(np.int64)
    starts = np.flatnonzero(np.diff(knots, prepend=-1))
    runs = np.stack([knots[starts], np.diff(starts, append=len(knots))], axis=1)
    table = CTable(runs.astype(np.uint16).ravel(), "runs")
    return CForm((table, *tables_f32(placed, "fraction"), len(runs), placed.out[1], placed.out[0]))


def _c_hat_basis_q(placed: PlacedStep) -> CForm:
    """Make the call `scare_hat_basis_q(out, window, segments, shares, stride, channels, knots)`.

    A segment is the rows between two neighbouring knots, the nearer (newer) and the farther one, which share each row.
    C goes through the segments, oldest first, by pairs of rows. In each it makes two sums: of the rows, and of the rows
    times their shares of the farther knot. The farther knot gets the second sum, the nearer one the first minus the
    second.

    A segment's last pair may reach into the newer segment after it. The pair's newer row is then summed with the older
    segment, with a share of 0, so that the knot between the two segments gets the whole row. The newer segment reads
    the pair again, but into its second sum only: it multiplies the row by its share less a whole one, which takes from
    that knot what is too much and gives it to the next.
    """
    (window, channels), knots, weights = placed.shapes[0], placed.out[0], placed.step.weights
    nearer_knot, bits = (weights[name].astype(np.int64) for name in ("knot", "bits"))
    farther_share = np.append(weights["shares"][:, 1].astype(np.int64), [0] * (window % 2))  # an even number of rows
    # Rows are stored oldest first: how many there are up to the end of the segment that each knot is the nearer one of.
    ends = np.searchsorted(-nearer_knot, -np.arange(knots), side="right")
    segments, shares, done = [], [], 0  # `done`: number of pairs that are summed already
    for nearer in range(knots - 2, -1, -1):  # a segment for each nearer knot, the oldest first
        next_row, last_row = 2 * done, 2 * done - 1  # the oldest row not summed yet; the newest row summed so far
        # Whether the last pair of the older segment reached into this one, or beyond it.
        reads_again = 0 < next_row <= window and nearer_knot[last_row] <= nearer
        if reads_again:
            # A row beyond this segment has no share of its farther knot: all of it goes on to the nearer one.
            share = farther_share[last_row] if nearer_knot[last_row] == nearer else 0
            whole_share = 1 << bits[nearer + 1]
            shares += [0, share - whole_share]  # of the pair's older row, which is right already, and of the newer one
        stop = max(done, ceil(int(ends[nearer]) / 2))
        for row in range(next_row, 2 * stop):
            shares.append(farther_share[row] if row < window and nearer_knot[row] == nearer else 0)
        # Pairs, whether one is read again, bits of the nearer knot's shares, and how many bits more than the farther's.
        segments.append((stop - done, int(reads_again), bits[nearer], bits[nearer] - bits[nearer + 1]))
        done = stop
    tables = (
        table_q(np.array(segments), "pairs, pair again, bits of each segment", np.uint16),
        table_q(checked_round(np.array(shares), np.int16), "shares of the farther knot"),
    )
    return CForm((*tables, even(window), channels, knots))


def _tensor_hat_basis(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Multiply by the hat matrix, because no format has a hat operation."""
    return _tensor_time_mix(x, hat_matrix(weights["knot"], weights["fraction"], settings["knots"]))


def _tensor_time_mix(x: Tensor, matrix: np.ndarray) -> Tensor:
    """Compute matrixᵀ x for x [T, C] and matrix [T, L]: [L, C]."""
    return (x.transposed @ matrix).transposed


def lens(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Mix time: weightᵀ x (+ bias of each lens [L]) for x [T, C] and weight [T, L]: [L, C]."""
    mixed = _time_mix(x, weights["weight"])
    return mixed + weights["bias"][:, None] if "bias" in weights else mixed


def _lens_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from x [T, C] with weight [T, L] to [L, C]."""
    expect(len(x) == len(weights["weight"]) == 2 and x[0] == weights["weight"][0], "lens weight")
    expect("bias" not in weights or weights["bias"] == weights["weight"][1:], "lens bias")
    return (weights["weight"][1], x[1])


def _lens_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    return Operations(multiply_adds=prod(x) * weights["weight"][1])


def lens_q(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Compute `lens` in fixed point, without bias, for words x [T, C] and weight [T, L]: [L, C]."""
    loss = x.shape[1] >> 1  # half a step for each product, which drops its low bits
    return to_word(matmul_half(x.swapaxes(1, 2), weights["weight"]) + loss).swapaxes(1, 2)


def _lens_bound(q: QuantisationState, step: Step) -> np.ndarray:
    """Return the largest magnitude of each output for inputs within their bounds: [L, C]."""
    bias = np.asarray(step.weights.get("bias", 0.0))
    return np.abs(step.weights["weight"]).T @ q.bounds[step.inputs[0]] + np.abs(bias)[..., None]


def _channel_units(q: QuantisationState, step: Step) -> np.ndarray:
    """Return the unit of each channel of a step's output: [C].

    It is a power of two divided by the channel's quantum. The power is the same for all channels: the smallest with
    which the output of every channel fits a word.
    """
    return word_unit((q.bounds[step.output] * q.quanta).max()) / q.quanta


def _lens_unit(q: QuantisationState, step: Step) -> np.ndarray:
    """Return the unit of each channel of a lens's output: the smallest in which outputs fit a word and weights int16.

    Like every unit of a channel, it is a power of two divided by the channel's quantum: [C]. A lens over the window
    becomes `project_q`, which scales its weights itself, so that only the outputs count.
    """
    units = _channel_units(q, step)
    if step.inputs[0] == INPUT:
        return units
    # A weight in fixed point is weight · unit of its input row / unit of the output: a larger output unit makes it
    # smaller. All channels have the same weights, so the power of two is the largest that any lens needs.
    power = finest_unit(step.weights["weight"] * _row_units(q, step)).max()
    return np.maximum(units, power / q.quanta)


def _row_units(q: QuantisationState, step: Step) -> np.ndarray:
    """Return the unit of each input row of a lens as the power of two that all its channels share: [rows, 1].

    A channel's unit is this power divided by the channel's quantum.
    """
    return (q.units[step.inputs[0]] * q.quanta)[:, :1]


def _quantise_lens(q: QuantisationState, step: Step) -> Step:
    """Make the fixed-point step: `project_q` if the lens reads the window, `lens_q` if it reads computed values."""
    weight = step.weights["weight"]
    if "bias" in step.weights:
        raise NotApplicableError("float32 only: a lens with a bias has no fixed-point form")
    unit = float((q.units[step.output] * q.quanta).flat[0])
    if step.inputs[0] == INPUT:
        no_bias = np.zeros(weight.shape[1])
        return quantise_projection(q, step, weight[:, None] / unit, no_bias, per_channel=True)
    return Step("lens_q", step.inputs, step.output, {"weight": to_q16(weight * _row_units(q, step) / unit)})


def _c_lens_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_lens_f32(out, x, weight, rows, channels, lenses)`."""
    lenses = placed.out[0]
    weight = blocks_f32(placed.bias(1, lenses), placed.weight("weight"))
    return CForm((table_f32(weight, "bias and weight"), *placed.shapes[0], lenses))


def _c_lens_q(placed: PlacedStep) -> CForm:
    """Make the call `scare_lens_q(out, x, weights, rows, channels, lenses)`."""
    weight = placed.step.weights["weight"]
    return CForm((table_q(blocks_q(weight), f"{placed.step.output} weights"), *placed.shapes[0], weight.shape[1]))


def _tensor_lens(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    mixed = x.transposed @ weights["weight"]
    return (mixed + weights["bias"] if "bias" in weights else mixed).transposed


def project_q(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Project the int16 window x [T, C]: (coarse · Σ older x + fine · Σ newer x) / 2^shift + bias, for each projection.

    The n newest rows have int16 weights `newer` [n, C, R], all others int8 weights `older` [T − n, C, R]; each kind has
    its own scale per projection, `fine` and `coarse` [R]. All channels are mixed: [R]. With the setting `per_channel`
    every channel is projected by itself, with the same weights [·, 1, R]: [R, C].
    """
    split = len(weights["older"])
    per_channel = settings["per_channel"]

    def sums(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Project these rows of the window: [batch, R], or per channel [batch, R, C]."""
        rows, weight = rows.astype(float), weight.astype(float)
        if per_channel:
            return to_int64(np.einsum("btc,tr->brc", rows, weight[:, 0], optimize=True))
        return to_int64(np.einsum("btc,tcr->br", rows, weight, optimize=True))

    older, newer = sums(x[:, :split], weights["older"]), sums(x[:, split:], weights["newer"])
    coarse, fine, bias = (weights[name].astype(np.int64) for name in ("coarse", "fine", "bias"))  # [R] each
    if per_channel:
        coarse, fine, bias = coarse[:, None], fine[:, None], bias[:, None]
    return to_word(rounding_shift(older * coarse + newer * fine, settings["shift"]) + bias)


def _project_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from the window x [T, C] to [R], or with `per_channel` to [R, C]."""
    older, newer = weights["older"], weights["newer"]
    expect(len(x) == 2 and older[0] + newer[0] == x[0] and older[1:] == newer[1:], "project_q rows")
    expect(older[1] == (1 if settings["per_channel"] else x[1]), "project_q channels")
    expect(all(weights[name] == older[2:] for name in ("coarse", "fine", "bias")), "project_q scales")
    return (older[2], x[1]) if settings["per_channel"] else (older[2],)


def _project_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    return Operations(multiply_adds=prod(x) * weights["older"][2])


def quantise_projection(
    q: QuantisationState, step: Step, matrix: np.ndarray, bias: np.ndarray, per_channel: bool
) -> Step:
    """Make a `project_q` step from real weights `matrix` [T, C, R] and `bias` [R], both in units of the output.

    A weight is the change of the output for a change of 1 in the int16 window. Those of older rows become int8, those
    of the newest int16.
    """
    rows = len(matrix)
    newer = NEWEST + (rows - NEWEST) % 8 if rows > SHORT else rows  # C reads eight older rows at a time
    # The scales `coarse` and `fine` [R] are what an integer weight of 1 stands for, in older and in newer rows.
    older, coarse = error_diffused(matrix[: rows - newer])
    fine = weight_scales(matrix[rows - newer :], FULL)
    whole_bits = max(1, ceil(log2(max(coarse.max(), fine.max()))) + 1)  # of the largest scale, before the binary point
    shift = 30 - whole_bits  # so that scales · 2^shift fit 30 bits
    weights = {
        "older": older,
        "newer": checked_round(matrix[rows - newer :] / fine, np.int16),
        "coarse": checked_round(coarse * 2.0**shift, np.int32),
        "fine": checked_round(fine * 2.0**shift, np.int32),
        "bias": checked_round(bias, np.int32),
    }
    return Step("project_q", (WINDOW,), step.output, weights, {"per_channel": per_channel, "shift": shift})


def _c_project_q(placed: PlacedStep) -> CForm:
    """Make the call `scare_project_q`.

    Its arguments are (out, window, older_weights, newer_weights, scales, stride, channels, per_channel, older, newer,
    rows, shift), where `stride` is the length of a channel and `rows` the number of projections.
    """
    weights, settings, name = placed.step.weights, placed.step.settings, placed.step.output
    older, newer = (np.moveaxis(weights[part], 0, -1) for part in ("older", "newer"))  # [C, R, rows]
    newer = pad_axis(newer, -1, 2)  # C multiplies two rows at once
    pairs = newer.reshape(*newer.shape[:2], -1, 2)
    scales = np.stack([weights[part] for part in ("coarse", "fine", "bias")], axis=1)
    tables = (
        table_q(_blocked_int8(older), f"{name} older"),
        table_q(_blocked(pairs), f"{name} newer"),
        table_q(scales, f"{name} coarse, fine, bias"),
    )
    sizes = int(settings["per_channel"]), older.shape[2], newer.shape[2], older.shape[1]
    rows, channels = placed.shapes[0]
    return CForm((*tables, even(rows), channels, *sizes, settings["shift"]))


def _blocked(weights: np.ndarray) -> np.ndarray:
    """Lay out weights [C, R, groups, g] in blocks of four projections (R): block, channel, group, projection, g.

    Three projections left over are padded to a block of four; one or two are blocks of one.
    """
    if weights.shape[1] % 4 == 3:
        weights = pad_axis(weights, 1, 4)
    in_blocks = weights.shape[1] // 4 * 4  # projections
    ends = [*range(4, in_blocks + 1, 4), *range(in_blocks + 1, weights.shape[1])]
    blocks = np.split(weights, ends, axis=1)
    return np.concatenate([block.swapaxes(1, 2).reshape(-1) for block in blocks])


def _blocked_int8(weights: np.ndarray) -> np.ndarray:
    """Lay out int8 weights [channels, projections, rows] in blocks of four projections, four rows at a time.

    As in `_blocked`, three projections left over become a block of four, one or two are blocks of one. In a block of
    four, the weights of two projections share an int16, 256 · second + first, so that one multiplication serves both.
    In a block of one, rows are in the order in which C unpacks four int8.
    """
    if weights.shape[1] % 4 == 3:
        weights = pad_axis(weights, 1, 4)
    channels, count, rows = weights.shape
    blocks, fours = count // 4, rows // 4
    # A block is two pairs of projections: [C, block, pair, first or second of the pair, four rows, row].
    in_blocks = weights[:, : 4 * blocks].astype("<i2").reshape(channels, blocks, 2, 2, fours, 4)
    first, second = in_blocks.transpose(3, 1, 0, 4, 2, 5)  # [block, C, four rows, pair, row] each
    single = weights[:, 4 * blocks :].reshape(channels, count % 4, fours, 4)[..., [0, 2, 1, 3]].swapaxes(0, 1)
    return np.concatenate([(first + 256 * second).astype("<i2").reshape(-1).view(np.int8), single.reshape(-1)])


def bins(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Sum x [T, C] with weights over bins of rows; bin l goes from row start[l] to the next start: [L, C]."""
    start = weights["start"]
    expect(start[0] == 0 and start[-1] < x.shape[1] and bool((np.diff(start) > 0).all()), "bins start")
    return np.add.reduceat(x * weights["weight"][:, None], start, axis=1)


def _bins_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from x [T, C], with a weight for each row and L starts of bins, to [L, C]."""
    expect(len(x) == 2 and weights["weight"] == x[:1], "bins weight")
    expect(len(weights["start"]) == 1 and 1 <= weights["start"][0] <= x[0], "bins start")
    return (*weights["start"], x[1])


def bins_q(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Compute `bins` in fixed point for the window x [T, C]; each sum is multiplied by scale[l] / 2^shift: [L, C]."""
    products = x.astype(np.int64) * weights["weight"][:, None]
    sums = np.add.reduceat(products, weights["start"], axis=1)
    return to_word(rounding_shift(sums * weights["scale"].astype(np.int64)[:, None], settings["shift"]))


def _bins_bound(q: QuantisationState, step: Step) -> np.ndarray:
    """Return the sum over each bin of |weight| times the bound of a reading: [L, C]."""
    return np.add.reduceat(np.abs(step.weights["weight"])[:, None] * q.bounds[INPUT], step.weights["start"], axis=0)


def _quantise_bins(q: QuantisationState, step: Step) -> Step:
    """Make `bins_q`, with int16 weights and a scale for each bin."""
    weight, start = step.weights["weight"], step.weights["start"]
    unit = float((q.units[step.output] * q.quanta).flat[0])
    # Smallest scale of each bin for which its weights fit int16 and its sums fit a word.
    sums = np.add.reduceat(np.abs(weight), start)
    scale = np.maximum(np.maximum(sums / MOST_SUM, np.maximum.reduceat(np.abs(weight), start) / FULL), TINY)
    row_scale = np.repeat(scale, np.diff([*start, len(weight)]))  # of each row's bin
    shift = int(min(30 - ceil(log2((scale / unit).max())), 62))  # scales fit int32, and C shifts an int64
    weights = {
        "weight": checked_round(weight / row_scale, np.int16),
        "start": start,
        "scale": checked_round(scale / unit * 2.0**shift, np.int32),
    }
    return Step("bins_q", (WINDOW,), step.output, weights, {"shift": shift})


def _c_bins_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_bins_f32(out, x, length, weight, bins, channels)`."""
    lengths = np.diff(placed.step.weights["start"], append=placed.shapes[0][0]).astype(np.uint16)
    return CForm((CTable(lengths, "lengths"), *tables_f32(placed, "weight"), *placed.out))


def _c_bins_q(placed: PlacedStep) -> CForm:
    """Make the call `scare_bins_q(out, window, weights, starts, scales, stride, rows, channels, bins, shift)`."""
    weights, (window, channels) = placed.step.weights, placed.shapes[0]
    tables = (
        table_q(weights["weight"], "bin weights"),
        table_q(weights["start"], "first row of each bin", np.uint16),
        table_q(weights["scale"], "scale of each bin"),
    )
    return CForm((*tables, even(window), window, channels, placed.out[0], placed.step.settings["shift"]))


def _tensor_bins(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Multiply by a matrix that has one weight in each row, at the row's bin."""
    start, rows = weights["start"], np.arange(x.shape[0])
    bin_of_row = np.searchsorted(start, rows, side="right") - 1
    matrix = np.zeros((x.shape[0], len(start)), np.float32)
    matrix[rows, bin_of_row] = weights["weight"]
    return _tensor_time_mix(x, matrix)


FLOAT_KERNELS = {
    "hat_basis": Kernel(
        hat_basis,
        _hat_shape,
        HAT_COST,
        takes={"knots": Annotated[int, Ge(2)]},
        integer_weights=frozenset({"knot"}),
        scratch=lambda x, weights, settings: x[0] * settings["knots"],
    ),
    "lens": Kernel(lens, _lens_shape, _lens_cost),
    "bins": Kernel(
        bins,
        _bins_shape,
        per_number(multiply_adds=1),
        integer_weights=frozenset({"start"}),
        scratch=lambda x, *_: prod(x),
    ),
}
FIXED_KERNELS = {
    "hat_basis_q": Kernel(hat_basis_q, _hat_shape_q, HAT_COST),
    "project_q": Kernel(project_q, _project_shape, _project_cost),
    "bins_q": Kernel(bins_q, _bins_shape, per_number(multiply_adds=1)),
    "lens_q": Kernel(lens_q, _lens_shape, _lens_cost),
}
QUANTISATION = {
    "hat_basis": QuantisationRule(_hats_bound, _hats_unit, _quantise_hats),
    "lens": QuantisationRule(_lens_bound, _lens_unit, _quantise_lens),
    "bins": QuantisationRule(_bins_bound, _channel_units, _quantise_bins),
}
C_FLOAT32: dict[str, MakeForm] = {
    "hat_basis": _c_hat_basis_f32,
    "lens": _c_lens_f32,
    "bins": _c_bins_f32,
}
C_FIXED: dict[str, MakeForm] = {
    "hat_basis_q": _c_hat_basis_q,
    "project_q": _c_project_q,
    "bins_q": _c_bins_q,
    "lens_q": _c_lens_q,
}
C_EXTENTS = {
    "hat_basis_f32": extents(
        run="2 * runs",
        fraction="total(run[1::2])",
        x="total(run[1::2]) * channels",
        hats="knots * channels",
        where="largest(run[::2]) + 2 <= knots",
    ),
    "lens_f32": extents(out="lenses * channels", x="rows * channels", weight="(rows + 1) * lenses"),
    "bins_f32": extents(length="bins", weight="total(length)", x="total(length) * channels", out="bins * channels"),
    "hat_basis_q": extents(
        segments="4 * (knots - 1)",
        shares="2 * (total(segments[::4]) + total(segments[1::4]))",
        window="(channels - 1) * stride + 2 * total(segments[::4])",
        out="knots * channels",
        where="knots >= 2, channels >= 1, stride % 2 == 0,"
        " largest(segments[2::4]) <= 31, largest(segments[3::4]) <= 31",
    ),
    "project_q": extents(
        out="rows * max(1, per_channel * channels)",
        window="(channels - 1) * stride + older + newer",
        older_weights="(rows + (rows % 4 == 3)) * max(1, (1 - per_channel) * channels) * older",
        newer_weights="(rows + (rows % 4 == 3)) * max(1, (1 - per_channel) * channels) * newer",
        scales="3 * rows",
        where="per_channel <= 1, channels >= 1, older % 8 == 0, newer % 2 == 0, 1 <= shift <= 62, stride % 2 == 0",
    ),
    "bins_q": extents(
        starts="bins",
        weights="rows",
        scales="bins",
        window="(channels - 1) * stride + rows",
        out="bins * channels",
        where="channels >= 1, largest(starts) <= rows, 1 <= shift <= 62",
    ),
    "lens_q": extents(
        out="lenses * channels", x="rows * channels", weights="up(lenses, 4) * up(rows, 2)", where="channels >= 1"
    ),
}
TENSOR_FORMS: dict[str, MakeTensor] = {
    "hat_basis": _tensor_hat_basis,
    "lens": _tensor_lens,
    "bins": _tensor_bins,
}
