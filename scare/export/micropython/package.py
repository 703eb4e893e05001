"""The folder that `scare export micropython` writes: a model in plain Python, what runs it, an example, golden windows.

Everything that can be wrong is found before anything is written.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from string import Template

from scare.calibrator.calibrator import Calibrator
from scare.errors import NotApplicableError, UsageError
from scare.export.arithmetic import Arithmetic, plan_for
from scare.export.c_source import Model
from scare.export.descriptor import choose_device
from scare.export.golden_vectors import GOLDEN, golden_vectors
from scare.export.library import plain
from scare.export.micropython.module import Module, print_module
from scare.export.micropython.scare_live import MEANINGS
from scare.export.package import LONGEST_NAME, make_model
from scare.export.packaging import check_free, write_files
from scare.export.readme import channel_rows, statuses
from scare.export.seen import seen_ranges

HERE = Path(__file__).parent
RUNTIME = "scare_live.py"
ON_BOARDS = {"boot", "esp", "esp32", "framebuf", "machine", "main", "micropython", "network", "rp2", "uasyncio"}


@dataclass(frozen=True)
class PythonPackage:
    """What was written: where to, under which name, whose scaling it has (empty: the fleet's), and the module."""

    folder: Path
    name: str
    device: str
    module: Module


def export_micropython(
    calibrator: Calibrator,
    arithmetic: str,
    folder: Path,
    device: str = "",
    name: str = "model",
    force: bool = False,
) -> PythonPackage:
    """Write a calibrator as plain Python into a folder, or, by a name in .zip, a zip."""
    _check(arithmetic, name)
    check_free(folder, force)
    device = choose_device(calibrator.inputs.scaling, device)
    model = make_model(calibrator, Arithmetic.FLOAT32, device, name)
    module = print_module(plan_for(calibrator, Arithmetic.FLOAT32), model.descriptor, plain(model.title))
    fields = _fields(calibrator, device, model, module)
    files: dict[str, str | bytes] = {
        f"{name}.py": module.text,
        RUNTIME: (HERE / RUNTIME).read_text(encoding="utf-8"),
        "main.py": Template((HERE / "main.py.in").read_text(encoding="utf-8")).substitute(fields),
        GOLDEN: golden_vectors(calibrator).as_bytes(name),
        "README.md": Template((HERE / "README.md").read_text(encoding="utf-8")).substitute(fields),
    }
    write_files(folder, files)
    return PythonPackage(folder, name, device, module)


def _check(arithmetic: str, name: str) -> None:
    if arithmetic != Arithmetic.FLOAT32:
        raise NotApplicableError(f"plain Python gains nothing from {arithmetic}: export it in float32")
    plain_name = re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None and len(name) <= LONGEST_NAME
    if not plain_name or iskeyword(name) or name in sys.stdlib_module_names | ON_BOARDS or name.startswith("scare"):
        raise UsageError(
            f"'{name}' cannot name a module: take up to {LONGEST_NAME} small letters, digits and _, no word of Python,"
            " no module of Python or MicroPython, and no name that begins with scare"
        )


def _fields(calibrator: Calibrator, device: str, model: Model, module: Module) -> Mapping[str, str]:
    """What the templates may name."""
    labels = [plain(label) for label in model.labels]
    meanings = list(statuses().items())[: len(MEANINGS)]
    ends = seen_ranges(calibrator, device, model.descriptor)
    return {
        "name": model.name,
        "title": plain(model.title),
        "target": plain(calibrator.target.name) or "a sensor",
        "unit": plain(calibrator.target.unit) or "the unit of the reference",
        "step_ms": str(model.descriptor.step_ms),
        "channels": channel_rows(labels, model.descriptor.channels),
        "statuses": "\n".join(f"| `{status.removeprefix('SCARE_')}` | {meaning} |" for status, meaning in meanings),
        "ends": repr(tuple(ends)),
        "reading": f"({', '.join(f'{(low + high) / 2:.4g}' for low, high in ends)},)",
        "heading": ",".join([*(label.replace(",", "") for label in labels), "calibrated", "status"]),
        "window_bytes": str(module.window_bytes),
        "scratch_bytes": str(module.scratch_bytes),
        "constant_bytes": str(module.constant_bytes),
    }
