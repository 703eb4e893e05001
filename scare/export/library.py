"""A library is a package for a build system: model and runtime in src/, around it what the system asks for.

Each system is a folder of `doors`, a door: its files are templates, and its README says how to build. A new folder is a
new door. Comes from `package`; goes to `cli`.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from string import Template
from unicodedata import normalize

import scare
from scare.calibrator.calibrator import Calibrator
from scare.errors import UsageError
from scare.export.c_source import Model, print_header, print_source
from scare.export.esphome import PREFIX, describe_component, input_keys, yaml_fields
from scare.export.golden_vectors import GOLDEN
from scare.export.meaning import PARTICLES, meanings
from scare.export.package import Package, golden_header, golden_results, prepare
from scare.export.packaging import write_files
from scare.export.readme import print_readme
from scare.export.runtime import runtime_sources
from scare.export.seen import seen_ranges
from scare.words import suggestion

HERE = Path(__file__).parent
DOORS = tuple(sorted(folder.name for folder in (HERE / "doors").iterdir()))
README, EXTRAS = "README.md", "extras"
ESPHOME, COMPONENT = "esphome", "components/scare"  # the door that keeps sources in a component's folder
NOT_PYTHON = ".in"  # ends the names of templates that Python's tools must not take for modules


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
    esphome = door == ESPHOME
    model = replace(package.model, name=PREFIX + name) if esphome else package.model
    fields = _fields(calibrator, package.device, model)
    around = {path: Template(text).substitute(fields) for path, text in _templates(HERE / "doors" / door).items()}
    sources = _sources(model, fields) | (_component(calibrator, model) if esphome else {})
    files: dict[str, str | bytes] = {**around}
    files |= {f"{COMPONENT if esphome else 'src'}/{file}": text for file, text in sources.items()}
    files[README] = print_readme(model, calibrator.target, around[README].strip(), in_c=not esphome)
    files[f"{EXTRAS}/{name}/golden.h"] = golden_header(calibrator, arithmetic, model)
    files[f"{EXTRAS}/{name}/{GOLDEN}"] = golden_results(calibrator, arithmetic, model.name)
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
    names = (path.relative_to(folder).as_posix().removesuffix(NOT_PYTHON) for path in paths)
    return {name: path.read_text(encoding="utf-8") for name, path in zip(names, paths, strict=True)}


def _sources(model: Model, fields: Mapping[str, str]) -> dict[str, str]:
    """Model, made-up readings and runtime, which find each other in one folder."""
    return {
        f"{model.name}.h": print_header(model, runtime=""),
        f"{model.name}.c": print_source(model, runtime=""),
        f"{model.name}_simulated.h": Template((HERE / "simulated.h").read_text(encoding="utf-8")).substitute(fields),
        **runtime_sources(),
    }


def _component(calibrator: Calibrator, model: Model) -> dict[str, str]:
    """What an ESPHome component knows of its model."""
    return {f"{model.name}.json": describe_component(model, _keys(calibrator), calibrator)}


def _fields(calibrator: Calibrator, device: str, model: Model) -> dict[str, str]:
    """What templates may name."""
    labels, meant = [plain(label) for label in model.labels], meanings(calibrator)
    seen = seen_ranges(calibrator, device, model.descriptor)
    return {
        "name": model.name,
        "upper": model.name.upper(),
        "version": scare.__version__,
        "target": plain(calibrator.target.name) or "a sensor",
        "title": plain(model.title),
        "heading": ",".join([*(label.replace(",", "") for label in labels), "calibrated", "status"]),
        "rows": "\n".join(map(_row, range(len(labels)), labels, meant)),
        "ends": "\n".join(f"        {{{_decimal(low)}, {_decimal(high)}}}," for low, high in seen),
        **yaml_fields(model, _keys(calibrator), labels, meant),
    }


def _keys(calibrator: Calibrator) -> list[str]:
    return input_keys([plain(channel.name) for channel in calibrator.inputs.channels])


def _row(index: int, label: str, meaning: str) -> str:
    """How a sketch reads one channel from a PMS5003.

    >>> _row(0, "pm", "PM25_CF1"), _row(1, "RH", "RH")
    ('    row[0] = pms[PM25_CF1]; // pm', '    row[1] = NAN; // RH: read another sensor here')
    """
    if meaning.split("_")[0] in PARTICLES.values():
        return f"    row[{index}] = pms[{meaning}]; // {label}"
    return f"    row[{index}] = NAN; // {label}: read another sensor here"


def _decimal(number: float) -> str:
    """A float32 exactly, in digits that C++ of every age reads."""
    return f"{number:.9e}f"
