"""The contract of an export target, and what targets share: names, templates, and the artefact of a model file.

    Compiled -> Target.make -> Artefact (files, sizes, golden vectors) -> package.py writes it

Each target is a `Target` record, usually in a file of its own, and listed in `targets.TARGETS`. The commands of
`scare export`, `scare verify` and docs/formats.md are made from these records.

A model file (TFLite, ONNX) is `Calibrator.compute`: scaled windows in, values in the target's unit out. Its caller
makes the windows.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from keyword import iskeyword
from pathlib import Path
from string import Template
from typing import Any
from unicodedata import normalize

import numpy as np

import scare
from scare.errors import UsageError
from scare.export.c_source import RESERVED
from scare.export.lowering import Arithmetic, Compiled
from scare.export.scare_json import GoldenVectors, KeptValue, describe_channels, golden_vectors

LONGEST_NAME = 31  # characters that every C compiler distinguishes
NAMES_IN_EXAMPLES = """
begin begun_ms calibrate calibrated calibration delay golden loop millis now_ms number reading row setup status sums
"""
C_HEADERS = """
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic stdbool
stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar unistd wchar wctype
"""
TAKEN = {*RESERVED, *NAMES_IN_EXAMPLES.split(), *C_HEADERS.split()}
MICROPYTHON_MODULES = {
    *("boot", "esp", "esp32", "framebuf", "machine", "main", "micropython", "network", "rp2", "uasyncio"),
}
TEMPLATES = Path(__file__).with_name("templates")
INPUT, OUTPUT = NAMES = ("window", "calibrated")  # tensor names in a model file
NOT_PYTHON = ".in"  # suffix of templates that Python tools must not take for modules


def check_c_name(name: str) -> None:
    """Raise `UsageError` for a name that a model cannot have in C."""
    if not _is_short_word(name) or name in TAKEN or name.startswith("scare") or name[-2:] == "_t":
        raise UsageError(
            f"'{name}' cannot name a model in C: use up to {LONGEST_NAME} lower-case letters, digits and _; not a"
            " keyword or header of C, not a name of our examples, not scare… and not …_t"
        )


def check_module_name(name: str) -> None:
    """Raise `UsageError` for a name that a Python module cannot have on a board."""
    taken = iskeyword(name) or name in sys.stdlib_module_names | MICROPYTHON_MODULES
    if not _is_short_word(name) or taken or name.startswith("scare"):
        raise UsageError(
            f"'{name}' cannot name a module: use up to {LONGEST_NAME} lower-case letters, digits and _; not a keyword"
            " of Python, not a module of Python or MicroPython, and not scare…"
        )


def check_file_name(name: str) -> None:
    """Raise `UsageError` for a name that is not portable as a file name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise UsageError(f"'{name}' cannot name a file: use letters, digits, _ and -")


@dataclass(frozen=True)
class Artefact:
    """Files that a target makes from a compiled calibrator, by path, and facts about them.

    `model` is the path of the file that is run, `name` the model's name in it. `sizes` are for JSON, `summary` is for
    people. `compute` runs the files here: scaled windows [n, window, channels] in, results [n] in the target's unit
    out. Golden vectors and `scare.json` are written to the folder `extras`. C has also the folder of the `runtime`, and
    in `kept` the values that can be read from scratch memory after a run.
    """

    files: Mapping[str, str | bytes]
    model: str
    name: str
    sizes: Mapping[str, Any]
    summary: tuple[str, ...]
    compute: Callable[[np.ndarray], np.ndarray]
    golden: GoldenVectors
    extras: str = ""
    runtime: str = ""
    kept: Mapping[str, KeptValue] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Target:
    """An export target: its help texts, how to make its files, what runs them, and what it does not support.

    `runner` is a key of `RUNNERS` in board/verify_export.py; empty if nothing on this computer runs the files.
    `refuses` gives the reason for each arithmetic that it does not have. `in_c`: a virtual board can measure it.
    `single` is the suffix of its one file that may be written alone; `sign` signs that file with a private key.
    """

    name: str
    about: str
    examples: tuple[str, ...]
    make: Callable[[Compiled], Artefact]
    runner: str = ""
    refuses: Mapping[Arithmetic, str] = field(default_factory=dict)
    in_c: bool = False
    check_name: Callable[[str], None] = check_c_name
    name_help: str = "Name of the model in C."
    arithmetic_help: str = "Arithmetic of the C code."
    fixed_name: str = str(Arithmetic.FIXED)
    single: str = ""
    sign: Callable[[bytes, bytes], bytes] | None = None

    def arithmetic_name(self, arithmetic: Arithmetic) -> str:
        """Name of an arithmetic in this target's files and help: a FlatBuffer calls fixed point int8."""
        return self.fixed_name if arithmetic is Arithmetic.FIXED else str(arithmetic)


def model_file_artefact(
    compiled: Compiled,
    form: str,
    content: bytes,
    operators: Sequence[str],
    run: Callable[[bytes, np.ndarray], np.ndarray],
    integers: Mapping[str, int] | None = None,
) -> Artefact:
    """Make the artefact of a model file: the model, a JSON description of its inputs, and a README.

    `form` is the file's extension; `run` computes windows with its content; `integers` counts its int8 weights.
    """
    model = f"{compiled.name}.{form}"
    facts = describe_inputs(compiled, form)
    operator_counts = dict(sorted(Counter(operators).items()))
    operator_text = ", ".join(f"{name} {count}" for name, count in operator_counts.items())
    files: dict[str, str | bytes] = {
        model: content,
        f"{compiled.name}.json": json.dumps(facts, indent=2) + "\n",
        **fill_templates(form, readme_fields(compiled.name, facts, len(content), operator_text)),
    }
    return Artefact(
        files,
        model,
        compiled.name,
        sizes={"bytes": len(content), "operators": operator_counts, **(integers or {})},
        summary=(f"{model}: {len(content):,} bytes", f"operators: {operator_text}"),
        compute=lambda windows: run(content, windows),
        golden=golden_vectors(compiled.calibrator, compiled.arithmetic is Arithmetic.FIXED),
    )


def describe_inputs(compiled: Compiled, form: str) -> dict[str, Any]:
    """Return the facts of a model file for scare.json: its format (`form`), arithmetic, input and output."""
    inputs, target = compiled.calibrator.inputs, compiled.calibrator.target
    return {
        "format": form,
        "arithmetic": "float32" if compiled.arithmetic is Arithmetic.FLOAT32 else "int8",  # format of weights
        "made_by": f"scare {scare.__version__}",
        "scaled_for": compiled.device or "the fleet",
        "input": INPUT,
        "rows": inputs.window,
        "step_seconds": inputs.step_seconds,
        "channels": [asdict(channel) for channel in describe_channels(compiled.calibrator, compiled.device)],
        "output": OUTPUT,
        "target": target.name,
        "unit": target.unit,
    }


def readme_fields(name: str, facts: Mapping[str, Any], size: int, operators: str) -> dict[str, str]:
    """Return the placeholders of the README of a model file, with names and units escaped for Markdown."""

    def row(channel: Mapping[str, Any]) -> str:
        texts = (escape_markdown(channel[key]) for key in ("name", "unit"))
        return f"| {' | '.join(texts)} | {channel['center']:.9g} | {channel['scale']:.9g} |"

    return {
        "name": name,
        "target": escape_markdown(facts["target"]),
        "unit": escape_markdown(facts["unit"]) or "the unit of the reference",
        "rows": str(facts["rows"]),
        "columns": str(len(facts["channels"])),
        "step": f"{facts['step_seconds']:g}",
        "scaled_for": escape_markdown(facts["scaled_for"]),
        "arithmetic": facts["arithmetic"],
        "channels": "\n".join(map(row, facts["channels"])),
        "bytes": f"{size:,}",
        "operators": operators,
        "version": scare.__version__,
    }


def to_ascii(text: str) -> str:
    """Convert a text to ASCII for build systems, without characters that could end a string or a comment.

    >>> to_ascii('PM₂.₅ "raw" [µg/m³] */')
    'PM2.5 raw [ug/m3] /'
    """
    # NFKC makes one of both signs for micro, and digits of subscripts; NFKD separates accents, which are then dropped.
    spelled = normalize("NFKC", " ".join(text.split())).replace("μ", "u").replace("°", "deg ")
    return " ".join(re.sub(r"[^\w .,:;/%()\[\]+-]", "", normalize("NFKD", spelled), flags=re.ASCII).split())


def escape_markdown(text: str) -> str:
    """Escape a text for a line of Markdown, so that none of it becomes a tag, code, a block or a table cell.

    `$(` is escaped too: it would run a command if the line were pasted into a shell.

    >>> escape_markdown("PM2.5 <b>`raw`</b> | [µg/m³]")
    'PM2.5 &lt;b&gt;&#96;raw&#96;&lt;/b&gt; &#124; [µg/m³]'
    """
    escaped = escape(" ".join(text.split()), quote=False)
    return escaped.replace("`", "&#96;").replace("|", "&#124;").replace("$(", "&#36;(")


def fill_templates(name: str, fields: Mapping[str, str]) -> dict[str, str]:
    """Fill every template in the folder `name` of `TEMPLATES`: text by path, without the suffix `NOT_PYTHON`."""
    folder = TEMPLATES / name
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix().removesuffix(NOT_PYTHON): fill_template(path, fields) for path in paths}


def fill_template(template: Path, fields: Mapping[str, str]) -> str:
    """Replace the $placeholders of a template; each must be in `fields`."""
    return Template(template.read_text(encoding="utf-8")).substitute(fields)


def _is_short_word(name: str) -> bool:
    """Whether a name is lower-case letters, digits and _, and not too long for any C compiler."""
    return re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None and len(name) <= LONGEST_NAME
