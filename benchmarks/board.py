"""The cost of every model on a virtual Arduino Nano 33 BLE Sense; makes docs/benchmarks/board.md.

    python benchmarks/board.py [--models a,b] [--windows 15,60,360,720,1440] [--bundles DIR] [--json]
        [--out docs/benchmarks/board.md]

Each model goes with the random weights of `scare reproduce board` through `scare export c` and the virtual board.
`--bundles` adds what trained calibrators (`DIR/*.scare`) lose in fixed point. Instructions and bytes are the same on
every computer; cycles are estimates.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import pairwise, product
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from scare.baselines import MODELS
from scare.board.boards import Board, board
from scare.board.build import OPTIMISATION, USUAL
from scare.board.measure import measure
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan import values
from scare.errors import NotApplicableError, UsageError
from scare.experiments.untrained import draw_method
from scare.export.lowering import Arithmetic, compile_calibrator
from scare.export.package import export_calibrator
from scare.scorecard.scoring import board_trials

Row = dict[str, Any]
Sizes = tuple[float | None, ...]  # instructions, RAM B, flash B, ms

BOARD = board("nano33ble")
OURS = ("scare", "scare-paper")
CORES = ("nano33ble", "rp2040", "bluepill", "teensy40", "pico2", "esp32c3", "esp32c6")
AIMS = {  # instructions by model, channels and compiler
    ("scare", 1, USUAL): 18_500,
    ("scare", 1, "gcc-Os"): 23_000,
    ("scare", 3, USUAL): 28_000,
    ("scare-paper", 1, USUAL): 32_000,
}
EVERY = (*OURS, *(name for name in MODELS if name not in OURS))
MANY, SOME, FEW = 1000, 20, 2  # windows run: SCARE at the paper's length, a model that fits, one that does not
PAPER_WINDOW = 360
LONG = 720  # from this length on SenDaL takes 10^8 instructions and more for a window

# Measured once in the same emulator, not run again here: instructions, RAM B, flash B, ms (estimate); None: not known.
GRAPHS: dict[str, Sizes] = {
    "TFLite-Micro, the paper's graph, float32": (605_192, 30_880, 125_508, 16.7),
    "TFLite-Micro, fused algebra, float32": (341_530, 11_104, 132_560, 9.4),
    "TFLite-Micro, int8 after training, CMSIS-NN": (580_816, 11_796, 134_440, 12.7),
}
LINEAR: dict[str, Sizes] = {
    "m2cgen, as generated (double)": (44_092, None, None, None),
    "emlearn, float32": (2_694, None, None, None),
    "TFLite-Micro, float32": (2_267, 1_808, None, None),
    "TFLite-Micro, int8, CMSIS-NN": (1_369, 804, None, None),
}
PAGE = Template("""# On the board

SCARE in fixed point takes a fraction of the instructions, RAM and flash of the same graph on TFLite-Micro. In brackets:
how many times less than in the first row.

$scare

Measured on a virtual $board, with $memory
([how](../board.md)). The rows of TFLite-Micro were measured once in the same emulator and are constants of the script;
their RAM is the tensor arena without the stack, and they take no reading.

- **Instructions** of one value: taking the reading, then `run`, counted on $many windows for SCARE at N = $paper and on
  $some elsewhere, including extremes, NaN and infinities; on $few for a model that does not fit, and for SenDaL from
  N = $long on. One number alone is both minimum and maximum.
- **RAM** is window, state, scratch memory and the deepest stack. **Flash** is the whole program: constants, kernels
  and runtime, with an interval for each value and the flag OUTSIDE.
- **Cycles and milliseconds** are estimates, means over the windows, never checked on hardware, and without flash wait
  states: two for each constant that is read would add about 40 %.
- **Models** have one channel and random weights, because training changes values, not sizes. In fixed point training
  changes counts a little: scales are literals in `run`, and a hash with a bandwidth much below 2, where training
  ends, needs a polynomial of more than the fourth degree. The [table on
  accuracy](#what-fixed-point-costs-in-accuracy) has trained models.

Made by `python benchmarks/board.py --bundles DIR --out docs/benchmarks/board.md`; do not edit.

## Every core and compiler

Instructions of one value of SCARE in fixed point at N = $paper, on $few windows; zig is clang -O2. In assembly, which
cores with DSP instructions run, and in C the results are equal in every bit. An empty cell: that GCC was not installed.

$cores

What we aim at, on the Cortex-M4F:

$aims

## A linear model

Ours is DLinear, which folds to one dot product; most of its instructions take the reading, with interval and flags. The
other rows were measured once, as above, and are the product alone.

$linear

## What fixed point costs in accuracy

Trained calibrators on the windows in their files: RMSE against the reference on the validation windows, in its unit;
mean and standard deviation of fixed point minus float32 on all of them, in standard deviations of the target.

$loss

## All models

Models without a fixed row are float32 only. SenDaL chooses a branch for each window; its maximum is the deep one.

$every

## Cost of one more reading in SCARE's window

From one length to the next, per reading. The number of lenses, log₂ N, grows too.

$growth

## Where fixed point takes more than float32

$integers

Fused multiply-add is not used: on this core VFMA takes 3 cycles, VMUL and VADD one each, and two roundings give the
same bits on every processor.
""")


def run_on_board(
    calibrator: Calibrator, arithmetic: str, windows: int = 0, place: Board = BOARD, compiler: str = USUAL
) -> Row:
    """Measure a calibrator as `scare board run` does, on this many windows (0: depends on whether it fits).

    Returns the report as plain values, with the bytes of scratch memory.
    """
    with TemporaryDirectory() as scratch:
        model = export_calibrator(calibrator, "c", arithmetic, Path(scratch) / "model").compiled.c_model
        count = windows or (SOME if model.memory_bytes <= place.ram else FEW)
        report = measure(Path(scratch) / "model", place, board_trials(calibrator, count), compiler=compiler)
        return {"scratch_bytes": model.scratch_bytes, **report.as_dict()}


def measure_all(models: Iterable[str], windows: Sequence[int]) -> list[Row]:
    """Measure a row for every model, window length and arithmetic; a model without fixed point has one row."""
    rows = []
    for name, window, arithmetic in product(models, windows, map(str, Arithmetic)):
        print(f"{name}, N = {window}, {arithmetic}", file=sys.stderr)
        count = MANY if name in OURS and window == PAPER_WINDOW else FEW if name == "sendal" and window >= LONG else 0
        with suppress(NotApplicableError):  # float32 only
            facts = run_on_board(draw_method(name, window), arithmetic, count)
            rows.append({"model": name, "window": window, "arithmetic": arithmetic, **facts})
    return rows


def measure_cores() -> list[Row]:
    """Measure a row for each of our models, core and compiler that is installed, at the paper's window length.

    Beside them one for each of `AIMS` with more channels.
    """
    rows = []
    more = [(name, BOARD.name, compiler, channels) for name, channels, compiler in AIMS if channels > 1]
    for name, core, compiler, channels in (*product(OURS, CORES, OPTIMISATION, [1]), *more):
        print(f"{name}, {core}, {compiler}, channels: {channels}", file=sys.stderr)
        with suppress(UsageError):  # no such compiler
            calibrator = draw_method(name, PAPER_WINDOW, channels)
            facts = run_on_board(calibrator, Arithmetic.FIXED, FEW, board(core), compiler)
            rows.append({"model": name, "core": core, "compiler": compiler, "channels": channels, **facts})
    return rows


def measure_losses(folder: Path) -> list[Row]:
    """Measure a row for every trained calibrator in a folder that has a fixed-point form."""
    rows = []
    for path in sorted(folder.glob("*.scare")):
        print(f"{path.stem}: float32 and fixed point", file=sys.stderr)
        with suppress(NotApplicableError):
            rows.append(measure_loss(Calibrator.load(path)))
    return rows


def measure_loss(calibrator: Calibrator) -> Row:
    """Measure what fixed point loses on the validation windows, and the instructions of both arithmetics."""
    before, after = (compile_calibrator(calibrator, one).validation_rmse() for one in Arithmetic)
    error = compile_calibrator(calibrator, Arithmetic.FIXED).fixed_point_error
    return {
        "model": f"{calibrator.facts['model']}-{calibrator.facts['preset']}",
        **dict(zip(("validation_windows", "window", "channels"), calibrator.validation.windows.shape, strict=True)),
        "rmse": {"float32": before, "fixed": after, "ratio": after / before},
        "difference": asdict(error) if error else None,
        "equal_bits": equal_bits(calibrator),
        "instructions": {str(one): run_on_board(calibrator, one)["instructions"] for one in Arithmetic},
    }


def equal_bits(calibrator: Calibrator) -> float | None:
    """The share of hash bits that are the same in both arithmetics; None without hashing."""
    plans = [compile_calibrator(calibrator, one).plan for one in Arithmetic]
    hashes = [step for step in plans[0].steps if step.kernel == "hash_codes"]
    if not hashes:
        return None
    names = {step.output for step in hashes}
    first, second = (values(plan, calibrator.validation.windows, names) for plan in plans)
    differing = sum(int(np.bitwise_count(first[name] ^ second[name]).sum()) for name in names)
    return 1 - differing / sum(first[step.output].size * step.weights["projection"].shape[1] for step in hashes)


def print_page(rows: Sequence[Row], losses: Sequence[Row] = (), cores: Sequence[Row] = ()) -> str:
    """Render the page in Markdown; a table without measurements has a note instead."""
    usual = [row for row in rows if row["window"] == PAPER_WINDOW]
    return PAGE.substitute(
        board=f"{BOARD.title}, {BOARD.chip} at {BOARD.clock_hz / 1e6:g} MHz",
        memory=f"{BOARD.ram:,} B of RAM and {BOARD.flash:,} B of flash",
        **{"many": f"{MANY:,}", "some": SOME, "few": FEW, "paper": PAPER_WINDOW, "long": LONG},
        scare=rival_table(GRAPHS, [row for row in usual if row["model"] in OURS]),
        linear=rival_table(LINEAR, [row for row in usual if row["model"] == "dlinear"]),
        **{"every": every_table(rows), "growth": growth_table(rows), "loss": loss_table(losses)},
        integers=integer_note(rows),
        cores=core_table(cores),
        aims=aim_table(cores),
    )


def rival_table(rivals: Mapping[str, Sizes], rows: Sequence[Row]) -> str:
    """Tabulate rivals, then ours; after a number, how many times smaller it is than the first rival's."""
    ours = {f"ours: {row['model']}, {row['arithmetic']}": sizes(row) for row in rows}
    first, lines = next(iter(rivals.values())), []
    for name, (*counts, time) in {**rivals, **ours}.items():
        ratios = [f" ({base / own:.1f}×)" if own and base else "" for own, base in zip(counts, first, strict=False)]
        cells = [f"{own:,}{ratio}" if own else "" for own, ratio in zip(counts, ratios, strict=True)]
        lines.append((name, *cells, f"{time:.2f}" if time else ""))
    return table((f"N = {PAPER_WINDOW}", "instructions", "RAM B", "flash B", "ms (estimate)"), lines if ours else [])


def core_table(cores: Sequence[Row]) -> str:
    """Tabulate most instructions by core and model, a column for each compiler."""
    single = [row for row in cores if row["channels"] == 1]
    most = {(row["model"], row["core"], row["compiler"]): row["instructions"]["max"] for row in single}
    lines = []
    for model, core in dict.fromkeys((row["model"], row["core"]) for row in single):
        counts = (most.get((model, core, compiler)) for compiler in OPTIMISATION)
        lines.append((model, core, board(core).chip, *(f"{count:,}" if count else "" for count in counts)))
    return table(("model", "board", "core", *OPTIMISATION), lines)


def aim_table(cores: Sequence[Row]) -> str:
    """Tabulate what a value takes on our board beside what it should take."""
    found = {(row["model"], row["channels"], row["compiler"]): row for row in cores if row["core"] == BOARD.name}
    lines = []
    for (model, channels, compiler), aim in AIMS.items():
        if row := found.get((model, channels, compiler)):
            most, memory = row["instructions"]["max"], [f"{row[size]:,}" for size in ("ram_bytes", "flash_bytes")]
            reached = "yes" if most <= aim else "no"
            lines.append((model, str(channels), compiler, f"{most:,}", f"{aim:,}", reached, *memory))
    return table(("model", "channels", "compiler", "instructions", "aim", "reached", "RAM B", "flash B"), lines)


def every_table(rows: Sequence[Row]) -> str:
    """Tabulate all models and window lengths."""
    lines = []
    for row in rows:
        low, high = row["instructions"]["min"], row["instructions"]["max"]
        cells = [f"{high:,}" if low == high else f"{low:,} to {high:,}", f"{row['push_instructions']['row']:,}"]
        cells += [f"{row['cycles']['typical']:,.0f}", f"{row['milliseconds']['typical']:,.3f}"]
        cells += [f"{row[size]:,}" for size in ("ram_bytes", "stack_bytes", "scratch_bytes", "flash_bytes")]
        fits = "yes" if row["fits"] else f"no: {'; '.join(row['reasons'])}"
        lines.append((row["model"], str(row["window"]), row["arithmetic"], *cells, fits))
    head = ("model", "N", "arithmetic", "instructions", "of them reading", "cycles (estimate)", "ms (estimate)")
    return table((*head, "RAM B", "of it stack", "of it scratch", "flash B", "fits"), lines)


def growth_table(rows: Sequence[Row]) -> str:
    """Tabulate what SCARE takes for one more reading in the window, from one length to the next."""
    lines = []
    for name, arithmetic in product(OURS, Arithmetic):
        same = [row for row in rows if (row["model"], row["arithmetic"]) == (name, arithmetic)]
        for before, after in pairwise(same):
            longer = after["window"] - before["window"]
            more = [(high - low) / longer for high, low in zip(sizes(after), sizes(before), strict=True)][:3]
            lines.append((name, arithmetic, f"{before['window']} → {after['window']}", *(f"{one:.1f}" for one in more)))
    return table(("model", "arithmetic", "N", "instructions", "RAM B", "flash B"), lines)


def loss_table(losses: Sequence[Row]) -> str:
    """Tabulate what trained calibrators lose in fixed point."""
    lines = []
    for row in losses:
        cells = [str(row[fact]) for fact in ("model", "window", "channels", "validation_windows")]
        cells += [f"{number:.4f}" for number in row["rmse"].values()]
        cells += [f"{row['difference'][what] / row['difference']['deviation']:.1e}" for what in ("mean", "sd")]
        cells.append("" if row["equal_bits"] is None else f"{row['equal_bits']:.5f}")
        lines.append((*cells, *(f"{count['max']:,}" for count in row["instructions"].values())))
    head = ("model", "N", "channels", "windows", "RMSE float32", "RMSE fixed", "fixed / float32")
    return table(
        (*head, "mean [sd]", "sd [sd]", "equal hash bits", "instructions float32", "instructions fixed"), lines
    )


def integer_note(rows: Sequence[Row]) -> str:
    """List the models and windows for which fixed point takes more than float32."""
    floats = {(row["model"], row["window"]): row for row in rows if row["arithmetic"] == Arithmetic.FLOAT32}
    worse = []
    for row in (row for row in rows if row["arithmetic"] == Arithmetic.FIXED):
        other = floats[row["model"], row["window"]]
        pairs = zip(("instructions", "RAM", "flash"), sizes(row), sizes(other), strict=False)
        more = [f"{what} {own:,} for {theirs:,}" for what, own, theirs in pairs if own > theirs]
        worse += [f"- {row['model']}, N = {row['window']}: {', '.join(more)}"] if more else []
    return "\n".join(worse) or "- nowhere"


def sizes(row: Row) -> tuple[float, ...]:
    """Select most instructions, bytes of RAM, bytes of flash, and typical milliseconds, as in `Sizes`."""
    return row["instructions"]["max"], row["ram_bytes"], row["flash_bytes"], row["milliseconds"]["typical"]


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Render a table in Markdown, or a note that it is empty."""
    rows = [*lines]
    if not rows:
        return "Not measured."
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows))


def main() -> None:
    """Measure, then write or print the page, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(EVERY), help="of " + ", ".join(EVERY))
    parser.add_argument("--windows", default="15,60,360,720,1440", help="window lengths")
    parser.add_argument("--bundles", type=Path, help="folder with trained .scare files")
    parser.add_argument("--json", action="store_true", help="print the rows")
    parser.add_argument("--out", type=Path, help="where the page goes; printed if neither is given")
    options = parser.parse_args()
    if unknown := set(models := options.models.split(",")) - set(EVERY):
        parser.error(f"no model is called {', '.join(sorted(unknown))}; there are {', '.join(EVERY)}")
    losses = measure_losses(options.bundles) if options.bundles else []
    rows = measure_all(models, [int(window) for window in options.windows.split(",")])
    cores = measure_cores()
    page = print_page(rows, losses, cores)
    if options.out:
        options.out.write_text(page, encoding="utf-8", newline="\n")
    if options.json:
        print(json.dumps({"models": rows, "cores": cores, "bundles": losses}, indent=2))
    elif not options.out:
        print(page)


if __name__ == "__main__":
    main()
