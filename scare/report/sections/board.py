"""The board: what the model takes of it, whether it fits and meets its deadline."""

from collections.abc import Mapping
from typing import Any

from scare.report.markup import Cell, Html, escape, note, number, quantity, table

MEMORY = {"RAM": ("ram_bytes", "ram_available"), "flash": ("flash_bytes", "flash_available")}


def board(found: Mapping[str, Any] | None) -> str:
    """Verdicts, memory as shares of what the board has, and what one reading takes."""
    if not found:
        return note("No board was asked for; scare score --board NAME adds it.")
    memory = [_memory(what, *(found.get(key) for key in keys)) for what, keys in MEMORY.items()]
    facts = _facts(found)
    reading = table("One calibrated reading", ("what it takes", "typical", "between"), facts, "words") if facts else ""
    legend = (
        "Instructions, RAM and flash are those of the compiled program on a virtual board. Cycles, time, energy and the"
        " share of time are estimates made from them, not measurements of a device."
    )
    return (
        _verdicts(found) + table(found["title"], ("memory", "needs", "has", "share"), memory) + reading + note(legend)
    )


def _verdicts(found: Mapping[str, Any]) -> str:
    reasons = "; ".join(str(reason) for reason in found["reasons"])
    fits = _verdict(found["fits"], "fits", "does not fit", reasons or f"{found['title']}, {found['arithmetic']}")
    if found.get("meets_deadline") is None:
        return fits
    longest, period = (quantity(value, "ms") for value in (found["worst"]["reading_ms"], found["deadline_ms"]))
    time = f"{longest} at most of the {period} between readings"
    return fits + _verdict(found["meets_deadline"], "in time", "too slow", time)


def _verdict(good: bool, yes: str, no: str, words: str) -> str:
    kind, badge = ("good", yes) if good else ("bad", no)
    return f'<p><span class="grade {kind}">{badge}</span> {escape(words)}</p>'


def _memory(what: str, need: float | None, capacity: float | None) -> list[Cell]:
    if need is None or not capacity:
        return [what, "not known", f"{number(capacity)} B", ""]
    share = 100 * need / capacity
    meter = f'{share:.1f} %<span class="meter ours"><i style="width:{min(100, share):.1f}%"></i></span>'
    return [what, f"{number(need)} B", f"{number(capacity)} B", Html(meter)]


def _facts(found: Mapping[str, Any]) -> list[list[Cell]]:
    """Rows of name, number and spread, as far as the board's numbers are known."""
    rows: list[list[Cell]] = []
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
