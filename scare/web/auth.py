"""Who may enter: a link works once and gives a key, the key goes with every request, a ticket with one download.

A link carries its token in the fragment, which no browser sends. What a browser fetches without a header (a download, a
page in a frame) it fetches with a ticket, once.
"""

from dataclasses import dataclass, field
from hmac import compare_digest
from pathlib import Path
from secrets import token_urlsafe
from time import monotonic

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import Scope

from scare.server import refuse

OPEN = ("/v1/enter", "/v1/take/")  # they ask for a token or a ticket themselves
TICKET_SECONDS = 60.0


@dataclass
class AccessTokens:
    """Tokens of links that nobody has used, the key they give, tickets that nobody has used."""

    key: str = field(default_factory=token_urlsafe)
    _tokens: set[str] = field(default_factory=set)
    _tickets: dict[str, tuple[Path, float]] = field(default_factory=dict)

    def link(self, address: str) -> str:
        """An address that lets one browser in, once."""
        token = token_urlsafe()
        self._tokens.add(token)
        return f"{address}#token={token}"

    def enter(self, token: str) -> str | None:
        """The key, for a token that is used up by this."""
        if token not in self._tokens:
            return None
        self._tokens.remove(token)
        return self.key

    def door(self, scope: Scope) -> JSONResponse | None:
        """Refuse what is not the page itself to those without the key."""
        path = scope["path"]
        if not path.startswith("/v1/") or path.startswith(OPEN):
            return None
        kind, _, shown = Headers(scope=scope).get("authorization", "").partition(" ")
        if kind == "Bearer" and compare_digest(shown.encode(), self.key.encode()):
            return None
        return refuse(401, "this page was opened without its link; run scare open again")

    def ticket(self, path: Path) -> str:
        """What fetches a file once, soon."""
        now = monotonic()
        self._tickets = {one: found for one, found in self._tickets.items() if found[1] > now}
        name = token_urlsafe()
        self._tickets[name] = path, now + TICKET_SECONDS
        return name

    def take(self, ticket: str) -> Path | None:
        """The file of a ticket that is used up by this."""
        path, until = self._tickets.pop(ticket, (None, 0.0))
        return path if until > monotonic() else None
