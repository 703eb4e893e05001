"""What is exported is made once: fused once, quantized once, whatever the target and the command ask of it."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from scare.cli.app import run
from scare.export import lowering
from scare.export.targets import TARGETS
from tests.calibrator.building import curve_plan, make_calibrator
from tests.needs import needs

IN_C = [target.name for target in TARGETS.values() if target.in_c]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each part was made."""
    counted: Counter[str] = Counter()

    def counting(name: str) -> Any:
        original = getattr(lowering, name)

        def call(*arguments: Any, **options: Any) -> Any:
            counted[name] += 1
            return original(*arguments, **options)

        return call

    for name in ("fuse", "quantise", "plan_memory", "make_descriptor", "golden_vectors"):
        monkeypatch.setattr(lowering, name, counting(name))
    return counted


@pytest.mark.parametrize("target", IN_C)
def test_a_fixed_point_export_makes_every_part_once(calls: Counter[str], target: str, tmp_path: Path) -> None:
    model = str(make_calibrator(curve_plan(12)).save(tmp_path / "curve.scare"))
    assert run(["export", target, model, "--arithmetic", "fixed", "--out", str(tmp_path / "out")]) == 0
    assert calls == {"fuse": 1, "quantise": 1, "plan_memory": 1, "make_descriptor": 1, "golden_vectors": 1}


@needs("board")
def test_measuring_it_for_a_board_makes_nothing_anew(calls: Counter[str], tmp_path: Path) -> None:
    model = str(make_calibrator(curve_plan(12)).save(tmp_path / "curve.scare"))
    command = ["export", "arduino", model, "--arithmetic", "fixed", "--board", "nano33ble"]
    assert run([*command, "--out", str(tmp_path / "out")]) == 0
    assert (calls["fuse"], calls["quantise"]) == (1, 1)


@pytest.mark.parametrize(
    ("target", "fused"),
    [
        ("micropython", 1),
        pytest.param("onnx", 0, marks=needs("onnx")),
        pytest.param("tflite", 0, marks=needs("tflite")),
    ],
)
def test_other_targets_make_no_more_than_they_need(
    calls: Counter[str], target: str, fused: int, tmp_path: Path
) -> None:
    model = str(make_calibrator(curve_plan(12)).save(tmp_path / "curve.scare"))
    assert run(["export", target, model, "--out", str(tmp_path / "out")]) == 0
    assert (calls["fuse"], calls["quantise"], calls["plan_memory"]) == (fused, 0, 0)
