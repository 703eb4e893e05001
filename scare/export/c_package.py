"""A C library for a build system: model and runtime in one folder, around it what the system asks for.

That is a folder of templates, whose README says how to build. `library` is the target of one. Comes from `compiled`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from string import Template

import numpy as np

import scare
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.corrections import EVERY
from scare.calibrator.plan import run
from scare.data.flags import LARGEST
from scare.data.quantities import Quantity, is_called, quantities, quantity
from scare.data.readings import Channel
from scare.export.c_source import CModel, print_golden, print_header, print_source
from scare.export.compiled import Compiled, reading_ranges
from scare.export.descriptor import InputChannel, as_read
from scare.export.runtime import runtime_sources
from scare.export.scare_json import Kept
from scare.export.target import TEMPLATES, Artefact, Target, fill, markdown, plain, templates


@dataclass(frozen=True)
class SensorField:
    """A field of a PMS5003, empty for another sensor's; ESPHome's platform and number, None where we know no sensor."""

    pms5003: str = ""
    esphome: tuple[str, str] | None = None


def sensor_fields(calibrator: Calibrator) -> list[SensorField]:
    """The field of each channel."""
    correction = EVERY.get(str(calibrator.facts.get("model")))
    if correction:
        return [_field(quantity(role.quantity), role.prefers) for role in correction.roles]
    return [_field(_sold(channel.name), channel.name) for channel in calibrator.inputs.channels]


def _sold(name: str) -> Quantity | None:
    """The likeliest quantity of a channel of this name for which there is a sensor that we know.

    >>> [found.name if (found := _sold(name)) else None for name in ("SHT31TE", "pm_raw", "NO2")]
    ['T', 'PM2.5', None]
    """
    return next((one for one in quantities().values() if one.esphome and is_called(name, one.name)), None)


def _field(found: Quantity | None, hint: str) -> SensorField:
    """The field of a quantity; of particles as the factory calibrates where the hint says CF, else atmospheric.

    >>> _field(quantity("PM2.5"), "pm_cf_1")
    SensorField(pms5003='PM25_CF1', esphome=('pmsx003', 'pm_2_5_std'))
    >>> _field(quantity("RH"), ""), _field(None, "NO2")
    (SensorField(pms5003='', esphome=('sht3xd', 'humidity')), SensorField(pms5003='', esphome=None))
    """
    if found is None or found.esphome is None or not found.pms5003:
        return SensorField(esphome=found.esphome if found else None)
    factory, (platform, number) = "cf" in hint.lower(), found.esphome
    return SensorField(
        f"{found.pms5003}_{'CF1' if factory else 'ATM'}", (platform, f"{number}_std" if factory else number)
    )


# What every target in C tells of its model: sizes, what can be read after a run, where it reads less than Python.


GOLDEN_HEADER = "golden.h"
GOLDEN_WINDOWS, GOLDEN_NUMBERS = 16, 1 << 15  # at most, but one window always
NUMPY = {"float": "float32"}  # kinds of C that are not called as in NumPy, and `_t`


def c_artefact(
    compiled: Compiled, model: CModel, files: Mapping[str, str | bytes], source: str, runtime: str, beside: str = ""
) -> Artefact:
    """Files in C, of which one is the model's `source`; `runtime` and `beside` are folders."""
    return Artefact(
        files,
        source,
        model.name,
        sizes := _sizes(model),
        (_summary(sizes),),
        compiled.compute,
        compiled.golden,
        beside,
        runtime,
        dict(_kept(model)),
        tuple(_limits(compiled)),
    )


def golden_header(compiled: Compiled, model: CModel) -> str:
    """The first golden windows, and their scaled results, as C."""
    plan = compiled.plan
    most = max(1, GOLDEN_NUMBERS // (plan.window * plan.channels))
    windows = compiled.calibrator.golden.windows[: min(GOLDEN_WINDOWS, most)]
    return print_golden(model, as_read(windows, model.program.quanta), run(plan, windows))


def _sizes(model: CModel) -> dict[str, int]:
    return {
        "ram_bytes": model.memory_bytes,
        "window_bytes": model.window_bytes,
        "scratch_bytes": model.scratch_bytes,
        "constant_bytes": model.table_bytes,
    }


def _summary(sizes: Mapping[str, int]) -> str:
    return (
        f"RAM {sizes['ram_bytes']:,} bytes (window {sizes['window_bytes']:,}, scratch {sizes['scratch_bytes']:,}),"
        f" constants {sizes['constant_bytes']:,} bytes"
    )


def _kept(model: CModel) -> Iterator[tuple[str, Kept]]:
    for name, value in model.values.values():
        if value.kept:
            kind = NUMPY.get(value.kind, value.kind.removesuffix("_t"))
            yield name, Kept(model.layout.places[value.name].offset, kind, value.shape)


def _limits(compiled: Compiled) -> Iterator[str]:
    """Where an integer window ends before the channel does."""
    for channel, read in zip(compiled.calibrator.inputs.channels, compiled.descriptor.channels, strict=True):
        low, high = read.valid
        if read.quantum and (low > channel.low or high < channel.high):
            yield f"fixed point reads {channel.name} from {low:.4g} to {high:.4g}; a reading beyond gives no value"


# The page in an exported folder: what the model reads, what it takes, how it is used.


PAGE = Template("""# $target, calibrated in C

$title

A reading is these numbers, in this order, one reading every $step_ms ms:

| number | from | to |
|---|---|---|
$channels

$use

## Memory

| | bytes |
|---|---|
| window | $window_bytes |
| scratch | $scratch_bytes |
| RAM in all, given to `scare_init` | $memory_bytes |
| constants, in flash | $table_bytes |
""")
IN_C = Template("""## Use

```c
#include "$name.h"

static uint32_t memory[SCARE_WORDS(${upper}_BYTES)];
static scare calibration;

scare_status begin(void) {
    return scare_init(&calibration, &$name, memory, sizeof memory);
}

scare_status calibrate(uint32_t now_ms, const float reading[${upper}_CHANNELS], scare_answer *answer) {
    return scare_calibrate(&calibration, now_ms, reading, answer);
}
```

Call `begin` once and `calibrate` for each reading. `now_ms` is any clock that counts milliseconds, such as Arduino's
`millis()`; it may wrap around. `answer->value` is in $unit, `low` and `high` are the ends of its interval (NaN if the
model has none); all are NaN unless the status is `SCARE_OK`. `answer->flags` are bits: `SCARE_FLAG_OUTSIDE` is of a
reading beyond what training had. `scare_push` gives the value alone.

| status | meaning |
|---|---|
$statuses
""")
PLAIN_C = """\
`cc -c *.c src/*.c` compiles everything (C99); the linker drops what is not used (on a computer, link with `-lm`). With
`-ffp-contract=off` every compiler gives the same bits. `golden.h` holds windows, and the results `run` must give."""


def print_readme(model: CModel, target: Channel, building: str = PLAIN_C, in_c: bool = True) -> str:
    """The page, in Markdown; `building` says how the folder is compiled, and also how it is used if not `in_c`."""
    return PAGE.substitute(
        title=markdown(model.title),
        target=markdown(target.name),
        use=f"{_print_use(model, target)}\n{building}" if in_c else building,
        step_ms=model.descriptor.step_ms,
        channels=channel_rows(model.labels, model.descriptor.channels),
        memory_bytes=model.memory_bytes,
        window_bytes=model.window_bytes,
        scratch_bytes=model.scratch_bytes,
        table_bytes=model.table_bytes,
    )


def _print_use(model: CModel, target: Channel) -> str:
    return IN_C.substitute(
        name=model.name,
        upper=model.name.upper(),
        unit=markdown(target.unit) or "the unit of the reference",
        statuses="\n".join(f"| `{status}` | {meaning} |" for status, meaning in statuses().items()),
    )


def channel_rows(labels: Sequence[str], channels: Sequence[InputChannel]) -> str:
    """What is read, and the valid range of each, as rows of a table."""
    pairs = zip(labels, channels, strict=True)
    return "\n".join(
        f"| {markdown(label)} | {_limit(channel.valid.low)} | {_limit(channel.valid.high)} |"
        for label, channel in pairs
    )


def _limit(number: float) -> str:
    """An end of a range; the largest numbers of all are none.

    >>> _limit(40.0), _limit(-1e30)
    ('40', 'no limit')
    """
    return f"{number:g}" if abs(number) < np.float32(LARGEST) else "no limit"


def statuses() -> dict[str, str]:
    """What each status means, as `scare.h` says it.

    >>> statuses()["SCARE_OK"]
    'there is a calibrated value'
    """
    return dict(re.findall(r"(SCARE_\w+) = \d+,?\s*/\* (.*?) \*/", runtime_sources()["scare.h"]))


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
        sources = {**_library_sources(model, fields), **self.files(compiled, model)}
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


def _library_sources(model: CModel, fields: Mapping[str, str]) -> dict[str, str]:
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


# C99 by itself: the model, its golden vectors, and the runtime. It compiles with `cc -c *.c src/*.c`.
#
# Also as part of an Arduino sketch.


RUNTIME = "src"


def make_c(compiled: Compiled) -> Artefact:
    """The folder."""
    model = compiled.c_model
    files = {
        f"{model.name}.h": print_header(model),
        f"{model.name}.c": print_source(model),
        GOLDEN_HEADER: golden_header(compiled, model),
        "README.md": print_readme(model, compiled.calibrator.target),
        **{f"{RUNTIME}/{file}": text for file, text in runtime_sources().items()},
    }
    return c_artefact(compiled, model, files, f"{model.name}.c", RUNTIME)


C = Target(
    "c",
    "Write C99 that calibrates one reading after the other, with the runtime it needs.",
    (
        "no2.scare --out no2",
        "no2.scare --arithmetic fixed --device box-3 --out no2",
        "barkjohn-2021 --step 120 --out pm25",
    ),
    make_c,
    runner="c",
    in_c=True,
)


# An Arduino library, with a sketch that reads a PMS5003 or a simulated sensor.


ARDUINO = library(
    "Write an Arduino library with a sketch that reads a PMS5003 or a simulated sensor.",
    (
        "pm.scare --out pm.zip",
        "pm.scare --arithmetic fixed --board nano33ble --out pm",
        "barkjohn-2021 --out pm25.zip",
    ),
    Library("arduino"),
)


# A PlatformIO library, with an example that runs on this computer.


PLATFORMIO = library(
    "Write a PlatformIO library with an example that runs on this computer.",
    ("no2.scare --out lib/no2", "barkjohn-2021 --board esp8266 --out lib/pm25"),
    Library("platformio"),
)


# A Zephyr module, with a sample.


ZEPHYR = library(
    "Write a Zephyr module with a sample.",
    ("no2.scare --out modules/no2", "barkjohn-2021 --name pm25 --out modules/pm25"),
    Library("zephyr"),
)
