"""Products take the same instructions on a virtual Cortex-M4F whatever the numbers are."""

import numpy as np
import pytest

from scare.board.boards import board
from scare.board.build import link
from scare.board.virtual import OUTSIDE, Machine
from tests.parity.native import RUNTIME

X, OUT, FACTORS = (OUTSIDE + offset for offset in (0x1000, 0x2000, 0x3000))
INNER, OUTER, STRANGE = [0.5, -1.0, 0.0, 2.0], [-9.0, 9.0, -3.0, 3.0], [np.nan, np.inf, -np.inf, 1e-40]
FACTOR, TOP = 1 << 19, 24576


@pytest.fixture(scope="module")
def machine() -> Machine:
    sources = [RUNTIME / "kernels" / f"formulas_{kind}.c" for kind in ("f32", "q")]
    return Machine(link(sources, board("nano33ble"), [RUNTIME], keep=["scare_products_f32", "scare_products_q"]))


def test_products_f32(machine: Machine) -> None:
    counts = set()
    for row in (INNER, OUTER, STRANGE):
        machine.write(X, np.array(row, np.float32))
        counts.add(machine.call("scare_products_f32", OUT, X, len(row), 3.0).instructions)
    assert len(counts) == 1


def test_products_q(machine: Machine) -> None:
    counts = set()
    machine.write(FACTORS, np.full(4, FACTOR, np.int32))
    for row in (INNER, OUTER):
        machine.write(X, (np.array(row) * 2**26).astype(np.int32))
        counts.add(machine.call("scare_products_q", OUT, X, FACTORS, len(row), TOP).instructions)
    assert len(counts) == 1
