"""A package is the folder that `scare export c` writes: a model in C, its golden windows, and the runtime.

It compiles by itself (`cc -c *.c src/*.c`), also as part of an Arduino sketch. Everything that can be
wrong is found before anything is written.
"""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

import numpy as np

import scare
from scare.calibrator.calibrator import Calibrator
from scare.data.readings import Channel
from scare.errors import UsageError
from scare.export.arithmetic import compute, make_program
from scare.export.c_source import RESERVED, Model, print_golden, print_header, print_source
from scare.export.descriptor import as_read, choose_device, describe
from scare.export.memory import plan_memory
from scare.export.readme import print_readme
from scare.export.runtime import runtime_sources

GOLDEN_WINDOWS, GOLDEN_NUMBERS = 16, 1 << 15  # at most, but one window always


@dataclass(frozen=True)
class Package:
    """What was written: the model, the folder, and the device it is scaled for (an empty name is the fleet)."""

    folder: Path
    device: str
    model: Model


def export_c(
    calibrator: Calibrator, arithmetic: str, folder: Path, device: str = "", name: str = "model", force: bool = False
) -> Package:
    """Write a calibrator as C into a folder that is new, empty, or (by `force`) may have its files replaced."""
    _check_name(name)
    _check_folder(folder, force)
    device = choose_device(calibrator.inputs.scaling, device)
    model = make_model(calibrator, arithmetic, device, name)
    golden = _golden_windows(calibrator)
    windows, results = as_read(golden, model.program.quanta), compute(calibrator, arithmetic, golden)
    files = {
        f"{name}.h": print_header(model),
        f"{name}.c": print_source(model),
        "golden.h": print_golden(model, windows, results),
        "README.md": print_readme(model, calibrator.target),
    }
    runtime = {f"src/{file}": text for file, text in runtime_sources().items()}
    _write(folder, {**files, **runtime})
    return Package(folder, device, model)


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


def validation_rmse(calibrator: Calibrator, arithmetic: str) -> float:
    """The root mean squared error to the reference on the bundle's validation windows, in the target's unit."""
    sample = calibrator.validation
    if not len(sample.windows):
        return float("nan")
    scaled = compute(calibrator, arithmetic, sample.windows).astype(np.float64)
    values = calibrator.inputs.scaling.target.invert(scaled[:, None])[:, 0]
    return float(np.sqrt(np.mean((values - sample.numbers) ** 2)))


def _label(channel: Channel) -> str:
    return f"{channel.name} [{channel.unit}]" if channel.unit else channel.name


def _golden_windows(calibrator: Calibrator) -> np.ndarray:
    windows = calibrator.golden.windows[:GOLDEN_WINDOWS]
    return windows[: max(1, GOLDEN_NUMBERS // (calibrator.plan.window * calibrator.plan.channels))]


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in RESERVED or name.startswith("scare") or name[-2:] == "_t":
        raise UsageError(
            f"'{name}' cannot name a model in C: take small letters, digits and _, no word of C, and no name that"
            " begins with scare or ends in _t"
        )


def _check_folder(folder: Path, force: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"cannot write into {folder}: it is a file")
    if not force and folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; give another folder, or --force to replace its files of these names")


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write beside the folder first, then move: a new folder appears whole, files of an old one whole each."""
    temporary = folder.parent / f".{folder.name}.{token_hex(4)}"
    try:
        for path, text in files.items():
            (temporary / path).parent.mkdir(parents=True, exist_ok=True)
            (temporary / path).write_text(text, encoding="utf-8", newline="\n")
        if not folder.exists():
            temporary.rename(folder)
            return
        for path in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (temporary / path).replace(folder / path)
    except OSError as error:
        raise UsageError(f"cannot write into {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
