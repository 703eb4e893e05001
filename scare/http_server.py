"""What the HTTP servers of `live` and `web` share: a uvicorn server in a thread, and access control in front of it.

`AccessGuard` checks the Host header, so that a page of another site cannot reach this computer under a name of its own
(DNS rebinding), then the Origin of requests that write (cross-site request forgery), then the server's own rule.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from threading import Thread
from time import sleep
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from scare.errors import UsageError

POLICY = (  # content security policy
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
HEADER_SECONDS = 10.0  # until the headers of a request must be complete
RESERVED_FILES = 256  # descriptors that connections leave to the rest of the process
BACKLOG = 64  # connections that asyncio accepts at once, before any can be closed again
MIN_CONNECTIONS, MAX_CONNECTIONS = 16, 4096  # bounds of the limit on connections
AccessCheck = Callable[[Scope], JSONResponse | None]  # an error response, or None to let the request through


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 with a time limit for headers and a limit on connections, beyond which new ones are closed.

    Without these limits, connections that send nothing use up the descriptors, and files can no longer be opened.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer, or close the connection if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > max_connections():
            transport.abort()
            return
        self._timer = self.loop.call_later(HEADER_SECONDS, self._close_unless_busy)

    def data_received(self, data: bytes) -> None:
        """Start the timer for a request that follows another."""
        if self._timer is None and self._is_between_requests:
            self._timer = self.loop.call_later(HEADER_SECONDS, self._close_unless_busy)
        super().data_received(data)

    @property
    def _is_between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _close_unless_busy(self) -> None:
        self._timer = None
        if self._is_between_requests and not self.transport.is_closing():
            self.transport.close()


def max_connections() -> int:
    """Return how many connections leave enough descriptors for files."""
    try:
        from resource import RLIMIT_NOFILE, getrlimit
    except ImportError:  # Windows
        return MAX_CONNECTIONS
    allowed_descriptors, _ = getrlimit(RLIMIT_NOFILE)
    return max(MIN_CONNECTIONS, min(MAX_CONNECTIONS, allowed_descriptors - RESERVED_FILES))


class ThreadedServer:
    """Serves an application in a thread until it is stopped; port 0 takes any free one.

    `more` are further settings of uvicorn, such as the files of a certificate.
    """

    def __init__(self, app: ASGIApp, host: str, port: int, **more: Any) -> None:
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._socket = socket.create_server((host, port), family=family)
        except OSError as error:
            reason = str(error.strerror or error).partition(" (while")[0]  # the message names the address already
            raise UsageError(
                f"http: cannot listen at {host} port {port}: {reason}; give another host or port"
            ) from error
        self.port: int = self._socket.getsockname()[1]
        self.stopping = False
        settings: dict[str, Any] = {"access_log": False, "lifespan": "off", "log_config": None, "server_header": False}
        settings |= {"http": LimitedProtocol, "backlog": BACKLOG, **more}
        self._server = uvicorn.Server(uvicorn.Config(app, timeout_graceful_shutdown=2, proxy_headers=False, **settings))
        self._thread = Thread(target=self._server.run, args=([self._socket],), name="http", daemon=True)

    def start(self) -> None:
        """Start serving; returns when requests are answered."""
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            sleep(0.01)

    def wait(self) -> None:
        """Block until the server has stopped."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def stop(self) -> None:
        """Stop serving and close the port."""
        # A client that no longer reads, such as a laptop asleep with the page open, is cut off after the grace period,
        # and uvicorn would log its request as an error with a traceback.
        logger = logging.getLogger("uvicorn.error")
        logger.addFilter(_drop)
        self.stopping = self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(10)
        self._socket.close()
        logger.removeFilter(_drop)


def _drop(record: logging.LogRecord) -> bool:
    return False


class AccessGuard:
    """ASGI middleware that rejects requests, and adds security headers to responses.

    `names` are the host names that requests may be addressed to. `policy` is the content security policy of responses
    that have none. `proxy` is the address of a proxy that has checked its users: what it reads, and what our page sends
    through it, is not checked again, and pages of its site may show ours in a frame.
    """

    def __init__(
        self, app: ASGIApp, names: frozenset[str], check: AccessCheck, policy: str = POLICY, proxy: str = ""
    ) -> None:
        self._app, self._names, self._check, self._proxy = app, names, check, proxy
        if proxy:
            policy = policy.replace("frame-ancestors 'none'", "frame-ancestors 'self'")
        self._headers = {**HEADERS, "content-security-policy": policy}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject the request or pass it to the application."""
        if scope["type"] != "http":  # we serve no websockets
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        await (self._denial(scope) or self._app)(scope, receive, send_with_headers)

    def _denial(self, scope: Scope) -> JSONResponse | None:
        """Make the error response of the first check that fails; None if the request may pass."""
        headers = Headers(scope=scope)
        is_write = scope["method"] not in ("GET", "HEAD")
        is_trusted = bool(self._proxy and scope["client"] and scope["client"][0] == self._proxy)
        if is_trusted and not is_write:
            return None
        # A browser adds an Origin to what a page writes. A script sends none, so it needs host name and token.
        if is_trusted and "origin" in headers:
            return _denied_origin(headers, headers.get("x-forwarded-host", headers.get("host", "")))
        if host_name(headers.get("host", "")) not in self._names:
            return error_response(421, "this server does not answer to that host name; its settings list those it has")
        denied = _denied_origin(headers, headers.get("host", "")) if is_write and "origin" in headers else None
        return denied or self._check(scope)


def _denied_origin(headers: Headers, host: str) -> JSONResponse | None:
    """Make the error response to a request from a page of another site than `host`; None if it is from ours.

    The request must have an Origin header, which names the site.
    """
    try:
        origin = urlsplit(headers["origin"]).netloc
    except ValueError:
        return error_response(400, "the Origin header is not an address")
    if origin != host:
        return error_response(403, "a page of another site must not send requests to this server")
    return None


def host_name(host: str) -> str:
    """Strip the port from a Host header.

    >>> host_name("localhost:8080"), host_name("[::1]:8080"), host_name("[a")
    ('localhost', '::1', '')
    """
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def error_response(code: int, reason: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Make a JSON response `{"error": reason}` with this HTTP status code."""
    return JSONResponse({"error": reason}, code, headers)
