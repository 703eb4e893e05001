"""The kernels as an interpreter calls and checks them: `runtime/src/scare_blob_kernels.h`, which this module writes.

    declarations in scare_kernels.h, scare_fixed.h + C_EXTENTS of scare/kernels -> BlobKernel -> the header, blob.py

    python -m scare.export.blob_kernels  # after a kernel was added or its arguments changed; a test compares

A file names a kernel by `BlobKernel.identity`, a checksum of name, types, formulas and how it rounds: firmware that has
a kernel with other arguments or other bits does not have the one that the file means.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from scare.errors import NotApplicableError
from scare.export.c_source import IN_TREE, Parameter, declared_functions
from scare.kernels import C_EXTENTS
from scare.kernels.c_arguments import BYTES
from scare.kernels.c_extents import SIZES, TABLES, Code, Extents, Op, compile_formula, encode, largest_magnitude

HEADER = "scare_blob_kernels.h"
PREFIX = "scare_"
# Kinds of parameters, one byte each. A word is a size, any 32 bits, a signed integer or a float.
SIZE, WORD, SIGNED, REAL = range(4)
# A pointer has these bits (OUTPUT: to the output; OVER: the output may lie on it), and log2 of its numbers' bytes.
POINTER, OUTPUT, OVER = 0x80, 0x40, 0x20
REACHES, HOLDS, END = 0x80, 0x90, 0xFF  # after a formula: a pointer reaches that far, or it is true; after the last one
KINDS = {"uint32_t": SIZE, "int32_t": SIGNED, "float": REAL}
RANGES = {SIZE: SIZES, WORD: range(1 << 32), SIGNED: range(-(1 << 31), 1 << 31), REAL: range(1)}
MAGNITUDE_LIMIT = 1 << 62  # no formula reaches it, so none exceeds 64 bits
ARGUMENTS = {SIZE: "a[{}]", WORD: "a[{}]", SIGNED: "(int32_t)a[{}]", REAL: "real(a[{}])"}
TEXT = """\
/* Every kernel as scare_blob.c calls and checks it. Made by `python -m scare.export.blob_kernels`: do not edit. */
#ifndef SCARE_BLOB_KERNELS_H
#define SCARE_BLOB_KERNELS_H

/* clang-format off */

/* How a formula is written: scare/kernels/c_extents.py. */
enum {{
{operations}
}};

/* Rules begin with the number of parameters and the kind of each. */
{functions}

static const scare_kernel kernels[] = {{
{table}
}};

/* clang-format on */

#endif
"""
BITS_REVISION = {"f32": "", "q": "2"}  # another one whenever kernels round otherwise: files of before are then refused
ARITHMETICS = {"f32": "SCARE_BLOB_FLOAT32", "q": "SCARE_BLOB_FIXED"}  # suffix of its kernels; macro that compiles them


class Rule(NamedTuple):
    """A compiled formula: how many numbers the parameter with the index `pointer` reaches.

    If `pointer` is None, the formula is a condition, which must be true.
    """

    code: list[Code]
    pointer: int | None


@dataclass(frozen=True)
class BlobKernel:
    """A C function with its parameters, the kind of each, and the rules that a call must keep, in order."""

    function: str
    parameters: tuple[Parameter, ...]
    kinds: tuple[int, ...]
    rules: tuple[Rule, ...]

    @property
    def encoded(self) -> bytes:
        """What the interpreter checks a call by, in bytes: the number of parameters, the kind of each, and the rules.

        A rule is a compiled formula and a byte that says what it means: how far the pointer with this index reaches
        (`REACHES`), or a condition on the arguments (`HOLDS`). `END` follows the last rule.
        """
        ends = (HOLDS if rule.pointer is None else REACHES | rule.pointer for rule in self.rules)
        rules = b"".join(encode(rule.code) + bytes([end]) for rule, end in zip(self.rules, ends, strict=True))
        return bytes([len(self.kinds), *self.kinds]) + rules + bytes([END])

    @property
    def identity(self) -> int:
        """The number by which a file names the kernel."""
        types = ",".join(f"{parameter.kind}{'*' * parameter.is_pointer}" for parameter in self.parameters)
        revision = BITS_REVISION[self.function.rpartition("_")[2]]
        return crc32(f"{self.function}({types}){revision}".encode() + self.encoded)


@cache
def blob_kernels() -> Mapping[str, BlobKernel]:
    """Return every kernel by the name of its C function."""
    return {
        function: make_kernel(function, parameters, _extents(function))
        for function, parameters in sorted(declared_functions().items())
    }


def _extents(function: str) -> Extents:
    """Look up how far the pointers of a C function reach; the error says where to add that."""
    name = function.removeprefix(PREFIX)
    if name not in C_EXTENTS:
        raise NotApplicableError(
            f"{function} has no formulas: add '{name}' to C_EXTENTS of its family in scare/kernels"
        )
    return C_EXTENTS[name]


def make_kernel(function: str, parameters: tuple[Parameter, ...], extents: Extents) -> BlobKernel:
    """Compile the formulas of a function; `ValueError` if a number of them could exceed 64 bits."""
    names = [parameter.name for parameter in parameters]
    if {parameter.name for parameter in parameters if parameter.is_pointer} != extents.pointers.keys():
        raise ValueError(f"{function}: C_EXTENTS and declaration have other pointers")
    kinds = tuple(_kind(parameter, extents) for parameter in parameters)
    # The values of each argument; those of a pointer do not matter, because no formula counts with a pointer.
    ranges = [RANGES[kind] if kind in RANGES else range(1) for kind in kinds]
    pointers = [names.index(name) for name in extents.pointers]
    reaches = [compile_formula(formula, names) for formula in extents.pointers.values()]
    conditions = [compile_formula(formula, names) for formula in extents.where]
    rules = (*map(Rule, reaches, pointers), *(Rule(condition, None) for condition in conditions))
    for index, rule in enumerate(rules):
        if largest_magnitude(rule.code, ranges) >= MAGNITUDE_LIMIT:
            raise ValueError(f"{function}: a formula of C_EXTENTS may exceed 64 bits")
        # A formula may read a table only after a rule has said how far that reaches, and only bytes and half-words.
        tables_read = {code[1] for code in rule.code if code[0] in TABLES.values()}  # (operation, table, …)
        # `kind & 3` is log2 of the bytes of a table's number.
        if not tables_read <= set(pointers[:index]) or any(kinds[table] & 3 > 1 for table in tables_read):
            raise ValueError(f"{function}: a formula of C_EXTENTS reads a table that no formula before it has checked")
    return BlobKernel(function, parameters, kinds, rules)


def _kind(parameter: Parameter, extents: Extents) -> int:
    """Return the byte that says what a parameter is: its kind, or the bits of a pointer."""
    if parameter.is_pointer:
        log2_bytes = BYTES[parameter.kind].bit_length() - 1
        return POINTER | OUTPUT * parameter.is_output | OVER * (parameter.name in extents.over) | log2_bytes
    return WORD if parameter.name in extents.words else KINDS[parameter.kind]


def print_kernels() -> str:
    """Print the header."""
    kinds = {"SIZE": SIZE, "WORD": WORD, "SIGNED": SIGNED, "POINTER": POINTER, "OUTPUT": OUTPUT, "OVER": OVER}
    constants = {f"OP_{operation.name}": operation.value for operation in Op}
    constants |= {"REACHES": REACHES, "HOLDS": HOLDS, "END": END}
    constants |= {f"KIND_{name}": number for name, number in kinds.items()}
    return TEXT.format(
        operations="\n".join(f"    {name} = {number:#04x}," for name, number in constants.items()),
        functions="\n\n".join(_by_arithmetic(_print_functions)),
        table="\n".join(_by_arithmetic(_print_entry)),
    )


def _by_arithmetic(print_one: Callable[[BlobKernel], str]) -> Iterator[str]:
    """Print the kernels of each arithmetic inside the #if of its macro, so that firmware may leave one out."""
    for suffix, macro in ARITHMETICS.items():
        kernels = (kernel for kernel in blob_kernels().values() if kernel.function.endswith(f"_{suffix}"))
        yield "\n".join([f"#if {macro}", *map(print_one, kernels), "#endif"])


def _print_functions(kernel: BlobKernel) -> str:
    """Print a kernel's rules and the C function that calls it.

    That function takes the kernel's arguments from the words `a` of a file, and returns where the next call begins.
    """
    name = kernel.function.removeprefix(PREFIX)
    arguments = (
        f"at(a[{index}], base)" if kind & POINTER else ARGUMENTS[kind].format(index)
        for index, kind in enumerate(kernel.kinds)
    )
    return (
        f"static const uint8_t rules_{name}[] = {{{', '.join(map(str, kernel.encoded))}}};\n"
        f"static const uint32_t *call_{name}(const uint32_t *a, unsigned char *const *base) {{\n"
        f"    {kernel.function}({', '.join(arguments)});\n"
        f"    return a + {len(kernel.kinds)};\n}}\n"
    )


def _print_entry(kernel: BlobKernel) -> str:
    name = kernel.function.removeprefix(PREFIX)
    return f"    {{{kernel.identity:#010x}u, call_{name}, rules_{name}}},"


if __name__ == "__main__":
    (Path(IN_TREE) / "src" / HEADER).write_text(print_kernels(), encoding="utf-8")
