"""The HTTP server: readings in, values out, health, counts, and the page.

Comes from boxes that POST; goes to the `pipeline`. It runs in a thread of its own.
"""

import asyncio
import csv
import json
import zlib
from base64 import b64decode
from binascii import Error
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from hmac import compare_digest
from pathlib import Path
from time import monotonic, time
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from scare.data.flags import MEANINGS
from scare.errors import DataError, UsageError
from scare.files import PAGES, UPLOT
from scare.live.config import Http, is_loopback
from scare.live.messages import Reading, RejectedError, parse_json
from scare.live.pipeline import COUNTS, Arrival, Monitor, Pipeline
from scare.live.reader import Reader
from scare.live.recent import Recent
from scare.server import AccessCheck, AccessGuard, ThreadedServer, error_response

# What is POSTed becomes readings: JSON, JSON lines or CSV, plain or gzip, line by line; a bad line spoils no other.


LARGEST_BODY = 1 << 20  # bytes, also after unpacking
KEPT_REASONS = 10
GZIP = 31  # zlib's number for it


@dataclass
class Intake:
    """Readings of a body, how many lines were refused, and why the first of them."""

    readings: list[Reading] = field(default_factory=list)
    rejected: int = 0
    reasons: list[dict[str, Any]] = field(default_factory=list)

    def refuse(self, line: int, reason: str) -> None:
        """Count a line that is not taken."""
        self.rejected += 1
        if len(self.reasons) < KEPT_REASONS:
            self.reasons.append({"line": line, "reason": reason})


def unpack(body: bytes, encoding: str) -> bytes:
    """A body as it was before it was packed, if it is not too large."""
    whole = True
    if encoding == "gzip":
        unpacking = zlib.decompressobj(GZIP)
        try:
            body = unpacking.decompress(body, LARGEST_BODY + 1)
        except zlib.error as error:
            raise RejectedError(f"not gzip: {error}") from error
        whole = unpacking.eof
    if len(body) > LARGEST_BODY:
        raise RejectedError(f"more than {LARGEST_BODY:,} bytes; send less at once")
    if not whole:
        raise RejectedError("the gzip is cut off")
    return body


def take_in(body: bytes, kind: str, reader: Reader, now: float) -> Intake:
    """Readings of a body of a media type (`text/csv`, else JSON), as a reader finds them in each line."""
    intake = Intake()
    lines = _csv_lines(body) if kind == "text/csv" else _json_lines(body)
    for number, line in enumerate(lines, 1):
        try:
            if isinstance(line, RejectedError):
                raise line
            reading = reader.read_content(line, "", now)
            if reading is not None:
                intake.readings.append(reading)
        except RejectedError as refused:
            intake.refuse(number, str(refused))
    return intake


def _json_lines(body: bytes) -> Iterator[Any]:
    """The objects of a body: one, a list of them, or one a line."""
    whole = _whole(body)
    if whole is not None:
        yield from whole if isinstance(whole, list) else [whole]
        return
    for line in body.splitlines():
        if line.strip():
            yield _or_refusal(line)


def _whole(body: bytes) -> Any:
    """A body that is JSON as it stands, else None."""
    try:
        return parse_json(body, LARGEST_BODY)
    except RejectedError:
        return None


def _or_refusal(line: bytes) -> Any:
    try:
        return parse_json(line)
    except RejectedError as refused:
        return refused


def _csv_lines(body: bytes) -> Iterable[Any]:
    """Rows of a table by its header."""
    try:
        return list(csv.DictReader(body.decode("utf-8-sig").splitlines(), restkey=" more"))
    except (UnicodeDecodeError, csv.Error) as error:
        return [RejectedError(f"not CSV in UTF-8: {error}")]


# The token of the live server: a browser sends it as the password that it asks for, a box as `Authorization: Bearer`.
#
# Only the header may send readings.


OPEN = ("/healthz",)  # to those without a token


def asking_for(token: str) -> AccessCheck:
    """A door for those who know a token; without one it is open."""

    def door(scope: Scope) -> JSONResponse | None:
        if not token or scope["path"] in OPEN or _is_known(token, scope):
            return None
        return error_response(401, "a token is needed", {"www-authenticate": 'Basic realm="scare"'})

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


PAGE = Path(__file__).with_name("page")
PATIENCE_SECONDS = 30.0  # until readings that were taken have been published
TICK_SECONDS = 1.0  # between two events


@dataclass(frozen=True)
class Watched:
    """What the server shows: readings that wait, counts, the newest results, the units of the models' values.

    `pipeline` takes what is posted; without one nothing is.
    """

    pipeline: Pipeline | None
    backlog: Callable[[], int]
    monitor: Monitor
    recent: Recent
    units: Mapping[str, str]


class Server:
    """Answers in a thread until it is stopped."""

    def __init__(self, settings: Http, watched: Watched, readers: Mapping[str, Reader]) -> None:
        token = settings.token()
        if not token and not is_loopback(settings.host):
            raise UsageError(f"http.host {settings.host} is reached from other computers: give token_file")
        app = AccessGuard(make_app(watched, readers, self), settings.allowed_names, asking_for(token))
        tls = {"ssl_certfile": settings.certificate or None, "ssl_keyfile": settings.key or None}
        self._answering = ThreadedServer(app, settings.host, settings.port, **tls)
        self.port = self._answering.port
        self.address = f"{'https' if settings.certificate else 'http'}://{_shown(settings.host)}:{self.port}/"
        self.start, self.stop = self._answering.start, self._answering.stop

    @property
    def stopping(self) -> bool:
        """Whether it is about to answer no more."""
        return self._answering.stopping


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def make_app(watched: Watched, readers: Mapping[str, Reader], server: "Server") -> Starlette:
    """All that is answered; `readers` by the name of their adapter."""

    async def take_readings(request: Request) -> Response:
        if watched.pipeline is None:
            return _error(404, "readings come from Kafka; none are taken here")
        adapter = request.path_params.get("adapter", "json")
        if adapter not in readers:
            return _error(404, f"no input has the adapter '{adapter[:64]}'; there are {', '.join(readers)}")
        try:
            body = unpack(await _body(request), request.headers.get("content-encoding", ""))
        except RejectedError as refused:
            return _error(413, watched.monitor.refuse("http", str(refused)).reason)
        kind = request.headers.get("content-type", "").partition(";")[0]
        intake = await run_in_threadpool(take_in, body, kind, readers[adapter], time())
        return await _answer(watched.pipeline, watched.monitor, intake)

    async def list_devices(request: Request) -> Response:
        change, rows = watched.recent.changed(-1, sparks=True)
        units = dict(watched.units)
        flags = {str(int(flag)): [flag.name, words] for flag, words in MEANINGS.items()}
        return JSONResponse({"change": change, "now": time(), "units": units, "flags": flags, "devices": rows})

    async def show_device(request: Request) -> Response:
        try:
            found = watched.recent.device(request.path_params["device"])
        except DataError as error:
            return _error(404, str(error))
        return JSONResponse({**found, "unit": watched.units.get(found["model"], "")})

    async def tell_events(request: Request) -> Response:
        since = request.query_params.get("since", "")
        events = _events(watched, int(since) if since.isdecimal() and len(since) < 15 else -1, server)
        return StreamingResponse(events, media_type="text/event-stream", headers={"cache-control": "no-store"})

    async def tell_health(request: Request) -> Response:
        return JSONResponse({"status": "ok", "waiting": watched.backlog(), "devices": len(watched.recent)})

    async def tell_metrics(request: Request) -> Response:
        return PlainTextResponse(metrics(watched), media_type="text/plain; version=0.0.4")

    return Starlette(
        routes=[
            Route("/v1/readings", take_readings, methods=["POST"]),
            Route("/v1/readings/{adapter}", take_readings, methods=["POST"]),
            Route("/v1/devices", list_devices),
            Route("/v1/devices/{device}", show_device),
            Route("/v1/events", tell_events),
            Route("/healthz", tell_health),
            Route("/metrics", tell_metrics),
            Mount("/uplot", StaticFiles(directory=UPLOT)),
            Mount("/pages", StaticFiles(directory=PAGES)),
            Mount("/", StaticFiles(directory=PAGE, html=True)),
        ]
    )


async def _body(request: Request) -> bytes:
    """What was sent, if it is not too large."""
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > LARGEST_BODY:
            raise RejectedError(f"more than {LARGEST_BODY:,} bytes; send less at once")
    return bytes(found)


async def _answer(pipeline: Pipeline, monitor: Monitor, intake: Intake) -> Response:
    """Hand readings over and answer when they have been published."""
    monitor.count("received", len(intake.readings) + intake.rejected)
    for one in intake.reasons:
        monitor.refuse("http", f"line {one['line']}: {one['reason']}")
    monitor.count("rejected", intake.rejected - len(intake.reasons))
    told = {"accepted": len(intake.readings), "rejected": intake.rejected, "reasons": intake.reasons}
    if not intake.readings:
        return JSONResponse(told, 400)
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    arrival = Arrival(intake.readings, lambda: loop.call_soon_threadsafe(done.set))
    if not pipeline.submit(arrival):
        return _error(429, "there are more readings than can be worked on; send them again later", {"retry-after": "1"})
    try:
        await asyncio.wait_for(done.wait(), PATIENCE_SECONDS)
    except TimeoutError:
        return _error(503, "the readings could not be published yet; send them again")
    return JSONResponse(told)


def _error(code: int, reason: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": reason}, code, headers)


async def _events(watched: Watched, since: int, server: "Server") -> AsyncIterator[str]:
    """What has changed, every second, for as long as somebody listens."""
    yield "retry: 2000\n\n"
    while not server.stopping:
        since, rows = watched.recent.changed(since)
        counts, waits = watched.monitor.counts(), watched.monitor.waits()
        refusals = [asdict(one) for one in watched.monitor.refusals()[:20]]
        told = {"change": since, "now": time(), "devices": rows, "counts": counts, "waits": waits}
        told |= {"waiting": watched.backlog(), "refusals": refusals}
        yield f"data: {json.dumps(told, separators=(',', ':'))}\n\n"
        next_tick = monotonic() + TICK_SECONDS
        while not server.stopping and monotonic() < next_tick:
            await asyncio.sleep(0.1)


def metrics(watched: Watched) -> str:
    """Counts as Prometheus reads them."""
    lines = []
    for name, number in watched.monitor.counts().items():
        lines += [f"# HELP scare_{name}_total {COUNTS[name]}", f"# TYPE scare_{name}_total counter"]
        lines.append(f"scare_{name}_total {number}")
    gauges: dict[str, tuple[str, int | float]] = {
        "devices": ("Devices that have reported.", len(watched.recent)),
        "waiting": ("Readings that wait.", watched.backlog()),
        "uptime_seconds": ("Since the start.", round(time() - watched.monitor.started, 1)),
    }
    for quantile, seconds in watched.monitor.waits().items():
        gauges[f"wait_seconds_{quantile}"] = ("From arrival to acknowledgement, of the last 2000.", round(seconds, 6))
    for name, (words, level) in gauges.items():
        lines += [f"# HELP scare_{name} {words}", f"# TYPE scare_{name} gauge", f"scare_{name} {level}"]
    return "\n".join(lines) + "\n"
