"""The target `micropython`: a model as a class in plain Python, with its runtime and an example.

    Compiled (plan, descriptor) -> micropython_source.py prints `run`, or its three branches -> Module -> Artefact

`scare_live.py` is copied to the board with the model: it turns readings into windows by the rules of scare.c. So are
`scare_settle.py` for a device that was not in training, and `scare_store.py`, which keeps the state over deep sleep.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any
from zlib import crc32

import scare
from scare.calibrator.model_card import describe_first_value
from scare.calibrator.plan import Plan
from scare.export import micropython_runtime
from scare.export.c_package import ANSWER, channel_rows, statuses
from scare.export.descriptor import Descriptor
from scare.export.lowering import Arithmetic, Compiled
from scare.export.micropython_runtime import scare_live, scare_settle, scare_store
from scare.export.micropython_source import Constants, print_function
from scare.export.target import Artefact, Target, check_module_name, fill_templates, to_ascii
from scare.export.tensor_graph import lower_to_tensors
from scare.kernels import PERIODS

COLUMNS = 120
# Fields of a `Descriptor` that a model's class has under the same names.
COPIED = ["step_ms", "checked", "needed", "hold", "absent", "floor", "stuck_rows", "spike_share", "spike_floors"]
SETTLING = """
A new device's first {settle:,} readings have the flag 2048; then its scaling has settled. `store` keeps what it found.
"""
# Functions that the printed code may call, by the module that they are imported from.
IN_MATH, IN_SCARE_LIVE = ("log", "sqrt", "tanh"), ("exp", "later_sum", "lstm", "sigmoid", "softmax", "zeros")


@dataclass(frozen=True)
class Module:
    """Source of a model, and the sizes of its window, its temporary arrays and its constants."""

    text: str
    window_bytes: int
    scratch_bytes: int
    constant_bytes: int

    @property
    def memory_bytes(self) -> int:
        """Bytes of all arrays, without code and Python's objects."""
        return self.window_bytes + self.scratch_bytes + self.constant_bytes


def make_micropython(compiled: Compiled) -> Artefact:
    """Make the module, and copy its runtime and example next to it."""
    module = print_module(compiled.plan, compiled.descriptor, to_ascii(compiled.title))
    files = {
        f"{compiled.name}.py": module.text,
        **runtime_modules(compiled.descriptor),
        **fill_templates("micropython", _template_fields(compiled, module)),
        "package.json": _package_json(compiled),
    }
    sizes = {
        "ram_bytes": module.memory_bytes,
        "window_bytes": module.window_bytes,
        "scratch_bytes": module.scratch_bytes,
        "constant_bytes": module.constant_bytes,
        "first_value_readings": compiled.descriptor.checked,
    }
    summary = (
        f"arrays {module.memory_bytes:,} bytes: window {module.window_bytes:,}, scratch {module.scratch_bytes:,},"
        f" constants {module.constant_bytes:,}",
        describe_first_value(compiled.calibrator.inputs),
    )
    model = f"{compiled.name}.py"
    return Artefact(files, model, compiled.name, sizes, summary, compiled.compute, compiled.golden)


def runtime_modules(descriptor: Descriptor) -> dict[str, str]:
    """Read the modules that a model imports: text by file name. On a board they are in one folder."""
    modules = (scare_live, *([scare_settle] if descriptor.settle else []), scare_store)
    paths = [Path(str(module.__file__)) for module in modules]
    texts = {path.name: path.read_text(encoding="utf-8") for path in paths}
    return {name: text.replace(f"from {micropython_runtime.__name__}.", "from ") for name, text in texts.items()}


MICROPYTHON = Target(
    "micropython",
    "Write a module in plain Python, for MicroPython and boards without a compiler.",
    ("pm.scare --out pm", "barkjohn-2021 --step 120 --out pm25"),
    make_micropython,
    runner="python",
    refuses={Arithmetic.FIXED: "plain Python gains nothing from fixed point: export it in float32"},
    check_name=check_module_name,
    name_help="Name of the module.",
    arithmetic_help="Number format: float32 only.",
)


def print_module(plan: Plan, descriptor: Descriptor, title: str) -> Module:
    """Print the module of a plan; `title` is a sentence in ASCII for its head."""
    constants, scale, center = Constants(), descriptor.target_scale, descriptor.target_center
    if plan.branches is None:
        graphs = {"run": lower_to_tensors(plan, scale, center)}
    else:
        decision, simple, deep = plan.branches
        graphs = {
            "decide": lower_to_tensors(decision),
            "simple": lower_to_tensors(simple, scale, center),
            "deep": lower_to_tensors(deep, scale, center),
        }
    functions = {name: print_function(graph, constants) for name, graph in graphs.items()}
    base = scare_settle.SettlingStream if descriptor.settle else scare_live.Stream
    lines = _indent(_class_attributes(plan, descriptor))
    for name, function in functions.items():
        lines += ["", *_indent([f"def {name}(self, x):", *_indent(function.lines)])]
    identity = crc32("\n".join([*constants.lines, *lines]).encode())
    lines = [f"class Calibration({base.__name__}):", f"    identity = {identity:#010x}", *lines]
    called = set(re.findall(r"\b(\w+)\(", "\n".join(lines)))
    text = [*wrap(title, COLUMNS, initial_indent="# ", subsequent_indent="# "), "from array import array"]
    module_of_base = base.__module__.rpartition(".")[2]
    for module, names in (("math", IN_MATH), ("scare_live", IN_SCARE_LIVE), ("scare_settle", ())):
        imported = [base.__name__] if module == module_of_base else []
        imported += [name for name in names if name in called]
        text += [f"from {module} import {', '.join(imported)}"] if imported else []
    text += ["", *constants.lines, "", "", *lines, ""]
    # Moving channels are stored twice, scaled and as they came; a float takes 4 bytes.
    window_bytes = 4 * plan.window * (plan.channels + len(descriptor.moving))
    scratch = max(function.scratch_bytes for function in functions.values())
    return Module("\n".join(text), window_bytes, scratch, constants.bytes)


def _class_attributes(plan: Plan, descriptor: Descriptor) -> list[str]:
    """Print the class attributes that override those of `scare_live.Stream`."""
    rows = [
        f"    {(*channel.valid, channel.center, channel.rest, channel.inverse, *channel.clamp, *channel.trained)!r},"
        for channel in descriptor.channels
    ]
    attributes = {name: getattr(descriptor, name) for name in COPIED} | _unscaled_limits(descriptor)
    if descriptor.interval:
        attributes["interval"] = tuple(vars(descriptor.interval).values())
    if plan.branches:
        attributes |= {name: plan.steps[-1].settings[name] for name in PERIODS}
    if descriptor.settle:
        attributes |= {"settle": descriptor.settle, "moving": tuple(map(tuple, descriptor.moving))}
    return [
        f"window = {plan.window}",
        *(f"{name} = {value!r}" for name, value in attributes.items()),
        "channels = (",
        *rows,
        ")",
    ]


def _unscaled_limits(descriptor: Descriptor) -> dict[str, Any]:
    """Return the training limits, those of results in the target's unit, because `run` returns values in that unit."""
    scale, center, training = descriptor.target_scale, descriptor.target_center, descriptor.training
    if not training.whitening:
        return {}
    return {**vars(training), "lowest": training.lowest * scale + center, "slope": training.slope * scale}


def _indent(lines: list[str]) -> list[str]:
    return [f"    {line}" if line else "" for line in lines]


def _template_fields(compiled: Compiled, module: Module) -> Mapping[str, str]:
    """Return the placeholders of the MicroPython templates."""
    labels, target = [to_ascii(label) for label in compiled.labels], compiled.calibrator.target
    meanings = list(statuses().items())[: len(scare_live.MEANINGS)]
    ends, settle = compiled.reading_ranges, compiled.descriptor.settle
    others = [f"`{name}`" for name in runtime_modules(compiled.descriptor)]
    return {
        "modules": ", ".join([f"`{compiled.name}.py`", *others[:-1]]) + f" and {others[-1]}",
        "settling": SETTLING.format(settle=settle) if settle else "",
        "store_bytes": str(_store_bytes(compiled.plan, compiled.descriptor)),
        "name": compiled.name,
        "title": to_ascii(compiled.title),
        "target": to_ascii(target.name) or "a sensor",
        "unit": to_ascii(target.unit) or "the unit of the reference",
        "step_ms": str(compiled.descriptor.step_ms),
        "channels": channel_rows(labels, compiled.descriptor.channels),
        "statuses": "\n".join(f"| `{status.removeprefix('SCARE_')}` | {meaning} |" for status, meaning in meanings),
        "ends": repr(tuple(ends)),
        "reading": f"({', '.join(f'{(low + high) / 2:.4g}' for low, high in ends)},)",
        "heading": ",".join([*(label.replace(",", "") for label in labels), *ANSWER, "status"]),
        "window_bytes": str(module.window_bytes),
        "scratch_bytes": str(module.scratch_bytes),
        "constant_bytes": str(module.constant_bytes),
    }


def _package_json(compiled: Compiled) -> str:
    """Print `package.json`, by which MicroPython's installer `mip` finds the files beside it."""
    modules = [f"{compiled.name}.py", *runtime_modules(compiled.descriptor)]
    urls = ",\n".join(f'    ["{module}", "{module}"]' for module in modules)
    return f'{{\n  "urls": [\n{urls}\n  ],\n  "version": "{scare.__version__}"\n}}\n'


def _store_bytes(plan: Plan, descriptor: Descriptor) -> int:
    """Return how many bytes `scare_store.store` makes.

    They are head, checksum, sums (doubles), a byte for each checked row, the window, and readings of moving channels.
    """
    moving = len(descriptor.moving)
    # The slow mean; of each channel the three numbers of its past; of each that moves a sum in two parts.
    doubles = 1 + 3 * plan.channels + 2 * moving
    floats = plan.window * (plan.channels + moving)
    checksum = 4
    return scare_store.HEAD + checksum + 8 * doubles + descriptor.checked + 4 * floats
