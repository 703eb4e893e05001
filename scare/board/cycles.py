"""Cycles of a run on a Cortex-M4F, estimated from its instructions: never checked on hardware.

Each instruction has a cost from Arm's reference manual as (low, typical, high). A branch that is taken refills the
pipeline. Loads that follow each other overlap. A float that the next instruction needs at once stalls. Not modelled:
flash wait states and caches, unaligned access, how long a division of given numbers takes. Comes from `emulator`.
"""

import re
from typing import NamedTuple

from scare.board.emulator import Instruction, Machine, Trace


class Cycles(NamedTuple):
    """An estimate of cycles."""

    low: float
    typical: float
    high: float

    def plus(self, other: "Cycles", times: int = 1) -> "Cycles":
        """Both, the other one so many times."""
        return Cycles(*(own + times * more for own, more in zip(self, other, strict=True)))


REFILL = Cycles(1, 2, 3)
STALL = Cycles(0, 1, 1)
ONE = Cycles(1, 1, 1)
FIRST_LOAD = Cycles(1, 2, 2)
NEXT_LOAD = Cycles(1, 1, 2)
COSTS = (  # the first that matches the beginning of the name
    (r"[su]div", Cycles(2, 7, 12)),
    (r"v(div|sqrt)", Cycles(14, 14, 14)),
    (r"v(fn?m[as]|n?ml[as])", Cycles(3, 3, 3)),
    (r"v(ldr|str)", Cycles(1, 2, 2)),
    (r"str", Cycles(1, 1, 2)),
    (r"tb[bh]", Cycles(2, 2, 2)),
    (r"it[te]*$", Cycles(0, 1, 1)),
)
SEVERAL = re.compile(r"(push|pop|vpush|vpop|v?ldm|v?stm|ldrd|strd)")
LOAD = re.compile(r"ldr(?!d)")
FLOAT = re.compile(r"v(?!ldr|str|ldm|stm|push|pop|mrs)")


def cost(one: Instruction, before: Instruction | None) -> Cycles:
    """Of one instruction after the one `before` it, if that did not branch."""
    if SEVERAL.match(one.name):
        return Cycles(*[1 + one.words] * 3)
    if LOAD.match(one.name):
        return NEXT_LOAD if before and LOAD.match(before.name) else FIRST_LOAD
    found = next((cycles for pattern, cycles in COSTS if re.match(pattern, one.name)), ONE)
    waits = before and FLOAT.match(before.name) and FLOAT.match(one.name) and before.writes & one.reads
    return found.plus(STALL) if waits else found


class CycleModel:
    """The cycles of what a machine does."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._known: dict[tuple[int, ...], Cycles] = {}

    def estimate(self, trace: Trace) -> Cycles:
        """Of one call, its return included."""
        total = REFILL
        for *edge, count in trace.edges.tolist():
            total = total.plus(self._edge(*edge), count)
        return total

    def _edge(self, origin: int, origin_size: int, block: int, size: int) -> Cycles:
        """Of a block of code when execution comes from another: falling through to it, or by a branch."""
        key = (origin, origin_size, block, size)
        if key not in self._known:
            falls = origin_size > 0 and origin + origin_size == block
            before = self._machine.decode(origin, origin_size)[-1] if falls else None
            total = Cycles(0, 0, 0) if falls or origin_size == 0 else REFILL
            for one in self._machine.decode(block, size):
                total = total.plus(cost(one, before))
                before = one
            self._known[key] = total
        return self._known[key]
