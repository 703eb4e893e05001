"""Code generation for MicroPython: a tensor graph as loops over flat arrays in plain Python.

    Tensor (tensor_graph.py) -> print_function -> lines of Python -> micropython.py

A tensor that is read once is computed where it is read; others are stored in an array until their last reader is done.
An index is a sum of loop variables with factors, so transposing, slicing and reshaping change only the index.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite, prod

import numpy as np

from scare.kernels import Shape
from scare.kernels.tensor import CONSTANT, INPUT, Tensor, in_order, size

Index = dict[str, int]  # a sum of loop variables with their factors; "" is the constant term

LITERAL_BYTES = 24  # bytes of a literal in each line, which then has at most 120 columns
VIEWS = ("reshape", "permute", "slice", "gather")
CALLS = ("softmax", "later_sum", "lstm")  # functions of scare_live.py, which take whole arrays
MOSTLY_ZERO = 0.6  # a constant matrix with a larger share of zeros is stored sparse
FORMATS = {  # elementwise operations; a format that begins with a bracket is bracketed as a whole
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
NEUTRAL = {"multiply": "1.0", "add": "0.0"}  # second operand that changes nothing: the operation is left out
LETTERS = "ijklmnopqr"  # loop variables; further ones get a number


@dataclass
class Constants:
    """Constant arrays of a module, as byte literals; equal arrays are stored once."""

    _names: dict[bytes, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    bytes: int = 0

    def name(self, numbers: np.ndarray) -> str:
        """Return the name of the constant array with these numbers, which is added on first use."""
        if numbers.dtype.kind == "f":
            code = "f"
        else:  # the smallest unsigned type
            largest = numbers.max(initial=0)
            code = "B" if largest < 1 << 8 else "H" if largest < 1 << 16 else "I"
        stored = numbers.astype(f"<{np.dtype(code).str[1:]}").tobytes()
        key = code.encode() + stored
        if key not in self._names:
            self._names[key] = f"C{len(self._names)}"
            begun = f'{self._names[key]} = array("{code}", '
            literals = [repr(stored[at : at + LITERAL_BYTES]) for at in range(0, max(1, len(stored)), LITERAL_BYTES)]
            if len(literals) == 1:
                self.lines.append(f"{begun}{literals[0]})")
            else:
                self.lines += [f"{begun}(", *(f"    {literal}" for literal in literals), "))"]
            self.bytes += len(stored)
        return self._names[key]


@dataclass(frozen=True)
class Function:
    """Body of a function that computes a tensor [1] from the flat window `x`, and the peak of the bytes it stores."""

    lines: list[str]
    scratch_bytes: int


def print_function(result: Tensor, constants: Constants) -> Function:
    r"""Print the body of the function that computes a tensor.

    >>> from scare.kernels.tensor import window
    >>> hidden = (window(1, 3) @ np.ones((3, 2), np.float32)).apply("relu")
    >>> print("\n".join(print_function((hidden * hidden).sum().reshape(1), Constants()).lines))
    t0 = zeros(2)
    for i in range(2):
        s1 = 0.0
        for j in range(3):
            s1 += x[j] * C0[2 * j + i]
        t0[i] = max(s1, 0.0)
    s1 = 0.0
    for i in range(2):
        s1 += t0[i] * t0[i]
    return s1
    """
    printer = _Printer(result, constants)
    # The statement that stores each stored tensor, by the tensor's name; then the one that returns the result.
    named_steps = [(name, printer.store(tensor, name)) for tensor in in_order(result) if (name := printer.name(tensor))]
    named_steps.append(("", printer.return_value(result)))
    last_reader = {name: index for index, (_, step) in enumerate(named_steps) for name in step.reads}
    lines = []
    live = dict[str, int]()  # bytes of the arrays in use, by name
    peak = 0
    for index, (name, step) in enumerate(named_steps):
        lines += step.lines
        live[name] = step.bytes
        peak = max(peak, sum(live.values()))
        done = [name for name, count in live.items() if count and last_reader[name] == index]
        is_last = index + 1 == len(named_steps)
        lines += [f"del {', '.join(done)}"] if done and not is_last else []
        live = {name: count for name, count in live.items() if name not in done}
    return Function(lines, peak)


@dataclass
class _Step:
    """One statement with its loops, the arrays it reads, and the bytes of the array it makes."""

    lines: list[str] = field(default_factory=list)
    reads: set[str] = field(default_factory=set)
    bytes: int = 0
    letters: int = 0  # loop variables in use
    sums: int = 0  # variables of sums in use

    def along(self, length: int) -> Index:
        """Make an index along an axis: a new loop variable, or none for length 1."""
        if length == 1:
            return {}
        suffix, letter = divmod(self.letters, len(LETTERS))
        self.letters += 1
        return {f"{LETTERS[letter]}{suffix or ''}": 1}

    def new_sum(self) -> str:
        """Name a new variable for a sum."""
        self.sums += 1
        return f"s{self.sums}"


class _Printer:
    """Prints a statement for each stored tensor; other tensors become part of the statement that reads them."""

    def __init__(self, result: Tensor, constants: Constants) -> None:
        self._constants = constants
        stored, self._arrays = choose_stored(result)
        ordered = [tensor for tensor in in_order(result) if id(tensor) in stored]
        self._names = {id(tensor): f"t{number}" for number, tensor in enumerate(ordered)}

    def name(self, tensor: Tensor) -> str:
        """Return the name of a stored tensor; empty if it is not stored."""
        return self._names.get(id(tensor), "")

    def return_value(self, result: Tensor) -> _Step:
        """Print the statement that returns the single number of the result."""
        step = _Step()
        value = self._value(result, [{}], step, step.lines)
        step.lines.append(f"return {_unbracketed(value)}")
        return step

    def store(self, tensor: Tensor, name: str) -> _Step:
        """Print the statement that stores a tensor in an array, or a single number in a variable."""
        step = _Step()
        if not self._is_array(tensor):
            value = self._value(tensor, [{} for _ in tensor.shape], step, step.lines, stored=False)
            step.lines.append(f"{name} = {_unbracketed(value)}")
            return step
        step.bytes = 4 * size(tensor)
        if tensor.operation in CALLS:
            step.lines.append(f"{name} = {self._call(tensor, step)}")
            return step
        step.lines.append(f"{name} = zeros({size(tensor)})")
        axis, start = tensor.settings.get("axis", 0), 0
        for operand in tensor.inputs if tensor.operation == "concatenate" else (tensor,):
            self._fill(step, tensor, operand, axis, start)
            start += operand.shape[axis]
        return step

    def _is_array(self, tensor: Tensor) -> bool:
        """Whether a stored tensor is an array; else it is a variable with a single number."""
        return size(tensor) > 1 or tensor.operation in (INPUT, CONSTANT) or id(tensor) in self._arrays

    def _fill(self, step: _Step, target: Tensor, part: Tensor, axis: int, start: int) -> None:
        """Add loops that write `part` into the target, from `start` along an axis."""
        step.letters = 0  # loops of another part are over, so their variables are free again
        lines = list[str]()
        places = [step.along(length) for length in part.shape]
        # A part of a concatenation may have been stored already and is then read; the target itself is computed here.
        value = self._value(part, places, step, lines, stored=part is not target)
        in_target = [shifted(place, start) if number == axis else place for number, place in enumerate(places)]
        lines.append(f"{self.name(target)}[{index_text(address(in_target, target.shape))}] = {_unbracketed(value)}")
        # Wrap loops around the statement, the innermost first; an axis of length 1 has no loop variable.
        for place, length in reversed(list(zip(places, part.shape, strict=True))):
            for letter in place:
                lines = _print_loop(letter, f"range({length})", lines)
        step.lines += lines

    def _call(self, tensor: Tensor, step: _Step) -> str:
        """Print the call of a function in scare_live.py: its arrays, then how many numbers a row has."""
        names = [self._array(operand, step) for operand in tensor.inputs]
        # Rows of `later_sum` are along the first axis, those of the others along the last.
        width = size(tensor) // tensor.shape[0] if tensor.operation == "later_sum" else tensor.shape[-1]
        return f"{tensor.operation}({', '.join([*names, str(width)])})"

    def _array(self, tensor: Tensor, step: _Step) -> str:
        """Return the name of the array that holds a tensor, and record in the step that it reads that array."""
        tensor = unshaped(tensor)
        if tensor.operation == INPUT:
            return "x"
        if tensor.constant is not None:
            return self._constants.name(tensor.constant)
        step.reads.add(self.name(tensor))
        return self.name(tensor)

    # The methods below print one operation each and are found by its name. They return the expression of the tensor's
    # element at `places`, one index for each axis: "s1", or "max(s1, 0.0)". They add what must run before it, such as
    # the loop of a sum, to `lines`, and the arrays that they read to `step`.

    def _value(
        self, tensor: Tensor, places: Sequence[Index], step: _Step, lines: list[str], stored: bool = True
    ) -> str:
        """Print any tensor's element: read from its array if it is stored, else computed by its operation's method.

        `stored=False` computes the element even if the tensor is stored, in order to store it.
        """
        base = unshaped(tensor) if stored else tensor
        if stored and (base.operation in (INPUT, CONSTANT) or self.name(base)):
            return self._load(base, address(places, tensor.shape), step)
        if tensor.operation in FORMATS:
            return self._pointwise(tensor, places, step, lines)
        return getattr(self, f"_{tensor.operation}")(tensor, places, step, lines)

    def _load(self, tensor: Tensor, place: Index, step: _Step) -> str:
        """Read the input, a constant or a stored tensor at a flat index; a constant of one number is a literal."""
        if tensor.constant is not None and size(tensor) == 1 and isfinite(number := tensor.constant.item()):
            return repr(number)
        name = self._array(tensor, step)
        return f"{name}[{index_text(place)}]" if self._is_array(tensor) else name

    def _pointwise(self, tensor: Tensor, places: Sequence[Index], step: _Step, lines: list[str]) -> str:
        """Print an elementwise operation as in FORMATS; adding 0 and multiplying by 1 are left out."""
        values = [self._value(operand, broadcast(places, operand.shape), step, lines) for operand in tensor.inputs]
        if values[1:] == [NEUTRAL.get(tensor.operation)]:
            return values[0]
        form = FORMATS[tensor.operation]
        return form.format(*(values if form.startswith("(") else map(_unbracketed, values)))

    def _reshape(self, tensor: Tensor, places: Sequence[Index], step: _Step, lines: list[str]) -> str:
        """Print a reshape: the indices of axes that were split from one axis of the source are joined again."""
        source = unshaped(tensor)
        split = split_axes(tensor.shape, source.shape)
        assert split is not None, "what cannot be split was stored"
        inner = [address(places[axes], tensor.shape[axes]) for axes in split]  # one index for each axis of the source
        return self._value(source, inner, step, lines)

    def _permute(self, tensor: Tensor, places: Sequence[Index], step: _Step, lines: list[str]) -> str:
        """Print a transposition: the source is read at the same indices in the order of its own axes."""
        axes = list(tensor.settings["axes"])
        inner = [places[axes.index(axis)] for axis in range(len(axes))]
        return self._value(tensor.inputs[0], inner, step, lines)

    def _slice(self, tensor: Tensor, places: Sequence[Index], step: _Step, lines: list[str]) -> str:
        """Print a slice: the source is read `start` elements later along one axis."""
        axis, start = tensor.settings["axis"], tensor.settings["start"]
        inner = [shifted(place, start) if at == axis else place for at, place in enumerate(places)]
        return self._value(tensor.inputs[0], inner, step, lines)

    def _gather(self, tensor: Tensor, places: Sequence[Index], step: _Step, lines: list[str]) -> str:
        """Print a gather: the row index is looked up in a constant array."""
        row = f"{self._constants.name(tensor.settings['rows'])}[{index_text(places[0])}]"
        return self._value(tensor.inputs[0], [{row: 1}, *places[1:]], step, lines)

    def _after_zeros(self, tensor: Tensor, places: Sequence[Index], step: _Step, lines: list[str]) -> str:
        """Print a padding: zero in the first rows, then the rows of the source."""
        rows = tensor.settings["rows"]
        value = self._value(tensor.inputs[0], [shifted(places[0], -rows), *places[1:]], step, lines)
        return f"({value} if {index_text(places[0])} >= {rows} else 0.0)"

    def _sum(self, tensor: Tensor, places: Sequence[Index], step: _Step, lines: list[str]) -> str:
        """Print a sum along an axis: its loop goes to `lines`, and the name of the sum is returned."""
        source, axis = tensor.inputs[0], tensor.settings["axis"]
        length = source.shape[axis]
        loop_index = step.along(length)  # the loop's new variable
        source_places = [loop_index if number == axis else place for number, place in enumerate(places)]
        body: list[str] = []  # lines within the loop, which `_value` prints: what an element of the source needs
        element = self._value(source, source_places, step, body)
        return _print_sum(step, lines, loop_index, f"range({length})", body, element)

    def _matmul(self, tensor: Tensor, places: Sequence[Index], step: _Step, lines: list[str]) -> str:
        """Print a matrix product: the loop over a row and a column goes to `lines`, the name of the sum is returned."""
        (left, right), (*front, column), body = tensor.inputs, places, list[str]()
        if is_sparse(right):
            return self._sparse(tensor, places, step, lines)
        along = step.along(left.shape[-1])
        factor = self._value(left, [*front, along], step, body)
        # The result at [batch…, row, column] sums left [batch…, row, along] times right [batch…, along, column].
        other = self._value(right, broadcast([*front[:-1], along, column], right.shape), step, body)
        return _print_sum(step, lines, along, f"range({left.shape[-1]})", body, f"({factor} * {other})")

    def _sparse(self, tensor: Tensor, places: Sequence[Index], step: _Step, lines: list[str]) -> str:
        """Print a product with a sparse constant matrix: the sum runs over the nonzero elements of a column only."""
        (left, right), (*front, column), body = tensor.inputs, places, list[str]()
        assert right.constant is not None
        rows, weights, starts = map(self._constants.name, nonzero_columns(right.constant))
        along = step.along(size(right))
        row = {f"{rows}[{index_text(along)}]": 1}
        value = f"({self._value(left, [*front, row], step, body)} * {weights}[{index_text(along)}])"
        over = f"range({starts}[{index_text(column)}], {starts}[{index_text(shifted(column, 1))}])"
        return _print_sum(step, lines, along, over, body, value)


def _unbracketed(value: str) -> str:
    """Strip the outer brackets; an expression is bracketed as a whole or not at all."""
    return value[1:-1] if value.startswith("(") else value


def _print_loop(letter: str, over: str, body: Iterable[str]) -> list[str]:
    """Print a for loop with the variable `letter` over the range `over`, and its body indented."""
    return [f"for {letter} in {over}:", *(f"    {line}" for line in body)]


def _print_sum(step: _Step, lines: list[str], along: Index, over: str, body: list[str], value: str) -> str:
    """Add the loop that sums a value along an index to `lines`, and return the name of the sum.

    An empty index has one element, so the value itself is returned.
    """
    if not along:
        lines += body
        return value
    name = step.new_sum()
    lines += [f"{name} = 0.0", *_print_loop(index_text(along), over, [*body, f"{name} += {_unbracketed(value)}"])]
    return name


def choose_stored(result: Tensor) -> tuple[set[int], set[int]]:
    """Choose the tensors to store, by id, and which of them must be arrays.

    A tensor is stored if it would otherwise be computed more often than it has elements. The loop goes from the result
    back to the input, because how often a tensor is computed depends on its readers.
    """
    # How many elements each reader of a tensor takes in total, by the tensor's id.
    reads = defaultdict[int, list[int]](list)
    stored, arrays = set[int](), set[int]()
    reads[id(result)].append(1)
    for tensor in reversed(in_order(result)):
        reads_by_reader = reads[id(tensor)]
        if tensor.operation in (INPUT, CONSTANT):
            continue
        if tensor.operation in (*CALLS, "concatenate"):
            arrays.add(id(tensor))
        is_read_once = len(reads_by_reader) == 1 and reads_by_reader[0] <= size(tensor)
        if id(tensor) in arrays or not (is_read_once or tensor.operation in VIEWS):
            stored.add(id(tensor))
        if tensor.operation in CALLS:  # functions that take and return whole arrays
            arrays |= {id(unshaped(operand)) for operand in tensor.inputs}
        # A reshape that joins axes has one index for several axes of its source, which only an array can be read with.
        if tensor.operation == "reshape" and split_axes(tensor.shape, unshaped(tensor).shape) is None:
            arrays.add(id(unshaped(tensor)))
        # A stored tensor computes each element once, another one computes it anew for each reader.
        for computed in [size(tensor)] if id(tensor) in stored else reads_by_reader:
            for operand, factor in zip(tensor.inputs, _reads_per_element(tensor), strict=True):
                reads[id(operand)].append(computed * factor)
    return stored, arrays


def _reads_per_element(tensor: Tensor) -> list[int]:
    """Estimate how many elements of each input one element of the tensor reads."""
    if tensor.operation == "matmul":
        left, right = tensor.inputs
        if is_sparse(right):
            assert right.constant is not None
            nonzero_per_column = -(-int(np.count_nonzero(right.constant)) // right.shape[-1])  # rounded up
            return [nonzero_per_column] * 2
        return [left.shape[-1]] * 2
    if tensor.operation == "sum":
        return [tensor.inputs[0].shape[tensor.settings["axis"]]]
    return [1] * len(tensor.inputs)


def unshaped(tensor: Tensor) -> Tensor:
    """Strip reshapes from a tensor: the numbers and their order stay the same."""
    while tensor.operation == "reshape":
        tensor = tensor.inputs[0]
    return tensor


def is_sparse(matrix: Tensor) -> bool:
    """Whether a matrix is constant and mostly zero."""
    constant = matrix.constant
    if constant is None or constant.ndim != 2 or constant.size <= 1:
        return False
    return bool((constant == 0).mean() > MOSTLY_ZERO)


def nonzero_columns(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compress to CSC: rows and values of the nonzero elements, and where each column starts (and the last one ends).

    >>> [part.tolist() for part in nonzero_columns(np.array([[0, 2], [0, 0], [0, 3]]))]
    [[0, 2], [2, 3], [0, 0, 2]]
    """
    columns, rows = np.nonzero(matrix.T)
    return rows, matrix[rows, columns], np.searchsorted(columns, np.arange(matrix.shape[1] + 1))


def address(places: Sequence[Index], shape: Shape) -> Index:
    """Combine the indices of all axes into one index of the row-major array."""
    total: Index = {}
    stride = prod(shape)
    for place, length in zip(places, shape, strict=True):
        stride //= length
        for name, times in place.items():
            total[name] = total.get(name, 0) + times * stride
    return total


def broadcast(places: Sequence[Index], shape: Shape) -> list[Index]:
    """Convert the indices of a result to those of an operand of this shape, by NumPy's broadcasting."""
    last = places[len(places) - len(shape) :]
    return [place if length > 1 else {} for place, length in zip(last, shape, strict=True)]


def shifted(place: Index, number: int) -> Index:
    """Shift an index by a constant."""
    return {**place, "": place.get("", 0) + number}


def index_text(index: Index) -> str:
    """Print an index as a Python expression.

    >>> index_text({"i": 8, "": -3, "j": 1}), index_text({})
    ('8 * i + j - 3', '0')
    """
    number = index.get("", 0)
    terms = [name if times == 1 else f"{times} * {name}" for name, times in index.items() if name and times]
    if not terms:
        return str(number)
    end = f" {'+' if number > 0 else '-'} {abs(number)}" if number else ""
    return " + ".join(terms) + end


def split_axes(shape: Shape, source: Shape) -> list[slice] | None:
    """Find the axes of `shape` that each axis of the source is split into; None if axes are joined.

    >>> split_axes((5, 2, 3), (5, 6)), split_axes((30,), (5, 6))
    ([slice(0, 1, None), slice(1, 3, None)], None)
    """
    parts, axis = [], 0
    for length in source:
        start, product = axis, 1
        while product < length and axis < len(shape):
            product *= shape[axis]
            axis += 1
        if product != length:
            return None
        parts.append(slice(start, axis))
    return parts
