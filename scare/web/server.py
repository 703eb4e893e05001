"""The web server of `scare open`, for this computer only: the page, sessions, uploads, steps and downloads.

Requests come from a browser on this computer and go to a `Session`. The page gets its state by server-sent events.
"""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from scare import __version__
from scare.board.boards import boards
from scare.data.quantities import quantities, units
from scare.errors import DataError, ScareError
from scare.export.targets import TARGETS
from scare.extras import missing
from scare.files import PAGES, UPLOT, replacing
from scare.http_server import AccessGuard, ThreadedServer, error_response
from scare.report.deployment import LABELS, kind_of
from scare.scorecard.targets import target_sets
from scare.web.auth import AccessTokens
from scare.web.jobs import MODEL
from scare.web.session_setup import FILES
from scare.web.sessions import LATER, SUFFIXES, Session, SessionRegistry, safe_name

LOG = logging.getLogger(__name__)
HOST = "127.0.0.1"
MEMORY_SHARE = 0.75  # share of this computer's memory that one step may use
PAGE = Path(__file__).with_name("page")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
FRAMED = "sandbox allow-scripts allow-downloads; frame-ancestors 'self'"  # content policy of the report in its frame
CONTINENTS = (  # first parts of time zone names; others are former names of these
    *("Africa/", "America/", "Antarctica/", "Asia/", "Atlantic/", "Australia/", "Europe/", "Indian/", "Pacific/"),
)
ENCODINGS = {"utf-8": "UTF-8", "utf-16": "UTF-16", "cp1252": "Windows-1252 (western Europe)", "latin-1": "Latin-1"}
ENCODINGS |= {"cp1250": "Windows-1250 (central Europe)", "cp1251": "Windows-1251 (Cyrillic)", "gb18030": "GB 18030"}
LARGEST_REQUEST = 1 << 16  # bytes of JSON
TICK_SECONDS = 0.2  # least time between two events
KEEPALIVE_SECONDS = 15.0  # longest time between two events


class Server:
    """The server in a thread; `start`, then `stop`."""

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
    """Return how many bytes of memory one step may use; 4 GB where the system does not report its memory."""
    try:
        return int(MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError):
        return 4 << 30


def make_app(registry: SessionRegistry, tokens: AccessTokens) -> Starlette:
    """Make the application: every route with its handler."""
    handlers = SessionHandlers(registry, tokens)
    session = "/v1/sessions/{session}"
    routes: dict[tuple[str, str], Callable[..., Any]] = {
        ("POST", "/v1/enter"): handlers.enter,
        ("GET", "/v1/sessions"): handlers.list_sessions,
        ("POST", "/v1/sessions"): handlers.create_session,
        ("DELETE", session): handlers.delete_session,
        ("POST", f"{session}/selections"): handlers.select,
        ("GET", f"{session}/events"): handlers.stream_events,
        ("PUT", f"{session}/{FILES}/{{name:path}}"): partial(handlers.upload, FILES),
        ("PUT", f"{session}/{LATER}/{{name:path}}"): partial(handlers.upload, LATER),
        ("PUT", f"{session}/model"): handlers.upload_model,
        ("DELETE", f"{session}/{FILES}/{{name}}"): handlers.delete_file,
        ("GET", f"{session}/jobs/{{job}}"): handlers.show_results,
        ("POST", f"{session}/jobs/{{job}}"): handlers.start_step,
        ("DELETE", f"{session}/jobs/{{job}}"): handlers.stop_step,
        ("POST", f"{session}/tickets"): handlers.issue_ticket,
        ("GET", "/v1/download/{ticket}"): handlers.download,
    }
    folders = {"/uplot": UPLOT, "/pages": PAGES, "/": PAGE}
    return Starlette(
        routes=[
            *(Route(path, handler, methods=[method]) for (method, path), handler in routes.items()),
            *(Mount(path, StaticFiles(directory=folder, html=True)) for path, folder in folders.items()),
        ],
        exception_handlers={ScareError: _answer_error, ClientDisconnect: _note_interruption, Exception: _report_bug},
    )


class SessionHandlers:
    """The handlers of the routes; a ScareError that one raises becomes an answer of 400."""

    def __init__(self, registry: SessionRegistry, tokens: AccessTokens) -> None:
        self.registry, self.tokens = registry, tokens

    def _session(self, request: Request) -> Session:
        return self.registry.open(request.path_params["session"])

    async def enter(self, request: Request) -> Response:
        """Exchange the one-time token of a link for the key that all other requests carry."""
        key = self.tokens.exchange(str((await _read_json(request)).get("token", "")))
        if not key:
            return error_response(401, "This link has been used. Run scare open again.")
        return JSONResponse({"key": key})

    async def list_sessions(self, request: Request) -> Response:
        """List all sessions, and what the page offers to choose from, such as boards, export targets and units."""
        sessions = [
            {"id": session.id, "title": session.title, "created": session.created} for session in self.registry.list()
        ]
        board_facts = ("name", "title", "chip", "clock_hz", "ram", "flash", "int_bits")
        return JSONResponse(
            {
                "sessions": sessions,
                "folder": str(self.registry.folder),
                "boards": [{name: getattr(board, name) for name in board_facts} for board in boards().values()],
                "targets": [
                    {"name": target.name, "about": target.about, "in_c": target.in_c} for target in TARGETS.values()
                ],
                "units": units(),
                "facts": [{"name": name, "label": label, "kind": kind_of(name)} for name, label in LABELS.items()],
                "targets_of_agencies": {  # without those whose numbers a person has to type in first
                    name: target_set.title for name, target_set in target_sets().items() if not target_set.type_in
                },
                "quantities": [quantity.name for quantity in quantities().values() if quantity.family != "weather"],
                "zones": ["UTC", *sorted(zone for zone in available_timezones() if zone.startswith(CONTINENTS))],
                "encodings": ENCODINGS,
                "suffixes": SUFFIXES,
                "missing": {extra: remedy for extra in ("train", "board") if (remedy := missing(extra))},
                "version": __version__,
            }
        )

    async def create_session(self, request: Request) -> Response:
        """Create a session with the title in the request, and send its id."""
        title = str((await _read_json(request)).get("title", ""))
        return JSONResponse({"id": self.registry.create(title).id})

    async def delete_session(self, request: Request) -> Response:
        """End a session's jobs and delete its folder."""
        await self.registry.delete(request.path_params["session"])
        return JSONResponse({})

    async def stream_events(self, request: Request) -> Response:
        """Send the state of a session whenever it changes."""
        events = _events(self.registry, self._session(request))
        return StreamingResponse(events, media_type="text/event-stream", headers={"cache-control": "no-store"})

    async def upload(self, place: str, request: Request) -> Response:
        """Receive a file, to train on (`FILES`) or only to be calibrated (`LATER`)."""
        session, name = self._session(request), safe_name(request.path_params["name"])
        with replacing(session.folder / place / name) as temporary:
            await _receive(request, temporary, self.registry)
        session.add_file(place, name)
        return JSONResponse({"name": name})

    async def upload_model(self, request: Request) -> Response:
        """Receive a calibrator made elsewhere."""
        session = self._session(request)
        with replacing(session.folder / MODEL) as temporary:
            await _receive(request, temporary, self.registry)
        session.open_model()
        return JSONResponse({})

    async def delete_file(self, request: Request) -> Response:
        """Delete an uploaded file and the jobs about it."""
        self._session(request).remove_file(request.path_params["name"])
        return JSONResponse({})

    async def select(self, request: Request) -> Response:
        """Merge what the person has just selected into the selections."""
        self._session(request).select(await _read_json(request))
        return JSONResponse({})

    async def start_step(self, request: Request) -> Response:
        """Start a step of the page, such as train or export:c."""
        self._session(request).start_step(request.path_params["job"], await _read_json(request))
        return JSONResponse({})

    async def stop_step(self, request: Request) -> Response:
        """Interrupt a step, which keeps its best result."""
        self._session(request).jobs.stop(request.path_params["job"])
        return JSONResponse({})

    async def show_results(self, request: Request) -> Response:
        """Send the results of a step as JSON."""
        job = self._session(request).jobs.by_name.get(request.path_params["job"])
        return JSONResponse(job.results if job else [])

    async def issue_ticket(self, request: Request) -> Response:
        """Send an address from which a file can be downloaded once."""
        path = self._session(request).find_output(str((await _read_json(request)).get("file", "")))
        return JSONResponse({"address": f"v1/download/{self.tokens.issue_ticket(path)}"})

    async def download(self, request: Request) -> Response:
        """Send the file of a ticket, to be saved or shown in a frame."""
        path = self.tokens.redeem(request.path_params["ticket"])
        if path is None:
            return error_response(404, "This download link has been used or is too old. Click the button again.")
        is_framed = path.suffix == ".html" and "framed" in request.query_params
        if is_framed:
            headers = {"content-security-policy": FRAMED}
        else:
            headers = {"content-disposition": f'attachment; filename="{path.name}"'}
        return FileResponse(path, headers={**headers, "cache-control": "no-store"})


async def _answer_error(request: Request, error: Exception) -> Response:
    return error_response(400, str(error))


async def _note_interruption(request: Request, error: Exception) -> Response:
    LOG.warning("%s was interrupted by the browser", request.url.path)
    return error_response(400, "The request was interrupted.")


async def _report_bug(request: Request, error: Exception) -> Response:
    return error_response(500, f"This should not have happened. Please report it: {type(error).__name__}: {error}")


async def _read_json(request: Request) -> dict[str, Any]:
    """Read the JSON object in a request, {} for any other value."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_REQUEST:
            raise DataError(f"The request is too large: more than {LARGEST_REQUEST >> 10} KiB.")
    try:
        value = json.loads(bytes(body) or b"{}")
    except ValueError as error:
        raise DataError("The request is not valid JSON.") from error
    return value if isinstance(value, dict) else {}


async def _receive(request: Request, path: Path, registry: SessionRegistry) -> None:
    """Write an upload to a file as it arrives; refuse it as soon as it exceeds the free space.

    Bytes that other uploads have received since this one began use up the free space, too.
    """
    content_length = request.headers.get("content-length", "")
    announced = int(content_length) if content_length.isdecimal() else 0
    received = 0
    free, total_before = registry.free_bytes(), registry.received_bytes
    try:
        with path.open("wb") as handle:
            async for part in request.stream():
                received += len(part)
                registry.received_bytes += len(part)
                if max(registry.received_bytes - total_before, announced) > free:
                    remedy = "Delete sessions, or start scare open with a larger --quota."
                    raise DataError(
                        f"The file is too large: {free / 1e9:.3g} GB are free in {registry.folder}. {remedy}"
                    )
                await asyncio.to_thread(handle.write, part)
    except BaseException:
        registry.received_bytes -= received  # the caller deletes the file
        raise


async def _events(registry: SessionRegistry, session: Session) -> AsyncIterator[str]:
    """Yield the state of a session whenever it changes, until the session is closed or the browser disconnects."""
    sent_version = -1
    while registry.is_open(session):
        if session.version == sent_version:
            await session.wait_for_change(KEEPALIVE_SECONDS)
            yield ": keep-alive\n\n"  # an SSE comment, which also shows whether the browser is still there
            continue
        state = session.state()
        sent_version = state["version"]
        yield f"data: {json.dumps(state, separators=(',', ':'), allow_nan=False)}\n\n"
        await asyncio.sleep(TICK_SECONDS)
