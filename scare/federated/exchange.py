"""The exchange between server and sites: tasks and replies as JSON over HTTP, which sites fetch and send.

Only the server listens; a site needs no open port. A site that was killed asks for the current task again, so a
federation goes on where it was. Task numbers grow over restarts of the server, too.
"""

import json
import time
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from hmac import compare_digest
from pathlib import Path
from threading import Condition
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request as Call
from urllib.request import urlopen

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from scare.calibrator.calibrator import Calibrator
from scare.data.readings import Readings
from scare.errors import DataError, ScareError, UsageError
from scare.federated.agreement import Agreement, agreement_from_server, read_tokens
from scare.federated.combined import combine
from scare.federated.site import DONE, Site, Values, numbers
from scare.files import replacing
from scare.http_server import AccessGuard, ThreadedServer, error_response, host_name
from scare.live.config import is_loopback

POLL_SECONDS = 20.0  # that a request for a task waits for one
RETRY_SECONDS = 2.0  # until a site tries again to reach the server
MOST_BYTES = 1 << 26  # of a reply
Note = Callable[[str], object]


class TaskBoard:
    """The current task of each site and the replies to it; `ask` and the server's requests may be in any thread."""

    def __init__(self, agreement: Agreement, note: Note) -> None:
        self._rules, self._note = agreement.rules, note
        self._changed = Condition()
        self._number = int(time.time())  # larger than any that a server before this one gave
        self._tasks: Mapping[str, Mapping[str, Any]] = {}
        self._replies: dict[str, Values] = {}
        self._is_first = True

    def ask(self, tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, Values]:
        """Give each site its task and wait for the replies; without those of sites that refused or took too long.

        The first task waits for all sites, as they are started by different people.
        """
        with self._changed:
            self._number += 1
            self._tasks, self._replies = tasks, {}
            self._changed.notify_all()
            patience = None if self._is_first else self._rules.patience
            self._is_first = False
            self._changed.wait_for(lambda: len(self._replies) == len(tasks), patience)
            self._tasks = {}
            replies = {site: self._replies[site] for site in tasks if site in self._replies}  # in the order of sites
        for site in tasks:
            if site not in replies:
                self._note(f"'{site}' did not answer within {self._rules.patience:g} s and is left out.")
            elif "error" in replies[site]:
                self._note(f"'{site}' sent nothing: {replies.pop(site)['error']}")
        return replies

    def next_task(self, site: str, after: int) -> tuple[int, Mapping[str, Any]] | None:
        """Return the number and the task of a site, if there is one later than `after` within `POLL_SECONDS`."""

        def is_there() -> bool:
            return self._number > after and site in self._tasks and site not in self._replies

        with self._changed:
            return (self._number, self._tasks[site]) if self._changed.wait_for(is_there, POLL_SECONDS) else None

    def accept(self, site: str, number: int, reply: Values) -> bool:
        """Take a reply; returns whether it is to the current task."""
        with self._changed:
            if number != self._number or site not in self._tasks:
                return False
            self._replies[site] = reply
            self._changed.notify_all()
            return True


class FederationServer:
    """The HTTP server of a federation, in a thread of its own: call `start`, later `stop`."""

    def __init__(self, agreement: Agreement, board: TaskBoard) -> None:
        self._agreement, self._board = agreement, board
        self._tokens = read_tokens(agreement)
        http = agreement.http
        routes = [
            Route("/v1/agreement", self._give_agreement),
            Route("/v1/task", self._give_task),
            Route("/v1/reply/{number:int}", self._take_reply, methods=["POST"]),
        ]
        app = AccessGuard(Starlette(routes=routes), http.allowed_names, self._check)
        tls = {"ssl_certfile": http.certificate or None, "ssl_keyfile": http.key or None}
        self._server = ThreadedServer(app, http.host, http.port, **tls)
        self.port = self._server.port
        host = f"[{http.host}]" if ":" in http.host else http.host
        self.address = f"{'https' if http.certificate else 'http'}://{host}:{self.port}"
        self.start, self.stop = self._server.start, self._server.stop

    def _site(self, scope: Scope) -> str:
        """Return the site whose token a request has; empty for an unknown one."""
        header = dict(scope["headers"]).get(b"authorization", b"")
        given = header.removeprefix(b"Bearer ")
        return next((site for token, site in self._tokens.items() if compare_digest(token.encode(), given)), "")

    def _check(self, scope: Scope) -> JSONResponse | None:
        return None if self._site(scope) else error_response(401, "the server does not know this token")

    async def _give_agreement(self, request: Request) -> Response:
        return JSONResponse({**self._agreement.for_sites, "site": self._site(request.scope)})

    async def _give_task(self, request: Request) -> Response:
        after = request.query_params.get("after", "0")
        site = self._site(request.scope)
        found = await run_in_threadpool(self._board.next_task, site, int(after) if after.isdecimal() else 0)
        return Response(status_code=204) if found is None else JSONResponse({"number": found[0], "task": found[1]})

    async def _take_reply(self, request: Request) -> Response:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BYTES:
                return error_response(413, f"a reply may have {MOST_BYTES} bytes")
        try:
            reply = json.loads(body)
        except (ValueError, RecursionError):
            reply = None
        if not isinstance(reply, dict):
            return error_response(400, "a reply is a JSON object")
        is_current = self._board.accept(self._site(request.scope), request.path_params["number"], reply)
        return JSONResponse({"accepted": is_current})


class Connection:
    """A site's connection to the server; retries until the server is there."""

    def __init__(self, address: str, token: str, note: Note) -> None:
        if not address.startswith(("http://", "https://")):
            raise UsageError(f"the server's address begins with https:// or http://, not '{address}'")
        host = host_name(address.partition("//")[2].partition("/")[0])
        if address.startswith("http://") and host and not is_loopback(host):
            note(f"{address} is not encrypted: anyone between here and there can read the token and the sums.")
        self._address, self._token, self._note = address.rstrip("/"), token, note

    def agreement(self) -> tuple[Agreement, str]:
        """Fetch the agreement and the name of this site."""
        values = dict(self._call("/v1/agreement") or {})
        site = str(values.pop("site", ""))
        return agreement_from_server(values, self._address), site

    def next_task(self, after: int) -> tuple[int, Mapping[str, Any]]:
        """Wait for the next task; returns its number and the task."""
        while True:
            found = self._call(f"/v1/task?after={after}")
            if found is not None:
                return int(found["number"]), found["task"]

    def send(self, number: int, reply: Mapping[str, Any]) -> None:
        """Send the reply to a task."""
        self._call(f"/v1/reply/{number}", reply)

    def _call(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON that the server answers, None if it has nothing to say."""
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        call = Call(self._address + path, data, {"authorization": f"Bearer {self._token}"})
        was_reached = True
        while True:
            try:
                with urlopen(call, timeout=3 * POLL_SECONDS) as response:
                    content = response.read(MOST_BYTES)
                    return json.loads(content) if content else None
            except HTTPError as error:
                reason = error.read(1000).decode(errors="replace")
                if error.code in (401, 421):
                    raise UsageError(f"{self._address}: {json.loads(reason)['error']}") from error
                raise DataError(f"{self._address}{path}: HTTP {error.code}: {reason}") from error
            except (URLError, OSError) as error:
                if was_reached:
                    reason = str(getattr(error, "reason", error))
                    self._note(f"Cannot reach {self._address} ({reason}); trying again until Ctrl-C.")
                was_reached = False
                time.sleep(RETRY_SECONDS)


def run_site(connection: Connection, site: Site, folder: Path, note: Note) -> Mapping[str, Any]:
    """Answer tasks until the federation is done; returns the last task, for `save_results`.

    Every reply is first written to `folder`/sent, so that people can read what leaves the site. A reply with noise is
    taken from there if it was sent before: noise that is drawn again would give more away.
    """
    number = 0
    while True:
        number, task = connection.next_task(number)
        kind = str(task.get("kind"))
        if kind == DONE:
            connection.send(number, {})
            if "reason" in task:
                raise DataError(f"the server ended without a calibrator: {task['reason']}")
            return task
        kept = folder / "sent" / f"{kind}.json"
        if site.adds_noise and kept.exists():
            reply = json.loads(kept.read_text(encoding="utf-8"))
        else:
            try:
                reply = site.answer(task)
            except ScareError as error:
                reply = {"error": str(error)}
            is_repeated = site.adds_noise and "error" not in reply
            name = kept if is_repeated else kept.with_name(f"{number}-{kind}.json")
            with replacing(name) as temporary:
                temporary.write_text(json.dumps(reply), encoding="utf-8")
        connection.send(number, reply)
        note(f"Answered '{kind}'." if "error" not in reply else f"Refused '{kind}': {reply['error']}.")


def save_results(task: Mapping[str, Any], readings: Sequence[Readings], folder: Path) -> Calibrator:
    """Write `federated.scare`, which the last task brings, and `combined.scare`, made of it and the site's readings.

    Returns the calibrator of the second file.
    """
    path = folder / "federated.scare"
    with replacing(path) as temporary:
        temporary.write_bytes(b64decode(str(task.get("calibrator", ""))))
    others = None
    if "others" in task:
        weights = numbers(task["others"].get("weights"), (-1,), "weights")  # of the other sites' regression
        others = weights, float(numbers(task["others"].get("bias"), (), "bias"))
    combined = combine(Calibrator.load(path), readings, others)
    combined.save(folder / "combined.scare")
    return combined
