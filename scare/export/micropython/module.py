"""A model as a class of plain Python: the numbers of its descriptor, and `run` or its three branches.

Comes from `descriptor` and `tensors`; goes to `package`.
"""

import re
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from scare.calibrator.plan import Plan
from scare.export.descriptor import Descriptor
from scare.export.tensors.lowering import lower
from scare.export.tensors.python_constants import Constants
from scare.export.tensors.python_module import print_function
from scare.kernels import PERIODS

COLUMNS = 120
FACTS = ["step_ms", "checked", "needed", "hold", "absent", "floor", "stuck_rows", "spike_share", "spike_floors"]
HEADING = "class Calibration(Stream):"
IN_MATH, OURS = ("log", "sqrt", "tanh"), ("exp", "later_sum", "lstm", "sigmoid", "softmax", "zeros")


@dataclass(frozen=True)
class Module:
    """Source of a model, and the bytes that its window, what it keeps meanwhile, and its constants take."""

    text: str
    window_bytes: int
    scratch_bytes: int
    constant_bytes: int

    @property
    def memory_bytes(self) -> int:
        """What arrays take; the code itself and Python's own objects are not in it."""
        return self.window_bytes + self.scratch_bytes + self.constant_bytes


def print_module(plan: Plan, descriptor: Descriptor, title: str) -> Module:
    """The module of a plan; `title`, in plain letters, says what it is."""
    constants, target = Constants(), (descriptor.target_scale, descriptor.target_center)
    if plan.branches is None:
        graphs = {"run": lower(plan, *target)}
    else:
        decision, simple, deep = plan.branches
        graphs = {"decide": lower(decision), "simple": lower(simple, *target), "deep": lower(deep, *target)}
    functions = {name: print_function(graph, constants) for name, graph in graphs.items()}
    lines = [HEADING, *_indent(_facts(plan, descriptor))]
    for name, function in functions.items():
        lines += ["", *_indent([f"def {name}(self, x):", *_indent(function.lines)])]
    text = [*wrap(title, COLUMNS, initial_indent="# ", subsequent_indent="# "), *_imports("\n".join(lines)), ""]
    text += [*constants.lines, "", "", *lines, ""]
    scratch = max(function.scratch_bytes for function in functions.values())
    return Module("\n".join(text), 4 * plan.window * plan.channels, scratch, constants.bytes)


def _facts(plan: Plan, descriptor: Descriptor) -> list[str]:
    rows = [
        f"    {(*one.valid, one.center, one.rest, one.inverse, *one.held, *one.known)!r},"
        for one in descriptor.channels
    ]
    facts = {name: getattr(descriptor, name) for name in FACTS}
    facts |= _in_unit(descriptor)
    facts |= {"interval": tuple(vars(descriptor.interval).values())} if descriptor.interval else {}
    facts |= {name: plan.steps[-1].settings[name] for name in PERIODS} if plan.branches else {}
    return [
        f"window = {plan.window}",
        *(f"{name} = {fact!r}" for name, fact in facts.items()),
        "channels = (",
        *rows,
        ")",
    ]


def _in_unit(descriptor: Descriptor) -> dict[str, Any]:
    """What is known of training, where values are in the target's unit: as `run` gives them."""
    scale, center, training = descriptor.target_scale, descriptor.target_center, descriptor.training
    if not training.whitening:
        return {}
    return {**vars(training), "lowest": training.lowest * scale + center, "slope": training.slope * scale}


def _imports(source: str) -> list[str]:
    called = set(re.findall(r"\b(\w+)\(", source))
    lines = ["from array import array"]
    for module, names in (("math", IN_MATH), ("scare_live", OURS)):
        used = [*(["Stream"] if module == "scare_live" else []), *(name for name in names if name in called)]
        lines += [f"from {module} import {', '.join(used)}"] if used else []
    return lines


def _indent(lines: list[str]) -> list[str]:
    return [f"    {line}" if line else "" for line in lines]
