"""`scare open` at work: an application on this computer alone, until it is told to end."""

import os
from pathlib import Path

from scare.server import Answering, Guard
from scare.web.app import POLICY, make_app
from scare.web.auth import AccessTokens
from scare.web.sessions import SessionRegistry, Sessions

HOST = "127.0.0.1"
SHARE = 0.75  # of this computer's memory, for one step


class Server:
    """Answers on this computer alone."""

    def __init__(self, folder: Path, port: int = 0, quota_bytes: float = 50e9, memory_bytes: int | None = None) -> None:
        self.entrance = AccessTokens()
        self.house = SessionRegistry(Sessions(folder, quota_bytes), self.entrance, memory_bytes or usual_memory())
        app = Guard(make_app(self.house), frozenset({HOST}), self.entrance.door, POLICY)
        self._answering = Answering(app, HOST, port)
        self.address = f"http://{HOST}:{self._answering.port}/"
        self.start, self.wait = self._answering.start, self._answering.wait

    def link(self) -> str:
        """An address that lets one browser in, once."""
        return self.entrance.link(self.address)

    def stop(self) -> None:
        """End all jobs and answer no more."""
        self.house.end()
        self._answering.stop()


def usual_memory() -> int:
    """Most of what this computer has, for one step; 4 GB where it does not say."""
    try:
        return int(SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError):
        return 4 << 30
