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
BITS = Annotated[int, Ge(1), Le(32)]  # of a hash code, which fits a word
FIXED_SUFFIX = "_q"  # of the names of fixed-point kernels


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
    """One operation: `run(*inputs, weights, settings)`; `shape` and `cost` take the shapes of inputs and weights."""

    run: Callable[..., np.ndarray]
    shape: Callable[..., Shape]
    cost: Callable[..., Operations]
    copies: bool = True  # whether the output needs memory of its own
    takes: Mapping[str, Any] = field(default_factory=dict)  # its settings, each with its type
    integer_weights: frozenset[str] = frozenset()  # the names of weights that are indices, not real numbers
    scratch: Callable[..., int] = lambda *_: 0  # from shapes: the numbers that its body needs besides its output


@dataclass(frozen=True)
class Codes:
    """The decisions of a kernel as whole numbers, which runtimes share unless one was made at a tie.

    `read(x, weights, settings)` gives the codes of a batch [n, tokens], `margins` how far what decides each of their
    bits is from a tie, of either sign: [n, tokens, bits], infinite for a bit that a token does not have. In a `path` a
    bit decides what the lower ones mean: of two codes that differ only the highest bit tells why.
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
    """Raise ValueError for a step whose shapes do not fit."""
    if not condition:
        raise ValueError(f"the shapes of {what} do not fit")


def same_shape(x: Shape, weights: Shapes, settings: Settings) -> Shape:
    """Shape of kernels whose output is shaped like their input."""
    return x


def equal_shapes(kernel: str) -> Callable[..., Shape]:
    """Shape of elementwise kernels of two inputs, which must have one shape; the name is for the error message."""

    def shape(a: Shape, b: Shape, weights: Shapes, settings: Settings) -> Shape:
        expect(a == b, kernel)
        return a

    return shape


def free(*_: Any) -> Operations:
    """Cost of kernels that only move or compare data."""
    return Operations()


def per_number(**each: int) -> Callable[..., Operations]:
    """Cost of kernels that take the same operations for each number of their first input.

    >>> per_number(multiply_adds=1, additions=2)((3, 4))
    Operations(multiply_adds=12, additions=24, bit_operations=0, exponentials=0, divisions=0)
    """

    def cost(x: Shape, *_: Any) -> Operations:
        return Operations(**{operation: times * prod(x) for operation, times in each.items()})

    return cost


def one_product(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Compute x @ matrix as one large product instead of one per window, which BLAS does faster."""
    return (x.reshape(-1, x.shape[-1]) @ matrix).reshape(*x.shape[:-1], matrix.shape[1])


def row_sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Dot product of each row of a with the same row of b, keeping the axis."""
    return np.einsum("...d,...d->...", a, b)[..., None]


class KernelTable(ChainMap[str, Form]):
    """One form of every kernel, such as the NumPy bodies; looking up a missing one says which file to add it to.

    `reference` is the table of another form of the same kernels, to find the family of a kernel that this one lacks.
    """

    def __init__(
        self, what: str, families: Mapping[str, MutableMapping[str, Form]], reference: "KernelTable[Any] | None" = None
    ) -> None:
        super().__init__(*families.values())
        self.what, self.families, self.reference = what, families, reference

    def __missing__(self, kernel: str) -> Form:
        raise self.missing(kernel)

    def missing(self, kernel: str) -> NotApplicableError:
        """Make the error for a kernel without this form."""
        file = f"scare/kernels/{self.family_of(kernel)}.py"
        return NotApplicableError(f"the kernel '{kernel}' has no {self.what}: add it to {file}")

    def family_of(self, kernel: str) -> str:
        """The family of a kernel or, for a fixed-point one, of its float counterpart; a placeholder if unknown."""
        names = {kernel, kernel.removesuffix(FIXED_SUFFIX)}
        elsewhere = self.reference.family_of(kernel) if self.reference is not None else "<family>"
        return next((family for family, table in self.families.items() if names & table.keys()), elsewhere)
