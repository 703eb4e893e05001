"""A tensor as plain Python: loops over flat arrays, for boards with MicroPython.

An index is a sum of loop variables, so axes are exchanged, cut and split for nothing. What is read once is computed
where it is read; the rest is kept in an array until its last reader is done.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite

from scare.export.tensors.indices import Index, address, broadcast, index_text, moved, split_axes
from scare.export.tensors.python_constants import Constants
from scare.export.tensors.stored_tensors import CALLS, choose_stored, is_sparse, nonzero_columns, unshaped
from scare.kernels.tensor import CONSTANT, INPUT, Tensor, in_order, size

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
