"""A model on a virtual board: scaled windows in; values, instructions, cycles and bytes of stack out.

    model = VirtualModel(read_export(folder), board("nano33ble"))
    runs = model.run(windows)  # runs.outputs, runs.kept, runs.instructions, runs.stack_bytes, runs.cycles

Its twin is `HostModel`. Comes from `exported` and `emulator`, goes to `measure`.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scare.board.boards import Board
from scare.board.cycles import CycleModel, Cycles
from scare.board.emulator import OUTSIDE, Machine, MachineError, Trace
from scare.board.exported import (
    ANSWER_TYPE,
    CALIBRATION_WORDS,
    Channel,
    Exported,
    as_stored,
    model_structure,
    window_bytes,
)
from scare.board.firmware import build

READING, ANSWER, CHOICE, SCALED = (OUTSIDE + offset for offset in (0x1000, 0x2000, 0x2010, 0x2018))
IDLE_MODEL, IDLE_RUN = OUTSIDE + 0x3000, OUTSIDE + 0x3100
IDLE_CODE = bytes.fromhex("0020 1860 7047")  # *scaled = 0; return
ModelStructure = model_structure(ctypes.c_uint32)


@dataclass(frozen=True)
class Runs:
    """What `run` did with each of n windows: scaled outputs, values kept (hash codes) by name, and what it took."""

    outputs: np.ndarray
    kept: dict[str, np.ndarray]
    instructions: np.ndarray
    stack_bytes: np.ndarray
    cycles: np.ndarray  # [n, 3]: low, typical, high


@dataclass(frozen=True)
class Pushes:
    """What `scare_calibrate` takes beside `run`, with the row of a reading, and with one more for a gap before it."""

    instructions: int
    gap_instructions: int
    cycles: Cycles
    stack_bytes: int  # of a push with `run`
    run_stack_bytes: int  # of this `run` alone


class VirtualModel:
    """An exported model in the flash of a virtual board."""

    def __init__(self, exported: Exported, board: Board) -> None:
        self.exported = exported
        self.firmware = build(exported, board)
        self.machine = Machine(self.firmware)
        self._cycles = CycleModel(self.machine)
        place = self.machine.symbols
        self._calibration, self._model = place["board_calibration"], place[exported.name]
        self.facts = ModelStructure.from_buffer_copy(self.machine.read(self._model, ctypes.sizeof(ModelStructure)))
        channels = Channel * self.facts.channels
        self.channels = channels.from_buffer_copy(self.machine.read(self.facts.channel, ctypes.sizeof(channels)))

    def run(self, windows: np.ndarray, advance: Callable[[], object] = lambda: None) -> Runs:
        """Run the model on scaled windows [n, window, channels], each for itself."""
        self._begin(self._model)
        window, scratch = self._memory()
        kept = self.exported.kept
        outputs, instructions, stacks, cycles = bytearray(), [], [], []
        contents = {name: bytearray() for name in kept}
        for content in as_stored(windows, self.channels):
            self.machine.write(window, content)
            trace = self._run()
            outputs += self.machine.read(SCALED, 4)
            for name, value in kept.items():
                contents[name] += self.machine.read(scratch + value.offset, value.size)
            instructions.append(trace.instructions)
            stacks.append(trace.stack_bytes)
            cycles.append(self._cycles.estimate(trace))
            advance()
        return Runs(
            np.frombuffer(outputs, "<f4"),
            {name: value.decode(contents[name]) for name, value in kept.items()},
            np.array(instructions),
            np.array(stacks),
            np.array(cycles),
        )

    def push(self) -> Pushes:
        """Fill a window with readings and see what one more takes."""
        self.machine.write(IDLE_RUN, IDLE_CODE)
        idle = ModelStructure.from_buffer_copy(self.facts)
        idle.run = IDLE_RUN | 1
        self.machine.write(IDLE_MODEL, bytes(idle))
        self._begin(IDLE_MODEL)
        reading = [min(max(channel.center, channel.valid.low), channel.valid.high) for channel in self.channels]
        self.machine.write(READING, np.array(reading, np.float32))
        step = self.facts.step_ms
        for row in range(self.facts.checked):
            self._push(row * step)
        one = self._push((row + 1) * step)
        if self.machine.result:
            raise MachineError(
                f"scare_calibrate answered {self.machine.result} to a reading at the center of its scale"
            )
        self.machine.write(self._calibration, np.array([self._model], np.uint32))
        whole, alone = self._push((row + 2) * step), self._run()
        self.machine.write(self._calibration, np.array([IDLE_MODEL], np.uint32))
        two = self._push((row + 4) * step)
        return Pushes(
            one.instructions, two.instructions, self._cycles.estimate(one), whole.stack_bytes, alone.stack_bytes
        )

    def restart(self) -> None:
        """Forget all readings."""
        self._begin(self._model)

    def take(self, now_ms: int, numbers: np.ndarray) -> tuple[int, bytes]:
        """Push one reading: status, and the answer's bytes."""
        self.count(now_ms, numbers)
        return self.machine.result, self.machine.read(ANSWER, ANSWER_TYPE.itemsize)

    def count(self, now_ms: int, numbers: np.ndarray) -> int:
        """Push one reading: instructions of it all, with `run`."""
        self.machine.write(READING, numbers.astype(np.float32))
        return self._push(now_ms).instructions

    def held(self) -> tuple[bytes, bytes]:
        """What is in the window and in scratch memory."""
        window, scratch = self._memory()
        return self.machine.read(window, window_bytes(self.facts)), self.machine.read(scratch, self.facts.scratch_bytes)

    def _memory(self) -> tuple[int, int]:
        """Where the window and scratch memory are."""
        _, window, _, scratch = self.machine.words(self._calibration, CALIBRATION_WORDS)
        return window, scratch

    def _run(self) -> Trace:
        self.machine.write(CHOICE, bytes(8))
        return self.machine.call(self.facts.run, *self._memory(), CHOICE, SCALED)

    def _begin(self, model: int) -> None:
        size = self.machine.sizes["board_memory"]
        self.machine.call("scare_init", self._calibration, model, self.machine.symbols["board_memory"], size)
        if self.machine.result:
            raise MachineError(f"scare_init answered {self.machine.result}")

    def _push(self, now_ms: int) -> Trace:
        return self.machine.call("scare_calibrate", self._calibration, now_ms & 0xFFFFFFFF, READING, ANSWER)
