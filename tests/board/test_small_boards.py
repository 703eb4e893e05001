"""Whether a calibrator fits: what a small board counts."""

from pathlib import Path

import pytest

from scare.board.boards import board
from scare.board.build import BuildError, compile_c
from scare.board.measure import measure_once
from scare.export.lowering import compile_calibrator
from scare.export.package import export_calibrator
from tests.calibrator.building import attention_plan, curve_plan, make_calibrator
from tests.export.building import sources

NETWORK = make_calibrator(attention_plan())
AVR = ("-target", "avr-freestanding", "-mcpu=atmega328p", "-Wno-avr-rtlib-linking-quirks", "-c")


@pytest.mark.slow
def test_constants_take_ram_where_c_cannot_read_flash() -> None:
    pico, uno = (measure_once(compile_calibrator(NETWORK, "float32"), board(name)) for name in ("rp2040", "uno"))
    constants = uno.ram_bytes - pico.ram_bytes
    weights = sum(table.nbytes for step in NETWORK.plan.steps for table in step.weights.values())
    assert constants > 0.6 * weights
    assert uno.flash_bytes == pico.flash_bytes
    assert (uno.instructions, uno.cycles) == (None, None)


def test_fixed_point_does_not_fit_where_an_int_has_16_bits() -> None:
    calibrator = make_calibrator(curve_plan(12))
    assert measure_once(compile_calibrator(calibrator, "fixed"), board("uno")).reasons == [
        "fixed point needs an int of 32 bits; uno has 16"
    ]
    assert measure_once(compile_calibrator(calibrator, "fixed"), board("rp2040")).fits
    assert measure_once(compile_calibrator(calibrator, "float32"), board("uno")).fits


def test_a_compiler_for_avr_takes_float32_and_refuses_fixed_point(tmp_path: Path) -> None:
    for arithmetic in ("float32", "fixed"):
        folder = export_calibrator(make_calibrator(curve_plan(12)), "c", arithmetic, tmp_path / arithmetic).folder
        if arithmetic == "float32":
            files = [folder / "model.c", *(path for path in sources(folder / "src") if "_q" not in path.name)]
            for file in files:
                compile_c([file], tmp_path / f"{file.stem}.o", (*AVR, "-Wall", "-Wextra", "-Werror"), [folder / "src"])
        else:
            with pytest.raises(BuildError, match="export this model in float32"):
                compile_c([folder / "model.c"], tmp_path / "model.o", AVR, [folder / "src"])
