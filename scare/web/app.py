"""All that `scare open` answers: the page, sessions, files that are dropped, steps, what they made.

Comes from a browser on this computer; goes to a `workshop` for each session. The page is told by server-sent events.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from scare import __version__
from scare.board.boards import boards
from scare.data.quantities import units
from scare.errors import DataError, ScareError
from scare.export.targets import TARGETS
from scare.files import PAGES, UPLOT, replacing
from scare.serving.guard import refuse
from scare.web.entering import Entrance
from scare.web.sessions import FILES, LATER, Sessions, safe_name
from scare.web.workshop import Workshop, as_event

PAGE = Path(__file__).with_name("page")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
FRAMED = "sandbox allow-scripts allow-downloads; frame-ancestors 'self'"  # its own policy stands in the report
LARGEST_REQUEST = 1 << 16
TICK_SECONDS = 0.2  # between two events, at least
PATIENCE_SECONDS = 15.0  # without news


class House:
    """The sessions of a folder, and a workshop for each that is open."""

    def __init__(self, sessions: Sessions, entrance: Entrance, memory_bytes: int) -> None:
        self.sessions, self.entrance, self.memory_bytes = sessions, entrance, memory_bytes
        self._open: dict[str, Workshop] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.closing = False

    def workshop(self, request: Request) -> Workshop:
        """The workshop of the session that an address names."""
        name, self._loop = request.path_params["session"], asyncio.get_running_loop()
        if name not in self._open:
            self._open[name] = Workshop(self.sessions.find(name), self.memory_bytes)
        return self._open[name]

    def has(self, workshop: Workshop) -> bool:
        """Whether a workshop is open, and stays so."""
        return not self.closing and self._open.get(workshop.session.id) is workshop

    async def delete(self, request: Request) -> None:
        """End a session's jobs and remove its folder."""
        workshop = self.workshop(request)
        await workshop.jobs.close()
        self._open.pop(workshop.session.id, None)
        self.sessions.delete(workshop.session)

    def end(self) -> None:
        """End all jobs in order, from another thread."""
        self.closing = True
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()

    async def _close(self) -> None:
        await asyncio.gather(*(one.jobs.close() for one in self._open.values()))


def make_app(house: House) -> Starlette:
    """The application."""

    async def enter(request: Request) -> Response:
        key = house.entrance.enter(str((await _asked(request)).get("token", "")))
        return JSONResponse({"key": key}) if key else refuse(401, "this link has been used; run scare open again")

    async def list_sessions(request: Request) -> Response:
        found = [{"id": one.id, "title": one.title, "created": one.created} for one in house.sessions.list()]
        return JSONResponse({"sessions": found, "folder": str(house.sessions.folder), **_facts()})

    async def make_session(request: Request) -> Response:
        return JSONResponse({"id": house.sessions.make(str((await _asked(request)).get("title", ""))).id})

    async def delete_session(request: Request) -> Response:
        await house.delete(request)
        return JSONResponse({})

    async def tell_events(request: Request) -> Response:
        events = _events(house, house.workshop(request))
        return StreamingResponse(events, media_type="text/event-stream", headers={"cache-control": "no-store"})

    def taking(place: str) -> Callable[[Request], Awaitable[Response]]:
        async def take_file(request: Request) -> Response:
            workshop, name = house.workshop(request), safe_name(request.path_params["name"])
            with replacing(workshop.session.folder / place / name) as temporary:
                await _receive(request, temporary, house.sessions)
            workshop.arrived(place, name)
            return JSONResponse({"name": name})

        return take_file

    async def drop_file(request: Request) -> Response:
        house.workshop(request).drop(request.path_params["name"])
        return JSONResponse({})

    async def take_choices(request: Request) -> Response:
        house.workshop(request).say(await _asked(request))
        return JSONResponse({})

    async def begin(request: Request) -> Response:
        house.workshop(request).begin(request.path_params["job"], await _asked(request))
        return JSONResponse({})

    async def stop(request: Request) -> Response:
        house.workshop(request).jobs.stop(request.path_params["job"])
        return JSONResponse({})

    async def show_results(request: Request) -> Response:
        job = house.workshop(request).jobs.found.get(request.path_params["job"])
        return JSONResponse(job.results if job else [])

    async def give_ticket(request: Request) -> Response:
        made = house.workshop(request).session.made(str((await _asked(request)).get("file", "")))
        return JSONResponse({"address": f"v1/take/{house.entrance.ticket(made)}"})

    async def take(request: Request) -> Response:
        path = house.entrance.take(request.path_params["ticket"])
        if path is None:
            return refuse(404, "this link has been used or is too old; click again")
        is_framed = path.suffix == ".html" and "framed" in request.query_params
        headers = {"content-security-policy": FRAMED} if is_framed else {"content-disposition": _attached(path)}
        return FileResponse(path, headers={**headers, "cache-control": "no-store"})

    one = "/v1/sessions/{session}"
    return Starlette(
        routes=[
            Route("/v1/enter", enter, methods=["POST"]),
            Route("/v1/sessions", list_sessions),
            Route("/v1/sessions", make_session, methods=["POST"]),
            Route(one, delete_session, methods=["DELETE"]),
            Route(f"{one}/choices", take_choices, methods=["POST"]),
            Route(f"{one}/events", tell_events),
            Route(f"{one}/{FILES}/{{name:path}}", taking(FILES), methods=["PUT"]),
            Route(f"{one}/{LATER}/{{name:path}}", taking(LATER), methods=["PUT"]),
            Route(f"{one}/{FILES}/{{name}}", drop_file, methods=["DELETE"]),
            Route(f"{one}/jobs/{{job}}", show_results),
            Route(f"{one}/jobs/{{job}}", begin, methods=["POST"]),
            Route(f"{one}/jobs/{{job}}", stop, methods=["DELETE"]),
            Route(f"{one}/tickets", give_ticket, methods=["POST"]),
            Route("/v1/take/{ticket}", take),
            Mount("/uplot", StaticFiles(directory=UPLOT)),
            Mount("/pages", StaticFiles(directory=PAGES)),
            Mount("/", StaticFiles(directory=PAGE, html=True)),
        ],
        exception_handlers={ScareError: _refused, Exception: _failed},
    )


async def _refused(request: Request, error: Exception) -> Response:
    return refuse(400, str(error))


async def _failed(request: Request, error: Exception) -> Response:
    return refuse(500, f"this should not have happened; please report it: {type(error).__name__}: {error}")


def _attached(path: Path) -> str:
    return f'attachment; filename="{path.name}"'


def _facts() -> dict[str, Any]:
    """What the page offers to choose from."""
    names = ("name", "title", "chip", "clock_hz", "ram", "flash", "int_bits")
    listed = [{name: getattr(one, name) for name in names} for one in boards().values()]
    targets = [{"name": one.name, "about": one.about, "in_c": one.in_c} for one in TARGETS.values()]
    return {"boards": listed, "targets": targets, "units": units(), "version": __version__}


async def _asked(request: Request) -> dict[str, Any]:
    """The small JSON object that was sent."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_REQUEST:
            raise DataError("that is more than a page ever asks for")
    try:
        found = json.loads(bytes(body) or b"{}")
    except ValueError as error:
        raise DataError("what was sent is not JSON") from error
    return found if isinstance(found, dict) else {}


async def _receive(request: Request, path: Path, sessions: Sessions) -> None:
    """Write what is sent to a file, as it comes, if there is room for all of it."""
    announced, came, room = request.headers.get("content-length", ""), 0, sessions.room_bytes()
    with path.open("wb") as handle:
        async for part in request.stream():
            came += len(part)
            if max(came, int(announced) if announced.isdecimal() else 0) > room:
                remedy = "delete sessions, or give scare open a larger --quota"
                raise DataError(f"there is room for {room / 1e9:.3g} GB in {sessions.folder}; {remedy}")
            await asyncio.to_thread(handle.write, part)


async def _events(house: House, workshop: Workshop) -> AsyncIterator[str]:
    """The state of a session whenever it changes, for as long as somebody listens."""
    told = -1
    while house.has(workshop):
        if workshop.change != told:
            state = workshop.state()
            told = state["change"]
            yield as_event(state)
            await asyncio.sleep(TICK_SECONDS)
        else:
            yield ": still here\n\n"
            await workshop.news(PATIENCE_SECONDS)
