"""Ctrl-C at the worst moment: while Polars is calling Python from Rust."""

import os
import signal
import sys
import time
from collections.abc import Iterator

import polars as pl
import pytest

from scare.cli.app import disable_retries, enable_interrupts

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Linux or macOS would run it: timers")


@pytest.fixture(autouse=True)
def _as_the_command_has_it() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)}
    dropped = sys.unraisablehook
    enable_interrupts()
    yield
    sys.unraisablehook = dropped
    for number, handler in before.items():
        signal.signal(number, handler)


def press_ctrl_c(value: int = 0) -> int:
    os.kill(os.getpid(), signal.SIGINT)
    return value


def test_a_call_into_polars_ends_before_the_interruption() -> None:
    collected = []

    def ask_polars() -> None:
        pressing = pl.col("a").map_elements(press_ctrl_c, return_dtype=pl.Int64)
        collected.append(pl.LazyFrame({"a": [1]}).select(pressing).collect())
        signal.pause()

    with pytest.raises(KeyboardInterrupt):
        ask_polars()
    assert [frame.item() for frame in collected] == [1]


def test_one_that_a_finaliser_drops_comes_again(capfd: pytest.CaptureFixture[str]) -> None:
    class Last:
        def __del__(self) -> None:
            press_ctrl_c()

    def forget() -> None:
        Last()
        time.sleep(5)

    with pytest.raises(KeyboardInterrupt):
        forget()
    assert capfd.readouterr().err == ""


def test_one_that_waits_is_forgotten_when_the_command_has_ended() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    disable_retries()
    time.sleep(0.05)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_anywhere_else_it_is_at_once() -> None:
    with pytest.raises(KeyboardInterrupt):
        press_ctrl_c()
