"""HTTP: a server for readings (POST), values, health, metrics and the page, and a `Poller` of devices.

A POSTed body is JSON, JSON lines or CSV, plain or gzip, and is parsed line by line: a bad line does not spoil the
others. A POST is answered when its readings have been published. A browser asks for the token as a password (Basic), a
box sends it as `Authorization: Bearer`; only the latter may POST. Readings go to `pipeline`; the values shown come from
`recent_results`.
"""

import asyncio
import csv
import json
import logging
import re
import zlib
from base64 import b64decode
from binascii import Error
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from hmac import compare_digest
from http.client import HTTPException
from itertools import islice
from pathlib import Path
from threading import Event, Thread
from time import monotonic, time
from typing import Any
from urllib.request import urlopen

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from scare.data.flags import MEANINGS
from scare.errors import DataError, ScareError, UsageError
from scare.files import PAGES, UPLOT, replacing
from scare.http_server import AccessCheck, AccessGuard, ThreadedServer, error_response
from scare.live.arrivals import Delivery
from scare.live.blobs import NEWEST, OTHER, UNKNOWN, Blobs
from scare.live.config import Http, Input, is_loopback
from scare.live.messages import MAX_PAYLOAD, Reader, Reading, RejectedError, parse_json
from scare.live.pipeline import COUNTS, ModelFiles, Monitor, Pipeline
from scare.live.recent_results import Recent
from scare.upkeep.update import age_of_correction

LOG = logging.getLogger(__name__)
PAGE = Path(__file__).with_name("page")
MAX_BODY = 1 << 20  # bytes, also after unpacking
MAX_MODEL = 16 << 20  # bytes of an uploaded calibrator
MODEL_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,59}\.scare")
MAX_LINES = 20_000  # most readings of one body, which bounds the time that it takes
BODY_SECONDS = 30.0  # until a body must have arrived
FULL_SECONDS = 1.0  # how long a POST waits for space in the queue
SPACE_POLL_SECONDS = 0.01  # time between two looks for space
KEPT_REASONS = 10  # rejected lines that an answer explains
GZIP = 31  # `wbits` of zlib for the gzip format
OPEN_PATHS = ("/healthz",)  # need no token
PUBLISH_SECONDS = 30.0  # until accepted readings must have been published
TICK_SECONDS = 1.0  # time between two events
POLL_TIMEOUT_SECONDS = 5.0
PROBLEMS = ("broker", "clock", "disk", "lag", "sensor_things")  # what a problem may be about


class TooLargeError(RejectedError):
    """A body that is too large, or has too many readings."""


@dataclass(frozen=True)
class LiveStatus:
    """What the server shows. Parts of it are functions, which are called for each answer."""

    pipeline: Pipeline | None  # gets the readings that are POSTed; without one they are refused
    problems: Callable[[], dict[str, str]]  # sentences by what they are about, such as clock, disk or broker
    remarks: Callable[[], list[str]]  # sentences, such as on devices that send at another step than their model's
    backlog: Callable[[], int]  # readings in the queue
    monitor: Monitor
    recent: Recent
    units: Mapping[str, str]  # of values, by model
    steps: Mapping[str, float]  # in seconds, by model
    alerts: Callable[[], Mapping[str, int]]  # number of devices, by kind of alert
    blobs: Blobs
    co_location: Callable[[], Mapping[str, Any] | None]  # how far the co-location is
    models: ModelFiles
    uploads: Path | None  # folder for uploaded calibrators; without one they are refused


class Server:
    """The server, in a thread of its own: call `start`, later `stop`."""

    def __init__(self, settings: Http, status: LiveStatus, readers: Mapping[str, Reader]) -> None:
        token = settings.token()
        if not token and not is_loopback(settings.host):
            raise UsageError(f"http.host {settings.host} is reachable from other computers: give token_file")
        checks = settings.allowed_names, require_token(token)
        app = AccessGuard(make_app(status, readers, self), *checks, proxy=settings.proxy)
        tls = {"ssl_certfile": settings.certificate or None, "ssl_keyfile": settings.key or None}
        self._server = ThreadedServer(app, settings.host, settings.port, **tls)
        self.port = self._server.port
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        self.address = f"{'https' if settings.certificate else 'http'}://{host}:{self.port}/"
        self.start, self.stop = self._server.start, self._server.stop

    @property
    def stopping(self) -> bool:
        """Whether the server is shutting down."""
        return self._server.stopping


class Poller:
    """Polls the addresses of one input, one after the other, in a thread; `start`, then `stop` and `close`.

    For devices that do not send, such as PurpleAir and AirGradient on the local network.
    """

    def __init__(self, settings: Input, reader: Reader, pipeline: Pipeline, monitor: Monitor) -> None:
        self._settings, self._reader, self._pipeline, self._monitor = settings, reader, pipeline, monitor
        self._stopping = Event()
        self._thread = Thread(target=self._work, name=f"polling {settings.adapter}", daemon=True)

    def start(self) -> None:
        """Start polling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop polling soon."""
        self._stopping.set()

    def close(self) -> None:
        """Stop polling, and wait until the thread has ended."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(2 * POLL_TIMEOUT_SECONDS)

    def _work(self) -> None:
        """Poll all addresses every `every_seconds`, or without a pause if a round takes longer."""
        wait = 0.0
        while not self._stopping.wait(wait):
            begun = monotonic()
            for address in self._settings.addresses:
                self._poll(address)
            wait = max(0.0, self._settings.every_seconds - (monotonic() - begun))

    def _poll(self, address: str) -> None:
        """Read a device and submit the reading; it is dropped if the queue is full, as the next poll brings another."""
        self._monitor.count("received")
        try:
            with urlopen(address, timeout=POLL_TIMEOUT_SECONDS) as answer:  # `config` allows http and https only
                payload = answer.read(MAX_PAYLOAD + 1)  # so that the reader rejects a larger one
            reading = self._reader.read(payload, "", time())
            if reading is None:
                raise RejectedError("the adapter takes the field from an MQTT topic, so it cannot be polled")
            if not self._pipeline.submit(Delivery((reading,)), POLL_TIMEOUT_SECONDS):
                raise RejectedError("the queue is full")
        except RejectedError as rejected:
            self._monitor.reject(address, str(rejected))
        except (OSError, HTTPException, ValueError) as error:
            self._monitor.reject(address, f"no answer: {getattr(error, 'reason', error)}")


def make_app(status: LiveStatus, readers: Mapping[str, Reader], server: "Server") -> Starlette:
    """Return the routes of the server; `readers` parse POSTed bodies, by the name of their adapter."""
    turn = asyncio.Lock()  # POSTs wait in order of arrival, and one body is parsed at a time

    async def wait_for_space(pipeline: Pipeline, until: float) -> bool:
        """Wait until the queue takes readings; False if it stays full by the time `until` (monotonic clock).

        Meanwhile the client waits for its answer, instead of sending the same body again and again.
        """
        while pipeline.is_full:
            if monotonic() >= until:
                return False
            await asyncio.sleep(SPACE_POLL_SECONDS)
        return True

    async def take_readings(request: Request) -> Response:
        """Parse the readings in a body with the adapter in the path (default: json) and submit them."""
        if status.pipeline is None:
            return error_response(404, "readings come from Kafka; they cannot be POSTed here")
        adapter = request.path_params.get("adapter", "json")
        if adapter not in readers:
            return error_response(404, f"no input has the adapter '{adapter[:64]}'; there are {', '.join(readers)}")
        try:
            packed = await asyncio.wait_for(_read_body(request), BODY_SECONDS)
            until = monotonic() + FULL_SECONDS  # the wait for a turn counts: each POST is answered in this time
            async with turn:
                if not await wait_for_space(status.pipeline, until):
                    return _queue_is_full()
                body = unpack(packed, request.headers.get("content-encoding", ""))
                media_type = request.headers.get("content-type", "").partition(";")[0]
                intake = await run_in_threadpool(parse_body, body, media_type, readers[adapter], time())
                submitted = _submit(status.pipeline, status.monitor, intake)
        except RejectedError as rejected:
            status.monitor.reject("http", str(rejected))
            return error_response(413 if isinstance(rejected, TooLargeError) else 400, str(rejected))
        except TimeoutError:
            return error_response(408, f"the body did not arrive within {BODY_SECONDS:g} seconds")
        except ClientDisconnect:
            LOG.warning("http: a POST was interrupted by its sender")
            return Response(status_code=400)
        return submitted if isinstance(submitted, Response) else await _answer(*submitted, intake)

    async def list_devices(request: Request) -> Response:
        """Return the data with which the page opens: the newest row of every device, units, and meanings of flags."""
        change, rows = await run_in_threadpool(status.recent.changed, -1, sparks=True)
        flags = {str(int(flag)): [flag.name, meaning] for flag, meaning in MEANINGS.items()}
        models = {"units": dict(status.units), "steps": dict(status.steps)}
        content = {"change": change, "now": time(), **models, "flags": flags}
        text = await run_in_threadpool(_with_rows, content, rows)
        return Response(text, media_type="application/json")

    async def show_device(request: Request) -> Response:
        try:
            history = status.recent.device(request.path_params["device"])
        except DataError as error:
            return error_response(404, str(error))
        box = await run_in_threadpool(status.blobs.runs, history["device"])
        calibrator = status.models.calibrators.get(history["model"])
        try:
            correction = age_of_correction(calibrator) if calibrator else {}
        except DataError:  # damaged facts are no reason to hide values; `scare update` reports them
            correction = {}
        unit = status.units.get(history["model"], "")
        return JSONResponse({**history, "unit": unit, "box": box, "correction": correction, "now": time()})

    async def give_blob(request: Request) -> Response:
        """Return the model file of a device, or 304 if the device names its version in `If-None-Match`.

        There a device names the version that it runs, and then those that it has refused.
        """
        device, named = request.path_params["device"], request.headers.get("if-none-match", "").split(",")
        versions = [version.strip('W/" ') for version in named]  # written as "version", or W/"version" by a proxy
        try:
            blob = await run_in_threadpool(status.blobs.find, device)
        except DataError as error:
            return error_response(404, str(error))
        status.blobs.record(device, versions[0])
        headers = {"etag": f'"{blob.version}"', "cache-control": "no-cache"}
        if blob.version in versions:
            return Response(status_code=304, headers=headers)
        return Response(blob.content, headers=headers, media_type="application/octet-stream")

    async def show_manifest(request: Request) -> Response:
        try:
            return JSONResponse(await run_in_threadpool(status.blobs.manifest, request.path_params["device"]))
        except DataError as error:
            return error_response(404, str(error))

    async def show_co_location(request: Request) -> Response:
        assessment = status.co_location()
        if assessment is None:
            return error_response(404, "[co_location] of the config file names no device beside a reference")
        return JSONResponse(assessment)

    async def list_models(request: Request) -> Response:
        models = [{"model": name, "product": product} for name, (product, _) in status.models.products.items()]
        return JSONResponse({"models": models, "uploads": status.uploads is not None})

    async def take_model(request: Request) -> Response:
        """Save a calibrator that was sent from the page, once it has been opened and found to fit."""
        if status.uploads is None:
            return error_response(404, "no models are taken here; http.uploads of the config file names their folder")
        name = request.path_params["name"]
        if not MODEL_NAME.fullmatch(name):
            return error_response(400, "give a name of letters, digits, -, _ and ., that ends with .scare")
        path = status.uploads / name
        try:
            with replacing(path) as temporary:
                body = _read_body(request, MAX_MODEL)
                temporary.write_bytes(await asyncio.wait_for(body, BODY_SECONDS))
                outcome = await run_in_threadpool(status.models.check_upload, path, temporary)
        except ScareError as error:
            code = 413 if isinstance(error, TooLargeError) else 400
            return error_response(code, f"{name} was not taken: {error}")
        except TimeoutError:
            return error_response(408, f"the file did not arrive within {BODY_SECONDS:g} seconds")
        except ClientDisconnect:
            return Response(status_code=400)
        LOG.warning("a model was uploaded: %s", path)
        return JSONResponse({"outcome": outcome})

    async def list_blobs(request: Request) -> Response:
        return JSONResponse({"devices": await run_in_threadpool(status.blobs.listed)})

    async def stream_events(request: Request) -> Response:
        since = request.query_params.get("since", "")
        is_number = since.isdecimal() and len(since) < 15  # longer ones are not ours
        events = _events(status, int(since) if is_number else -1, server)
        return StreamingResponse(events, media_type="text/event-stream", headers={"cache-control": "no-store"})

    async def show_health(request: Request) -> Response:
        problems = status.problems()
        answer: dict[str, Any] = {"status": "degraded" if problems else "ok", "problems": problems}
        restoring = status.pipeline.restoring if status.pipeline else 0
        answer |= {"waiting": status.backlog(), "restoring": restoring, "devices": len(status.recent)}
        return JSONResponse(answer, 503 if problems else 200)

    async def show_metrics(request: Request) -> Response:
        return PlainTextResponse(metrics(status), media_type="text/plain; version=0.0.4")

    return Starlette(
        routes=[
            Route("/v1/readings", take_readings, methods=["POST"]),
            Route("/v1/readings/{adapter}", take_readings, methods=["POST"]),
            Route("/v1/devices", list_devices),
            Route("/v1/devices/{device:path}", show_device),  # a name may have slashes
            Route("/v1/co-location", show_co_location),
            Route("/v1/models", list_models),
            Route("/v1/models/{name}", take_model, methods=["PUT"]),
            Route("/v1/blobs", list_blobs),
            Route("/v1/blobs/{device:path}", give_blob),
            Route("/v1/manifests/{device:path}", show_manifest),
            Route("/v1/events", stream_events),
            Route("/healthz", show_health),
            Route("/metrics", show_metrics),
            Mount("/uplot", StaticFiles(directory=UPLOT)),
            Mount("/pages", StaticFiles(directory=PAGES)),
            Mount("/", StaticFiles(directory=PAGE, html=True)),
        ]
    )


async def _read_body(request: Request, most: int = MAX_BODY) -> bytes:
    """Read a body without holding more than `most` bytes of one that is too large."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise TooLargeError(f"the body has more than {most:,} bytes; send less at once")
    return bytes(body)


def _submit(pipeline: Pipeline, monitor: Monitor, intake: "Intake") -> Response | tuple[Delivery, asyncio.Event]:
    """Submit readings to the pipeline; returns the delivery and an event that is set when it is acknowledged.

    If there is no reading to submit or the queue is full, returns the response to the client instead.
    """
    monitor.count("received", len(intake.readings) + intake.rejected)
    for rejection in intake.reasons:
        monitor.reject("http", f"line {rejection['line']}: {rejection['reason']}")
    monitor.count("rejected", intake.rejected - len(intake.reasons))  # `reject` has counted the others
    if not intake.readings:
        return JSONResponse(intake.answer({}), 400)
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    delivery = Delivery(intake.readings, lambda: loop.call_soon_threadsafe(done.set))
    return (delivery, done) if pipeline.submit(delivery) else _queue_is_full()


async def _answer(delivery: Delivery, done: asyncio.Event, intake: "Intake") -> Response:
    """Answer when the delivery is acknowledged: 200, 400 if no reading was accepted, or 503 after `PUBLISH_SECONDS`.

    A client that gets 503 sends everything again; duplicates are recognised.
    """
    try:
        await asyncio.wait_for(done.wait(), PUBLISH_SECONDS)
    except TimeoutError:
        return error_response(503, "the readings have not been published yet; send them again", {"retry-after": "30"})
    answer = intake.answer(delivery.refused)
    return JSONResponse(answer, 200 if answer["accepted"] else 400)


def _queue_is_full() -> Response:
    return error_response(429, "the queue of readings is full; send them again later", {"retry-after": "1"})


async def _events(status: LiveStatus, since: int, server: "Server") -> AsyncIterator[str]:
    """Yield an event every second: the devices that have changed after change number `since`, counts and rejections."""
    yield "retry: 2000\n\n"  # milliseconds until a browser reconnects
    while not server.stopping:
        since, rows = await run_in_threadpool(status.recent.changed, since)
        counts, waits = status.monitor.counts(), status.monitor.waits()
        refusals = [asdict(rejection) for rejection in status.monitor.rejections()[:20]]  # as many as the page shows
        event = {"change": since, "now": time(), "counts": counts, "waits": waits}
        event |= {"waiting": status.backlog(), "refusals": refusals}
        event |= {"problems": status.problems(), "remarks": status.remarks()}
        yield f"data: {await run_in_threadpool(_with_rows, event, rows)}\n\n"
        next_tick = monotonic() + TICK_SECONDS
        while not server.stopping and monotonic() < next_tick:
            await asyncio.sleep(0.1)


def _with_rows(content: Mapping[str, Any], rows: Iterable[Any]) -> str:
    """Return JSON of an object that has the rows as `devices`.

    Each row is written by itself, so that other threads can work in between: none can while `json` writes an object.
    """
    texts = (json.dumps(row, separators=(",", ":")) for row in rows)
    head = json.dumps(content, separators=(",", ":"))  # its last character is the closing brace
    return f'{head[:-1]},"devices":[{",".join(texts)}]}}'


def metrics(status: LiveStatus) -> str:
    """Return the counts and gauges in the text format of Prometheus."""
    lines = []
    for name, number in status.monitor.counts().items():
        lines += [f"# HELP scare_{name}_total {COUNTS[name]}", f"# TYPE scare_{name}_total counter"]
        lines.append(f"scare_{name}_total {number}")
    gauges: dict[str, tuple[str, int | float]] = {
        "devices": ("Devices that have reported.", len(status.recent)),
        "waiting": ("Readings in the queue.", status.backlog()),
        "uptime_seconds": ("Seconds since the start.", round(time() - status.monitor.started, 1)),
    }
    for quantile, seconds in status.monitor.waits().items():
        gauges[f"wait_seconds_{quantile}"] = (
            "Seconds from arrival to acknowledgement, of the last 2000 deliveries.",
            round(seconds, 6),
        )
    for name, (text, level) in gauges.items():
        lines += [f"# HELP scare_{name} {text}", f"# TYPE scare_{name} gauge", f"scare_{name} {level}"]
    lines += ["# HELP scare_alerts Devices with an alert of this kind.", "# TYPE scare_alerts gauge"]
    lines += [f'scare_alerts{{about="{about}"}} {count}' for about, count in status.alerts().items()]
    runs = status.blobs.counts()
    lines += ["# HELP scare_boxes Devices that fetch model files, by what they run.", "# TYPE scare_boxes gauge"]
    lines += [f'scare_boxes{{runs="{state}"}} {runs[state]}' for state in (NEWEST, OTHER, UNKNOWN)]
    problems = status.problems()
    lines += ["# HELP scare_problem Whether /healthz has a problem with this.", "# TYPE scare_problem gauge"]
    lines += [f'scare_problem{{about="{about}"}} {int(about in problems)}' for about in PROBLEMS]
    return "\n".join(lines) + "\n"


@dataclass
class Intake:
    """The readings of a body, the number of rejected lines, and the reasons of the first `KEPT_REASONS`."""

    readings: list[Reading] = field(default_factory=list)
    rejected: int = 0
    reasons: list[dict[str, Any]] = field(default_factory=list)

    def reject(self, line: int, reason: str) -> None:
        """Count a rejected line, and keep its reason if it is one of the first."""
        self.rejected += 1
        if len(self.reasons) < KEPT_REASONS:
            self.reasons.append({"line": line, "reason": reason})

    def answer(self, refused: Mapping[str, int]) -> dict[str, Any]:
        """Return the answer to a POST.

        `rejected` counts lines that could not be parsed; `refused` counts, by reason, readings that the pipeline did
        not accept. The answer's "rejected" counts both.
        """
        count = sum(refused.values())
        answer = {"accepted": len(self.readings) - count, "rejected": self.rejected + count, "reasons": self.reasons}
        return answer | ({"refused": dict(refused)} if refused else {})


def unpack(body: bytes, encoding: str) -> bytes:
    """Decompress a body; one that is too large, before or after, is rejected."""
    is_complete = True
    if encoding == "gzip":
        unpacking = zlib.decompressobj(GZIP)
        try:
            body = unpacking.decompress(body, MAX_BODY + 1)
        except zlib.error as error:
            raise RejectedError(f"not gzip: {error}") from error
        is_complete = unpacking.eof
    if len(body) > MAX_BODY:
        raise TooLargeError(f"the body has more than {MAX_BODY:,} bytes; send less at once")
    if not is_complete:
        raise RejectedError("the gzip is cut off")
    return body


def parse_body(body: bytes, media_type: str, reader: Reader, now: float) -> Intake:
    """Parse the lines of a body (`text/csv`, else JSON) into readings; `now` is the time of its arrival."""
    intake = Intake()
    lines = _csv_lines(body) if media_type == "text/csv" else _json_lines(body)
    for number, line in enumerate(lines, 1):
        if number > MAX_LINES:
            raise TooLargeError(f"the body has more than {MAX_LINES:,} readings; send fewer at once")
        try:
            if isinstance(line, RejectedError):
                raise line
            reading = reader.read_content(line, "", now)
            if reading is not None:
                intake.readings.append(reading)
        except RejectedError as rejected:
            intake.reject(number, str(rejected))
    return intake


def _json_lines(body: bytes) -> Iterator[Any]:
    """Yield the objects of a body (one, a list or one per line), and a RejectedError for a line that is not JSON."""
    try:
        value = parse_json(body, MAX_BODY)
    except RejectedError:
        value = None
    if value is not None:
        yield from value if isinstance(value, list) else [value]
        return
    for line in body.splitlines():
        if line.strip():
            try:
                yield parse_json(line)
            except RejectedError as rejected:
                yield rejected


def _csv_lines(body: bytes) -> Iterable[Any]:
    """Return the rows of a CSV table as dicts, or one RejectedError."""
    try:
        # `restkey` is the key of surplus fields; no channel is called like that.
        rows = csv.DictReader(body.decode("utf-8-sig").splitlines(), restkey=" more")
        return list(islice(rows, MAX_LINES + 1))  # one more than allowed, at which `parse_body` ends
    except (UnicodeDecodeError, csv.Error) as error:
        return [RejectedError(f"not CSV in UTF-8: {error}")]


def require_token(token: str) -> AccessCheck:
    """Return an access check for this token; with an empty token everyone has access."""

    def check_token(scope: Scope) -> JSONResponse | None:
        if not token or scope["path"] in OPEN_PATHS or _has_token(scope, token):
            return None
        return error_response(401, "send the token of this server", {"www-authenticate": 'Basic realm="scare"'})

    return check_token


def _has_token(scope: Scope, token: str) -> bool:
    """Whether a request has the token: as Bearer, or as the password of Basic.

    A browser repeats its password in requests that other sites start, so with Basic only a page may write: it sends an
    Origin, which `AccessGuard` has found to be ours.
    """
    scheme, _, credentials = Headers(scope=scope).get("authorization", "").partition(" ")
    if scheme.lower() == "basic" and (scope["method"] in ("GET", "HEAD") or "origin" in Headers(scope=scope)):
        try:
            password = b64decode(credentials, validate=True).partition(b":")[2]
        except (Error, ValueError):
            return False
        return compare_digest(password, token.encode())
    return scheme.lower() == "bearer" and compare_digest(credentials.encode(), token.encode())
