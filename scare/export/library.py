"""A library is a package for a build system: model and runtime in src/, around it what the system asks for.

Each system is a folder of `doors`, a door: its files are templates, and its README says how to build. A new folder is a
new door. Comes from `package`; goes to `cli`.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from string import Template
from unicodedata import normalize

import numpy as np

import scare
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.corrections import EVERY, is_called
from scare.data.mapping import suggestion
from scare.errors import UsageError
from scare.export.c_source import print_header, print_source
from scare.export.package import Package, golden_header, prepare
from scare.export.packaging import write_files
from scare.export.readme import print_readme
from scare.export.runtime import runtime_sources

HERE = Path(__file__).parent
DOORS = tuple(sorted(folder.name for folder in (HERE / "doors").iterdir()))
README, GOLDEN = "README.md", "extras/golden.h"
PARTICLES = {"PM2.5": "PM25", "PM10": "PM10"}  # what a PMS5003 measures, and its names in pms5003.h
NOTHING = "NAN"  # what a sketch reads of a channel that its sensor does not measure


def export_library(
    calibrator: Calibrator,
    door: str,
    arithmetic: str,
    folder: Path,
    device: str = "",
    name: str = "model",
    force: bool = False,
) -> Package:
    """Write a calibrator as a library for one of `DOORS`, into a folder or, by a name in .zip, a zip."""
    if door not in DOORS:
        raise UsageError(f"nothing is exported to '{door}'{suggestion(door, DOORS)}")
    package = prepare(calibrator, arithmetic, folder, device, name, force)
    model = package.model
    fields = _fields(calibrator, package)
    around = {path: Template(text).substitute(fields) for path, text in _templates(HERE / "doors" / door).items()}
    sources = {
        f"{name}.h": print_header(model, runtime=""),
        f"{name}.c": print_source(model, runtime=""),
        f"{name}_simulated.h": Template((HERE / "simulated.h").read_text(encoding="utf-8")).substitute(fields),
        **runtime_sources(),
    }
    files = around | {f"src/{file}": text for file, text in sources.items()}
    files[README] = print_readme(model, calibrator.target, around[README].strip())
    files[GOLDEN] = golden_header(calibrator, arithmetic, model)
    write_files(folder, files)
    return package


def plain(text: str) -> str:
    """The text in letters that every build system reads, without those that end a string or a comment.

    >>> plain('PM₂.₅ "raw" [µg/m³] */')
    'PM2.5 raw [ug/m3] /'
    """
    spelled = normalize("NFKC", " ".join(text.split())).replace("μ", "u").replace("°", "deg ")
    return " ".join(re.sub(r"[^\w .,:;/%()\[\]+-]", "", normalize("NFKD", spelled), flags=re.ASCII).split())


def _templates(folder: Path) -> dict[str, str]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def _fields(calibrator: Calibrator, package: Package) -> dict[str, str]:
    """What templates may name."""
    model = package.model
    labels = [plain(label) for label in model.labels]
    return {
        "name": model.name,
        "upper": model.name.upper(),
        "version": scare.__version__,
        "target": plain(calibrator.target.name) or "a sensor",
        "title": plain(model.title),
        "heading": ",".join([*(label.replace(",", "") for label in labels), "calibrated", "status"]),
        "rows": "\n".join(
            f"    row[{i}] = {number}; // {label}{'' if number != NOTHING else ': read another sensor here'}"
            for i, (label, number) in enumerate(zip(labels, _particles(calibrator), strict=True))
        ),
        "ends": "\n".join(f"        {{{low}, {high}}}," for low, high in _ends(calibrator, package)),
    }


def _particles(calibrator: Calibrator) -> list[str]:
    """The number of a PMS5003 that each channel means, in C; NAN where it measures no such thing."""
    correction = EVERY.get(str(calibrator.facts.get("model")))
    if correction:
        return [_number([role.quantity], role.prefers) for role in correction.roles]
    names = [channel.name for channel in calibrator.inputs.channels]
    return [_number([quantity for quantity in PARTICLES if is_called(name, quantity)], name) for name in names]


def _number(quantities: Sequence[str], hint: str) -> str:
    """The first quantity as `pms5003.h` calls it: as the factory calibrates where the hint says CF, else atmospheric.

    >>> _number(["PM2.5", "PM10"], "pm_cf_1"), _number(["PM10"], "PM10"), _number([], "NO2")
    ('pms[PM25_CF1]', 'pms[PM10_ATM]', 'NAN')
    """
    found = [PARTICLES[quantity] for quantity in quantities if quantity in PARTICLES]
    return f"pms[{found[0]}_{'CF1' if 'cf' in hint.lower() else 'ATM'}]" if found else NOTHING


def _ends(calibrator: Calibrator, package: Package) -> list[tuple[str, str]]:
    """The least and the largest valid value of each channel in the calibrator's own windows, in C."""
    scaling = calibrator.inputs.scaling
    affine = scaling.devices[package.device] if package.device else scaling.fleet
    windows = np.concatenate([calibrator.golden.windows, calibrator.validation.windows])
    values = affine.invert(windows.reshape(-1, windows.shape[-1]).astype(np.float64))
    ends = []
    for column, channel in zip(values.T, package.model.descriptor.channels, strict=True):
        valid = np.clip(column, channel.low, channel.high).astype(np.float32)
        ends.append((_decimal(valid.min(initial=np.inf)), _decimal(valid.max(initial=-np.inf))))
    return ends


def _decimal(number: np.floating) -> str:
    """A float32 exactly, in digits that C++ of every age reads; 0 for what is not finite."""
    return f"{float(number):.9e}f" if np.isfinite(number) else "0.0f"
