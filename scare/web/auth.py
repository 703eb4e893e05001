"""Access to the page: a link works once and gives a key, every request carries the key, a download needs a ticket.

A link has its token in the fragment, which no browser sends to a server. A browser cannot add a header to a download or
to a page in a frame; those are fetched with a ticket, which works once. Host and Origin are checked by `AccessGuard` of
`scare.http_server`, which `scare live` has, too.
"""

from dataclasses import dataclass, field
from hmac import compare_digest
from pathlib import Path
from secrets import token_urlsafe
from time import monotonic

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import Scope

from scare.http_server import error_response

OPEN = ("/v1/enter", "/v1/download/")  # these check a token or a ticket themselves
TICKET_SECONDS = 60.0


@dataclass
class AccessTokens:
    """The key that requests carry, unused link tokens that can be exchanged for it, and unused download tickets."""

    key: str = field(default_factory=token_urlsafe)
    _tokens: set[str] = field(default_factory=set)
    _tickets: dict[str, tuple[Path, float]] = field(default_factory=dict)  # file, and when it expires (`monotonic`)

    def link(self, address: str) -> str:
        """Return the address of the page with a new one-time token, which lets one browser in."""
        token = token_urlsafe()
        self._tokens.add(token)
        return f"{address}#token={token}"

    def exchange(self, token: str) -> str | None:
        """Exchange a one-time token for the key; None if it is unknown or used."""
        if token not in self._tokens:
            return None
        self._tokens.remove(token)
        return self.key

    def authorize(self, scope: Scope) -> JSONResponse | None:
        """Return a 401 response unless the request is for the page itself or carries the key."""
        path = scope["path"]
        if not path.startswith("/v1/") or path.startswith(OPEN):
            return None
        kind, _, key = Headers(scope=scope).get("authorization", "").partition(" ")
        if kind == "Bearer" and compare_digest(key.encode(), self.key.encode()):
            return None
        return error_response(401, "This page was opened without its link. Run scare open again.")

    def issue_ticket(self, path: Path) -> str:
        """Return a ticket that fetches a file once, within `TICKET_SECONDS`."""
        now = monotonic()
        for expired in [ticket for ticket, (_, expiry) in self._tickets.items() if expiry <= now]:
            del self._tickets[expired]
        ticket = token_urlsafe()
        self._tickets[ticket] = path, now + TICKET_SECONDS
        return ticket

    def redeem(self, ticket: str) -> Path | None:
        """Return the file of a ticket and use the ticket up; None if it is unknown, used or too old."""
        path, expiry = self._tickets.pop(ticket, (None, 0.0))
        return path if expiry > monotonic() else None
