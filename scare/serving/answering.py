"""An application answers at a port, in a thread, until it is stopped."""

import socket
from threading import Thread
from time import sleep
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from scare.errors import UsageError


class Answering:
    """Answers in a thread until it is stopped; port 0 takes any free one."""

    def __init__(self, app: ASGIApp, host: str, port: int, **more: Any) -> None:
        self._socket = _listen(host, port)
        self.port: int = self._socket.getsockname()[1]
        self.stopping = False
        settings = {"access_log": False, "lifespan": "off", "log_config": None, "server_header": False, **more}
        self._server = uvicorn.Server(uvicorn.Config(app, timeout_graceful_shutdown=2, **settings))
        self._thread = Thread(target=self._server.run, args=([self._socket],), name="http", daemon=True)

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            sleep(0.01)

    def wait(self) -> None:
        """Return when it answers no more."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def stop(self) -> None:
        """Answer no more."""
        self.stopping = self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(10)
        self._socket.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = str(error.strerror or error).partition(" (while")[0]  # the address is said already
        raise UsageError(f"http: cannot listen at {host} port {port}: {reason}; give another host or port") from error
