"""Every model's float32 program in C gives what its plan gives in NumPy."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from scare.baselines import PatchTST, Sendal
from scare.baselines.sendal import Deep
from scare.calibrator.corrections import CORRECTIONS, Correction
from scare.calibrator.plan import Plan, run, values
from scare.calibrator.plan_passes import fold, fuse
from scare.export.lowering import lower_float32
from scare.models import Architecture
from tests.calibrator.building import curve_plan, tree_plan
from tests.contract.test_models import CASES, random_network
from tests.parity.native import ProgramRunner

OTHERS = {
    "sendal-lstm": replace(Sendal.default(), deep=Deep.LSTM),
    "patchtst-instance-norm": replace(PatchTST.default(), instance_norm=True),
}
every_model = pytest.mark.parametrize("model", (CASES | OTHERS).values(), ids=CASES | OTHERS)
WINDOWS = 24
TOLERANCE = 1e-5  # of the output or the outputs' deviation, whichever is larger: the certificate's rule


@cache
def plan_of(model: Architecture, window: int, channels: int) -> Plan:
    return fold(random_network(model, window, channels).plan()).astype(np.float32)


def draw(window: int, channels: int) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(WINDOWS, window, channels)).astype(np.float32)


def compare(plan: Plan, windows: np.ndarray) -> None:
    """Outputs agree wherever hash codes do, and hash codes agree."""
    machine = ProgramRunner(lower_float32(fuse(plan)))
    coded = {step.output for step in plan.steps if step.kernel == "hash_codes"}
    expected, codes = run(plan, windows), values(plan, windows, coded)
    limits = TOLERANCE * np.maximum(np.abs(expected), expected.std())
    for index, window in enumerate(windows):
        result = machine.run(window)
        for name in coded:
            np.testing.assert_array_equal(machine.arrays[name], codes[name][index])
        assert abs(result - expected[index]) <= limits[index]


@every_model
@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("window", [15, 60])
def test_a_program_is_its_plan(model: Architecture, window: int, channels: int) -> None:
    compare(plan_of(model, window, channels), draw(window, channels))


@pytest.mark.parametrize("name", ["scare-default", "scare-paper", "tesla-default", "dlinear-default"])
def test_long_windows_too(name: str) -> None:
    compare(plan_of(CASES[name], 360, 1), draw(360, 1))


@pytest.mark.parametrize("hats", [True, False])
@pytest.mark.parametrize("channels", [1, 4])
def test_a_curve_is_its_plan(channels: int, hats: bool) -> None:
    compare(fold(curve_plan(30, channels, hats)), 2 * draw(30, channels))


@pytest.mark.parametrize("hats", [True, False])
@pytest.mark.parametrize("channels", [1, 4])
def test_trees_are_their_plan(channels: int, hats: bool) -> None:
    compare(fold(tree_plan(30, channels, hats)), draw(30, channels))


@every_model
def test_a_program_needs_no_fusing(model: Architecture) -> None:
    plan, windows = plan_of(model, 15, 4), draw(15, 4)
    plain, fused = (ProgramRunner(lower_float32(one)) for one in (plan, fuse(plan)))
    for window in windows[:4]:
        np.testing.assert_allclose(plain.run(window), fused.run(window), rtol=1e-4, atol=1e-4)


@every_model
@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_not_a_number_comes_through(model: Architecture, channels: int, number: float) -> None:
    plan, windows = plan_of(model, 15, channels), draw(15, channels)[:4]
    for index, window in enumerate(windows):
        window[3 * index : 3 * index + 2, 0] = number
    machine = ProgramRunner(lower_float32(fuse(plan)))
    finite = np.isfinite([machine.run(window) for window in windows])
    assert (finite <= np.isfinite(run(plan, windows))).all()


@pytest.mark.parametrize("correction", CORRECTIONS.values(), ids=CORRECTIONS)
def test_a_published_correction_is_its_plan(correction: Correction) -> None:
    plan, rng = (
        correction.plan,
        np.random.default_rng(3),
    )
    windows = rng.uniform(0.5, 95, (WINDOWS, 1, plan.channels)).astype(np.float32)
    compare(plan, windows)
