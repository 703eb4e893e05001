"""`scare export tflite` and `onnx`: the file is `Calibrator.compute`, and what lies beside it is enough to use it."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from scare.board.verify_export import verify_export
from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.plan import Plan, Step, run
from scare.errors import DataError, NotApplicableError, UsageError
from scare.export.lowering import compile_calibrator
from scare.export.package import export_calibrator
from scare.export.scare_json import GOLDEN, GoldenVectors, golden_vectors
from scare.export.tflite import flatbuffer_operators, make_flatbuffer, run_flatbuffer, run_micro
from tests.calibrator.building import attention_plan, make_calibrator, tree_plan
from tests.needs import needs

pytestmark = needs("tflite", "onnx")
RUNNING = {"tflite": "ai_edge_litert", "onnx": "onnxruntime"}
EVERY_FORMAT = pytest.mark.parametrize("form", RUNNING)


@pytest.fixture(scope="module")
def network() -> Calibrator:
    return make_calibrator(attention_plan().astype(np.float32))


def wide_calibrator(recurrent: bool = False) -> Calibrator:
    """A network with a matrix that is worth int8, and windows as sensors have them: smooth."""
    draw = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        return draw.normal(size=shape).astype(np.float32) / 12

    steps = [Step("flatten", ("x",), "flat"), Step("dense", ("flat",), "h", {"weight": weights(80, 12)})]
    if recurrent:
        gates = {"input": weights(2, 48), "hidden": weights(12, 48), "bias": weights(48)}
        steps += [Step("lstm", ("x",), "m", gates), Step("add", ("h", "m"), "sum")]
    steps += [Step("relu", (steps[-1].output,), "r"), Step("dense", ("r",), "y", {"weight": weights(12, 1)})]
    calibrator = make_calibrator(Plan(40, 2, tuple(steps)))
    windows = np.cumsum(draw.normal(size=(60, 40, 2)), axis=1).astype(np.float32) / 6
    values = calibrator.compute(windows)
    return replace(calibrator, golden=Sample(windows[:20], values[:20]), validation=Sample(windows[20:], values[20:]))


@EVERY_FORMAT
def test_the_file_is_what_the_calibrator_computes(network: Calibrator, form: str, tmp_path: Path) -> None:
    exchange = export_calibrator(network, form, "float32", tmp_path / "out")
    windows = np.random.default_rng(4).normal(size=(20, *network.golden.windows.shape[1:])).astype(np.float32)
    content = (tmp_path / "out" / f"model.{form}").read_bytes()
    assert content == exchange.artefact.files[f"model.{form}"]
    assert_allclose(exchange.artefact.compute(windows), network.compute(windows), rtol=1e-5, atol=6e-5)
    assert sum(exchange.artefact.sizes["operators"].values()) > 10


@EVERY_FORMAT
def test_the_same_calibrator_gives_the_same_numbers_from_its_page(
    network: Calibrator, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code in README.md, from raw readings to values in the target's unit."""
    export_calibrator(network, form, "float32", tmp_path / "out", device="box-2", name="dust")
    monkeypatch.chdir(tmp_path / "out")
    code = Path("README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    scope: dict[str, Any] = {}
    exec(code, scope)
    readings = np.random.default_rng(5).normal([25.0, 250.0], [9.0, 50.0], (network.window, 2)).clip(1.0)
    given = readings if form == "tflite" else readings[None]
    assert float(np.squeeze(scope["calibrate"](given))) == pytest.approx(
        network.predict_one(readings, "box-2"), rel=1e-4
    )
    facts = json.loads(Path("dust.json").read_text(encoding="utf-8"))
    assert facts["scaled_for"] == "box-2"
    assert [channel["center"] for channel in facts["channels"]] == [25.0, 250.0]


@EVERY_FORMAT
@pytest.mark.parametrize("plan", [tree_plan(), tree_plan(hats=False, depth=6, guarded=0)], ids=["hats", "window"])
def test_trees_are_comparisons_and_choices(form: str, plan: Plan, tmp_path: Path) -> None:
    calibrator = make_calibrator(plan)
    windows = np.random.default_rng(4).normal(size=(20, plan.window, 2)).astype(np.float32)
    windows[:4] *= 9  # outside what the trees have seen
    compute = export_calibrator(calibrator, form, "float32", tmp_path / "out").artefact.compute
    assert_allclose(compute(windows), calibrator.compute(windows), rtol=1e-5, atol=6e-5)
    for compared in verify_export(tmp_path / "out"):
        assert not compared.reasons


def test_an_onnx_model_takes_any_batch(network: Calibrator, tmp_path: Path) -> None:
    compute = export_calibrator(network, "onnx", "float32", tmp_path / "out").artefact.compute
    windows = network.golden.windows
    one_by_one = np.concatenate([compute(windows[at : at + 1]) for at in range(len(windows))])
    assert_allclose(compute(windows), one_by_one, rtol=1e-6)


def test_micro_runs_the_flatbuffer_with_its_own_kernels(network: Calibrator, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro", reason="tflite-micro (pip, a pre-release) would run it")
    export_calibrator(network, "tflite", "float32", tmp_path / "out")
    content = (tmp_path / "out" / "model.tflite").read_bytes()
    windows = network.golden.windows
    assert_allclose(run_micro(content, windows), network.compute(windows), rtol=1e-5, atol=6e-5)
    operators = flatbuffer_operators(content)
    assert {"L2_NORMALIZATION", "UNPACK"} <= set(operators)
    assert not {"SIGN", "CUSTOM"} & set(operators)


def test_int8_keeps_what_the_result_can_bear(tmp_path: Path) -> None:
    calibrator = wide_calibrator()
    plain = export_calibrator(calibrator, "tflite", "float32", tmp_path / "plain").artefact
    integer = export_calibrator(calibrator, "tflite", "int8", tmp_path / "out").artefact
    assert (integer.sizes["int8_weights"], integer.sizes["matrix_weights"]) == (960, 972)
    assert integer.sizes["float32_bytes"] == plain.sizes["bytes"] > integer.sizes["bytes"] + 2000
    windows, spread = calibrator.golden.windows, 6.0  # the target's standard deviation in its unit
    differences = integer.compute(windows) - calibrator.compute(windows)
    assert 0 < np.abs(differences).max() < 0.02 * spread
    golden = GoldenVectors.read(tmp_path / "out" / GOLDEN)
    assert_allclose(golden.tolerances, 0.02 * spread)


def test_int8_leaves_a_loop_alone() -> None:
    calibrator = wide_calibrator(recurrent=True)
    made = make_flatbuffer(compile_calibrator(calibrator, "int8"))
    assert made.integer_weights == 960
    assert flatbuffer_operators(made.content).count("WHILE") == 1
    windows = calibrator.golden.windows
    assert np.abs(run_flatbuffer(made.content, windows) - calibrator.compute(windows)).max() < 0.02 * 6.0


def test_int8_needs_windows_to_be_fitted_to(tmp_path: Path) -> None:
    empty = Sample(np.empty((0, 40, 2), np.float32), np.empty(0))
    bare = replace(wide_calibrator(), golden=empty, validation=empty)
    with pytest.raises(NotApplicableError, match="no windows"):
        export_calibrator(bare, "tflite", "int8", tmp_path / "out")


@pytest.mark.parametrize(("form", "reason"), [("onnx", "nothing from fixed point"), ("tflite", "FULLY_CONNECTED")])
def test_int8_that_cannot_be_says_why(network: Calibrator, form: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(NotApplicableError, match=reason):
        export_calibrator(network, form, "int8", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@EVERY_FORMAT
def test_a_missing_package_names_the_command(
    network: Calibrator, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, RUNNING[form], None)
    with pytest.raises(UsageError, match=rf"pip install '\.\[{form}\]'"):
        export_calibrator(network, form, "float32", tmp_path / "out")


def test_what_is_expected_is_the_plan_in_double_precision(network: Calibrator, tmp_path: Path) -> None:
    expected = golden_vectors(network)
    target = network.inputs.scaling.target
    exact = run(network.plan.astype(np.float64), network.golden.windows.astype(np.float64))
    assert_allclose(expected.results, exact * target.scale[0] + target.center[0], rtol=1e-12)
    path = tmp_path / GOLDEN
    path.write_bytes(expected.as_bytes("dust"))
    again = GoldenVectors.read(path)
    assert_allclose(again.results, expected.results)
    assert again.tokens == expected.tokens > 0
    path.write_bytes(b"no such file")
    with pytest.raises(DataError, match="golden vectors cannot be read"):
        GoldenVectors.read(path)
