"""Every model, printed and compiled, computes what its plan computes; in integers, every bit."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from scare.board.boards import board
from scare.board.measure import measure_once
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan import run
from scare.calibrator.plan_passes import fold
from scare.export.blob import make_blob
from scare.export.c_source import CModel
from scare.export.descriptor import encode_windows
from scare.export.lowering import compile_calibrator
from scare.export.package import export_calibrator
from tests.calibrator.building import make_calibrator, with_edges
from tests.contract.test_models import CASES, random_network
from tests.export.blobs import OK, Blob
from tests.export.building import LoadedModel, compile_models

WINDOW = 60
INTEGER = ("scare-default", "scare-paper", "tesla-default", "dlinear-default", "nlinear-default")
EXPORTS = [(name, "float32") for name in CASES] + [(name, "fixed") for name in INTEGER]
Built = dict[tuple[str, str], tuple[CModel, LoadedModel]]


def called(name: str, arithmetic: str) -> str:
    return f"m_{name}_{arithmetic}".replace("-", "_")


@pytest.fixture(scope="module")
def calibrators() -> dict[str, Calibrator]:
    plans = {name: fold(random_network(model, WINDOW, 2).plan()) for name, model in CASES.items()}
    return {name: make_calibrator(plan.astype(np.float32)) for name, plan in plans.items()}


@pytest.fixture(scope="module")
def built(calibrators: dict[str, Calibrator], tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("every")
    packages = {
        (name, arithmetic): export_calibrator(
            calibrators[name], "c", arithmetic, folder / called(name, arithmetic), name=called(name, arithmetic)
        )
        for name, arithmetic in EXPORTS
    }
    loaded = compile_models({package.compiled.name: package.folder for package in packages.values()}, folder)
    return {key: (package.compiled.c_model, loaded[package.compiled.name]) for key, package in packages.items()}


@pytest.mark.parametrize(("name", "arithmetic"), EXPORTS)
def test_what_is_compiled_computes_the_plan(
    calibrators: dict[str, Calibrator], built: Built, name: str, arithmetic: str
) -> None:
    windows = np.random.default_rng(1).normal(size=(40, WINDOW, 2)).astype(np.float32)
    expected = run(compile_calibrator(calibrators[name], arithmetic).plan, windows).astype(np.float32)
    model, compiled = built[name, arithmetic]
    results = np.array([compiled.run(window) for window in encode_windows(windows, model.program.quanta)], np.float32)
    if arithmetic == "fixed":
        assert_array_equal(results, expected)
    else:
        assert (np.abs(results - expected) <= 1e-5 * np.maximum(np.abs(expected), 1.0)).all()  # scaled: sd is 1


@pytest.mark.parametrize(("name", "arithmetic"), EXPORTS)
def test_its_self_test_passes(built: Built, name: str, arithmetic: str) -> None:
    model, compiled = built[name, arithmetic]
    assert len(model.self_test.seeds) == 4
    assert compiled.self_test() == 0


@pytest.mark.parametrize(("name", "arithmetic"), EXPORTS)
def test_as_a_blob_it_computes_the_same_bits(built: Built, name: str, arithmetic: str) -> None:
    model, compiled = built[name, arithmetic]
    blob = Blob(make_blob(model))
    assert blob.status == OK
    windows = np.random.default_rng(2).normal(size=(40, WINDOW, 2)).astype(np.float32)
    choices = np.zeros((2, 2), np.uint32)
    for window in encode_windows(windows, model.program.quanta):
        assert blob.run(window, choices[0]) == compiled.run(window, choices[1])
    assert_array_equal(*choices)
    assert blob.begin(model.memory_bytes) == OK
    assert blob.self_test() == OK


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nano33ble", "rp2040"])
@pytest.mark.parametrize(("model", "arithmetic"), EXPORTS, ids=map("-".join, EXPORTS))
def test_it_takes_no_more_ram_than_its_header_says(model: str, arithmetic: str, name: str) -> None:
    plan = fold(random_network(CASES[model], WINDOW, 2).plan()).astype(np.float32)
    for settle in (0, 30):
        compiled = compile_calibrator(with_edges(make_calibrator(plan, settle)), arithmetic)
        report = measure_once(compiled, board(name))
        assert report.stack_bytes <= compiled.c_model.stack_bytes
        assert report.static_bytes == compiled.c_model.memory_bytes + compiled.c_model.state_bytes
