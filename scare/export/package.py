"""A package is the folder that `scare export c` writes: a model in C, its golden windows, and the runtime.

It compiles by itself (`cc -c *.c src/*.c`), also as part of an Arduino sketch. Everything that can be
wrong is found before anything is written.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import scare
from scare.calibrator.calibrator import Calibrator
from scare.data.readings import Channel
from scare.errors import UsageError
from scare.export.arithmetic import Arithmetic, compute, make_program, plan_for
from scare.export.c_source import RESERVED, Model, print_golden, print_header, print_source
from scare.export.descriptor import as_read, choose_device, describe
from scare.export.golden_vectors import GOLDEN, golden_vectors, reference_rmse
from scare.export.memory import plan_memory
from scare.export.packaging import check_free, write_files
from scare.export.readme import print_readme
from scare.export.runtime import runtime_sources

LONGEST_NAME = 31  # what every C compiler tells apart
EXAMPLES = """
begin begun_ms calibrate calibrated calibration delay golden loop millis now_ms number reading row setup status sums
"""
HEADERS = """
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic stdbool
stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar unistd wchar wctype
"""
TAKEN = {*RESERVED, *EXAMPLES.split(), *HEADERS.split()}  # by C, by us, by the examples we write, by C's own headers
GOLDEN_WINDOWS, GOLDEN_NUMBERS = 16, 1 << 15  # at most, but one window always


@dataclass(frozen=True)
class Package:
    """What is written: the model, where to (a folder or a zip), and whose scaling it has (empty: the fleet's)."""

    folder: Path
    device: str
    model: Model


def export_c(
    calibrator: Calibrator, arithmetic: str, folder: Path, device: str = "", name: str = "model", force: bool = False
) -> Package:
    """Write a calibrator as C into a folder that is new, empty, or (by `force`) may have its files replaced."""
    package = prepare(calibrator, arithmetic, folder, device, name, force)
    model = package.model
    files: dict[str, str | bytes] = {
        f"{name}.h": print_header(model),
        f"{name}.c": print_source(model),
        "golden.h": golden_header(calibrator, arithmetic, model),
        GOLDEN: golden_results(calibrator, arithmetic, name),
        "README.md": print_readme(model, calibrator.target),
    }
    runtime = {f"src/{file}": text for file, text in runtime_sources().items()}
    write_files(folder, {**files, **runtime})
    return package


def prepare(calibrator: Calibrator, arithmetic: str, folder: Path, device: str, name: str, force: bool) -> Package:
    """What is about to be written, with everything checked that can be wrong."""
    check_name(name)
    check_free(folder, force)
    device = choose_device(calibrator.inputs.scaling, device)
    return Package(folder, device, make_model(calibrator, arithmetic, device, name))


def make_model(calibrator: Calibrator, arithmetic: str, device: str = "", name: str = "model") -> Model:
    """The calibrator ready to be printed, scaled for one of its devices or for the fleet."""
    program = make_program(calibrator, arithmetic)
    inputs = calibrator.inputs
    labels = tuple(map(_label, inputs.channels))
    title = (
        f"{_label(calibrator.target)} from {', '.join(labels)}, in this order, one reading every"
        f" {inputs.step_seconds:g} s; scaled for {device or 'the fleet'}, in {arithmetic}. Made by scare"
        f" {scare.__version__}: do not edit."
    )
    return Model(name, title, labels, program, plan_memory(program), describe(calibrator, device, program.quanta))


def golden_header(calibrator: Calibrator, arithmetic: str, model: Model) -> str:
    """The first golden windows of the calibrator, and their results, as C."""
    most = max(1, GOLDEN_NUMBERS // (calibrator.plan.window * calibrator.plan.channels))
    golden = calibrator.golden.windows[: min(GOLDEN_WINDOWS, most)]
    return print_golden(model, as_read(golden, model.program.quanta), compute(calibrator, arithmetic, golden))


def golden_results(calibrator: Calibrator, arithmetic: str, name: str) -> bytes:
    """The golden windows and what the model of this name in C must give for them, for `scare verify`."""
    integer = plan_for(calibrator, arithmetic) if Arithmetic(arithmetic) is Arithmetic.INT8 else None
    return golden_vectors(calibrator, integer_plan=integer).as_bytes(name)


def validation_rmse(calibrator: Calibrator, arithmetic: str) -> float:
    """The root mean squared error to the reference on the bundle's validation windows, in the target's unit."""
    scaled = compute(calibrator, arithmetic, calibrator.validation.windows).astype(np.float64)
    return reference_rmse(calibrator, calibrator.inputs.scaling.target.invert(scaled[:, None])[:, 0])


def _label(channel: Channel) -> str:
    return f"{channel.name} [{channel.unit}]" if channel.unit else channel.name


def check_name(name: str) -> None:
    """Refuse what cannot name a model in C."""
    plain = re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None and len(name) <= LONGEST_NAME
    if not plain or name in TAKEN or name.startswith("scare") or name[-2:] == "_t":
        raise UsageError(
            f"'{name}' cannot name a model in C: take up to {LONGEST_NAME} small letters, digits and _, no word of C or"
            " of our examples, no header of C, and no name that begins with scare or ends in _t"
        )
