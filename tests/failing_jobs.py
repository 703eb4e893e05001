"""Work for other processes that does not always end well."""

import os
import signal
import time
from pathlib import Path

from scare.executor import THREADS, open_executor
from scare.files import replacing


def die(*_: object) -> None:
    """End the process at once."""
    os._exit(9)


def die_at(number: int, fatal: int, notes: str) -> int:
    """The number; the fatal one kills its process, after a note that it was tried, with a file half written."""
    if number == fatal:
        with replacing(Path(notes).with_name("never")), Path(notes).open("a") as handle:
            handle.write("tried\n")
            handle.flush()
            os.kill(os.getpid(), signal.SIGTERM if os.name == "nt" else signal.SIGKILL)
    return number


def hears_ctrl_c() -> bool:
    return signal.getsignal(signal.SIGINT) != signal.SIG_IGN


def threads() -> set[str]:
    return {os.environ.get(name, "") for name in THREADS}


def sleep_in_a_worker(out: str, note: str) -> None:
    """Have a process of one's own note which it is, and sleep for longer than any test."""
    with open_executor("local", 1, Path(out)) as executor:
        executor.submit(note_and_sleep, note).result()


def note_and_sleep(note: str) -> None:
    with replacing(Path(note)) as temporary:
        temporary.write_text(str(os.getpid()))
    time.sleep(600)


def die_once(number: int, note: str) -> int:
    """The number; whoever is first with number 2 kills its process."""
    try:
        if number == 2:
            Path(note).touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
    except FileExistsError:
        pass
    return number
