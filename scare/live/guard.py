"""Who may ask the server what: by the name it is called, by where a page comes from, by a token.

Names keep a page of another site from reaching this computer under a name of its own (DNS rebinding). A browser sends
the token as the password that it asks for; only the header `Authorization: Bearer` may send readings.
"""

from base64 import b64decode
from binascii import Error
from hmac import compare_digest
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN = ("/healthz",)  # to those without a token
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class Guard:
    """Stands before an application."""

    def __init__(self, app: ASGIApp, names: frozenset[str], token: str) -> None:
        self._app, self._names, self._token = app, names, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with a refusal, or let the application answer, with headers that keep a browser careful."""
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers, writes = Headers(scope=scope), scope["method"] not in ("GET", "HEAD")
        if _name(headers.get("host", "")) not in self._names:
            return _refuse(421, "this server is not called that; add the name to http.names")
        if writes and "origin" in headers and urlsplit(headers["origin"]).netloc != headers.get("host"):
            return _refuse(403, "a page of another site may not send readings")
        if self._token and scope["path"] not in OPEN and not self._is_known(headers, writes):
            return _refuse(401, "a token is needed", {"www-authenticate": 'Basic realm="scare"'})
        return None

    def _is_known(self, headers: Headers, writes: bool) -> bool:
        kind, _, shown = headers.get("authorization", "").partition(" ")
        if kind.lower() == "basic" and not writes:
            return compare_digest(_password(shown), self._token.encode())
        return kind.lower() == "bearer" and compare_digest(shown.encode(), self._token.encode())


def _name(host: str) -> str:
    """A host without its port.

    >>> _name("localhost:8080"), _name("[::1]:8080"), _name("[a")
    ('localhost', '::1', '')
    """
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _password(shown: str) -> bytes:
    try:
        return b64decode(shown, validate=True).partition(b":")[2]
    except (Error, ValueError):
        return b""


def _refuse(code: int, reason: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": reason}, code, headers)


def _with_headers(send: Send) -> Send:
    async def send_careful(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(HEADERS)
        await send(message)

    return send_careful
