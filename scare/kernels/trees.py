"""Tree kernels: the sum of many small regression trees, such as gradient boosting on a linear model's residuals.

    x [F] ─┬─ tree 0: is x[feature] > threshold? d times, to one of 2^d leaves ─┐
           ├─ tree 1                                                            ├─ Σ ─ y [1]
           └─ …                                                                 ┘
           └─ guard: are the first G numbers within [low, high]? if not, y = 0

Trees are perfect: all paths have the same depth, so every inference takes the same instructions. Outside the training
range the guard switches them off. The leaves reached and the guard's answer are codes (`tree_codes`), because a number
within rounding of a threshold may take another path in another arithmetic.

A tree that is not perfect is padded: a node whose threshold is the largest float32 always goes to its first child.
"""

import numpy as np

from scare.errors import NotApplicableError
from scare.kernels.c_arguments import CForm, CTable, MakeForm, PlacedStep, even, table_f32, table_q
from scare.kernels.c_extents import extents
from scare.kernels.contract import Codes, Kernel, Operations, Settings, Shape, Shapes, Step, Weights, expect
from scare.kernels.fixed_point import (
    FULL,
    WINDOW,
    QuantisationRule,
    QuantisationState,
    bits_between,
    checked_round,
    output_unit,
    power_of_two_above,
    to_word,
)
from scare.kernels.tensor import MakeTensor, Tensor, as_tensor

DEEPEST = 6  # greatest depth: comparisons on the way to a leaf
MOST_INPUTS = 1 << 16  # numbers that trees may choose from, so that an index fits uint16
NARROW_INPUTS = 1 << 8  # most numbers for which an index fits uint8
MOST_TREES = 1 << 14  # most trees in fixed point, so that the sum of their leaves fits a word
MOST_WORD = 2.0**30  # magnitude that no fixed-point input reaches, so that differences fit a word
UNROLLED_DEPTH = 3  # depth for which fixed-point C has a specialised function


def trees(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Sum one leaf of each tree for x [F], 0 where one of the first G numbers is outside [low, high] or NaN: [1].

    Weights: `feature` and `threshold` [T, 2^d − 1] in heap order (the children of node i are 2i + 1 and 2i + 2),
    `leaf` [T, 2^d], `low` and `high` [G]. A number above the threshold goes to the second child, NaN to the first.
    """
    codes = tree_codes(x, weights, settings)
    total = np.cumsum(_reached(weights["leaf"], codes), axis=1)[:, -1:]  # in the order of the trees, as in C
    return np.where(codes[:, -1:] == 1, total, total.dtype.type(0))


def _reached(leaf: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Look up the leaves [T, 2^d] that the paths end in: [n, T]; the last of `codes` [n, T + 1] is not a path."""
    count, width = leaf.shape
    return leaf[np.arange(count), codes[:, :-1] - np.uint32(width)]


def tree_codes(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Return the leaf that each of T trees reaches, then 1 if the guard finds its G numbers in range, else 0: [T + 1].

    Nodes count from 1, the root; node n has children 2n and 2n + 1. So leaf j is node 2^d + j, and the bits of this
    number after the leading 1 are the results of the d comparisons, the root's first.
    """
    return _codes(x, *(weights[name] for name in ("feature", "threshold", "low", "high")))


def _codes(x: np.ndarray, feature: np.ndarray, threshold: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Compute `tree_codes` for floats or integers x [n, F]: all trees go down one level at a time."""
    if feature.min() < 0 or feature.max() >= x.shape[1]:
        raise ValueError(f"trees compare number {feature.min()} or {feature.max()} of {x.shape[1]} inputs, from 0 on")
    rows, tree = np.arange(len(x))[:, None], np.arange(len(feature))
    node = np.ones((len(x), len(feature)), np.intp)
    for _ in range(_depth(feature.shape)):
        node = 2 * node + (x[rows, feature[tree, node - 1]] > threshold[tree, node - 1])
    guarded = x[:, : len(low)]
    is_within = ((guarded >= low) & (guarded <= high)).all(axis=1, keepdims=True)
    return np.concatenate([node, is_within], axis=1).astype(np.uint32)


def _depth(feature: Shape) -> int:
    """Return the depth d of trees whose weight `feature` has this shape, [T, 2^d − 1]."""
    return feature[1].bit_length()


def tree_margins(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Compute how far each comparison on the paths of `tree_codes` was from a tie, by bit: [T + 1, d].

    Distances are relative to the threshold if that is beyond ±1. The guard's bit has the distance to the nearest limit.
    """
    feature, threshold, low, high = (weights[name] for name in ("feature", "threshold", "low", "high"))
    codes = tree_codes(x, weights, settings).astype(np.intp)
    depth = _depth(feature.shape)
    rows, tree = np.arange(len(x))[:, None], np.arange(len(feature))
    margins = np.full((*codes.shape, depth), np.inf)
    for bit in range(depth):
        node = (codes[:, :-1] >> (bit + 1)) - 1  # the node whose comparison gave this bit of the path, from 0
        margins[:, :-1, bit] = _relative_distance(x[rows, feature[tree, node]], threshold[tree, node])
    limits = [_relative_distance(x[:, : len(low)], limit) for limit in (low, high)]
    margins[:, -1, 0] = np.minimum(*limits).min(axis=1, initial=np.inf)
    return margins


def _relative_distance(numbers: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Compute the distance to a limit, relative to the limit if that is beyond ±1."""
    return np.abs(numbers - limits) / np.maximum(np.abs(limits), 1)


def _trees_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from x [F] to [1]."""
    expect(len(x) == 1 and x[0] <= MOST_INPUTS, "trees inputs")
    return _check_trees(x[0], weights)


def _check_trees(inputs: int, weights: Shapes) -> Shape:
    """Check the shapes of trees over this number of inputs, and return the output's."""
    feature, low = weights["feature"], weights["low"]
    expect(len(feature) == 2 and feature[0] >= 1, "trees feature")
    expect(feature[1] in [2**depth - 1 for depth in range(1, DEEPEST + 1)], "trees depth")
    expect(weights["threshold"] == feature and weights["leaf"] == (feature[0], feature[1] + 1), "trees leaf")
    expect(len(low) == 1 and weights["high"] == low and low[0] <= inputs, "trees guard")
    return (1,)


def _trees_cost(x: Shape, weights: Shapes, settings: Settings) -> Operations:
    """Count an addition for the leaf of each tree, and comparisons, which cost as much as additions.

    A tree of depth d takes d comparisons; a number that the guard checks takes two, with its lower and upper limit.
    """
    count, depth = weights["feature"][0], _depth(weights["feature"])
    return Operations(additions=count * (depth + 1) + 2 * weights["low"][0])


def trees_q(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Compute `trees` in fixed point, for words x [F] or the int16 window [T, C]: [1].

    Thresholds are int16 in units of 2^shift; the sum of the leaves is multiplied by 2^up.
    """
    codes = tree_codes_q(x, weights, settings)
    total = _reached(weights["leaf"].astype(np.int64), codes).sum(axis=1, keepdims=True) << settings["up"]
    return to_word(np.where(codes[:, -1:] == 1, total, 0))


def tree_codes_q(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Compute `tree_codes` in fixed point: [T + 1]."""
    threshold = weights["threshold"].astype(np.int64) << settings["shift"]
    return _codes(x.reshape(len(x), -1), weights["feature"], threshold, weights["low"], weights["high"])


def tree_margins_q(x: np.ndarray, weights: Weights, settings: Settings) -> np.ndarray:
    """Compute `tree_margins` in fixed point: [T + 1, d]."""
    threshold = weights["threshold"].astype(np.int64) << settings["shift"]
    return tree_margins(x.reshape(len(x), -1).astype(np.int64), {**weights, "threshold": threshold}, settings)


def _trees_shape_q(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the output's shape: from words x [F] or the window [T, C] to [1]."""
    return _check_trees(int(np.prod(x)), weights)


def _trees_bound(q: QuantisationState, step: Step) -> np.ndarray:
    """Return the sum over all trees of the largest |leaf|."""
    return np.abs(step.weights["leaf"]).max(axis=1).sum()


def _leaf_unit(step: Step) -> np.ndarray:
    """Return the smallest unit in which all leaves fit int16.

    It is never finer than the unit of the output, because that fits a sum of up to `MOST_TREES` leaves into a word.
    """
    return power_of_two_above(np.abs(step.weights["leaf"]).max() / FULL)


def _quantise_trees(q: QuantisationState, step: Step) -> Step:
    """Make `trees_q`: limits are words, and thresholds int16 times 2^`shift`, both in the units of their inputs.

    Leaves are int16 in a unit of their own, from which their sum is shifted left by `up` to the unit of the output.
    """
    source = step.inputs[0]
    units = q.units[source]  # [F]
    reach = np.rint(q.bounds[source] / units)  # largest magnitude of each input, in its unit [F]
    feature = step.weights["feature"].astype(np.int64)
    if reach.max() >= MOST_WORD or len(feature) > MOST_TREES:
        raise NotApplicableError(
            "float32 only: the inputs of trees are too large or the trees too many for fixed point"
        )
    # From here on thresholds are in the units of their inputs.
    feature, threshold, leaf = _without_idle_nodes(
        feature, step.weights["threshold"] / units[feature], step.weights["leaf"], reach[feature]
    )
    threshold = np.floor(threshold)  # changes no comparison, because inputs are whole numbers in these units
    # How many bits thresholds lose so that all fit int16; comparisons are exact if none.
    shift = max(0, int(np.ceil(np.log2(max(1.0, np.abs(threshold).max()) / FULL))))
    leaf_unit = _leaf_unit(step)
    weights = {
        "feature": feature,
        "threshold": checked_round(threshold / 2.0**shift, np.int16),
        "leaf": checked_round(leaf / leaf_unit, np.int16),
    }
    for name in ("low", "high"):  # limits of the first inputs, which the guard checks
        limit = np.rint(step.weights[name] / units[: len(step.weights[name])])
        weights[name] = np.clip(limit, -MOST_WORD, MOST_WORD).astype(np.int32)
    settings = {"shift": shift, "up": int(bits_between(leaf_unit, q.unit(step.output)))}
    # In place of a copy of the whole window as one row, trees read the int16 window itself.
    read = WINDOW if q.is_window(source) else source
    return Step("trees_q", (read,), step.output, weights, settings)


def _without_idle_nodes(
    feature: np.ndarray, words: np.ndarray, leaf: np.ndarray, reach: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Replace comparisons that always go the same way, because their thresholds may be too large for int16.

    `words` are the thresholds in units of their inputs; no input exceeds ±`reach`, both [T, 2^d − 1] like `feature`.
    A node that makes such a comparison gets the threshold 0, and a copy of the subtree that it always reaches in place
    of the other one: then its result does not matter. The last node comes first and the root last, so that nodes in a
    subtree are replaced before the subtree is copied.
    """
    feature, words, leaf = feature.copy(), words.copy(), leaf.copy()
    nodes = feature.shape[1]
    idle = {True: words >= reach, False: words < -reach}  # nodes that always go to the first child, or to the second
    for node in range(nodes - 1, -1, -1):
        for to_first_child, is_idle in idle.items():
            idle_in = np.flatnonzero(is_idle[:, node])  # the trees in which this node is idle
            # First nodes, in each level, of the subtree that is reached (`used`) and of the other one.
            used, other = (2 * node + 1, 2 * node + 2) if to_first_child else (2 * node + 2, 2 * node + 1)
            width = 1  # nodes of the subtree in this level
            while used < nodes:
                for table in (feature, words):
                    table[idle_in, other : other + width] = table[idle_in, used : used + width]
                used, other, width = 2 * used + 1, 2 * other + 1, 2 * width
            used, other = used - nodes, other - nodes  # the level below the last nodes are the leaves
            leaf[idle_in, other : other + width] = leaf[idle_in, used : used + width]
            words[idle_in, node] = 0.0
    return feature, words, leaf


def _c_trees_f32(placed: PlacedStep) -> CForm:
    """Make the call `scare_trees_f32(out, x, features, table, guard, trees, depth, guarded)`."""
    weights, inputs = placed.step.weights, placed.shapes[0][0]
    index, wide = _index_table(weights["feature"], inputs)
    numbers = _one_based(placed.weight("threshold"), placed.weight("leaf"))
    guard = np.stack([placed.weight("low"), placed.weight("high")], axis=1)
    tables = index, table_f32(numbers, "thresholds and leaves"), table_f32(guard, "low and high")
    count, depth = len(weights["feature"]), _depth(weights["feature"].shape)
    return CForm((*tables, count, depth, len(guard)), codes=count + 1, function="trees_wide" if wide else "trees")


def _c_trees_q(placed: PlacedStep) -> CForm:
    """Make the call `scare_trees_q(out, x, features, table, guard, trees, depth, guarded, shift, up)`, or a variant.

    `trees_window` reads the window itself, `trees_wide` more than 256 inputs, `trees_3` is for trees of depth 3. The
    table `features` says for each node which number it compares: by its index among the inputs or, for the window, by
    its position in memory.
    """
    weights, settings, shape = placed.step.weights, placed.step.settings, placed.shapes[0]
    feature = weights["feature"]
    count, depth = len(feature), _depth(feature.shape)
    guard = np.stack([weights["low"], weights["high"]], axis=1)
    tables = (
        table_q(_one_based(weights["threshold"], weights["leaf"]), "thresholds and leaves"),
        table_q(guard, "low and high"),
    )
    name, sizes = "trees", [count, depth, len(guard)]
    if len(shape) == 2:  # the window, which lies in memory channel after channel, each of an even number of rows
        rows, channels = shape
        row, channel = np.divmod(feature, channels)
        position = channel * even(rows) + row
        if position.max() >= MOST_INPUTS:
            raise NotApplicableError(
                f"float32 only: trees read a window of {rows:,} × {channels} numbers; fixed point has room for"
                f" {MOST_INPUTS:,}"
            )
        index, _ = _index_table(position, MOST_INPUTS)  # uint16, even if the window is small
        name, sizes = "trees_window", [*sizes, even(rows), channels]
    else:
        index, wide = _index_table(feature, shape[0])
        if wide:
            name = "trees_wide"
        elif depth == UNROLLED_DEPTH:
            name, sizes = "trees_3", [count, len(guard)]
    return CForm((index, *tables, *sizes, settings["shift"], settings["up"]), codes=count + 1, function=name)


def _index_table(feature: np.ndarray, inputs: int) -> tuple[CTable, bool]:
    """Convert the features to uint8, or to uint16 if there are too many inputs; also returns whether it is uint16."""
    wide = inputs > NARROW_INPUTS
    return table_q(_one_based(feature), "features", np.uint16 if wide else np.uint8), wide


def _one_based(*parts: np.ndarray) -> np.ndarray:
    """Join the parts [T, …] of each tree, tree after tree, behind a single 0: a table for C.

    In C a tree's pointer is one element before the tree, so that nodes count from 1 and node n has children 2n, 2n + 1.
    """
    return np.concatenate([np.zeros(1, parts[0].dtype), np.concatenate(parts, axis=1).ravel()])


def _tensor_trees(x: Tensor, weights: Weights, settings: Settings) -> Tensor:
    """Evaluate all nodes, from the leaves to the roots: each node takes the number of one of its two children.

    The nodes of a level are in the order of their reversed bits. So the first half of them are the first children of
    the level above, in its order, and the second half the second children. Tensors have no `>`: x > threshold is x ≥
    the next float32. If one of the numbers that the guard checks is outside [low, high], or NaN, the result is 0.
    """
    feature, threshold, leaf, low, high = (weights[name] for name in ("feature", "threshold", "leaf", "low", "high"))
    depth, count = _depth(feature.shape), len(feature)
    with np.errstate(over="ignore"):  # nothing but infinity is above the largest float32
        above = np.nextafter(threshold.astype(np.float32), np.float32(np.inf))
    # The number that each node has got in each tree, at first of the leaves: [2^d, T], half as many rows each level.
    numbers: Tensor = as_tensor(leaf.T[_reversed_bits(depth)])
    for level in reversed(range(depth)):
        nodes = _reversed_bits(level) + (1 << level) - 1  # of this level, which begins at node 2^level − 1
        is_above = x.take(feature.T[nodes].ravel()).reshape(len(nodes), count).at_least(above.T[nodes])
        first_children, second_children = _rows(numbers, 0, len(nodes)), _rows(numbers, len(nodes), 2 * len(nodes))
        numbers = is_above.choose(second_children, first_children)
    summed = numbers.reshape(count).sum()
    if not len(low):
        return summed
    guarded = x.rows(0, len(low))
    is_above = as_tensor(high).at_least(guarded).choose(0.0, 1.0)  # 1 if above its limit, 0 if not
    is_outside = guarded.at_least(low).choose(is_above, 1.0)  # 1 if below, too
    return as_tensor(0.5).at_least(is_outside.sum()).choose(summed, 0.0)  # 0.5 ≥ their number: none is outside


def _reversed_bits(bits: int) -> np.ndarray:
    """Return all numbers of this length in bits, in the order of their reversed bits.

    >>> _reversed_bits(3).tolist()
    [0, 4, 2, 6, 1, 5, 3, 7]
    """
    numbers = np.zeros(1, np.int64)
    for _ in range(bits):
        numbers = np.concatenate([2 * numbers, 2 * numbers + 1])
    return numbers


def _rows(tensor: Tensor, start: int, stop: int) -> Tensor:
    """Slice rows; a constant is sliced here, so that the graph needs no operation for it."""
    return tensor.rows(start, stop) if tensor.constant is None else as_tensor(tensor.constant[start:stop])


FLOAT_KERNELS = {
    "trees": Kernel(
        trees,
        _trees_shape,
        _trees_cost,
        integer_weights=frozenset({"feature"}),
        scratch=lambda x, weights, settings: 4 * weights["feature"][0],
    ),
}
FIXED_KERNELS = {"trees_q": Kernel(trees_q, _trees_shape_q, _trees_cost)}
QUANTISATION = {"trees": QuantisationRule(_trees_bound, output_unit, _quantise_trees)}
C_FLOAT32: dict[str, MakeForm] = {"trees": _c_trees_f32}
C_FIXED: dict[str, MakeForm] = {"trees_q": _c_trees_q}
_TREES = {
    "features": "1 + trees * (2 ** depth - 1)",
    "table": "1 + trees * (2 ** (depth + 1) - 1)",
    "guard": "2 * guarded",
    "x": "max(largest(features) + 1, guarded)",
    "out": "1 + (trees + 4) // 4",  # and a byte for each path and for the guard
}
_TREES_Q = f"1 <= depth <= {DEEPEST}, trees <= {MOST_TREES}, shift <= 31, up <= 31"
C_EXTENTS = {
    "trees_f32": extents(**_TREES, where=f"1 <= depth <= {DEEPEST}"),
    "trees_wide_f32": extents(**_TREES, where=f"1 <= depth <= {DEEPEST}"),
    "trees_q": extents(**_TREES, where=_TREES_Q),
    "trees_3_q": extents(
        features="1 + trees * 7",
        table="1 + trees * 15",
        guard="2 * guarded",
        x="max(largest(features) + 1, guarded)",
        out="1 + (trees + 4) // 4",
        where=f"trees <= {MOST_TREES}, shift <= 31, up <= 31",
    ),
    "trees_wide_q": extents(**_TREES, where=_TREES_Q),
    "trees_window_q": extents(
        features="1 + trees * (2 ** depth - 1)",
        table="1 + trees * (2 ** (depth + 1) - 1)",
        guard="2 * guarded",
        window="max(largest(features) + 1, stride * channels)",
        out="1 + (trees + 4) // 4",
        where=f"{_TREES_Q}, guarded <= stride * channels",
    ),
}
TENSOR_FORMS: dict[str, MakeTensor] = {"trees": _tensor_trees}
CODES = {
    "trees": Codes(tree_codes, tree_margins, path=True),
    "trees_q": Codes(tree_codes_q, tree_margins_q, path=True),
}
