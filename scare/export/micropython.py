"""A tensor as plain Python: loops over flat arrays, for boards with MicroPython.

An index is a sum of loop variables, so axes are exchanged, cut and split for nothing. What is read once is computed
where it is read; the rest is kept in an array until its last reader is done.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from scare.calibrator.plan import Plan
from scare.export import scare_live
from scare.export.c_package import ANSWER, channel_rows, statuses
from scare.export.compiled import Compiled, reading_ranges
from scare.export.descriptor import Descriptor
from scare.export.lowering import Arithmetic
from scare.export.target import Artefact, Target, check_module_name, plain, templates
from scare.export.tensor_graph import Index, address, broadcast, index_text, lower, moved, split_axes
from scare.export.tflite import CALLS, choose_stored, is_sparse, nonzero_columns, unshaped
from scare.kernels import PERIODS
from scare.kernels.tensor import CONSTANT, INPUT, Tensor, in_order, size

# The constant arrays of a module in plain Python, as literals of bytes: a board takes them as they are.


LITERAL_BYTES = 24  # in one line of 120 columns


@dataclass
class Constants:
    """The arrays of a module: the same numbers are there once."""

    _names: dict[bytes, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    bytes: int = 0

    def name(self, numbers: np.ndarray) -> str:
        """What an array of these numbers is called."""
        code = _typecode(numbers)
        stored = numbers.astype(f"<{np.dtype(code).str[1:]}").tobytes()
        key = code.encode() + stored
        if key not in self._names:
            self._names[key] = f"C{len(self._names)}"
            self.lines += _literal(f'{self._names[key]} = array("{code}", ', stored)
            self.bytes += len(stored)
        return self._names[key]


def _literal(begun: str, stored: bytes) -> list[str]:
    """Bytes that end a line begun, or take lines of their own."""
    parts = [repr(stored[at : at + LITERAL_BYTES]) for at in range(0, max(1, len(stored)), LITERAL_BYTES)]
    return [f"{begun}{parts[0]})"] if len(parts) == 1 else [f"{begun}(", *(f"    {part}" for part in parts), "))"]


def _typecode(numbers: np.ndarray) -> str:
    """The smallest kind of array that holds them."""
    if numbers.dtype.kind == "f":
        return "f"
    largest = numbers.max(initial=0)
    return "B" if largest < 1 << 8 else "H" if largest < 1 << 16 else "I"


FORMATS = {  # number by number; what begins with a bracket is in brackets as a whole
    "add": "({} + {})",
    "subtract": "({} - {})",
    "multiply": "({} * {})",
    "divide": "({} / {})",
    "maximum": "max({}, {})",
    "minimum": "min({}, {})",
    "at_least": "({} >= {})",
    "choose": "({1} if {0} else {2})",
    "exp": "exp({})",
    "log": "log({})",
    "tanh": "tanh({})",
    "sigmoid": "sigmoid({})",
    "inverse_root": "(1.0 / sqrt({}))",
    "relu": "max({}, 0.0)",
    "abs": "abs({})",
    "sign": "(1.0 if {} >= 0.0 else -1.0)",
}
NEUTRAL = {"multiply": "1.0", "add": "0.0"}  # as the second number
LETTERS = "ijklmnopqr"


@dataclass(frozen=True)
class Function:
    """Lines that compute a tensor of one number from the flat window `x`, and the most bytes they keep at once."""

    lines: list[str]
    scratch_bytes: int


def print_function(result: Tensor, constants: Constants) -> Function:
    """The body of a function."""
    printer = _Printer(result, constants)
    steps = [(name, printer.store(tensor, name)) for tensor in in_order(result) if (name := printer.kept(tensor))]
    steps.append(("", printer.give_back(result)))
    last = {name: at for at, (_, step) in enumerate(steps) for name in step.reads}
    lines, held, peak = [], dict[str, int](), 0
    for at, (name, step) in enumerate(steps):
        lines += step.lines
        held[name] = step.bytes
        peak = max(peak, sum(held.values()))
        done = [name for name, count in held.items() if count and last[name] == at]
        lines += [f"del {', '.join(done)}"] if done and at + 1 < len(steps) else []
        held = {name: count for name, count in held.items() if name not in done}
    return Function(lines, peak)


@dataclass
class _Step:
    """One statement with its loops: the arrays it reads, and the bytes of the one it makes."""

    lines: list[str] = field(default_factory=list)
    reads: set[str] = field(default_factory=set)
    bytes: int = 0
    letters: int = 0
    sums: int = 0

    def along(self, length: int) -> Index:
        """A place that goes along an axis; of one number it stands still."""
        if length == 1:
            return {}
        self.letters += 1
        again, letter = divmod(self.letters - 1, len(LETTERS))
        return {LETTERS[letter] + str(again or ""): 1}

    def sum(self) -> str:
        self.sums += 1
        return f"s{self.sums}"


class _Printer:
    """Prints each tensor that is kept as a statement; a tensor that is not is part of its reader's."""

    def __init__(self, result: Tensor, constants: Constants) -> None:
        self._constants = constants
        stored, self._arrays = choose_stored(result)
        ordered = [tensor for tensor in in_order(result) if id(tensor) in stored]
        self._names = {id(tensor): f"t{number}" for number, tensor in enumerate(ordered)}

    def kept(self, tensor: Tensor) -> str:
        """What the tensor is called, if it is kept."""
        return self._names.get(id(tensor), "")

    def give_back(self, result: Tensor) -> _Step:
        """The number itself."""
        step = _Step()
        value = self._value(result, [{}], step, step.lines)
        step.lines.append(f"return {_bare(value)}")
        return step

    def store(self, tensor: Tensor, name: str) -> _Step:
        """The tensor into its array, or, if it is one number, under its name."""
        step = _Step()
        if not self._is_array(tensor):
            value = self._value(tensor, [{} for _ in tensor.shape], step, step.lines, stored=False)
            step.lines.append(f"{name} = {_bare(value)}")
            return step
        step.bytes = 4 * size(tensor)
        if tensor.operation in CALLS:
            step.lines.append(f"{name} = {self._call(tensor, step)}")
            return step
        step.lines.append(f"{name} = zeros({size(tensor)})")
        axis, start = tensor.settings.get("axis", 0), 0
        for part in tensor.inputs if tensor.operation == "concatenate" else (tensor,):
            self._fill(step, tensor, part, axis, start)
            start += part.shape[axis]
        return step

    def _is_array(self, tensor: Tensor) -> bool:
        return size(tensor) > 1 or tensor.operation in (INPUT, CONSTANT) or id(tensor) in self._arrays

    def _fill(self, step: _Step, whole: Tensor, part: Tensor, axis: int, start: int) -> None:
        """Loops that write a part, which may be all of it, from a place along an axis on."""
        step.letters, lines = 0, list[str]()
        places = [step.along(length) for length in part.shape]
        value = self._value(part, places, step, lines, stored=part is not whole)
        to = [moved(place, start) if at == axis else place for at, place in enumerate(places)]
        lines.append(f"{self.kept(whole)}[{index_text(address(to, whole.shape))}] = {_bare(value)}")
        for place, length in reversed(list(zip(places, part.shape, strict=True))):
            for letter in place:
                lines = _loop(letter, f"range({length})", lines)
        step.lines += lines

    def _call(self, tensor: Tensor, step: _Step) -> str:
        names = [self._array(part, step) for part in tensor.inputs]
        width = size(tensor) // tensor.shape[0] if tensor.operation == "later_sum" else tensor.shape[-1]
        return f"{tensor.operation}({', '.join([*names, str(width)])})"

    def _array(self, tensor: Tensor, step: _Step) -> str:
        """The name of all numbers of a stored tensor."""
        tensor = unshaped(tensor)
        if tensor.operation == INPUT:
            return "x"
        if tensor.constant is not None:
            return self._constants.name(tensor.constant)
        step.reads.add(self.kept(tensor))
        return self.kept(tensor)

    # --- values: what a tensor has at a place, in Python; `lines` come before the one that reads it ---

    def _value(
        self, tensor: Tensor, places: Sequence[Index], step: _Step, lines: list[str], stored: bool = True
    ) -> str:
        base = unshaped(tensor) if stored else tensor
        if stored and (base.operation in (INPUT, CONSTANT) or self.kept(base)):
            return self._load(base, address(places, tensor.shape), step)
        if tensor.operation in FORMATS:
            return self._pointwise(tensor, places, step, lines)
        return getattr(self, f"_{tensor.operation}")(tensor, places, step, lines)

    def _load(self, tensor: Tensor, place: Index, step: _Step) -> str:
        if tensor.constant is not None and size(tensor) == 1 and isfinite(number := tensor.constant.item()):
            return repr(number)
        name = self._array(tensor, step)
        return f"{name}[{index_text(place)}]" if self._is_array(tensor) else name

    def _pointwise(self, tensor: Tensor, places: Sequence[Index], step: _Step, lines: list[str]) -> str:
        values = [self._value(part, broadcast(places, part.shape), step, lines) for part in tensor.inputs]
        if values[1:] == [NEUTRAL.get(tensor.operation)]:
            return values[0]
        form = FORMATS[tensor.operation]
        return form.format(*(values if form.startswith("(") else map(_bare, values)))

    def _reshape(self, tensor: Tensor, places: Sequence[Index], step: _Step, lines: list[str]) -> str:
        source = unshaped(tensor)
        split = split_axes(tensor.shape, source.shape)
        assert split is not None, "what cannot be split is stored"
        inner = [address(places[part], tensor.shape[part]) for part in split]
        return self._value(source, inner, step, lines)

    def _permute(self, tensor: Tensor, places: Sequence[Index], step: _Step, lines: list[str]) -> str:
        axes = list(tensor.settings["axes"])
        return self._value(tensor.inputs[0], [places[axes.index(at)] for at in range(len(axes))], step, lines)

    def _slice(self, tensor: Tensor, places: Sequence[Index], step: _Step, lines: list[str]) -> str:
        axis, start = tensor.settings["axis"], tensor.settings["start"]
        inner = [moved(place, start) if at == axis else place for at, place in enumerate(places)]
        return self._value(tensor.inputs[0], inner, step, lines)

    def _gather(self, tensor: Tensor, places: Sequence[Index], step: _Step, lines: list[str]) -> str:
        row = f"{self._constants.name(tensor.settings['rows'])}[{index_text(places[0])}]"
        return self._value(tensor.inputs[0], [{row: 1}, *places[1:]], step, lines)

    def _after_zeros(self, tensor: Tensor, places: Sequence[Index], step: _Step, lines: list[str]) -> str:
        rows = tensor.settings["rows"]
        value = self._value(tensor.inputs[0], [moved(places[0], -rows), *places[1:]], step, lines)
        return f"({value} if {index_text(places[0])} >= {rows} else 0.0)"

    def _sum(self, tensor: Tensor, places: Sequence[Index], step: _Step, lines: list[str]) -> str:
        (source,), axis, body = tensor.inputs, tensor.settings["axis"], list[str]()
        along = step.along(source.shape[axis])
        value = self._value(source, [along if at == axis else place for at, place in enumerate(places)], step, body)
        return _total(step, lines, along, f"range({source.shape[axis]})", body, value)

    def _matmul(self, tensor: Tensor, places: Sequence[Index], step: _Step, lines: list[str]) -> str:
        (left, right), (*front, column), body = tensor.inputs, places, list[str]()
        if is_sparse(right):
            return self._sparse(tensor, places, step, lines)
        along = step.along(left.shape[-1])
        own = self._value(left, [*front, along], step, body)
        other = self._value(right, broadcast([*front[:-1], along, column], right.shape), step, body)
        return _total(step, lines, along, f"range({left.shape[-1]})", body, f"({own} * {other})")

    def _sparse(self, tensor: Tensor, places: Sequence[Index], step: _Step, lines: list[str]) -> str:
        (left, right), (*front, column), body = tensor.inputs, places, list[str]()
        assert right.constant is not None
        rows, weights, starts = map(self._constants.name, nonzero_columns(right.constant))
        along = step.along(size(right))
        row = {f"{rows}[{index_text(along)}]": 1}
        value = f"({self._value(left, [*front, row], step, body)} * {weights}[{index_text(along)}])"
        over = f"range({starts}[{index_text(column)}], {starts}[{index_text(moved(column, 1))}])"
        return _total(step, lines, along, over, body, value)


def _bare(value: str) -> str:
    """Without the brackets around all of it."""
    return value[1:-1] if value.startswith("(") else value


def _loop(letter: str, over: str, body: Iterable[str]) -> list[str]:
    return [f"for {letter} in {over}:", *(f"    {line}" for line in body)]


def _total(step: _Step, lines: list[str], along: Index, over: str, body: list[str], value: str) -> str:
    """Lines that add a value up; the sum's name."""
    if not along:
        lines += body
        return value
    name = step.sum()
    lines += [f"{name} = 0.0", *_loop(index_text(along), over, [*body, f"{name} += {_bare(value)}"])]
    return name


# A model as a class of plain Python: the numbers of its descriptor, and `run` or its three branches.
#
# Comes from `descriptor` and `tensors`; goes to `package`.


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
        f"    {(*one.valid, one.center, one.rest, one.inverse, *one.clamp, *one.trained)!r},"
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


# A module in plain Python for MicroPython: the model, what runs it, an example.


def make_micropython(compiled: Compiled) -> Artefact:
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


MICROPYTHON = Target(
    "micropython",
    "Write a module in plain Python, for MicroPython and boards without a compiler.",
    ("pm.scare --out pm", "barkjohn-2021 --step 120 --out pm25"),
    make_micropython,
    runner="python",
    refuses={Arithmetic.FIXED: "plain Python gains nothing from fixed point: export it in float32"},
    check_name=check_module_name,
    name_help="What the module is called.",
    arithmetic_help="Of Python's numbers: float32 only.",
)
