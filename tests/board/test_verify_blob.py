"""A blob is proved against its calibrator, and interpreting it costs what its page says."""

from pathlib import Path

import pytest

from scare.board.boards import board
from scare.board.verify_blob import INTERPRETED, C, verify_blob
from scare.errors import DataError
from scare.experiments.untrained import draw_method
from scare.export.blob import make_blob
from scare.export.lowering import Arithmetic, compile_calibrator
from tests.calibrator.building import curve_plan, make_calibrator, newest_plan

PAGE = (Path(__file__).parents[2] / "docs" / "blob.md").read_text(encoding="utf-8")
MOST_OVERHEAD = 0.03


def test_a_blob_of_another_calibrator_is_refused(tmp_path: Path) -> None:
    blob = tmp_path / "curve.blob"
    blob.write_bytes(make_blob(compile_calibrator(make_calibrator(curve_plan(12)), Arithmetic.FIXED).c_model))
    with pytest.raises(DataError, match=r"curve\.blob is not what this calibrator exports"):
        verify_blob(blob, make_calibrator(newest_plan(3)), board("nano33ble"), windows=1)


@pytest.mark.slow
def test_the_interpreter_takes_little_more_than_c_and_computes_the_same_bits(tmp_path: Path) -> None:
    calibrator, blob = draw_method("scare", 360), tmp_path / "default.blob"
    blob.write_bytes(make_blob(compile_calibrator(calibrator, Arithmetic.FIXED).c_model))
    proof = verify_blob(blob, calibrator, board("nano33ble"), windows=1)
    assert proof.reasons == []
    assert set(proof.different.values()) == {0}
    assert 0 < proof.overhead <= MOST_OVERHEAD
    in_c, interpreted = (round(proof.costs[name].run) + proof.costs[name].reading for name in (C, INTERPRETED))
    assert f"| preset `default` | fixed | {blob.stat().st_size:,} | {in_c:,} | {interpreted:,} |" in PAGE
