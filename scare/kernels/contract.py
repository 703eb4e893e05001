"""The kernel contract: what a kernel computes, its output's shape, its cost; a step is one call of it in a plan.

Every family file of `kernels/` ends in one dict for each form that its kernels have; `KernelTable` joins the families.
"""

from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field, fields
from math import prod
from typing import Annotated, Any, TypeVar

import numpy as np
from annotated_types import Ge, Le

from scare.errors import NotApplicableError

Shape = tuple[int, ...]
Weights = Mapping[str, np.ndarray]
Shapes = Mapping[str, Shape]
Settings = Mapping[str, Any]
Form = TypeVar("Form")
INPUT = "x"  # the name of the value that every plan begins with: the window
BITS = Annotated[int, Ge(1), Le(32)]  # length of a hash code, which fits a 32-bit word
FIXED_SUFFIX = "_q"  # ends the name of a fixed-point kernel


@dataclass(frozen=True)
class Operations:
    """How many of each operation one inference takes."""

    multiply_adds: int = 0
    additions: int = 0
    bit_operations: int = 0
    exponentials: int = 0
    divisions: int = 0

    def __add__(self, other: "Operations") -> "Operations":
        return Operations(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True)
class Kernel:
    """One operation: its NumPy body `run(*inputs, weights, settings)`, the shape of its output, and its cost.

    `shape`, `cost` and `scratch` take the same arguments as `run`, with shapes (without the batch) in place of arrays.
    """

    run: Callable[..., np.ndarray]
    shape: Callable[..., Shape]
    cost: Callable[..., Operations]
    copies: bool = True  # False: the output is a view of the first input
    takes: Mapping[str, Any] = field(default_factory=dict)  # type of each setting by name
    integer_weights: frozenset[str] = frozenset()  # names of the weights that are indices
    scratch: Callable[..., int] = lambda *_: 0  # numbers that `run` needs in memory besides its output


@dataclass(frozen=True)
class Codes:
    """The decisions of a kernel, such as hash bits or paths in trees, as integers.

    All runtimes must make the same decisions, except where rounding decides a near tie. `read(x, weights, settings)`
    returns the codes of a batch [n, tokens]. `margins` takes the same arguments and returns the signed distance of each
    bit from a tie, [n, tokens, bits], infinite for a bit that a token does not have. In a `path` through a tree, the
    highest bit in which two codes differ is where the paths parted; lower bits then belong to other nodes.
    """

    read: Callable[..., np.ndarray]
    margins: Callable[..., np.ndarray]
    path: bool = False


@dataclass(frozen=True)
class Step:
    """One kernel call: `output = kernel(*inputs, weights, settings)`."""

    kernel: str
    inputs: tuple[str, ...]
    output: str
    weights: Weights = field(default_factory=dict)
    settings: Settings = field(default_factory=dict)

    @property
    def weight_shapes(self) -> dict[str, Shape]:
        """Shape of each weight by name."""
        return {name: weight.shape for name, weight in self.weights.items()}


def expect(condition: bool, what: str) -> None:
    """Raise ValueError unless the condition is true; `what` names the kernel or weight whose shapes do not fit."""
    if not condition:
        raise ValueError(f"the shapes of {what} do not fit")


def same_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Return the input's shape: the shape function of kernels that keep it."""
    return x


def equal_shapes(kernel: str) -> Callable[..., Shape]:
    """Make the shape function of a kernel with two inputs of one shape; `kernel` is its name in the error message."""

    def shape(a: Shape, b: Shape, weights: Shapes, settings: Settings) -> Shape:
        expect(a == b, kernel)
        return a

    return shape


def free(*_: Any) -> Operations:
    """Count nothing: the cost function of kernels that only move or compare data."""
    return Operations()


def per_number(**each: int) -> Callable[..., Operations]:
    """Make the cost function of a kernel that spends these operations on each number of its first input.

    >>> per_number(multiply_adds=1, additions=2)((3, 4))
    Operations(multiply_adds=12, additions=24, bit_operations=0, exponentials=0, divisions=0)
    """

    def cost(x: Shape, *_: Any) -> Operations:
        return Operations(**{operation: times * prod(x) for operation, times in each.items()})

    return cost


def one_product(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Compute x [..., I] @ matrix [I, O] as one large product, which BLAS does faster than one product per window."""
    return (x.reshape(-1, x.shape[-1]) @ matrix).reshape(*x.shape[:-1], matrix.shape[1])


def row_sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the dot product of each row of a [..., D] with the same row of b: [..., 1]."""
    return np.einsum("...d,...d->...", a, b)[..., None]


class KernelTable(ChainMap[str, Form]):
    """Maps kernel names to one form, such as the NumPy bodies; the error for a missing one names the file to edit.

    `form` is the name of the form in that error; `families` are the kernels by file, such as "attention".
    `reference` is the table of another form of the same kernels, to find the family of a kernel that this one lacks.
    """

    def __init__(
        self, form: str, families: Mapping[str, MutableMapping[str, Form]], reference: "KernelTable[Any] | None" = None
    ) -> None:
        super().__init__(*families.values())
        self.form, self.families, self.reference = form, families, reference

    def __missing__(self, kernel: str) -> Form:
        raise self.missing(kernel)

    def missing(self, kernel: str) -> NotApplicableError:
        """Make the error for a kernel that this table does not have, such as one without fixed point."""
        file = f"scare/kernels/{self.family_of(kernel)}.py"
        return NotApplicableError(f"the kernel '{kernel}' has no {self.form}: add it to {file}")

    def family_of(self, kernel: str) -> str:
        """Return the family of a kernel, or of a fixed-point one's float counterpart; a placeholder if unknown."""
        names = {kernel, kernel.removesuffix(FIXED_SUFFIX)}
        for family, table in self.families.items():
            if names & table.keys():
                return family
        return self.reference.family_of(kernel) if self.reference is not None else "<family>"
