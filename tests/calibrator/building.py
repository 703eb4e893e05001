"""Small calibrators and readings built by hand, for the tests of this package."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.intervals import Intervals
from scare.calibrator.plan import Plan, Step
from scare.data.flags import QualitySettings
from scare.data.readings import TIME, TIME_TYPE, Channel, Readings
from scare.kernels import hat_fractions
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.training_range import TrainingRange
from scare.windowing.windows import GapPolicy

DUST = Channel("pm25", "ug/m3", 0.0, 1000.0)
CURRENT = Channel("current", "nA")  # no limits
TARGET = Channel("reference pm25", "ug/m3", 0.0)
LENIENT = GapPolicy("lenient", checked=4, hold=2, percent=50)
STEP_SECONDS = 60.0
RANGES = (-2.5, -2.0), (3.0, 2.5), (-2.5, -3.0), (4.0, 3.5)  # of training, and where values are clamped
EDGES = TrainingRange(
    *RANGES, (0.25, 0.0), ((1.0, 0.0), (-0.5, 1.25)), limit=9.0, slow_limit=4.0, slope=0.75, lower_bound=-2.0
)


def newest_plan(window: int = 5) -> Plan:
    """The newest row, weighted."""
    weight = np.array([[2.0], [-0.5]], np.float32)
    bias = np.array([0.25], np.float32)
    return Plan(
        window, 2, (Step("newest", ("x",), "now"), Step("dense", ("now",), "y", {"weight": weight, "bias": bias}))
    )


def curve_plan(window: int = 30, channels: int = 2, hats: bool = True) -> Plan:
    """A line of all hats, or of the newest row, plus a curve: a quadratic form of the newest row, clamped at ±3."""
    rng = np.random.default_rng(8)
    knots = np.array([0.0, 1.0, *np.linspace(2, np.log2(window), 4)])
    lower, fraction = hat_fractions(window, knots)
    basis = {"knot": lower[::-1].astype(np.int32), "fraction": fraction[::-1].astype(np.float32)}
    front = (
        Step("hat_basis", ("x",), "u", basis, {"knots": len(knots)}),
        Step("flatten", ("u",), "all"),
        Step("part", ("all",), "now", settings={"start": 0, "shape": [channels]}),
    )
    seen, count = ("all", len(knots) * channels) if hats else ("now", channels)
    weights = [rng.normal(0, 0.3, (size, 1)).astype(np.float32) for size in (count, channels * (channels + 1) // 2)]
    return Plan(
        window,
        channels,
        (
            *(front if hats else (Step("newest", ("x",), "now"),)),
            Step("dense", (seen,), "line", {"weight": weights[0] / count}),
            Step("products", ("now",), "pairs", settings={"limit": 3.0}),
            Step("dense", ("pairs",), "curve", {"weight": weights[1]}),
            Step("add", ("line", "curve"), "y"),
        ),
    )


def tree_weights(
    rng: np.random.Generator, trees: int, depth: int, spread: np.ndarray, guarded: int
) -> dict[str, np.ndarray]:
    """Random trees over inputs of this spread [F], some nodes padded; the first inputs are guarded at 3 spreads."""
    shape = trees, 2**depth - 1
    feature = rng.integers(0, len(spread), shape)
    threshold = (rng.normal(size=shape) * spread[feature]).astype(np.float32)
    threshold[rng.random(shape) < 0.1] = np.finfo(np.float32).max
    leaf = rng.normal(0, 0.1, (trees, 2**depth)).astype(np.float32)
    limit = 3 * spread[:guarded].astype(np.float32)
    return {"feature": feature.astype(np.int32), "threshold": threshold, "leaf": leaf, "low": -limit, "high": limit}


def tree_plan(
    window: int = 30, channels: int = 2, hats: bool = True, trees: int = 25, depth: int = 3, guarded: int = 4
) -> Plan:
    """A line of all hats, or of the whole window, corrected by trees that read the same numbers."""
    rng = np.random.default_rng(6)
    knots = np.array([0.0, 1.0, *np.linspace(2, np.log2(window), 4)])
    lower, fraction = hat_fractions(window, knots)
    basis = {"knot": lower[::-1].astype(np.int32), "fraction": fraction[::-1].astype(np.float32)}
    spread = np.ones(window * channels)
    if hats:
        counts = np.bincount(lower, 1 - fraction, len(knots)) + np.bincount(lower + 1, fraction, len(knots))
        spread = np.repeat(np.maximum(counts, 0.1) ** 0.5, channels)
    weight = rng.normal(0, 0.3, (len(spread), 1)) / spread[:, None] / len(spread) ** 0.5
    return Plan(
        window,
        channels,
        (
            *((Step("hat_basis", ("x",), "u", basis, {"knots": len(knots)}),) if hats else ()),
            Step("flatten", ("u" if hats else "x",), "all"),
            Step("dense", ("all",), "line", {"weight": weight.astype(np.float32)}),
            Step("trees", ("all",), "correction", tree_weights(rng, trees, depth, spread, guarded)),
            Step("add", ("line", "correction"), "y"),
        ),
    )


def attention_plan(window: int = 12) -> Plan:
    """Hats, tokens, hash codes, bitwise attention, norm and a feed-forward step: a whole network, tiny."""
    rng = np.random.default_rng(4)

    def draw(*shape: int) -> np.ndarray:
        return rng.normal(0, 0.5, shape).astype(np.float32)

    knots = np.linspace(0, np.log2(window), 4)
    lower, fraction = hat_fractions(window, knots)
    hats = {"knot": lower[::-1].astype(np.int32), "fraction": fraction[::-1].astype(np.float32)}
    hashing = {"supports": draw(5, 4), "projection": draw(5, 8), "bias": draw(8)}
    sharp = {"sharpness": 1.5, "epsilon": 1e-6}
    return Plan(
        window,
        2,
        (
            Step("hat_basis", ("x",), "u", hats, {"knots": 4}),
            Step("flatten", ("u",), "all"),
            Step("dense", ("all",), "g", {"weight": draw(8, 4), "bias": draw(4)}),
            Step("lens", ("u",), "t", {"weight": draw(4, 3), "bias": draw(3)}),
            Step("dense", ("t",), "e", {"weight": draw(2, 4), "bias": draw(3, 4)}),
            Step("add_outer", ("e", "g"), "z", {"share": draw(3)}),
            Step("dense", ("z",), "q", {"weight": draw(4, 4)}),
            Step("dense", ("z",), "k", {"weight": draw(4, 4)}),
            Step("dense", ("z",), "v", {"weight": draw(4, 4)}),
            Step("hash_codes", ("q",), "hq", hashing, sharp),
            Step("hash_codes", ("k",), "hk", hashing, sharp),
            Step("bitwise_attention", ("hq", "hk", "v"), "o", {}, {"bias": 9, "bits": 8}),
            Step("add", ("z", "o"), "r"),
            Step("layer_norm", ("r",), "n", {"gain": draw(4), "bias": draw(4)}, {"epsilon": 1e-5}),
            Step("dense", ("n",), "h", {"weight": draw(4, 6), "bias": draw(6)}),
            Step("relu", ("h",), "hr"),
            Step("flatten", ("hr",), "hf"),
            Step("dense", ("hf",), "y", {"weight": draw(18, 1), "bias": draw(1)}),
        ),
    )


def make_calibrator(
    plan: Plan | None = None, settle: int = 0, policy: GapPolicy = LENIENT, training_range: TrainingRange | None = None
) -> Calibrator:
    """A calibrator of dust and current; `box-1` and `box-2` are known to it."""
    plan = plan or newest_plan()
    devices = {
        "box-1": Affine(np.array([20.0, 300.0]), np.array([8.0, 60.0])),
        "box-2": Affine(np.array([25.0, 250.0]), np.array([9.0, 50.0])),
    }
    fleet, target = Affine(np.array([22.0, 280.0]), np.array([8.5, 55.0])), Affine(np.array([18.0]), np.array([6.0]))
    scaling = Scaling("standard", fleet, target, devices, settle, own_share=np.array([0.75, 1.0]) if settle else None)
    inputs = Inputs((DUST, CURRENT), scaling, STEP_SECONDS, plan.window, policy, QualitySettings(), training_range)
    windows = np.random.default_rng(9).normal(size=(6, plan.window, 2)).astype(np.float32)
    validation = Sample(windows[3:], np.array([3.0, 4.5, np.pi]))
    facts = {"model": "hand-made", "seed": 7, "scores": {"rmse": 1.25, "rows": [1, 2]}, "note": "µg and °C"}
    calibrator = Calibrator(plan, inputs, TARGET, validation, validation, facts)
    return replace(calibrator, golden=Sample(windows[:3], calibrator.compute(windows[:3])))


def with_edges(calibrator: Calibrator) -> Calibrator:
    """The same calibrator, which says how sure it is, knows the edges of its training, and gives nothing below 1."""
    edges = replace(EDGES, limit=3.0, lower_bound=0.5)
    sure = Intervals(0.9, (12.0, 17.5, 21.0), (1.0, 1.5, 2.0, 2.75), (0.5, 1.25, 2.5, 3.0), 1.7)
    return replace(calibrator, inputs=replace(calibrator.inputs, training_range=edges), intervals=sure, floor=1.0)


def make_readings(
    times: np.ndarray,
    values: np.ndarray,
    channels: Sequence[Channel] = (DUST, CURRENT),
    device: str = "box-1",
) -> Readings:
    """Readings at `times` (seconds) with `values` [rows, channels]."""
    micros = pl.Series(TIME, np.round(np.asarray(times) * 1e6).astype(np.int64)).cast(TIME_TYPE)
    columns = [pl.Series(channel.name, values[:, i]) for i, channel in enumerate(channels)]
    return Readings(device, pl.DataFrame([micros, *columns]), tuple(channels))


def bad_readings(seed: int, count: int, device: str = "box-1") -> Readings:
    """Readings with gaps, jitter, early rows, missing values, sentinels and values out of range."""
    rng = np.random.default_rng(seed)
    waits = rng.choice([60.0, 61.0, 20.0, 120.0, 180.0, 3600.0], count, p=[0.8, 0.1, 0.03, 0.03, 0.03, 0.01])
    values = rng.normal([20, 300], [8, 60], (count, 2)).clip(0.5)
    spoilt = rng.random((count, 2)) < 0.03
    values[spoilt] = rng.choice([np.nan, -999.0, -200.0, 65535.0, -5.0], np.count_nonzero(spoilt))
    return make_readings(1.7e9 + np.cumsum(waits), values, device=device)
