"""All that `scare open` answers: the page, sessions, files that are dropped, steps, what they made.

Comes from a browser on this computer; goes to a `workshop` for each session. The page is told by server-sent events.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from functools import partial
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
from scare.export.package import TARGETS
from scare.files import PAGES, UPLOT, replacing
from scare.server import refuse
from scare.web.sessions import FILES, LATER, SessionRegistry, Sessions, WebSession, as_event, safe_name

PAGE = Path(__file__).with_name("page")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
FRAMED = "sandbox allow-scripts allow-downloads; frame-ancestors 'self'"  # its own policy stands in the report
LARGEST_REQUEST = 1 << 16
TICK_SECONDS = 0.2  # between two events, at least
PATIENCE_SECONDS = 15.0  # without news


class Answers:
    """What is answered to each request."""

    def __init__(self, house: SessionRegistry) -> None:
        self.house = house

    def _workshop(self, request: Request) -> WebSession:
        return self.house.workshop(request.path_params["session"])

    async def enter(self, request: Request) -> Response:
        """The key, for the token of a link."""
        key = self.house.entrance.enter(str((await _asked(request)).get("token", "")))
        return JSONResponse({"key": key}) if key else refuse(401, "this link has been used; run scare open again")

    async def list_sessions(self, request: Request) -> Response:
        """All sessions, and what there is to choose from."""
        sessions = self.house.sessions
        found = [{"id": one.id, "title": one.title, "created": one.created} for one in sessions.list()]
        return JSONResponse({"sessions": found, "folder": str(sessions.folder), **_facts()})

    async def make_session(self, request: Request) -> Response:
        """A new session."""
        title = str((await _asked(request)).get("title", ""))
        return JSONResponse({"id": self.house.sessions.make(title).id})

    async def delete_session(self, request: Request) -> Response:
        """A session less."""
        await self.house.delete(request.path_params["session"])
        return JSONResponse({})

    async def tell_events(self, request: Request) -> Response:
        """What a session comes to, whenever that changes."""
        events = _events(self.house, self._workshop(request))
        return StreamingResponse(events, media_type="text/event-stream", headers={"cache-control": "no-store"})

    async def take_file(self, place: str, request: Request) -> Response:
        """A file that is dropped, to learn from or only to be calibrated."""
        workshop, name = self._workshop(request), safe_name(request.path_params["name"])
        with replacing(workshop.session.folder / place / name) as temporary:
            await _receive(request, temporary, self.house.sessions)
        workshop.arrived(place, name)
        return JSONResponse({"name": name})

    async def drop_file(self, request: Request) -> Response:
        """A file less."""
        self._workshop(request).drop(request.path_params["name"])
        return JSONResponse({})

    async def take_choices(self, request: Request) -> Response:
        """What the person chose."""
        self._workshop(request).say(await _asked(request))
        return JSONResponse({})

    async def begin(self, request: Request) -> Response:
        """A step that is to be made."""
        self._workshop(request).begin(request.path_params["job"], await _asked(request))
        return JSONResponse({})

    async def stop(self, request: Request) -> Response:
        """A step that is to end."""
        self._workshop(request).jobs.stop(request.path_params["job"])
        return JSONResponse({})

    async def show_results(self, request: Request) -> Response:
        """What a step has found."""
        job = self._workshop(request).jobs.found.get(request.path_params["job"])
        return JSONResponse(job.results if job else [])

    async def give_ticket(self, request: Request) -> Response:
        """What fetches a file that was made, once."""
        made = self._workshop(request).session.made(str((await _asked(request)).get("file", "")))
        return JSONResponse({"address": f"v1/take/{self.house.entrance.ticket(made)}"})

    async def take(self, request: Request) -> Response:
        """The file of a ticket, to save or in a frame."""
        path = self.house.entrance.take(request.path_params["ticket"])
        if path is None:
            return refuse(404, "this link has been used or is too old; click again")
        is_framed = path.suffix == ".html" and "framed" in request.query_params
        attached = {"content-disposition": f'attachment; filename="{path.name}"'}
        headers = {"content-security-policy": FRAMED} if is_framed else attached
        return FileResponse(path, headers={**headers, "cache-control": "no-store"})


def make_app(house: SessionRegistry) -> Starlette:
    """The application: every address, and who answers there."""
    answers, one = Answers(house), "/v1/sessions/{session}"
    routes: dict[tuple[str, str], Callable[..., Any]] = {
        ("POST", "/v1/enter"): answers.enter,
        ("GET", "/v1/sessions"): answers.list_sessions,
        ("POST", "/v1/sessions"): answers.make_session,
        ("DELETE", one): answers.delete_session,
        ("POST", f"{one}/choices"): answers.take_choices,
        ("GET", f"{one}/events"): answers.tell_events,
        ("PUT", f"{one}/{FILES}/{{name:path}}"): partial(answers.take_file, FILES),
        ("PUT", f"{one}/{LATER}/{{name:path}}"): partial(answers.take_file, LATER),
        ("DELETE", f"{one}/{FILES}/{{name}}"): answers.drop_file,
        ("GET", f"{one}/jobs/{{job}}"): answers.show_results,
        ("POST", f"{one}/jobs/{{job}}"): answers.begin,
        ("DELETE", f"{one}/jobs/{{job}}"): answers.stop,
        ("POST", f"{one}/tickets"): answers.give_ticket,
        ("GET", "/v1/take/{ticket}"): answers.take,
    }
    folders = {"/uplot": UPLOT, "/pages": PAGES, "/": PAGE}
    return Starlette(
        routes=[
            *(Route(path, answer, methods=[method]) for (method, path), answer in routes.items()),
            *(Mount(path, StaticFiles(directory=folder, html=True)) for path, folder in folders.items()),
        ],
        exception_handlers={ScareError: _refused, Exception: _failed},
    )


async def _refused(request: Request, error: Exception) -> Response:
    return refuse(400, str(error))


async def _failed(request: Request, error: Exception) -> Response:
    return refuse(500, f"this should not have happened; please report it: {type(error).__name__}: {error}")


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


async def _events(house: SessionRegistry, workshop: WebSession) -> AsyncIterator[str]:
    """The state of a session whenever it changes, for as long as somebody listens."""
    told = -1
    while house.has(workshop):
        if workshop.change == told:
            await workshop.news(PATIENCE_SECONDS)
            yield ": still here\n\n"
            continue
        state = workshop.state()
        told = state["change"]
        yield as_event(state)
        await asyncio.sleep(TICK_SECONDS)
