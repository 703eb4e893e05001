"""Commands that run until they are stopped."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_signal(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` on Ctrl-C or SIGTERM; a second Ctrl-C interrupts at once."""

    def end(_: int, frame: FrameType | None) -> None:
        stop()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
