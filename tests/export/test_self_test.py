"""The self-test of an export passes where the code is right, here and on boards, and fails where it is not."""

import re
from pathlib import Path

import numpy as np
import pytest

from scare.board.boards import board
from scare.board.build import link, read_export
from scare.board.virtual import Machine
from scare.calibrator.plan import Plan, Step, run
from scare.calibrator.plan_passes import fold
from scare.errors import DataError
from scare.export.lowering import Arithmetic, compile_calibrator
from scare.export.package import export_calibrator
from scare.export.self_test import make_self_test, seeded_window
from scare.models import Scare
from tests.calibrator.building import attention_plan, curve_plan, make_calibrator, with_edges
from tests.contract.test_models import random_network
from tests.export.building import compile_models

OK, WRONG = 0, 10
FUSED = "-ffp-contract=fast"
CURVE = with_edges(make_calibrator(curve_plan()))
PRESET = fold(random_network(Scare.default(), 60, 2).plan()).astype(np.float32)
NETWORK = make_calibrator(PRESET)
MAIN = """
#include MODEL_HEADER
uint32_t memory[SCARE_WORDS(MODEL_MEMORY)];
scare calibration;
scare_status begin(void);
scare_status begin(void) {
    scare_status status = scare_init(&calibration, &model, memory, sizeof memory);
    return status == SCARE_OK ? scare_self_test(&calibration, &model_golden) : status;
}
int main(void) { return (int)begin(); }
"""


@pytest.mark.parametrize("arithmetic", Arithmetic)
@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("nano33ble", "-O2"),
        pytest.param("nano33ble", "-ffp-contract=fast", marks=pytest.mark.slow),
        pytest.param("rp2040", "-Os", marks=pytest.mark.slow),
    ],
)
def test_it_passes_on_a_board(arithmetic: str, name: str, flag: str, tmp_path: Path) -> None:
    """Also where the compiler rounds a product and a sum once, as Arduino's does."""
    exported = read_export(export_calibrator(NETWORK, "c", arithmetic, tmp_path / "model").folder)
    (tmp_path / "main.c").write_text(MAIN)
    sources = [exported.source, tmp_path / "main.c", *exported.runtime]
    machine = Machine(link(sources, board(name), exported.includes, (*exported.defines, flag), ["begin"]))
    machine.call("begin")
    assert machine.result == OK


@pytest.mark.parametrize("arithmetic", Arithmetic)
def test_it_fails_where_a_constant_is_wrong(arithmetic: str, tmp_path: Path) -> None:
    """One weight that is 2 % off, as a damaged flash or a wrong file would have it."""
    folder = export_calibrator(CURVE, "c", arithmetic, tmp_path / "model", name="spoilt").folder
    text = (folder / "spoilt.c").read_text("utf-8")
    kind, more = {"float32": ("float", "0.02f"), "fixed": ("int16_t", "200")}[arithmetic]
    spoilt, count = re.subn(rf"(static const {kind} table_.*\n    )([^,]+),", rf"\1(\2 + {more}),", text, count=1)
    assert count == 1
    (folder / "spoilt.c").write_text(spoilt)
    assert compile_models({"spoilt": folder}, tmp_path)["spoilt"].self_test() == WRONG


@pytest.mark.parametrize("arithmetic", Arithmetic)
def test_its_windows_are_like_scaled_readings(arithmetic: str) -> None:
    compiled = compile_calibrator(CURVE, arithmetic)
    windows = np.stack([seeded_window(seed, compiled.plan, compiled.program.quanta) for seed in range(1, 200)])
    assert 0.5 < windows.std() < 1.5
    assert np.abs(windows).max() < 8
    assert abs(np.corrcoef(windows[:, :-1].ravel(), windows[:, 1:].ravel())[0, 1]) > 0.8


def test_its_results_do_not_depend_on_rounding() -> None:
    plan = attention_plan()
    test = make_self_test(plan, ())
    windows = np.stack([seeded_window(seed, plan, ()) for seed in test.seeds])
    precise = run(plan.astype(np.float64), windows.astype(np.float64))
    assert np.abs(np.array(test.results) - precise).max() <= 0.1 * test.tolerance


def test_a_model_without_finite_results_is_refused() -> None:
    weight = {"weight": np.full((2, 1), np.inf, np.float32)}
    plan = Plan(4, 2, (Step("newest", ("x",), "n"), Step("dense", ("n",), "y", weight)))
    with pytest.raises(DataError, match="only finite ones can be exported"):
        make_self_test(plan, ())
