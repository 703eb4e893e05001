"""Compatibility: how busy a computer is with steady requests, and whether a board can hold and serve the model.

Board figures are of the virtual board, over windows among which are the strangest there can be; what is compared with
a limit is the worst of them.
"""

from collections.abc import Callable
from time import perf_counter, sleep, thread_time
from typing import Any

import numpy as np

from scare.board.boards import Board
from scare.board.measure import Report
from scare.scorecard.realtime import Latency, latency_findings, one_core
from scare.scorecard.requirements import Finding, Protocol

OF_CYCLES = ("board_latency_mean", "board_latency_max", "board_latency_jitter", "deadline", "duty_cycle")
OF_BOARD = ("ram", "flash", "fits_ram", "fits_flash", "deadline", "duty_cycle")  # asked of a board alone


def measure_utilisation(
    call: Callable[[int], object], protocol: Protocol, advance: Callable[[], object] = lambda: None
) -> Finding:
    """The largest share of one core, in %, that requests at a fixed rate take in a block of them.

    `call` serves the request of a number, from 0 on. `idle` in the detail is the share
    of the same loop without a model.
    """
    with one_core() as pinned:
        idle = _block(lambda number: number, protocol)
        shares = []
        for _ in range(protocol.blocks):
            shares.append(_block(call, protocol))
            advance()
    detail = {"mean": float(np.mean(shares)), "idle": idle, "pinned": pinned}
    return Finding("cpu", max(shares), detail={**detail, "request_hz": protocol.request_hz, "blocks": len(shares)})


def _block(call: Callable[[int], object], protocol: Protocol) -> float:
    """This thread's CPU time over wall time in one block of requests, in %."""
    begun, busy = perf_counter(), thread_time()
    for request in range(max(1, round(protocol.block_seconds * protocol.request_hz))):
        call(request)
        left = begun + (request + 1) / protocol.request_hz - perf_counter()
        if left > 0:
            sleep(left)
    return 100 * (thread_time() - busy) / (perf_counter() - begun)


def supported(reason: str = "") -> Finding:
    """Whether every operation has a kernel, or the reason why not."""
    return Finding("supported", 0.0 if reason else 1.0, detail={"reason": reason} if reason else {})


def board_findings(report: Report) -> list[Finding]:
    """Memory, latency and the board's yes or no; what cannot be told of the board has no value."""
    board, period_ms = report.board, float(report.step_ms)
    found = [
        Finding("ram", report.ram_bytes, board.ram, {"static": report.static_bytes, "stack": report.stack_bytes}),
        Finding("flash", report.flash_bytes, board.flash),
        Finding("fits_ram", float(report.ram_bytes <= board.ram)),
        Finding("fits_flash", float(report.flash_bytes <= board.flash)),
    ]
    worst = worst_case(report)
    if worst is None or report.duty_cycle is None:
        unknown = {"reason": f"cycles are not known on {board.name}"}
        return found + [Finding(name, None, detail=unknown) for name in OF_CYCLES]
    typical = report.runs.cycles[:, 1] / board.clock_hz * 1e3
    found += latency_findings(Latency.of(typical), period_ms, ("board_latency", ""), {"worst": worst})
    found.append(Finding("deadline", float(worst["reading_ms"] <= period_ms), detail=worst))
    found.append(Finding("duty_cycle", 100 * report.duty_cycle))
    return found


def no_board() -> list[Finding]:
    """Memory and the board's yes or no when no board was asked for: they are not known."""
    return [Finding(name, None, detail={"reason": "no board was asked for"}) for name in OF_BOARD]


def worst_case(report: Report) -> dict[str, Any] | None:
    """The worst of all windows: instructions, cycles and ms, and the highest ms of taking and calibrating a reading."""
    if report.instructions is None or report.cycles is None:
        return None
    cycles = dict(zip(("low", "typical", "high"), report.runs.cycles.max(axis=0).tolist(), strict=True))
    clock = report.board.clock_hz / 1e3
    return {
        "instructions": int(report.instructions["max"]),
        "cycles": cycles,
        "milliseconds": {name: count / clock for name, count in cycles.items()},
        "reading_ms": (cycles["high"] + report.pushes.cycles.high) / clock,
    }


def describe_board(board: Board, arithmetic: str, report: Report | None, reason: str = "") -> dict[str, Any]:
    """The board block of a card: what it has, and what the model takes, or why nothing runs on it."""
    has = {"board": board.name, "title": board.title, "chip": board.chip, "clock_hz": board.clock_hz}
    has |= {"ram_available": board.ram, "flash_available": board.flash, "arithmetic": arithmetic}
    if report is None:
        return {**has, "supported": False, "fits": False, "reasons": [reason]}
    worst = worst_case(report)
    deadline = {"deadline_ms": report.step_ms, "worst": worst}
    deadline["meets_deadline"] = worst["reading_ms"] <= report.step_ms if worst else None
    return {**has, "supported": True, **deadline, **report.as_dict()}
