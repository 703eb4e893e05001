"""Ctrl-C that never arrives inside an import, or inside Polars, whose Rust half panics when Python is interrupted.

Nor is it lost where Python drops what is raised: in finalisers, and in what the garbage collector calls.
"""

import signal
import sys
from pathlib import Path
from types import FrameType

import polars

OURS = str(Path(__file__).parents[1])
CLOSED = (str(Path(polars.__path__[0])), "<frozen importlib._bootstrap")  # files whose calls return first
AGAIN = 0.01  # seconds until a Ctrl-C that came at a bad moment is tried again


def interrupt_between_calls() -> None:
    """Make Ctrl-C wait until such a call has returned; where there is no timer it is as Python has it."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGINT, _interrupt)
        signal.signal(signal.SIGALRM, _interrupt)
        sys.unraisablehook = _dropped
    else:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupt_no_more() -> None:
    """What still waits to be tried again comes too late: the command has ended."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Raise now, or ring again soon."""
    if _within_closed(frame):
        signal.setitimer(signal.ITIMER_REAL, AGAIN)
    else:
        raise KeyboardInterrupt


def _dropped(what: "sys.UnraisableHookArgs") -> None:
    """Ring again for a Ctrl-C that was dropped; anything else is told as Python tells it."""
    if issubclass(what.exc_type, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, AGAIN)
    else:
        sys.__unraisablehook__(what)


def _within_closed(frame: FrameType | None) -> bool:
    """Whether code of ours is waiting for an import or for Polars."""
    while frame and not frame.f_code.co_filename.startswith(OURS):
        if frame.f_code.co_filename.startswith(CLOSED):
            return True
        frame = frame.f_back
    return False
