"""The board: what the model takes of it, whether it fits and meets its deadline."""

from collections.abc import Mapping
from typing import Any

from scare.report.blocks import Badge, Block, Cell, Note, Table, Verdict
from scare.report.numbers import number, quantity

MEMORY = {"RAM": ("ram_bytes", "ram_available"), "flash": ("flash_bytes", "flash_available")}


def board(found: Mapping[str, Any] | None) -> list[Block]:
    """Verdicts, memory as shares of what the board has, and what one reading takes."""
    if not found:
        return [Note("No board was asked for; scare score --board NAME adds it.")]
    memory = [_memory(what, *(found.get(key) for key in keys)) for what, keys in MEMORY.items()]
    facts = _facts(found)
    reading = Table("One calibrated reading", ("what it takes", "typical", "between"), facts, "words")
    legend = (
        "Instructions, RAM and flash are those of the compiled program on a virtual board. Cycles, time, energy and the"
        " share of time are estimates made from them, not measurements of a device."
    )
    needs = Table(found["title"], ("memory", "needs", "has", "share"), memory)
    return [*_verdicts(found), needs, *[reading] * bool(facts), Note(legend)]


def _verdicts(found: Mapping[str, Any]) -> list[Verdict]:
    reasons = "; ".join(str(reason) for reason in found["reasons"])
    fits = _verdict(found["fits"], "fits", "does not fit", reasons or f"{found['title']}, {found['arithmetic']}")
    if found.get("meets_deadline") is None:
        return [fits]
    longest, period = (quantity(value, "ms") for value in (found["worst"]["reading_ms"], found["deadline_ms"]))
    time = f"{longest} at most of the {period} between readings"
    return [fits, _verdict(found["meets_deadline"], "in time", "too slow", time)]


def _verdict(good: bool, yes: str, no: str, words: str) -> Verdict:
    return Verdict(Badge("good", yes) if good else Badge("bad", no), words)


def _memory(what: str, need: float | None, capacity: float | None) -> list[str | Cell]:
    if need is None or not capacity:
        return [what, "not known", f"{number(capacity)} B", ""]
    share = 100 * need / capacity
    bar = Cell(f"{share:.1f} %", bar=round(min(100.0, share), 1), ours=True)
    return [what, f"{number(need)} B", f"{number(capacity)} B", bar]


def _facts(found: Mapping[str, Any]) -> list[list[str]]:
    """Rows of name, number and spread, as far as the board's numbers are known."""
    rows: list[list[str]] = []
    for name, key, middle, low, high, of in (
        ("instructions", "instructions", "mean", "min", "max", ""),
        ("cycles (estimate)", "cycles", "typical", "low", "high", ""),
        ("time (estimate)", "milliseconds", "typical", "low", "high", "ms"),
    ):
        if spread := found.get(key):
            between = f"{quantity(spread[low], of)} and {quantity(spread[high], of)}"
            if spread[low] == spread[high]:
                between = "always the same"
            rows.append([name, quantity(spread[middle], of), between])
    if found.get("duty_cycle") is not None:
        rows.append(["share of time busy (estimate)", f"{number(100 * found['duty_cycle'])} %", ""])
    if found.get("energy_microjoules") is not None:
        rows.append(["energy (estimate)", f"{number(found['energy_microjoules'])} µJ", ""])
    return rows
