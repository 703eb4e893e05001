"""Ctrl-C that never arrives inside Polars: its Rust half panics when the Python it calls is interrupted."""

import signal
from pathlib import Path
from types import FrameType

import polars

OURS = str(Path(__file__).parents[1])
POLARS = str(Path(polars.__path__[0]))
AGAIN = 0.01  # seconds until a Ctrl-C that came at a bad moment is tried again


def interrupt_between_polars_calls() -> None:
    """Make Ctrl-C wait until the call into Polars has returned; where there is no timer it is as Python has it."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGINT, _interrupt)
        signal.signal(signal.SIGALRM, _interrupt)


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Raise now, or ring again soon."""
    if _within_polars(frame):
        signal.setitimer(signal.ITIMER_REAL, AGAIN)
    else:
        raise KeyboardInterrupt


def _within_polars(frame: FrameType | None) -> bool:
    """Whether code of ours is waiting for Polars."""
    while frame and not frame.f_code.co_filename.startswith(OURS):
        if frame.f_code.co_filename.startswith(POLARS):
            return True
        frame = frame.f_back
    return False
