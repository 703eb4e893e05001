"""When to bring a box back to a reference, by the age of its calibration and the kind of its sensor.

Readings without a reference do not tell how accurate a box is (docs/benchmarks/drift_oracle.md), so this is what is
left: the intervals of `recollocation.toml`, from the last reading that the calibration has learned from.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan_passes import LEARNED
from scare.data.quantities import find_quantity
from scare.schema import convert, load_toml

TABLE = Path(__file__).with_name("recollocation.toml")
DAYS_OF_MONTH = 365.25 / 12


@dataclass(frozen=True)
class Recollocation:
    """How often sensors of a kind are to be brought back to a reference, and where the number comes from."""

    kind: str
    months: int
    source: str


def recollocation(target: str) -> Recollocation:
    """Return the interval for sensors of a target; for one without an entry of its own, that of "other".

    >>> recollocation("PM2.5").months, recollocation("NO2").months
    (12, 6)
    """
    quantity, table = find_quantity(target), _table()
    return table.get(quantity.family if quantity else "", table["other"])


def describe_schedule(calibrator: Calibrator, now: float) -> str:
    """Say when the calibrator's boxes are due at a reference; `now` is in seconds since 1970."""
    rule, facts = recollocation(calibrator.target.name), calibrator.facts
    sentence = (
        "how accurate a box is cannot be judged without a reference;"
        f" re-collocate {rule.kind} every {rule.months} months"
    )
    # Of a calibrator that was refitted to more readings after its test, those count.
    periods = [(facts.get("refitted") or facts).get("period"), *facts.get(LEARNED, {}).get("periods", ())]
    ends = [datetime.fromisoformat(period[1]) for period in periods if period]
    if not ends:
        return sentence
    due = max(ends) + timedelta(days=rule.months * DAYS_OF_MONTH)
    when = "are due since" if due < datetime.fromtimestamp(now, UTC) else "are due on"
    return f"{sentence}: these have learned until {max(ends):%Y-%m-%d} and {when} {due:%Y-%m-%d}"


@cache
def _table() -> dict[str, Recollocation]:
    return {name: convert(rule, Recollocation, TABLE) for name, rule in load_toml(TABLE).items()}
