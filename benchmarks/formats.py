"""Which model can be exported to which target, and how large FlatBuffers are.

    python -m benchmarks.formats  # writes docs/formats.md

Every export is written, and its golden vectors are run through it. A test runs the same and compares it with the page,
row by row. Networks are untrained: what a format can express does not depend on their numbers; how much of a FlatBuffer
may be int8 does a little.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from itertools import starmap
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from scare.board.verify_export import verify_export
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan_passes import average, fold
from scare.cli.options import open_calibrator
from scare.errors import NotApplicableError
from scare.experiments.study import recipe_of
from scare.experiments.untrained import draw_method, draw_plan
from scare.export.lowering import Arithmetic, compile_calibrator
from scare.export.package import export_calibrator
from scare.export.targets import TARGETS
from scare.export.tflite import make_flatbuffer

WINDOW = 60
PAGE = Path(__file__).parents[1] / "docs" / "formats.md"
MODELS = ("scare", "tesla", "dlinear", "nlinear", "patchtst", "mamba", "ecoformer", "sendal")
MEMBERS, CORRECTION = "scare, 3 members", "barkjohn-2021"
ROWS = (*MODELS, MEMBERS, CORRECTION)
COMPARED, LENGTHS = ("tesla", "scare-paper", "scare"), (15, 60, 360, 720, 1440)
Support = dict[str, dict[str, dict[str, str]]]  # why an export fails, by row, target and arithmetic; empty: it passes
Sizes = dict[str, list[int]]  # bytes by model, in each arithmetic
TEXT = """# Formats

Which model exports to which target, and in which arithmetic. Every cell was tested: `scare export` wrote it and
`scare verify` ran its golden vectors, by the rules of [the certificate](certificate.md). The reasons for missing
arithmetics are below the table. Networks are untrained, with one channel and {window} readings.

{table}

{reasons}

## How large a FlatBuffer is

Bytes of the file that `scare export tflite` writes, float32 / int8, for untrained networks with one channel. The
interpreter is not included; it takes most of a board's flash ([a whole program](benchmarks/board.md)). `scare` is the
preset `default`, `scare-paper` the model of the paper.

{sizes}

`scare` is smaller than TESLA at every length, in float32 and in int8. `scare-paper` is larger at every
length, because its lenses have N × log₂ N weights. In int8 a matrix is integer only if that makes the file smaller and
moves no result by more than 1.5 % of the target's standard deviation; which matrices these are depends on the network.
[Decisions](decisions/formats.md) explains how a FlatBuffer is made small.

This page is written by `python -m benchmarks.formats`; a test writes it again and compares.
"""


def make(row: str) -> Calibrator:
    """Make the calibrator of a row: a published correction, an untrained network or the mean of three."""
    if row == CORRECTION:
        return open_calibrator(row)
    if row != MEMBERS:
        return draw_method(row, WINDOW)
    recipe, draw = recipe_of("scare", WINDOW, 0, {}), np.random.default_rng(0)
    members = average([draw_plan(recipe, 1, seed, draw) for seed in range(3)])
    return replace(draw_method("scare", WINDOW), plan=fold(members).astype(np.float32))


def support(row: str, targets: Iterable[str] = TARGETS) -> dict[str, dict[str, str]]:
    """Export a row to each target in each arithmetic and verify it: why it fails, or an empty text if it passes."""
    calibrator = make(row)
    return {
        name: {TARGETS[name].arithmetic_name(one): _try(calibrator, name, one) for one in Arithmetic}
        for name in targets
    }


def print_row(row: str, found: dict[str, dict[str, str]]) -> str:
    """Render a line of the table: for each target, the arithmetics that pass."""
    return f"| {row} | {' | '.join(map(print_cell, found.values()))} |"


def print_cell(reasons: dict[str, str]) -> str:
    """List the arithmetics that pass, that is, have no reason against them."""
    return ", ".join(one for one, reason in reasons.items() if not reason) or "–"


def print_reasons(every: Support) -> list[str]:
    """List why the other exports fail: targets with the same reason together, then rows with the same targets."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for row, found in every.items():
        targets: dict[tuple[str, str], list[str]] = {}
        for target, reasons in found.items():
            for arithmetic, reason in reasons.items():
                if reason:
                    targets.setdefault((arithmetic, reason), []).append(target)
        for (arithmetic, reason), names in targets.items():
            rows.setdefault((arithmetic, ", ".join(names), reason), []).append(row)
    return [f"- {names} in {one}, {'; '.join(whose)}: {reason}" for (one, names, reason), whose in rows.items()]


def flatbuffer_sizes(window: int) -> Sizes:
    """Bytes of the FlatBuffer of each compared model, in each arithmetic."""
    return {name: [_flatbuffer_bytes(name, window, one) for one in Arithmetic] for name in COMPARED}


def print_sizes(window: int, sizes: Sizes) -> str:
    """Render a line of the table of sizes."""
    cells = [" / ".join(f"{size:,}" for size in each) for each in sizes.values()]
    return f"| {window} | {' | '.join(cells)} |"


def print_page(every: Support, sizes: dict[int, Sizes]) -> str:
    """Render the page in Markdown."""
    head = [f"| | {' | '.join(TARGETS)} |", "|---" * (len(TARGETS) + 1) + "|"]
    table = "\n".join([*head, *(print_row(row, found) for row, found in every.items())])
    lines = [
        f"| N | {' | '.join(COMPARED)} |",
        "|---" * (len(COMPARED) + 1) + "|",
        *starmap(print_sizes, sizes.items()),
    ]
    reasons = "\n".join(print_reasons(every))
    return TEXT.format(window=WINDOW, table=table, reasons=reasons, sizes="\n".join(lines))


def _try(calibrator: Calibrator, target: str, arithmetic: Arithmetic) -> str:
    """Export and verify a calibrator; returns why that fails, or an empty text."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "export"
        try:
            export_calibrator(calibrator, target, arithmetic, folder)
        except NotApplicableError as error:
            return str(error)
        return "; ".join(f"{one.runtime}: {reason}" for one in verify_export(folder) for reason in one.reasons)


def _flatbuffer_bytes(name: str, window: int, arithmetic: Arithmetic) -> int:
    return len(make_flatbuffer(compile_calibrator(draw_method(name, window), arithmetic)).content)


def main() -> None:
    """Export everything, print the results as JSON lines and write the page."""
    every = {}
    for row in ROWS:
        every[row] = support(row)
        print(json.dumps({row: every[row]}), flush=True)
    sizes = {window: flatbuffer_sizes(window) for window in LENGTHS}
    print(json.dumps(sizes))
    PAGE.write_text(print_page(every, sizes), encoding="utf-8")


if __name__ == "__main__":
    main()
