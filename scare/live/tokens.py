"""The token of the live server: a browser sends it as the password that it asks for, a box as `Authorization: Bearer`.

Only the header may send readings.
"""

from base64 import b64decode
from binascii import Error
from hmac import compare_digest

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import Scope

from scare.serving.guard import Door, refuse

OPEN = ("/healthz",)  # to those without a token


def asking_for(token: str) -> Door:
    """A door for those who know a token; without one it is open."""

    def door(scope: Scope) -> JSONResponse | None:
        if not token or scope["path"] in OPEN or _is_known(token, scope):
            return None
        return refuse(401, "a token is needed", {"www-authenticate": 'Basic realm="scare"'})

    return door


def _is_known(token: str, scope: Scope) -> bool:
    kind, _, shown = Headers(scope=scope).get("authorization", "").partition(" ")
    if kind.lower() == "basic" and scope["method"] in ("GET", "HEAD"):
        return compare_digest(_password(shown), token.encode())
    return kind.lower() == "bearer" and compare_digest(shown.encode(), token.encode())


def _password(shown: str) -> bytes:
    try:
        return b64decode(shown, validate=True).partition(b":")[2]
    except (Error, ValueError):
        return b""
