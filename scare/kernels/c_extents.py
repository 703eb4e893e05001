"""How far the pointers of each C function reach, as formulas in its sizes: what makes a call from a file safe.

    C_EXTENTS of each family + the declarations in scare_kernels.h, scare_fixed.h -> export/blob_kernels.py

Generated code is right by construction, but the interpreter in `runtime/src/scare_blob.c` takes sizes from a file. A
call is safe if every pointer has as many numbers as its formula says and every condition is true: tests run each kernel
on memory of exactly these lengths under sanitizers.

Formulas name the parameters of the C declaration and use + - * // %, 2 ** n, comparisons, `or` and these functions:
`up(n, m)` rounds up to a multiple, `max(a, b)`; of a table of whole numbers `total(table)`, `largest(table)` (0 if it
is empty) and `last(table)`, the largest sum of a pair. A table may be sliced with a step, as in `total(run[1::2])`.
"""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

SIZES = range(1 << 16)  # values that a uint32_t parameter that is a size may have
FARTHEST = 1000  # most bits between two units
LONGEST_SHIFT = 31  # bits
MOST_BYTES = 1 << 24  # largest table


@dataclass(frozen=True)
class Extents:
    """Formulas of a C function: numbers that each pointer reaches, and conditions.

    A pointer comes after the tables that its formula reads. `over` are inputs whose memory may be that of the output.
    `words` are parameters of type uint32_t that are not sizes: they may be any number.
    """

    pointers: Mapping[str, str]
    where: tuple[str, ...] = ()
    over: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()


def extents(where: str = "", over: str = "", words: str = "", **pointers: str) -> Extents:
    """Make the extents of a function; conditions are separated by commas, names by spaces.

    >>> extents(out="count", a="count", b="count", where="count >= 1, max(count, 2) < 9", over="a b").where
    ('count >= 1', 'max(count, 2) < 9')
    """
    conditions = ast.parse(f"[{where}]", mode="eval").body
    assert isinstance(conditions, ast.List)
    return Extents(
        pointers, tuple(map(ast.unparse, conditions.elts)), frozenset(over.split()), frozenset(words.split())
    )


def near(parameter: str) -> str:
    """Return the condition that a parameter, a shift between two units, is at most `FARTHEST` bits either way.

    It is text for the argument `where` of `extents`.
    """
    return f"{-FARTHEST} <= {parameter} <= {FARTHEST}"


class Op(IntEnum):
    """Operations on a stack of whole numbers, as the interpreter has them in `scare_blob_kernels.h`.

    A byte below 0x10 pushes the parameter of that index. BYTE, HALF and WORD push the number in the 1, 2 or 4 bytes
    after them. TOTAL, LARGEST and LAST push, of a slice of a table, the sum, the largest number or the largest sum of a
    pair. Three bytes follow them: the table's index, and the first number and the step of the slice.
    """

    BYTE = 0x10
    HALF = 0x11
    WORD = 0x12
    ADD = 0x20
    SUBTRACT = 0x21
    MULTIPLY = 0x22
    DIVIDE = 0x23
    REMAINDER = 0x24
    POWER = 0x25
    LESS = 0x26
    NOT_ABOVE = 0x27
    EQUAL = 0x28
    MAXIMUM = 0x29
    TOTAL = 0x30
    LARGEST = 0x31
    LAST = 0x32


BINARY: dict[type, Op] = {
    ast.Add: Op.ADD,
    ast.Sub: Op.SUBTRACT,
    ast.Mult: Op.MULTIPLY,
    ast.FloorDiv: Op.DIVIDE,
    ast.Mod: Op.REMAINDER,
    ast.Lt: Op.LESS,
    ast.LtE: Op.NOT_ABOVE,
    ast.GtE: Op.NOT_ABOVE,
    ast.Eq: Op.EQUAL,
}
TABLES = {"total": Op.TOTAL, "largest": Op.LARGEST, "last": Op.LAST}
RUN: dict[Op, Callable[[int, int], int]] = {
    Op.ADD: lambda a, b: a + b,
    Op.SUBTRACT: lambda a, b: a - b,
    Op.MULTIPLY: lambda a, b: a * b,
    Op.DIVIDE: lambda a, b: a // b,
    Op.REMAINDER: lambda a, b: a % b,
    Op.LESS: lambda a, b: int(a < b),
    Op.NOT_ABOVE: lambda a, b: int(a <= b),
    Op.EQUAL: lambda a, b: int(a == b),
    Op.MAXIMUM: max,
}
Code = tuple[int, ...]  # an operation or the index of a parameter, and its operands


def compile_formula(formula: str, parameters: Sequence[str]) -> list[Code]:
    """Compile a formula to operations (`Op`) on a stack; a parameter is its index in `parameters`.

    Rounding up, as in this example, is compiled to (inputs + 1) // 2 * 2.

    >>> encode(compile_formula("rows + up(inputs, 2)", ["out", "rows", "inputs"])).hex(" ")
    '01 02 10 01 20 10 02 23 10 02 22 20'
    """
    return list(_compile(ast.parse(formula, mode="eval").body, parameters))


def _compile(node: ast.expr, names: Sequence[str]) -> Iterator[Code]:
    """Yield the operations that leave the value of a node on the stack; a condition is a number, 0 if it is false.

    Operands come before their operation, so `rows + 2` is rows, 2, ADD. `names` are those of the parameters.
    """
    match node:
        case ast.Constant(value=int(number)):
            yield _constant(number)
        case ast.Name(id=name):
            yield (names.index(name),)
        case ast.UnaryOp(op=ast.USub(), operand=operand):  # −x is computed as 0 − x
            yield _constant(0)
            yield from _compile(operand, names)
            yield (Op.SUBTRACT,)
        case ast.BinOp(left=ast.Constant(value=2), op=ast.Pow(), right=exponent):
            yield from _compile(exponent, names)
            yield (Op.POWER,)
        case ast.BinOp(left=left, op=op, right=right):
            yield from (*_compile(left, names), *_compile(right, names), (BINARY[type(op)],))
        case ast.BoolOp(op=ast.Or(), values=[first, *others]):
            yield from _compile(first, names)
            for other in others:  # a sum of conditions is 0 if all are false
                yield from (*_compile(other, names), (Op.ADD,))
        case ast.Compare(left=left, ops=ops, comparators=others):
            for index, (compare, before, after) in enumerate(zip(ops, [left, *others], others, strict=False)):
                # a >= b is computed as b <= a
                first, second = (after, before) if isinstance(compare, ast.GtE) else (before, after)
                yield from (*_compile(first, names), *_compile(second, names), (BINARY[type(compare)],))
                if index:  # a < b < c is the product of a < b and b < c
                    yield (Op.MULTIPLY,)
        case ast.Call(func=ast.Name(id="up"), args=[number, ast.Constant(value=int(multiple))]):
            # (number + multiple − 1) // multiple · multiple
            divided = (_constant(multiple - 1), (Op.ADD,), _constant(multiple), (Op.DIVIDE,))
            yield from (*_compile(number, names), *divided, _constant(multiple), (Op.MULTIPLY,))
        case ast.Call(func=ast.Name(id="max"), args=[first, second]):
            yield from (*_compile(first, names), *_compile(second, names), (Op.MAXIMUM,))
        case ast.Call(func=ast.Name(id=function), args=[table]) if function in TABLES:
            yield (TABLES[function], *_slice(table, names))
        case _:
            raise ValueError(f"a formula has no {ast.unparse(node)}")


def _constant(number: int) -> Code:
    """Return the shortest operation that puts a number on the stack, with the bytes of the number."""
    operation, size = next(
        (operation, size) for operation, size in ((Op.BYTE, 1), (Op.HALF, 2), (Op.WORD, 4)) if number < 1 << 8 * size
    )
    return operation, *number.to_bytes(size, "little")


def _slice(table: ast.expr, names: Sequence[str]) -> tuple[int, int, int]:
    """Return the index of a table, the first number and the step of the slice."""
    match table:
        case ast.Name(id=name):
            return names.index(name), 0, 1
        case ast.Subscript(ast.Name(name), ast.Slice(None, None, ast.Constant(int(step)))):
            return names.index(name), 0, step
        case ast.Subscript(ast.Name(name), ast.Slice(ast.Constant(int(start)), None, ast.Constant(int(step)))):
            return names.index(name), start, step
    raise ValueError(f"a formula has no {ast.unparse(table)}")


def encode(code: Sequence[Code]) -> bytes:
    """Return the bytes of a compiled formula."""
    return bytes(byte for operation in code for byte in operation)


def evaluate(code: Sequence[Code], numbers: Sequence[int], tables: Mapping[int, np.ndarray]) -> int | None:
    """Compute a compiled formula; None if an exponent of two is not 0 to 31, or a table is missing.

    `numbers` are the values of the parameters, in their order; `tables` has the tables among them, by index.

    >>> evaluate(compile_formula("total(t[1::2]) * n", ["t", "n"]), [0, 3], {0: np.array([9, 1, 9, 2])})
    9
    """
    stack: list[int] = []
    for operation, *operands in code:
        match operation:
            case Op.BYTE | Op.HALF | Op.WORD:
                stack.append(int.from_bytes(bytes(operands), "little"))
            case Op.TOTAL | Op.LARGEST | Op.LAST:
                table, first, step = operands
                if table not in tables:
                    return None
                stack.append(_of_table(Op(operation), tables[table].astype(np.int64)[first::step]))
            case Op.POWER:
                if not 0 <= stack[-1] <= LONGEST_SHIFT:
                    return None
                stack[-1] = 1 << stack[-1]
            case _ if operation < len(numbers):  # the index of a parameter
                stack.append(numbers[operation])
            case _:
                second = stack.pop()
                stack[-1] = RUN[Op(operation)](stack[-1], second)
    return stack.pop()


def _of_table(op: Op, numbers: np.ndarray) -> int:
    """Compute what TOTAL, LARGEST or LAST push for these numbers of a slice."""
    if op is Op.TOTAL:
        return int(numbers.sum())
    if op is Op.LAST:  # the largest sum of a pair, such as the end of a segment given by start and length
        numbers = numbers[: len(numbers) // 2 * 2].reshape(-1, 2).sum(axis=1)
    return int(numbers.max(initial=0))


def largest_magnitude(code: Sequence[Code], ranges: Sequence[range]) -> int:
    """Return the largest magnitude of any intermediate number of a formula, which a board computes in 64 bits.

    `ranges` are the values that each parameter may have. The formula is followed as in `evaluate`, with the lowest and
    the highest value in place of each number. Raises `ValueError` if a number that is divided may be negative: C would
    round it towards zero.
    """
    stack: list[tuple[int, int]] = []  # the lowest and highest value of each number
    largest = 0
    for operation, *operands in code:
        match operation:
            case Op.BYTE | Op.HALF | Op.WORD:
                stack.append((int.from_bytes(bytes(operands), "little"),) * 2)
            case Op.TOTAL | Op.LARGEST | Op.LAST:
                # A table has at most `MOST_BYTES` numbers, none above `SIZES[-1]`; LAST is a sum of two.
                stack.append((0, MOST_BYTES * SIZES[-1] if operation == Op.TOTAL else 2 * SIZES[-1]))
            case Op.POWER:
                stack[-1] = (1, 1 << LONGEST_SHIFT)
            case _ if operation < len(ranges):  # the index of a parameter
                stack.append((ranges[operation][0], ranges[operation][-1]))
            case _:
                second, first = stack.pop(), stack.pop()
                if operation in (Op.DIVIDE, Op.REMAINDER) and (min(first) < 0 or min(second) < 1):
                    raise ValueError("a number that is divided may be negative")
                # Results are lowest and highest where both operands are at ends of their ranges; not so remainders.
                results = [RUN[Op(operation)](a, b) for a in first for b in second]
                if operation == Op.REMAINDER:
                    results = [0, max(second) - 1]
                stack.append((min(results), max(results)))
        largest = max(largest, *map(abs, stack[-1]))
    return largest
