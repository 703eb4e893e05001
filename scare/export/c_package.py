"""C packages: a model with its runtime, as plain C99 or as a library (Arduino, PlatformIO, ESP-IDF, Zephyr).

    Compiled -> CModel -> make_c, or Library.make with a folder of templates -> Artefact

Every package holds the model, the runtime, golden vectors as C, and a README on how to build and use it; `--learn`
adds the on-board learner.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from string import Template

import numpy as np

import scare
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.corrections import ALL_VERSIONS
from scare.calibrator.intervals import width_steps
from scare.calibrator.model_card import describe_first_value
from scare.calibrator.plan import run
from scare.data.quantities import Quantity, is_called, quantities, quantity
from scare.data.readings import Channel
from scare.errors import UsageError
from scare.export.c_source import (
    CModel,
    learning_sources,
    print_golden,
    print_header,
    print_number,
    print_source,
    runtime_sources,
)
from scare.export.descriptor import LARGEST_READING, InputChannel, encode_windows
from scare.export.lowering import Arithmetic, Compiled
from scare.export.scare_json import KeptValue
from scare.export.target import TEMPLATES, Artefact, Target, escape_markdown, fill_template, fill_templates, to_ascii
from scare.upkeep.learner import MAX_COEFFICIENTS, learner_settings
from scare.upkeep.update import identity

README, EXTRAS, RUNTIME, GOLDEN_HEADER = "README.md", "extras", "src", "golden.h"
GOLDEN_WINDOWS = 16  # most windows in golden.h
MAIN_STACK = 2048  # bytes of stack that Zephyr's sample needs beside the calibration, printf of floats included
IDF_STACK = 3584  # the same for ESP-IDF's example: the default of its main task
NUMPY_TYPES = {"float": "float32"}  # NumPy's name of a C type; others are the C type without `_t`
ANSWER = ("calibrated", "low", "high", "flags")  # columns of an answer that examples print
LEARNERS = {Arithmetic.FLOAT32: "scare_learn_f32", Arithmetic.FIXED: "scare_learn_s32"}  # C name of the learner
PAGE = Template("""# $target, calibrated in C

$title

A reading is these numbers, in this order, one reading every $step_ms ms:

| number | from | to |
|---|---|---|
$channels

$use

## Memory

On a 32-bit board:

| | bytes |
|---|---|
| window | $window_bytes |
| scratch | $scratch_bytes |
$settling| memory in all, given to `scare_init` | $memory_bytes |
| `scare` | $state_bytes |
| stack of `scare_calibrate`, at most | $stack_bytes |
| RAM: memory, `scare` and stack | $ram_bytes |
| constants, in flash | $table_bytes |

With `SCARE_RAM_MAX` defined, a model that needs more RAM than that does not compile.
""")
USE_IN_C = Template("""## Use

```c
#include "$name.h"

static uint32_t memory[SCARE_WORDS(${upper}_BYTES)];
static scare calibration;

scare_status begin(void) {
    scare_status status = scare_init(&calibration, &$name, memory, sizeof memory);
    return status == SCARE_OK ? scare_self_test(&calibration, &${name}_golden) : status;
}

scare_status calibrate(uint32_t now_ms, const float reading[${upper}_CHANNELS], scare_answer *answer) {
    return scare_calibrate(&calibration, now_ms, reading, answer);
}
```

Call `begin` once, which also tests that the board computes what was exported, and `calibrate` for each reading.
`now_ms` is any clock that counts milliseconds, such as Arduino's `millis()`; it may wrap around. `answer->value` is in
$unit, `low` and `high` are the ends of its interval (NaN if the model has none); all are NaN unless the status is
`SCARE_OK`. `answer->flags` are bits: `SCARE_FLAG_OUTSIDE` is of a reading beyond what training had, and
`scare_outside` says how far and in which channel. `scare_push` gives the value alone. `scare_store` and
`scare_restore` keep the window over deep sleep and loss of power.
$settling
| status | meaning |
|---|---|
$statuses
""")
SETTLING = """
A new device's first {settle:,} readings have `SCARE_FLAG_UNSETTLED`; then its scaling has settled.
"""
COMPILE = """\
`cc -c *.c src/*.c` compiles everything (C99); the linker drops what is not used (on a computer, link with `-lm`). With
`-ffp-contract=off` every compiler gives the same bits; `-fno-math-errno` keeps the C library's `errno` out of the
program. `golden.h` holds windows, the results `run` must give, and how far a result may be off."""
LEARNER_HEADER = """\
/* How {name} learns from a co-location session. Made by scare: do not edit. */
#ifndef {guard}
#define {guard}

#include "{runtime}scare_learn.h"

#ifdef __cplusplus
extern "C" {{
#endif

extern const scare_learning {name}_learning;

#ifdef __cplusplus
}}
#endif

#endif
"""
LEARNER_SOURCE = """\
/* How {name} learns from a co-location session. Made by scare: do not edit. */
#include "{name}_learning.h"

const scare_learning {name}_learning = {{
    .arithmetic = &{arithmetic},
    .numbers = {numbers},
    .memory_bits = {memory_bits},
    .round = {round},
    .identity = {identity:#010x}u,
    .prior = {{{prior}}},
    .wider = {wider},
    .narrower = {narrower},
}};
"""


def make_c(compiled: Compiled) -> Artefact:
    """Make plain C99 for `cc -c *.c src/*.c`; it also compiles inside an Arduino sketch."""
    model = compiled.c_model
    files = {
        f"{model.name}.h": print_header(model),
        f"{model.name}.c": print_source(model),
        GOLDEN_HEADER: golden_header(compiled, model),
        README: print_readme(model, compiled.calibrator.target),
        **{f"{RUNTIME}/{file}": text for file, text in runtime_sources(model.settles).items()},
    }
    return c_artefact(compiled, model, files, f"{model.name}.c", RUNTIME)


def _no_extras(compiled: Compiled, model: CModel) -> dict[str, str]:
    """Return the default of `Library.fields` and `Library.files`: nothing to add."""
    return {}


@dataclass(frozen=True)
class Library:
    """Layout of a library for a build system.

    `templates` is the folder of its templates, `sources` the folder for model and runtime, `prefix` is put before the
    model's name in C. `fields` adds placeholders for its templates, `files` adds files to the sources, text by name.
    `in_c`: users call it from C, so the README explains that.
    """

    templates: str
    sources: str = "src"
    prefix: str = ""
    fields: Callable[[Compiled, CModel], Mapping[str, str]] = _no_extras
    files: Callable[[Compiled, CModel], Mapping[str, str]] = _no_extras
    in_c: bool = True

    def make(self, compiled: Compiled) -> Artefact:
        """Make the files of the library."""
        model = replace(compiled.c_model, name=self.prefix + compiled.name)
        fields = {**template_fields(compiled, model), **self.fields(compiled, model)}
        filled = fill_templates(self.templates, fields)
        extras = f"{EXTRAS}/{compiled.name}"
        sources = {
            f"{model.name}.h": print_header(model, runtime=""),
            f"{model.name}.c": print_source(model, runtime=""),
            f"{model.name}_simulated.h": fill_template(TEMPLATES / "simulated.h", fields),
            **runtime_sources(model.settles),
            **self.files(compiled, model),
        }
        files = {
            **filled,
            **{f"{self.sources}/{file}": text for file, text in sources.items()},
            README: print_readme(model, compiled.calibrator.target, filled[README].strip(), self.in_c),
            f"{extras}/{GOLDEN_HEADER}": golden_header(compiled, model),
        }
        return c_artefact(compiled, model, files, f"{self.sources}/{model.name}.c", self.sources, extras)


def library_target(about: str, examples: tuple[str, ...], library: Library) -> Target:
    """Make the target of a library; it is named after its folder of templates."""
    return Target(library.templates, about, examples, library.make, runner="c", in_c=True)


def _rust_fields(compiled: Compiled, model: CModel) -> dict[str, str]:
    """Return the placeholders of the templates for Rust: sizes, and statuses and flags of scare.h as constants."""
    flags = re.findall(r"SCARE_FLAG_(\w+) = 1 << (\d+)", runtime_sources()["scare.h"])
    failures = list(enumerate(statuses().items()))[1:]  # without SCARE_OK
    ends = (f"    [{np.float32(low)!s}, {np.float32(high)!s}]," for low, high in compiled.reading_ranges)
    return {
        "channels": ", ".join(map(to_ascii, model.labels)),
        "channel_count": str(model.program.channels),
        "window": str(model.program.window),
        "step_ms": str(model.descriptor.step_ms),
        "words": str(-(-model.memory_bytes // 4)),
        "store_bytes": str(model.store_bytes(rounded=False)),
        "store_rounded_bytes": str(model.store_bytes(rounded=True)),
        "flags": "\n".join(f"    pub const {name}: u32 = 1 << {bit};" for name, bit in flags),
        "statuses": "\n".join(
            f"    /// {meaning.capitalize()}.\n    pub const {name.removeprefix('SCARE_')}: Status = Status({number});"
            for number, (name, meaning) in failures
        ),
        "ranges": "\n".join(ends),
    }


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
ARDUINO = library_target(
    "Write an Arduino library with a sketch that reads a PMS5003 or a simulated sensor.",
    (
        "pm.scare --out pm.zip",
        "pm.scare --arithmetic fixed --board nano33ble --out pm",
        "barkjohn-2021 --out pm25.zip",
    ),
    Library("arduino"),
)
PLATFORMIO = library_target(
    "Write a PlatformIO library with an example that runs on this computer.",
    ("no2.scare --out lib/no2", "barkjohn-2021 --board esp8266 --out lib/pm25"),
    Library("platformio"),
)
ESPIDF = library_target(
    "Write an ESP-IDF component with an example, for an ESP32 of any kind.",
    ("pm.scare --arithmetic fixed --board esp32 --out components/scare_pm", "barkjohn-2021 --name pm25 --out pm25"),
    Library("espidf", fields=lambda _, model: {"idf_stack": str(model.stack_bytes + IDF_STACK)}),
)
ZEPHYR = library_target(
    "Write a Zephyr module with a sample.",
    ("no2.scare --out modules/no2", "barkjohn-2021 --name pm25 --out modules/pm25"),
    Library("zephyr", fields=lambda _, model: {"main_stack": str(model.stack_bytes + MAIN_STACK)}),
)
RUST = library_target(
    "Write a Rust crate without std, with an example that runs on this computer.",
    ("no2.scare --out crates/no2", "barkjohn-2021 --name pm25 --out pm25"),
    Library("rust", "c", fields=_rust_fields, in_c=False),
)


def c_artefact(
    compiled: Compiled, model: CModel, files: Mapping[str, str | bytes], source: str, runtime: str, extras: str = ""
) -> Artefact:
    """Make the artefact of C files; `source` is the path of the model, `runtime` and `extras` are folders.

    It warns of channels whose valid range is wider than an int16 window.
    """
    sizes = {
        "ram_bytes": model.ram_bytes,
        "memory_bytes": model.memory_bytes,
        "window_bytes": model.window_bytes,
        "scratch_bytes": model.scratch_bytes,
        "state_bytes": model.state_bytes,
        "stack_bytes": model.stack_bytes,
        "constant_bytes": model.table_bytes,
        "first_value_readings": model.descriptor.checked,
    }
    summary = (
        f"RAM {model.ram_bytes:,} bytes (window {model.window_bytes:,}, scratch {model.scratch_bytes:,}, stack at most"
        f" {model.stack_bytes:,}), constants {model.table_bytes:,} bytes",
        describe_first_value(compiled.calibrator.inputs),
    )
    kept = {
        name: KeptValue(
            model.layout.places[value.name].offset,
            NUMPY_TYPES.get(value.kind, value.kind.removesuffix("_t")),
            value.shape,
        )
        for name, value in model.values.values()
        if value.kept
    }
    warnings = [
        f"In fixed point {channel.name} is read from {read.valid.low:.4g} to {read.valid.high:.4g} only; readings"
        " beyond get no value."
        for channel, read in zip(compiled.calibrator.inputs.channels, compiled.descriptor.channels, strict=True)
        if read.quantum and (read.valid.low > channel.low or read.valid.high < channel.high)
    ]
    return Artefact(
        files,
        source,
        model.name,
        sizes,
        summary,
        compiled.compute,
        compiled.golden,
        extras,
        runtime,
        kept,
        tuple(warnings),
    )


def golden_header(compiled: Compiled, model: CModel) -> str:
    """Print golden windows, as `run` reads them, with scaled results and tolerances, as C.

    Windows with a tie are left out: rounding may decide it either way.
    """
    golden = compiled.golden
    chosen = np.flatnonzero(~golden.ties)[:GOLDEN_WINDOWS]
    windows = golden.windows[chosen]
    encoded = encode_windows(windows, model.program.quanta)
    if compiled.arithmetic is Arithmetic.FIXED:  # every implementation gives the same bits
        results = run(compiled.plan, windows)
        return print_golden(model, encoded, results, np.zeros(results.shape))
    results = run(compiled.plan.astype(np.float64), windows.astype(np.float64))
    # From the target's unit to scaled results.
    tolerances = golden.tolerances[chosen] / compiled.calibrator.inputs.scaling.target.scale[0]
    return print_golden(model, encoded, results, tolerances)


def print_readme(model: CModel, target: Channel, building: str = COMPILE, in_c: bool = True) -> str:
    """Print the README; `building` explains how to compile the folder and, unless `in_c`, how to use it."""
    settling = SETTLING.format(settle=model.descriptor.settle) if model.settles else ""
    if in_c:
        use = USE_IN_C.substitute(
            name=model.name,
            upper=model.name.upper(),
            unit=escape_markdown(target.unit) or "the unit of the reference",
            settling=settling,
            statuses="\n".join(f"| `{status}` | {meaning} |" for status, meaning in statuses().items()),
        )
        building = f"{use}\n{building}"
    return PAGE.substitute(
        title=escape_markdown(model.title),
        target=escape_markdown(target.name),
        use=building,
        step_ms=model.descriptor.step_ms,
        channels=channel_rows(model.labels, model.descriptor.channels),
        memory_bytes=model.memory_bytes,
        window_bytes=model.window_bytes,
        scratch_bytes=model.scratch_bytes,
        settling=f"| settling | {model.settling_bytes} |\n" if model.settles else "",
        state_bytes=model.state_bytes,
        stack_bytes=model.stack_bytes,
        ram_bytes=model.ram_bytes,
        table_bytes=model.table_bytes,
    )


def channel_rows(labels: Sequence[str], channels: Sequence[InputChannel]) -> str:
    """Print a Markdown table row for each channel: its label and its valid range."""

    def limit(number: float) -> str:
        return f"{number:g}" if abs(number) < LARGEST_READING else "no limit"

    return "\n".join(
        f"| {escape_markdown(label)} | {limit(channel.valid.low)} | {limit(channel.valid.high)} |"
        for label, channel in zip(labels, channels, strict=True)
    )


def statuses() -> dict[str, str]:
    """Read the meaning of each status from `scare.h`.

    >>> statuses()["SCARE_OK"]
    'the answer has a calibrated value'
    """
    return dict(re.findall(r"(SCARE_\w+) = \d+,?\s*/\* (.*?) \*/", runtime_sources()["scare.h"]))


def learner_files(compiled: Compiled, artefact: Artefact) -> dict[str, str]:
    """Make the files of the on-board learner: its settings for this model, and its runtime."""
    if not artefact.runtime:
        raise UsageError("--learn adds C code, so it works only with targets in C")
    calibrator, model = compiled.calibrator, PurePosixPath(artefact.model)
    settings, scaling = learner_settings(calibrator.inputs, calibrator.intervals), calibrator.inputs.scaling
    wider, narrower = map(float, width_steps(settings.level))
    fields = {
        "name": model.stem,
        "guard": f"{model.stem.upper()}_LEARNING_H",
        "runtime": f"{artefact.runtime}/" if str(model.parent) != artefact.runtime else "",
        "arithmetic": LEARNERS[compiled.arithmetic],
        "numbers": settings.size,
        "memory_bits": settings.memory_bits,
        "round": settings.round,
        "identity": identity(calibrator, compiled.device if compiled.device in scaling.devices else ""),
        "wider": print_number(wider),
        "narrower": print_number(narrower),
        "prior": ", ".join(map(print_number, [*settings.prior, *[0.0] * (MAX_COEFFICIENTS - settings.size)])),
    }
    return {
        str(model.with_name(f"{model.stem}_learning.h")): LEARNER_HEADER.format(**fields),
        str(model.with_name(f"{model.stem}_learning.c")): LEARNER_SOURCE.format(**fields),
        **{f"{artefact.runtime}/{file}": text for file, text in learning_sources().items()},
    }


@dataclass(frozen=True)
class SensorField:
    """What measures a channel: a field of a PMS5003 (empty: another sensor), and ESPHome's platform and key."""

    pms5003: str = ""
    esphome: tuple[str, str] | None = None


def sensor_fields(calibrator: Calibrator) -> list[SensorField]:
    """Find the sensor field of each channel in data/quantities.toml, for examples that read real sensors.

    The channels of a published correction have known quantities; others are guessed from their names.
    """
    correction = ALL_VERSIONS.get(str(calibrator.facts.get("model")))
    if correction:
        return [_sensor_field(quantity(role.quantity), role.prefers) for role in correction.roles]
    return [_sensor_field(_measurable_quantity(channel.name), channel.name) for channel in calibrator.inputs.channels]


def _measurable_quantity(name: str) -> Quantity | None:
    """Guess the quantity from a channel name, among those with a known sensor.

    >>> _measurable_quantity("SHT31TE").name, _measurable_quantity("pm_raw").name, _measurable_quantity("NO2")
    ('T', 'PM2.5', None)
    """
    return next(
        (quantity for quantity in quantities().values() if quantity.esphome and is_called(name, quantity.name)), None
    )


def _sensor_field(measured: Quantity | None, hint: str) -> SensorField:
    """Find the sensor field of a quantity, empty if no sensor is known for it.

    A PMS5003 gives each particle size twice: as CF=1 and as atmospheric. The first is taken if `hint`, such as the
    name of the channel, contains "cf".

    >>> _sensor_field(quantity("PM2.5"), "pm_cf_1")
    SensorField(pms5003='PM25_CF1', esphome=('pmsx003', 'pm_2_5_std'))
    >>> _sensor_field(quantity("RH"), ""), _sensor_field(None, "NO2")
    (SensorField(pms5003='', esphome=('sht3xd', 'humidity')), SensorField(pms5003='', esphome=None))
    """
    if measured is None or measured.esphome is None or not measured.pms5003:
        return SensorField(esphome=measured.esphome if measured else None)
    platform, key = measured.esphome
    if "cf" in hint.lower():
        return SensorField(f"{measured.pms5003}_CF1", (platform, f"{key}_std"))
    return SensorField(f"{measured.pms5003}_ATM", (platform, key))


def template_fields(compiled: Compiled, model: CModel) -> dict[str, str]:
    """Return the placeholders that every library's templates may use."""
    labels = [to_ascii(label) for label in model.labels]
    ranges = compiled.reading_ranges
    return {
        "name": model.name,
        "short": compiled.name,
        "upper": model.name.upper(),
        "version": scare.__version__,
        "target": to_ascii(compiled.calibrator.target.name) or "a sensor",
        "title": to_ascii(model.title),
        "heading": ",".join([*(label.replace(",", "") for label in labels), *ANSWER, "status"]),
        "rows": "\n".join(map(_print_reading_line, range(len(labels)), labels, sensor_fields(compiled.calibrator))),
        "ends": "\n".join(f"        {{{low:.9e}f, {high:.9e}f}}," for low, high in ranges),  # exact, also in C++98
    }


def _print_reading_line(index: int, label: str, field: SensorField) -> str:
    """Print the line of a sketch that reads one channel.

    >>> _print_reading_line(0, "pm", SensorField("PM25_CF1")), _print_reading_line(1, "RH", SensorField())
    ('    row[0] = pms[PM25_CF1]; // pm', '    row[1] = NAN; // RH: read another sensor here')
    """
    if field.pms5003:
        return f"    row[{index}] = pms[{field.pms5003}]; // {label}"
    return f"    row[{index}] = NAN; // {label}: read another sensor here"
