"""A module in plain Python for MicroPython: the model, what runs it, an example."""

from collections.abc import Mapping
from pathlib import Path

from scare.export.arithmetic import Arithmetic
from scare.export.c_library import ANSWER
from scare.export.compiled import Compiled
from scare.export.micropython import scare_live
from scare.export.micropython.module import Module, print_module
from scare.export.naming import check_module_name, plain
from scare.export.reading_ranges import reading_ranges
from scare.export.readme import channel_rows, statuses
from scare.export.target_contract import Artefact, Target, templates


def make(compiled: Compiled) -> Artefact:
    """The module, and what goes to the board beside it."""
    module = print_module(compiled.plan, compiled.descriptor, plain(compiled.title))
    runtime = Path(scare_live.__file__)
    files = {
        f"{compiled.name}.py": module.text,
        runtime.name: runtime.read_text(encoding="utf-8"),
        **templates("micropython", _fields(compiled, module)),
    }
    sizes = {
        "ram_bytes": module.memory_bytes,
        "window_bytes": module.window_bytes,
        "scratch_bytes": module.scratch_bytes,
        "constant_bytes": module.constant_bytes,
    }
    summary = (
        f"arrays {module.memory_bytes:,} bytes: window {module.window_bytes:,}, scratch {module.scratch_bytes:,},"
        f" constants {module.constant_bytes:,}"
    )
    model = f"{compiled.name}.py"
    return Artefact(files, model, compiled.name, sizes, (summary,), compiled.compute, compiled.golden)


def _fields(compiled: Compiled, module: Module) -> Mapping[str, str]:
    """What the templates may name."""
    labels, target = [plain(label) for label in compiled.labels], compiled.calibrator.target
    meanings = list(statuses().items())[: len(scare_live.MEANINGS)]
    ends = reading_ranges(compiled)
    return {
        "name": compiled.name,
        "title": plain(compiled.title),
        "target": plain(target.name) or "a sensor",
        "unit": plain(target.unit) or "the unit of the reference",
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


TARGET = Target(
    "micropython",
    "Write a module in plain Python, for MicroPython and boards without a compiler.",
    ("pm.scare --out pm", "barkjohn-2021 --step 120 --out pm25"),
    make,
    runner="python",
    refuses={Arithmetic.INT8: "plain Python gains nothing from int8: export it in float32"},
    check_name=check_module_name,
    name_help="What the module is called.",
    arithmetic_help="Of Python's numbers: float32 only.",
)
