"""The server of `scare open`: the application on this computer alone, until it is stopped."""

import os
from pathlib import Path

from scare.server import AccessGuard, ThreadedServer
from scare.web.app import POLICY, make_app
from scare.web.auth import AccessTokens
from scare.web.sessions import SessionRegistry

HOST = "127.0.0.1"
MEMORY_SHARE = 0.75  # of this computer's memory, for one step


class Server:
    """Serves the page on this computer alone."""

    def __init__(self, folder: Path, port: int = 0, quota_bytes: float = 50e9, memory_bytes: int | None = None) -> None:
        self.tokens = AccessTokens()
        self.sessions = SessionRegistry(folder, quota_bytes, memory_bytes or default_memory())
        app = AccessGuard(make_app(self.sessions, self.tokens), frozenset({HOST}), self.tokens.authorize, POLICY)
        self._server = ThreadedServer(app, HOST, port)
        self.address = f"http://{HOST}:{self._server.port}/"
        self.start, self.wait = self._server.start, self._server.wait

    def link(self) -> str:
        """Return an address that lets one browser in, once."""
        return self.tokens.link(self.address)

    def stop(self) -> None:
        """End all jobs and stop serving."""
        self.sessions.close()
        self._server.stop()


def default_memory() -> int:
    """Most of this computer's memory, in bytes, for one step; 4 GB where the system does not report it."""
    try:
        return int(MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError):
        return 4 << 30
