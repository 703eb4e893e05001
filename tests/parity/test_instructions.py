"""Products and trees take the same instructions on a virtual Cortex-M4F whatever the numbers are."""

import numpy as np
import pytest

from scare.board.boards import board
from scare.board.build import link
from scare.board.virtual import OUTSIDE, Machine
from tests.parity.native import RUNTIME

X, OUT, FACTORS = (OUTSIDE + offset for offset in (0x1000, 0x2000, 0x3000))
INNER, OUTER, STRANGE = [0.5, -1.0, 0.0, 2.0], [-9.0, 9.0, -3.0, 3.0], [np.nan, np.inf, -np.inf, 1e-40]
FACTOR, TOP = 1 << 19, 24576
FEATURES, TABLE, GUARD = (OUTSIDE + offset for offset in (0x4000, 0x5000, 0x9000))
TREES = {  # most instructions for 100 trees of depth 3 with 10 guarded inputs
    "scare_trees_3_q": 3_200,
    "scare_trees_q": 4_200,
    "scare_trees_wide_q": 4_200,
    "scare_trees_window_q": 4_200,
    "scare_trees_f32": 5_100,
    "scare_trees_wide_f32": 5_100,
}


@pytest.fixture(scope="module")
def machine() -> Machine:
    sources = [RUNTIME / "kernels" / f"{family}_{kind}.c" for family in ("formulas", "trees") for kind in ("f32", "q")]
    keep = ["scare_products_f32", "scare_products_q", *TREES]
    return Machine(link(sources, board("nano33ble"), [RUNTIME], keep=keep))


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


@pytest.mark.parametrize("name", TREES)
def test_trees(machine: Machine, name: str) -> None:
    rng, count, depth, inputs, guarded = np.random.default_rng(0), 100, 3, 20, 10
    fixed, wide = name.endswith("_q"), "wide" in name or "window" in name
    number = np.float32 if not fixed else np.int16 if "window" in name else np.int32
    limits = [np.full(2 * guarded, size) * np.tile([-1, 1], guarded) for size in (30_000, 1)]
    sizes = [count, *([] if "_3_" in name else [depth]), guarded]
    sizes += [*([10, 2] if "window" in name else []), *([3, 4] if fixed else [])]
    rows = [*(1_000 * rng.normal(size=(4, inputs))), np.zeros(inputs), *([] if fixed else [np.array(STRANGE * 5)])]
    counts = set()
    for row in rows:
        for guard in limits:  # inside, and outside
            machine.write(X, row.astype(number))
            machine.write(FEATURES, rng.integers(0, inputs, 1 + 7 * count).astype(np.uint16 if wide else np.uint8))
            machine.write(TABLE, rng.integers(-300, 300, 1 + 15 * count).astype(np.int16 if fixed else np.float32))
            machine.write(GUARD, guard.astype(np.int32 if fixed else np.float32))
            counts.add(machine.call(name, OUT, X, FEATURES, TABLE, GUARD, *sizes).instructions)
    assert len(counts) == 1
    assert counts.pop() <= TREES[name]
