from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scare.board import virtual
from scare.board.boards import board
from scare.board.build import Firmware, link
from scare.board.processors import Arm
from scare.board.virtual import OUTSIDE, CycleModel, Cycles, Machine, MachineError

HERE = Path(__file__).parent
FUNCTIONS = ["count_down", "spell", "touch", "look", "sum_array", "overflow", "mixed", "dot", "forever"]
M4_FUNCTIONS = ["add_if_one", "divide", "load_three"]
NUMBERS = OUTSIDE + 0x1000


def build_m4(*more: Path, flags: tuple[str, ...] = (), keep: tuple[str, ...] = ()) -> Firmware:
    sources = [*more, HERE / "counted.c", HERE / "counted_m4.c"]
    return link(sources, board("nano33ble"), (), flags, [*FUNCTIONS, *M4_FUNCTIONS, *keep])


@pytest.fixture(scope="module")
def m4() -> Machine:
    return Machine(build_m4())


@pytest.fixture(scope="module")
def m0() -> Machine:
    return Machine(link([HERE / "counted.c"], board("rp2040"), keep=FUNCTIONS))


@pytest.fixture(scope="module")
def riscv() -> Machine:
    return Machine(link([HERE / "counted.c"], board("esp32c3"), keep=FUNCTIONS))


@pytest.fixture(params=["m4", "m0", "riscv"])
def machine(request: pytest.FixtureRequest) -> Machine:
    found: Machine = request.getfixturevalue(request.param)
    return found


def float_result(machine: Machine) -> float:
    found = machine.processor
    has_own = isinstance(found, Arm) and found.hard_float
    word = machine._engine.reg_read(found.first_float if has_own else found.result)
    return float(np.uint32(word).view(np.float32))


@pytest.mark.parametrize("times", [1, 2, 1000, 100_000])
def test_every_instruction_of_a_loop_is_counted(machine: Machine, times: int) -> None:
    assert machine.call("count_down", times).instructions == 2 * times + 1


def test_a_skipped_instruction_is_an_instruction(m4: Machine) -> None:
    for number, result in ((1, 6), (2, 7)):
        assert m4.call("add_if_one", number).instructions == 5
        assert m4.result == result


def test_the_stack_is_measured_to_the_byte(machine: Machine) -> None:
    trace = machine.call("spell")
    assert (trace.instructions, trace.stack_bytes) == (5, 32)
    assert machine.call("count_down", 3).stack_bytes == 0
    assert 1200 <= machine.call("sum_array", 300).stack_bytes < 1280
    assert machine.result == sum(range(300))


def test_arguments_are_passed_as_c_passes_them(machine: Machine) -> None:
    machine.call("mixed", 1, 0.5, 2, 3, 4, 100.0, 5)
    assert float_result(machine) == 0.5 * (1 + 2 * 2 + 3 * 3 + 4 * 4 + 5 * 5) + 100.0


@settings(max_examples=30, deadline=None)
@given(numbers=st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=64))
def test_values_are_those_of_float32(m4: Machine, numbers: list[float]) -> None:
    array = np.array(numbers, np.float32)
    m4.write(NUMBERS, array)
    m4.call("dot", NUMBERS, NUMBERS, len(array))
    expected = np.float32(0)
    for number in array:
        expected += number * number
    assert float_result(m4) == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (("overflow", 9), "the stack overflowed, in overflow"),
        (("look", 0x50000000), "it read 0x50000000, where it has no memory, in look"),
        (("touch", 0x50000000), "it wrote to 0x50000000, where it has no memory, in touch"),
        (("touch", 0x100), "it wrote to 0x00000100, where it has no memory, in touch"),
    ],
)
def test_what_no_board_forgives_is_an_error(machine: Machine, call: tuple[str, int], message: str) -> None:
    with pytest.raises(MachineError, match=message):
        machine.call(*call)
    assert machine.call("count_down", 5).instructions == 11


def test_a_call_that_does_not_return_is_an_error(m4: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual, "MOST_BLOCKS", 10_000)
    with pytest.raises(MachineError, match="it did not return, in forever"):
        m4.call("forever")


@pytest.mark.parametrize("pad", [2, 630, 1010, 1022])
def test_where_code_lies_does_not_change_its_counts(m4: Machine, tmp_path: Path, pad: int) -> None:
    padding = tmp_path / "pad.c"
    padding.write_text(
        f'__attribute__((naked)) void pad(void); __attribute__((naked)) void pad(void) {{ __asm(".space {pad}"); }}'
    )
    moved = Machine(build_m4(padding, keep=("pad",)))
    assert moved.symbols["dot"] - m4.symbols["dot"] in range(pad - 2, pad + 3)
    numbers = np.arange(400, dtype=np.float32)
    for machine in (m4, moved):
        machine.write(NUMBERS, numbers)
    for call in (("dot", NUMBERS, NUMBERS, 399), ("sum_array", 77), ("load_three", NUMBERS), ("divide", 1.0, 3.0)):
        first, second = m4.call(*call), moved.call(*call)
        assert first.instructions == second.instructions
        assert CycleModel(m4).estimate(first) == CycleModel(moved).estimate(second)


def test_cycles_are_those_of_the_manual(m4: Machine) -> None:
    cycles = CycleModel(m4)
    assert cycles.estimate(m4.call("count_down", 10)) == Cycles(9 * 3 + 2 + 2, 9 * 4 + 2 + 3, 9 * 5 + 2 + 4)
    assert cycles.estimate(m4.call("spell")) == Cycles(4 + 3 + 4 + 1, 4 + 3 + 4 + 2, 4 + 3 + 4 + 3)
    assert cycles.estimate(m4.call("divide", 1.0, 2.0)) == Cycles(14 + 1 + 2, 14 + 2 + 3, 14 + 2 + 4)
    assert cycles.estimate(m4.call("load_three", NUMBERS)) == Cycles(3 + 2 + 2, 4 + 7 + 3, 6 + 12 + 4)


def test_functions_that_nobody_calls_take_no_flash() -> None:
    small = link([HERE / "counted.c"], board("nano33ble"), keep=["count_down"])
    large = link([HERE / "counted.c"], board("nano33ble"), keep=FUNCTIONS)
    assert 0 < small.image.flash_bytes < large.image.flash_bytes - 100
    assert small.image.static_bytes == 0
