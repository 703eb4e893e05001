"""Training speed and memory of SCARE: fused scan against an unfused step-by-step jit, in the same run.

    python benchmarks/training.py [--quick] [--json]

Tables: windows/s at batch 32 and 256; growth with the window length; growth with the number of windows, with
the peak memory of a process of its own for each. Seconds depend on the machine: compare the ratios.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import time
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from scare.data.readings import Channel, Readings
from scare.layers.buffers import split_trainable
from scare.models import Scare
from scare.models.scare import ScareNetwork
from scare.training.data import make_gather
from scare.training.fit import fit
from scare.training.loop import TrainingState, make_optimiser, run_round, take_step
from scare.training.recipe import Recipe
from scare.windowing.training_examples import Examples

START = datetime(2020, 1, 1, tzinfo=UTC)
PHASE_STEPS = 1000  # over which the learning rate falls
PRESETS = {"paper": Scare.paper(), "default": Scare.default()}


class Unfused(ScareNetwork):
    """SCARE with one token per reading, as the paper writes it."""

    def tokens(self, features: jax.Array) -> jax.Array:
        """Tokens by the paper's form: embed every reading, then project onto lenses."""
        return self.projector(self.embedding(features))


def make_examples(window: int, count: int) -> Examples:
    """Make a random series in which every window is an example."""
    draw = np.random.default_rng(0)
    series = draw.normal(size=(count + window, 1)).astype(np.float32)
    ends = np.arange(window, count + window, dtype=np.int32)
    return Examples(window, series, ends, series[ends, 0], 60.0 * ends, np.zeros(count, np.int64), ("box",))


def make_state(network: ScareNetwork, preset: str) -> tuple[TrainingState, object]:
    """Make the first state of a training run, and its optimiser."""
    optimiser = make_optimiser(network, Recipe.preset(preset).settings, PHASE_STEPS)
    trainable, _ = split_trainable(network)
    return TrainingState(network, optimiser.init(trainable), trainable, jax.random.key(1)), optimiser


def scanned(preset: str, examples: Examples, batch: int, steps: int) -> float:
    """Measure windows per second of training steps compiled as one `jax.lax.scan`; compiling is not timed."""
    network = PRESETS[preset].build(examples.window, 1, jax.random.key(0))
    (state, _), settings = make_state(network, preset), Recipe.preset(preset).settings
    gather, targets = make_gather(examples, network), examples.targets
    order = np.random.default_rng(1).integers(0, len(examples), (steps, batch)).astype(np.int32)
    run_round(state, gather, targets, order, settings, PHASE_STEPS)[1].block_until_ready()
    begun = time.perf_counter()
    run_round(state, gather, targets, order, settings, PHASE_STEPS)[1].block_until_ready()
    return steps * batch / (time.perf_counter() - begun)


def stepwise(examples: Examples, batch: int, steps: int) -> float:
    """Measure windows per second of the unfused paper preset, one compiled step at a time."""
    fused = PRESETS["paper"].build(examples.window, 1, jax.random.key(0))
    network = Unfused(**{field.name: getattr(fused, field.name) for field in fields(fused)})
    state, optimiser = make_state(network, "paper")
    step = eqx.filter_jit(lambda s, x, y: take_step(s, x, y, optimiser, 0.995))
    order = np.random.default_rng(1).integers(0, len(examples), (steps, batch))
    state, _ = step(state, examples.windows(order[0]), examples.targets[order[0]])
    begun = time.perf_counter()
    for which in order:
        state, loss = step(state, examples.windows(which), examples.targets[which])
    loss.block_until_ready()
    return steps * batch / (time.perf_counter() - begun)


def peak_memory(window: int, count: int) -> dict[str, float]:
    """Measure megabytes and seconds of `fit` on `count` windows, 500 steps of preset default, in a new process."""
    command = [sys.executable, __file__, "--measure-memory", str(window), str(count)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure_memory(window: int, count: int) -> None:
    """Fit in this process, which `peak_memory` started, and print megabytes and seconds as JSON."""
    draw, begun = np.random.default_rng(0), time.perf_counter()
    times = pl.datetime_range(START, START + timedelta(minutes=count - 1), "1m", time_zone="UTC", eager=True)
    truth = draw.normal(size=count)
    frame = pl.DataFrame({"time": times, "pm": truth + 0.3 * draw.normal(size=count), "reference": truth})
    fit(Readings("box", frame, (Channel("pm"),), Channel("pm")), recipe=Recipe.preset("default", window, steps=500))
    print(json.dumps({"megabytes": _peak_megabytes(), "seconds": time.perf_counter() - begun}))


def _peak_megabytes() -> float:
    """The most memory this process has had; a child's `ru_maxrss` would begin with its parent's."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) / 1024


def measure(quick: bool) -> dict[str, list[dict[str, float]]]:
    """Measure the rows of all three tables."""
    examples, speed = make_examples(360, 50_000), []
    for batch, steps in ((32, 400), (256, 100)):
        rounds = [(scanned("paper", examples, batch, steps), stepwise(examples, batch, steps)) for _ in range(3)]
        fused, unfused = (float(np.median(column)) for column in zip(*rounds, strict=True))
        hats = scanned("default", examples, batch, steps)
        speed.append({"batch": batch, "scan": fused, "unfused": unfused, "ratio": fused / unfused, "default": hats})
    lengths = [
        {"window": n, **{preset: scanned(preset, make_examples(n, 20_000), 64, 200) for preset in PRESETS}}
        for n in (15, 60, 360, 720, 1440)
    ]
    counts = (100_000, 500_000) if quick else (100_000, 500_000, 2_000_000)
    return {"speed": speed, "window": lengths, "windows": [{"windows": n, **peak_memory(360, n)} for n in counts]}


def main() -> None:
    """Print the tables, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the 2 million windows")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure-memory", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure_memory:
        measure_memory(*options.measure_memory)
        return
    tables = measure(options.quick)
    for title, rows in tables.items():
        table = Table(*rows[0], title=title)
        for row in rows:
            table.add_row(*(f"{value:,.2f}" if key == "ratio" else f"{value:,.0f}" for key, value in row.items()))
        Console(stderr=options.json).print(table)
    if options.json:
        print(json.dumps(tables, indent=2))


if __name__ == "__main__":
    main()
