"""Forms: one form of all kernels, such as their NumPy bodies or how they are printed, from a table of each family."""

from collections import ChainMap
from collections.abc import MutableMapping
from typing import Any, TypeVar

from scare.errors import NotApplicableError

Form = TypeVar("Form")
SUFFIX = "_s8"  # of kernels in integers


class Forms(ChainMap[str, Form]):
    """The tables of the families as one; a kernel that is in none is a sentence that says what to add where.

    `file` is where a family has its table; forms `of` other forms are of the same kernels.
    """

    def __init__(
        self, what: str, file: str, of: "Forms[Any] | None" = None, **families: MutableMapping[str, Form]
    ) -> None:
        super().__init__(*families.values())
        self.what, self.file, self.of, self.families = what, file, of, families

    def __missing__(self, kernel: str) -> Form:
        raise self.missing(kernel)

    def missing(self, kernel: str) -> NotApplicableError:
        """That a kernel has no such form, and which file would have it."""
        file = self.file.format(self.family_of(kernel))
        return NotApplicableError(f"the kernel '{kernel}' has no {self.what}: add it to {file}")

    def family_of(self, kernel: str) -> str:
        """The family of a kernel, or of the one it is the integer twin of; a placeholder where none has it."""
        names = {kernel, kernel.removesuffix(SUFFIX)}
        elsewhere = self.of.family_of(kernel) if self.of is not None else "<family>"
        return next((family for family, table in self.families.items() if names & table.keys()), elsewhere)
