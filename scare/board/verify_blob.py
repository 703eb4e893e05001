"""A blob's proof: Python, the model in C and the interpreter compute the same, on this computer and on a board.

file + calibrator -> verify_blob -> BlobProof: the file is this calibrator's; certificate (Python = C = C on a board);
interpreter = C in every bit of every result, on windows and on a stream of bad readings; instructions of both
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from scare.board.boards import Board
from scare.board.build import read_export
from scare.board.certificate import Certificate, verify
from scare.board.host import HostModel, StreamAnswers, StreamModel, push_all
from scare.board.vectors import StreamRow, all_vectors, stream_rows
from scare.board.virtual import VirtualModel
from scare.calibrator.calibrator import Calibrator
from scare.errors import DataError
from scare.export.blob import check_blob, is_fixed, make_blob, unsigned
from scare.export.lowering import Arithmetic, Compiled, compile_calibrator
from scare.export.package import write_package
from scare.export.targets import TARGETS

C, INTERPRETED = "c", "blob"  # targets
HOST, BOARD = "this computer", "the board"


@dataclass(frozen=True)
class Cost:
    """Mean instructions of a run, those of taking a reading, and bytes of flash and stack, on the board."""

    run: float
    reading: int
    flash_bytes: int
    stack_bytes: int


@dataclass(frozen=True)
class BlobProof:
    """What was compared, and how many results of the interpreter differ from those of C in any bit.

    `different` counts them by place: on this computer and on the board.
    """

    certificate: Certificate
    arithmetic: Arithmetic
    windows: int
    readings: int
    different: Mapping[str, int]
    costs: Mapping[str, Cost]  # by C and INTERPRETED
    opening: int  # instructions of scare_blob_open_unsigned

    @property
    def overhead(self) -> float:
        """Additional instructions that the interpreter needs for one value, as a share of those of C."""
        of_c, interpreted = (self.costs[name].run + self.costs[name].reading for name in (C, INTERPRETED))
        return interpreted / of_c - 1

    @property
    def reasons(self) -> list[str]:
        """Why it fails; empty if it passes."""
        total = self.windows + self.readings
        differences = [
            f"on {place} the interpreter and C differ in {count:,} of {total:,} results"
            for place, count in self.different.items()
            if count
        ]
        return [*self.certificate.reasons, *differences]

    def as_dict(self) -> dict[str, Any]:
        """Convert to JSON types."""
        return {
            **self.certificate.as_dict(),
            "passed": not self.reasons,
            "reasons": self.reasons,
            "interpreter": {
                "arithmetic": str(self.arithmetic),
                "windows": self.windows,
                "readings": self.readings,
                "different": dict(self.different),
                "costs": {name: vars(cost) for name, cost in self.costs.items()},
                "overhead": self.overhead,
                "opening_instructions": self.opening,
            },
        }


def verify_blob(
    path: Path,
    calibrator: Calibrator,
    board: Board,
    windows: int,
    device: str = "",
    advance: Callable[[], object] = lambda: None,
) -> BlobProof:
    """Prove a file against the calibrator that it was exported from; `DataError` if it is not this calibrator's."""
    content = path.read_bytes()
    check_blob(content, path.name)
    arithmetic = Arithmetic.FIXED if is_fixed(content) else Arithmetic.FLOAT32
    compiled = compile_calibrator(calibrator, arithmetic, device)
    if unsigned(content) != make_blob(compiled.c_model):
        raise DataError(
            f"{path.name} is not what this calibrator exports for {compiled.device or 'the fleet'}: it was made of"
            " another one, for another --device, or by another version of scare; export it again"
        )
    certificate = verify(calibrator, board, [arithmetic], windows, device, advance)
    vectors = all_vectors(calibrator, windows).windows
    readings = stream_rows(compiled.c_model.descriptor, compiled.plan.window)
    with TemporaryDirectory() as scratch:
        models = {name: _Models(compiled, name, Path(scratch) / name, board) for name in (C, INTERPRETED)}
        outputs = {name: model.results(vectors, readings, advance) for name, model in models.items()}
    different = {  # a result or answer counts once, however many of its words differ
        place: int((of_c != interpreted).any(axis=1).sum())
        for place, of_c, interpreted in zip((HOST, BOARD), outputs[C], outputs[INTERPRETED], strict=True)
    }
    opening = models[INTERPRETED].board.opening
    assert opening
    costs = {name: model.cost() for name, model in models.items()}
    return BlobProof(certificate, arithmetic, len(vectors), len(readings), different, costs, opening.instructions)


class _Models:
    """One export of the model, as C or as an interpreted blob, run on this computer and on a board."""

    def __init__(self, compiled: Compiled, target: str, folder: Path, board: Board) -> None:
        exported = read_export(write_package(TARGETS[target], compiled, folder).folder)
        self.host, self.board = HostModel(exported), VirtualModel(exported, board)

    def results(
        self, windows: np.ndarray, readings: list[StreamRow], advance: Callable[[], object]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the bits of all results on this computer and on the board, each as `_bits` does."""
        self.runs = self.board.run(windows, advance)
        on_host, _ = self.host.run(windows)
        return _bits(on_host, self.host, readings), _bits(self.runs.outputs, self.board, readings)

    def cost(self) -> Cost:
        """Return what the model costs on the board; `results` must have run before."""
        pushes = self.board.push()
        # `pushes` measured one `run`; another window may need a deeper stack.
        deeper = max(0, int(self.runs.stack_bytes.max()) - pushes.run_stack_bytes)
        flash = self.board.firmware.image.flash_bytes
        return Cost(float(self.runs.instructions.mean()), pushes.instructions, flash, pushes.stack_bytes + deeper)


def _bits(outputs: np.ndarray, model: StreamModel, readings: list[StreamRow]) -> np.ndarray:
    """Return results [n] and the answers to m readings as words [n + m, 5], in which every NaN is the same.

    An answer is status, flags, value, low and high; a result fills its row.
    """
    answers: StreamAnswers = push_all(model, readings)
    numbers = (answers.values, answers.low, answers.high)
    of_readings = np.stack([answers.statuses, answers.flags, *map(_words, numbers)], axis=1)
    of_windows = np.repeat(_words(outputs)[:, None], of_readings.shape[1], axis=1)
    return np.concatenate([of_windows, of_readings])


def _words(numbers: np.ndarray) -> np.ndarray:
    """Return the bits of float32 numbers as integers; every NaN has the same."""
    one_nan = np.where(np.isnan(numbers), np.float32(np.nan), numbers)
    return one_nan.astype(np.float32).view(np.uint32).astype(np.int64)
