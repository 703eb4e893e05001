"""A C library for a build system: model and runtime in one folder, around it what the system asks for.

That is a folder of templates, whose README says how to build. `library` is the target of one. Comes from `compiled`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import scare
from scare.export.c_artefact import GOLDEN_HEADER, c_artefact, golden_header
from scare.export.c_source import CModel, print_header, print_source
from scare.export.compiled import Compiled
from scare.export.naming import plain
from scare.export.reading_ranges import reading_ranges
from scare.export.readme import print_readme
from scare.export.runtime import runtime_sources
from scare.export.sensor_fields import SensorField, sensor_fields
from scare.export.target_contract import TEMPLATES, Artefact, Target, fill, templates

README, EXTRAS = "README.md", "extras"
ANSWER = ("calibrated", "low", "high", "flags")  # what examples print of an answer


def _nothing(compiled: Compiled, model: CModel) -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class Library:
    """How a build system's library differs from the others.

    `sources` is the folder of model and runtime, `prefix` begins the model's name in C. `fields` are what its templates
    may name beside what all may, `files` what lies beside its sources. `in_c`: its user writes C.
    """

    templates: str
    sources: str = "src"
    prefix: str = ""
    fields: Callable[[Compiled, CModel], Mapping[str, str]] = _nothing
    files: Callable[[Compiled, CModel], Mapping[str, str]] = _nothing
    in_c: bool = True

    def make(self, compiled: Compiled) -> Artefact:
        """Its files."""
        name, model = compiled.name, replace(compiled.c_model, name=self.prefix + compiled.name)
        fields = {**_fields(compiled, model), **self.fields(compiled, model)}
        around, beside = templates(self.templates, fields), f"{EXTRAS}/{name}"
        sources = {**_sources(model, fields), **self.files(compiled, model)}
        files = {
            **around,
            **{f"{self.sources}/{file}": text for file, text in sources.items()},
            README: print_readme(model, compiled.calibrator.target, around[README].strip(), self.in_c),
            f"{beside}/{GOLDEN_HEADER}": golden_header(compiled, model),
        }
        return c_artefact(compiled, model, files, f"{self.sources}/{model.name}.c", self.sources, beside)


def library(about: str, examples: tuple[str, ...], build_system: Library) -> Target:
    """The target of a build system, called as its templates are."""
    return Target(build_system.templates, about, examples, build_system.make, runner="c", in_c=True)


def _sources(model: CModel, fields: Mapping[str, str]) -> dict[str, str]:
    """Model, made-up readings and runtime, which find each other in one folder."""
    return {
        f"{model.name}.h": print_header(model, runtime=""),
        f"{model.name}.c": print_source(model, runtime=""),
        f"{model.name}_simulated.h": fill(TEMPLATES / "simulated.h", fields),
        **runtime_sources(),
    }


def _fields(compiled: Compiled, model: CModel) -> dict[str, str]:
    """What templates may name."""
    labels = [plain(label) for label in model.labels]
    return {
        "name": model.name,
        "short": compiled.name,
        "upper": model.name.upper(),
        "version": scare.__version__,
        "target": plain(compiled.calibrator.target.name) or "a sensor",
        "title": plain(model.title),
        "heading": ",".join([*(label.replace(",", "") for label in labels), *ANSWER, "status"]),
        "rows": "\n".join(map(_row, range(len(labels)), labels, sensor_fields(compiled.calibrator))),
        "ends": "\n".join(f"        {{{_decimal(low)}, {_decimal(high)}}}," for low, high in reading_ranges(compiled)),
    }


def _row(index: int, label: str, field: SensorField) -> str:
    """How a sketch reads one channel from a PMS5003.

    >>> _row(0, "pm", SensorField("PM25_CF1")), _row(1, "RH", SensorField())
    ('    row[0] = pms[PM25_CF1]; // pm', '    row[1] = NAN; // RH: read another sensor here')
    """
    if field.pms5003:
        return f"    row[{index}] = pms[{field.pms5003}]; // {label}"
    return f"    row[{index}] = NAN; // {label}: read another sensor here"


def _decimal(number: float) -> str:
    """A float32 exactly, in digits that C++ of every age reads."""
    return f"{number:.9e}f"
