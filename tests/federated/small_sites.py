"""Three small simulated sites of one federation."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from scare.data.readings import TIME_TYPE, Channel, Readings
from scare.federated.agreement import AgreedData, AgreedRules, Agreement
from scare.federated.pooled import Ask
from scare.federated.site import Site, Values

CHANNELS = (Channel("pm", "ug/m3"), Channel("humidity", "%"))
REFERENCE = Channel("truth", "ug/m3")
NAMES = ("north", "south", "west", "east")


def agreement(names: tuple[str, ...] = NAMES[:3], **more: Any) -> Agreement:
    """The agreement of these sites."""
    rules = AgreedRules(fewest_rows=100)
    return Agreement(AgreedData(CHANNELS, REFERENCE, 3600.0), dict.fromkeys(names, "token"), rules, **more)


@cache
def box(number: int, rows: int = 400, gain: float = 1.5, name: str = "box") -> Readings:
    """A box whose reading swells with humidity, in air of its own."""
    rng = np.random.default_rng(number)
    truth = rng.gamma(3, 4 + 2 * number, rows)
    humidity = np.clip(rng.normal(45 + 10 * number, 12, rows), 5, 95)
    pm = gain * truth * (1 + 0.004 * humidity) + 2 + rng.normal(0, 0.5, rows)
    columns = {"time": pl.Series(np.arange(rows) * 3_600_000_000, dtype=pl.Int64).cast(TIME_TYPE)}
    frame = pl.DataFrame({**columns, "pm": pm, "humidity": humidity, "reference": truth})
    return Readings(name, frame, CHANNELS, REFERENCE)


def asking(sites: Mapping[str, Site]) -> Ask:
    """The server's way to ask sites that are in this process."""

    def ask(tasks: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Values]:
        return {name: sites[name].answer(task) for name, task in tasks.items()}

    return ask
