"""C sources: those of the runtime, and the model as C with constant tables and a function `run` that calls kernels.

    Program + Layout + Descriptor -> CModel -> print_header, print_source, print_golden -> c_package.py

The same model always gives the same text; floats are printed in hexadecimal, so no digit is lost. The runtime is
`runtime/` in a source tree, and `scare/export/runtime_src` once installed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from scare.errors import DataError
from scare.export.descriptor import Descriptor, InputChannel, MovingChannel, Range
from scare.export.memory_layout import WORD, Layout, values_by_name
from scare.kernels import THRESHOLD
from scare.kernels.c_arguments import BYTES, Argument, Branch, CCall, CTable, CValue, Program, even

INSTALLED = Path(__file__).with_name("runtime_src")
IN_TREE = Path(__file__).parents[2] / "runtime"
KERNEL_HEADERS = "scare_kernels.h", "scare_fixed.h"
LEARNING = ("scare_learn",)  # prefix of the on-board learner's files, exported with --learn only
LORAWAN = ("scare_lorawan",)  # prefix of what packs an answer into the bytes of an uplink
BLOBS = ("scare_blob", "scare_ed25519", "scare_slots")  # prefixes of the files that run a model from a file
COLUMNS = 120
CALL_COLUMNS = COLUMNS - 8  # a call inside a branch is indented by 8
WORD_BITS = 32
SETTLES = "#define SCARE_SETTLE "  # a line of scare.h, where 0 follows it
STACK_BYTES = {"float": 640, "int16_t": 1024}  # by type of the window: more than any model takes on a Cortex-M
BLOB_HEAD, EXACT_ROWS = 48, 8  # of scare_store.c: bytes before the blob's parts; newest rows, which are never rounded
INDENT: dict[str, Any] = {"initial_indent": " " * 8, "subsequent_indent": " " * 8, "break_on_hyphens": False}
KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
"""
# in printed C
OUR_NAMES = "absent channels choice input interval main memory moving rows run scaled scratch self vectors whitening"
WIDE_INT = """
#include <limits.h>
#if INT_MAX < 0x7fffffff
#error "the fixed-point kernels need an int of 32 bits: export this model in float32"
#endif
""".strip().splitlines()
SETTLING = """
#if !SCARE_SETTLE
#error "this model settles on a new device: compile all sources with -DSCARE_SETTLE=1, or set that line of scare.h"
#endif
""".strip().splitlines()
GOLDEN_COMMENT = """
/* Windows as `run` reads them, the scaled result of each, and how far a board may be off: not at all in fixed point. */
""".strip().splitlines()
RESERVED = {*KEYWORDS.split(), *OUR_NAMES.split()}


def runtime_sources(settles: bool = False) -> dict[str, str]:
    """Read every source and header that a model needs: text by file name.

    They are exported into one folder and include each other by bare file name. The code for settling is compiled only
    with `settles`.

    >>> {"scare.c", "scare.h", "window_q.c"} <= runtime_sources().keys()
    True
    """
    optional = (*LEARNING, *BLOBS, *LORAWAN)
    needed = {name: text for name, text in _all_sources().items() if not name.startswith(optional)}
    return {name: text.replace(f"{SETTLES}0", f"{SETTLES}{int(settles)}") for name, text in needed.items()}


def learning_sources() -> dict[str, str]:
    """Like `runtime_sources`, for the on-board learner."""
    return {name: text for name, text in _all_sources().items() if name.startswith(LEARNING)}


def lorawan_sources() -> dict[str, str]:
    """Like `runtime_sources`, for payloads of LoRaWAN."""
    return {name: text for name, text in _all_sources().items() if name.startswith(LORAWAN)}


def blob_sources() -> dict[str, str]:
    """Like `runtime_sources`, with the interpreter that runs the blobs of any model."""
    interpreter = {name: text for name, text in _all_sources().items() if name.startswith(BLOBS)}
    return {**runtime_sources(settles=True), **interpreter}


def _all_sources() -> dict[str, str]:
    """Read every C file of the runtime, and its header for C++: text by file name."""
    paths = sorted(_runtime_folder().rglob("*.[ch]*"), key=lambda path: path.name)
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def licence() -> str:
    """Read the licence of the runtime, which also applies to generated C."""
    return (_runtime_folder().parent / "LICENSE").read_text(encoding="utf-8")


class Parameter(NamedTuple):
    """A parameter of a kernel in C: its name, the type of its number or numbers, and whether it is a pointer.

    Only an output is a pointer to numbers that are not `const`.
    """

    name: str
    kind: str
    is_pointer: bool
    is_output: bool


def declared_functions() -> Mapping[str, tuple[Parameter, ...]]:
    """List the C functions that generated code may call, with their parameters: those in the kernel headers."""
    return _functions_declared_in(_runtime_folder())


@cache
def _functions_declared_in(folder: Path) -> Mapping[str, tuple[Parameter, ...]]:
    """Like `declared_functions`; cached by folder, so that tests may use a folder with more functions."""
    headers = "".join((folder / name).read_text(encoding="utf-8") for name in KERNEL_HEADERS)
    declarations = re.findall(r"^void (scare_\w+)\((.*?)\);", headers, re.MULTILINE | re.DOTALL)
    return {name: tuple(map(_parameter, parameters.split(","))) for name, parameters in declarations}


def _parameter(text: str) -> Parameter:
    """Parse a parameter.

    >>> _parameter("const int16_t *weights")
    Parameter(name='weights', kind='int16_t', is_pointer=True, is_output=False)
    """
    *words, name = text.replace("*", " * ").split()
    is_pointer = "*" in words  # then it is the last word, after the type
    return Parameter(name, words[-2] if is_pointer else words[-1], is_pointer, is_pointer and words[0] != "const")


def _runtime_folder() -> Path:
    """Return the runtime's sources: as installed with the package, else those of the source tree."""
    return (INSTALLED if INSTALLED.is_dir() else IN_TREE) / "src"


@dataclass(frozen=True)
class SelfTest:
    """What `scare_self_test` checks: seeds of windows, the scaled result of each, and how far off a result may be."""

    seeds: tuple[int, ...]
    results: tuple[float, ...]
    tolerance: float


@dataclass(frozen=True)
class CModel:
    """A model to be printed as C or written as a blob.

    `title` describes it in a sentence; `labels` and `target` name the channels and the target with their units.
    """

    name: str
    title: str
    labels: tuple[str, ...]
    program: Program
    layout: Layout
    descriptor: Descriptor
    self_test: SelfTest
    target: str = ""

    @property
    def window_bytes(self) -> int:
        """Bytes of the window, rounded up to words."""
        program = self.program
        rows = program.window if program.kind == "float" else even(program.window)
        return rows * program.channels * BYTES[program.kind]

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch memory; at least one row, because the newest reading is scaled there."""
        return max(self.layout.bytes, WORD * self.program.channels)

    @property
    def state_bytes(self) -> int:
        """`sizeof(scare)` on a 32-bit board: 14 words, and four more if it settles."""
        return WORD * (18 if self.settles else 14)

    @property
    def stack_bytes(self) -> int:
        """Upper bound of the stack of `scare_calibrate`; a test measures every model."""
        return STACK_BYTES[self.program.kind]

    @property
    def ram_bytes(self) -> int:
        """Bytes of RAM that one calibration needs: the caller's memory, the struct `scare`, and the deepest stack."""
        return self.memory_bytes + self.state_bytes + self.stack_bytes

    @property
    def settles(self) -> bool:
        """Whether it is for a new device, whose scaling settles with its first readings."""
        return self.descriptor.settle > 0

    @property
    def settling_bytes(self) -> int:
        """Bytes for settling: a counter and, for each channel whose center moves, a sum in two parts and a window."""
        if not self.settles:
            return 0
        return WORD + WORD * len(self.descriptor.moving) * (2 + self.program.window)

    @property
    def memory_bytes(self) -> int:
        """Bytes that the caller of `scare_init` provides, for settling, window, real_bytes and scratch memory."""
        return self.settling_bytes + self.window_bytes + self.real_bytes + self.scratch_bytes

    @property
    def real_bytes(self) -> int:
        """Bytes of a bit for each row that the gap rule checks: real or repeated; rounded up to words."""
        return -(-self.descriptor.checked // WORD_BITS) * WORD

    def store_bytes(self, rounded: bool) -> int:
        """Return the most bytes that `scare_store` writes, exact or rounded, if C is compiled without SCARE_PAST."""
        window = self.program.window
        moving = len(self.descriptor.moving) * self.settles  # channels that store readings until they have settled
        widths = [WORD] * moving + [BYTES[self.program.kind]] * (self.program.channels - moving)  # bytes of a number
        exact = sum(window * width for width in widths)
        # Rounded, the newest rows are exact and older ones a byte each; each channel has a lowest number and a step.
        newest = min(window, EXACT_ROWS)
        short = sum(newest * width + window - newest + 2 * WORD for width in widths)
        sums = 2 * WORD * moving
        checksum = WORD
        return BLOB_HEAD + self.real_bytes + sums + (min(exact, short) if rounded else exact) + checksum

    @cached_property
    def identity(self) -> int:
        """A checksum of what the model computes, so that no state of another one is restored."""
        calls = [(call.function, [*map(_checksummed, call.arguments)]) for call in self.program.every_call()]
        return crc32(repr((self.program.kind, self.program.window, self.descriptor, calls)).encode())

    @property
    def table_bytes(self) -> int:
        """Bytes of the constant tables."""
        return sum(table.values.nbytes for _, table in self.tables.values())

    @cached_property
    def tables(self) -> dict[bytes, tuple[str, CTable]]:
        """C name and table by content, so that equal tables are printed once."""
        tables: dict[bytes, CTable] = {}
        for call in self.program.every_call():
            for argument in call.arguments:
                if isinstance(argument, CTable):
                    tables.setdefault(_content_key(argument), argument)
        names = distinct_names((f"table_{table.about}" for table in tables.values()), {self.name})
        return {key: (name, table) for name, (key, table) in zip(names, tables.items(), strict=True)}

    @cached_property
    def values(self) -> dict[str, tuple[str, CValue]]:
        """C name and value, by the value's name in the program."""
        values = values_by_name(self.program)
        names = distinct_names(values, {*RESERVED, self.name, *(name for name, _ in self.tables.values())})
        return {value.name: (name, value) for name, value in zip(names, values.values(), strict=True)}


def print_header(model: CModel, runtime: str = "src/") -> str:
    """Print the header: sizes, offsets of the values that can be read after a run, and the model.

    `runtime` is the path from the header to the runtime's headers.
    """
    upper = model.name.upper()
    guard = f"{upper}_H"
    past = f"SCARE_PAST_BYTES({model.program.channels})"
    sizes: dict[str, int | str] = {
        "WINDOW": model.program.window,
        "CHANNELS": model.program.channels,
        "SCRATCH_BYTES": model.scratch_bytes,
        "BYTES": f"({model.memory_bytes} + {past}) /* what scare_init takes: past, window, real bits, scratch */",
    }
    sizes["STACK_BYTES"] = f"{model.stack_bytes} /* of scare_calibrate, at most */"
    sizes["RAM_BYTES"] = f"({upper}_BYTES + sizeof(scare) + {upper}_STACK_BYTES)"
    for name, rounded in {"STORE_BYTES": False, "STORE_ROUNDED_BYTES": True}.items():
        sizes[name] = f"({model.store_bytes(rounded)} + {past})"
    for name, value in model.values.values():
        if value.kept:
            about = f"/* in scratch after a run: {value.kind} {_print_shape(value.shape)} */"
            sizes[f"KEPT_{name.upper()}_OFFSET"] = f"{model.layout.places[value.name].offset} {about}"
            sizes[f"KEPT_{name.upper()}_BYTES"] = value.bytes
    return _join_lines(
        [
            *_print_title(model),
            *(f"#ifndef {guard}", f"#define {guard}", "", f'#include "{runtime}scare.h"', ""),
            *(f"#define {upper}_{name} {number}" for name, number in sizes.items()),
            *("", "#ifdef SCARE_RAM_MAX /* a budget in bytes: a model that needs more does not compile */"),
            f"typedef char {model.name}_needs_more_than_SCARE_RAM_MAX[{upper}_RAM_BYTES <= SCARE_RAM_MAX ? 1 : -1];",
            "#endif",
            *("", "#ifdef __cplusplus", 'extern "C" {', "#endif", ""),
            f"extern const scare_model {model.name};",
            f"extern const scare_golden {model.name}_golden; /* for scare_self_test */",
            *("", "#ifdef __cplusplus", "}", "#endif", "", "#endif"),
        ]
    )


def print_source(model: CModel, runtime: str = "src/") -> str:
    """Print the source: channels, tables, `run`, and the descriptor; `runtime` as in `print_header`."""
    lines = [*_print_title(model), f'#include "{model.name}.h"']
    lines += [*(f'#include "{runtime}{header}"' for header in ("scare_kernels.h", "scare_port.h")), ""]
    lines += [*WIDE_INT, ""] if model.program.kind != "float" else []
    lines += [*SETTLING, ""] if model.settles else []
    lines += _print_channels(model)
    for name, table in model.tables.values():
        lines += [
            "",
            f"/* {escape_comment(table.about)} {_print_shape(table.values.shape)} */",
            *_print_table(name, table.values),
        ]
    lines += ["", *_print_run(model), "", *_print_descriptor(model), "", *_print_self_test(model)]
    return _join_lines(lines)


def print_golden(model: CModel, windows: np.ndarray, results: np.ndarray, tolerances: np.ndarray) -> str:
    """Print golden.h: encoded windows [n, …], the scaled results [n] that `run` must give, and their tolerances [n]."""
    prefix, name = model.name.upper(), f"{model.name}_golden"
    lines = [*_print_title(model), *GOLDEN_COMMENT]
    lines += [f"#ifndef {prefix}_GOLDEN_H", f"#define {prefix}_GOLDEN_H", "", "#include <stdint.h>", ""]
    lines += [f"#define {prefix}_GOLDEN {len(windows)}"]
    if len(windows):
        rows = windows.reshape(len(windows), -1)
        lines += ["", f"static const {model.program.kind} {name}_windows[{len(rows)}][{rows.shape[1]}] = {{"]
        for row in rows:
            lines += ["    {", *_print_numbers(row, "        "), "    },"]
        lines += ["};"]
        for numbers, what in ((results, "results"), (tolerances, "tolerances")):
            lines += ["", *_print_table(f"{name}_{what}", numbers.astype(np.float32))]
    return _join_lines([*lines, "", "#endif"])


def print_number(number: float | np.generic) -> str:
    """Print an integer in decimal, and a real number as an exact hexadecimal float.

    >>> print_number(7), print_number(0.1), print_number(-0.0), print_number(np.int32(-(2**31)))
    ('7', '0x1.99999ap-4f', '-0x0p+0f', 'INT32_MIN')
    """
    if isinstance(number, int | np.integer):
        return "INT32_MIN" if number == -(2**31) else f"{number}{'u' if isinstance(number, np.uint32) else ''}"
    with np.errstate(over="ignore"):
        rounded = float(np.float32(number))
    if not np.isfinite(rounded):
        raise DataError(f"a number of the model is {number}; only finite ones can be exported")
    return re.sub(r"\.?0*p", "p", rounded.hex()) + "f"


def distinct_names(texts: Iterable[str], taken: set[str]) -> list[str]:
    """Make a C identifier from each text, all different and none of them in `taken`; adds them to `taken`."""
    names = []
    for text in texts:
        stem = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower() or "value"
        stem = f"_{stem}" if stem[0].isdigit() else stem
        candidates = (stem, *(f"{stem}_{number}" for number in range(2, len(taken) + 3)))  # one must be free
        names.append(next(name for name in candidates if name not in taken))
        taken.add(names[-1])
    return names


def _print_title(model: CModel) -> list[str]:
    """Print the model's title as a comment."""
    return wrap(f"/* {escape_comment(model.title)} */", COLUMNS, subsequent_indent=" * ", break_on_hyphens=False)


def _print_channels(model: CModel) -> list[str]:
    """Print the constants of the descriptor: channels, absent readings, whitening matrix, intervals."""
    lines = [f"/* {', '.join(InputChannel._fields)} */", "static const scare_channel channels[] = {"]
    for channel, label in zip(model.descriptor.channels, model.labels, strict=True):
        parts = " ".join(
            f"{{{', '.join(map(print_number, part))}}}," if isinstance(part, Range) else f"{print_number(part)},"
            for part in channel
        )
        lines += [f"    {{ /* {escape_comment(label)} */", *wrap(parts, COLUMNS, **INDENT), "    },"]
    lines += ["};"]
    if model.descriptor.moving:
        lines += ["", f"/* {', '.join(MovingChannel._fields)} */", "static const scare_moving moving[] = {"]
        lines += [f"    {{{', '.join(map(print_number, moving))}}}," for moving in model.descriptor.moving] + ["};"]
    tables = {"absent": model.descriptor.absent, "whitening": model.descriptor.training.whitening}
    for name, numbers in tables.items():
        lines += ["", *_print_table(name, np.array(numbers, np.float32))] if numbers else []
    if interval := model.descriptor.interval:
        lines += ["", "static const scare_interval interval = {"]
        for name in ("edge", "below", "above"):
            lines += [f"    {{ /* {name} */", *_print_numbers(np.array(getattr(interval, name)), "        "), "    },"]
        lines += [f"    {print_number(interval.widening)}, /* widening */", "};"]
    return lines


def _print_table(name: str, values: np.ndarray) -> list[str]:
    """Print a constant array, aligned to words, because kernels read several numbers at once."""
    values = values if values.size else np.zeros(1, values.dtype)  # C has no array without numbers
    kind = "float" if values.dtype == np.float32 else f"{values.dtype}_t"
    aligned = "" if values.itemsize == WORD else f" __attribute__((aligned({WORD})))"
    return [f"static const {kind} {name}[{values.size}]{aligned} = {{", *_print_numbers(values, "    "), "};"]


def _print_numbers(values: np.ndarray, margin: str) -> list[str]:
    """Print numbers, as many in each line as fit."""
    numbers = [f"{print_number(number)}," for number in values.ravel()]
    per_line = (COLUMNS - len(margin)) // (max(map(len, numbers)) + 1)
    return [margin + " ".join(numbers[start : start + per_line]) for start in range(0, len(numbers), per_line)]


def _print_run(model: CModel) -> list[str]:
    """Print the function `run`: a pointer to each value, then the calls."""
    result, _ = model.values[model.program.result.name]
    in_window = any(model.layout.places[name].in_window for name in model.values)
    branches = any(isinstance(call, Branch) for call in model.program.calls)
    lines = ["SCARE_COMPACT static void run(const void *input, void *scratch, scare_choice *choice, float *scaled,"]
    lines += [" " * 30 + "const scare_model *self) {", "    (void)self;"]
    lines += ["    const unsigned char *const rows = input;" if in_window else "    (void)input;"]
    lines += ["    unsigned char *const memory = scratch;"]
    codes = [call.codes for call in model.program.every_call()]  # nothing in `run` reads them
    for name, value in model.values.values():
        if value in codes:
            continue
        place = model.layout.places[value.name]
        const, base = ("const ", "rows") if place.in_window else ("", "memory")
        pointer = f"{const}{value.kind} *const {name} = ({const}void *)({base} + {place.offset});"
        lines += [f"    {pointer} /* {_print_shape(value.shape)} */"]
    lines += [] if branches else ["    (void)choice;"]
    for call in model.program.calls:
        text = _print_branch(model, call) if isinstance(call, Branch) else _print_call(model, call)
        lines += [f"    {line}" for line in text]
    return [*lines, f"    *scaled = {result}[0];", "}"]


def _print_call(model: CModel, call: CCall) -> list[str]:
    """Print a call, followed by a comment with the shapes of what it reads and writes."""
    arguments = []
    for argument in call.arguments:
        if isinstance(argument, CValue):
            arguments.append(model.values[argument.name][0])
        elif isinstance(argument, CTable):
            arguments.append(model.tables[_content_key(argument)][0])
        else:
            arguments.append(print_number(argument))
    shapes = " ".join(_print_shape(value.shape) for value in call.reads)
    comment = f"/* {shapes} -> {_print_shape(call.output.shape)} */"
    text = f"{call.function}({', '.join(arguments)});"
    *lines, last = wrap(text, CALL_COLUMNS, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)
    commented = f"{last} {comment}"
    return [*lines, commented] if len(commented) <= CALL_COLUMNS else [*lines, last, f"    {comment}"]


def _print_branch(model: CModel, branch: Branch) -> list[str]:
    """Print a decision, which is made again when its period is over, and both branches."""
    decision, _ = model.values[branch.decision[-1].output.name]

    def body(calls: Iterable[CCall]) -> list[str]:
        return [f"    {line}" for call in calls for line in _print_call(model, call)]

    return [
        "if (choice->left == 0) {",
        *body(branch.decision),
        f"    choice->deep = {decision}[0] > {print_number(THRESHOLD)};",
        f"    choice->left = choice->deep ? {branch.deep_period} : {branch.simple_period};",
        "}",
        "choice->left--;",
        "if (choice->deep) {",
        *body(branch.deep),
        "} else {",
        *body(branch.simple),
        "}",
    ]


def _print_descriptor(model: CModel) -> list[str]:
    """Print the `scare_model`; the fields for spikes and stuck readings are compiled only with SCARE_PAST."""
    program, descriptor, training = model.program, model.descriptor, model.descriptor.training
    fields = {
        "window": program.window,
        "channels": program.channels,
        "step_ms": descriptor.step_ms,
        "checked": descriptor.checked,
        "needed": descriptor.needed,
        "hold": descriptor.hold,
        "channel": "channels",
        "absent": "absent" if descriptor.absent else "NULL",
        "absent_count": len(descriptor.absent),
        "target_scale": print_number(descriptor.target_scale),
        "target_center": print_number(descriptor.target_center),
        "floor": print_number(descriptor.floor),
        "interval": "&interval" if descriptor.interval else "NULL",
        **{name: print_number(number) for name, number in vars(training).items() if name != "whitening"},
        "whitening": "whitening" if training.whitening else "NULL",
        "stride": 0 if program.kind == "float" else even(program.window),
        "scratch_bytes": model.scratch_bytes,
        "run": "run",
        "identity": f"{model.identity:#010x}u",
    }
    floors = ", ".join(map(print_number, descriptor.spike_floors))
    past = {
        "stuck_rows": descriptor.stuck_rows,
        "spike_share": print_number(descriptor.spike_share),
        "spike_floors": f"(const float[]){{{floors}}}",
    }
    settling = {
        "settle": descriptor.settle,
        "moving": "moving" if descriptor.moving else "NULL",
        "moving_count": len(descriptor.moving),
    }
    return [
        f"const scare_model {model.name} = {{",
        *(f"    .{field} = {value}," for field, value in fields.items()),
        *("#if SCARE_PAST", *(f"    .{field} = {value}," for field, value in past.items()), "#endif"),
        *(f"    .{field} = {value}," for field, value in settling.items() if model.settles),
        "};",
    ]


def _print_self_test(model: CModel) -> list[str]:
    """Print the seeds and results of the self-test."""
    test = model.self_test
    pairs = [f"    {{{seed}u, {print_number(result)}}}," for seed, result in zip(test.seeds, test.results, strict=True)]
    return [
        *("static const scare_vector vectors[] = {", *pairs, "};"),
        f"const scare_golden {model.name}_golden = {{vectors, {len(pairs)}, {print_number(test.tolerance)}}};",
    ]


def _checksummed(argument: Argument) -> str | int | float:
    """Return what stands for an argument in the model's checksum: a table's content, a value's name, or the number."""
    if isinstance(argument, CTable):
        return f"{argument.values.dtype} {crc32(argument.values.tobytes()):08x}"
    return argument.name if isinstance(argument, CValue) else argument


def _content_key(table: CTable) -> bytes:
    """Return the key by which equal tables are found: their type and their bytes."""
    return table.values.dtype.str.encode() + table.values.tobytes()


def _print_shape(shape: Sequence[int]) -> str:
    """Print a shape as C declares it, such as [3][4]."""
    return "".join(f"[{size}]" for size in shape) or "[1]"


def escape_comment(text: str) -> str:
    """Make a text safe inside a C comment."""
    return " ".join(text.split()).replace("*/", "* /").replace("/*", "/ *")


def _join_lines(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
