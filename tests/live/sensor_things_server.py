"""A small OGC SensorThings server: entities with the properties that the standard requires, and links between them.

Of OGC 18-088, sections 8 and 10.2: mandatory properties and links, creation at an entity's collection, deep insertion
of linked entities, links by @iot.id, `$filter=name eq '…'`. Identifiers are numbers, or texts as some servers have.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

REQUIRED = {
    "Things": {"name", "description"},
    "Sensors": {"name", "description", "encodingType", "metadata"},
    "ObservedProperties": {"name", "definition", "description"},
    "Datastreams": {
        "name",
        "description",
        "unitOfMeasurement",
        "observationType",
        "Thing",
        "Sensor",
        "ObservedProperty",
    },
    "FeaturesOfInterest": {"name", "description", "encodingType", "feature"},
    "Observations": {"phenomenonTime", "result", "Datastream", "FeatureOfInterest"},
}
OPTIONAL = {
    "Things": {"properties", "Datastreams", "Locations"},
    "Observations": {"resultTime", "resultQuality", "validTime", "parameters"},
    "Datastreams": {"observedArea", "properties"},
}
LINKS = {
    "Thing": "Things",
    "Sensor": "Sensors",
    "ObservedProperty": "ObservedProperties",
    "Datastream": "Datastreams",
} | {
    "FeatureOfInterest": "FeaturesOfInterest",
}
PARENT = {"Things": "Thing", "Datastreams": "Datastream"}


class BadRequestError(Exception):
    """What the standard does not allow."""


class SensorThingsServer:
    """Entities by collection and identifier; `answers` are status codes to give instead of doing what is asked."""

    def __init__(self, texts: bool = False) -> None:
        self.entities: dict[str, dict[Any, dict[str, Any]]] = {name: {} for name in REQUIRED}
        self.answers: list[int] = []
        self.authorizations: set[str | None] = set()
        self._texts, self._count = texts, 0

    def create(self, collection: str, entity: dict[str, Any]) -> Any:
        """Validate and store an entity, and what is nested in it; returns its identifier."""
        allowed = REQUIRED[collection] | OPTIONAL.get(collection, set())
        if missing := REQUIRED[collection] - entity.keys():
            raise BadRequestError(f"{collection} without {', '.join(sorted(missing))}")
        if unknown := entity.keys() - allowed:
            raise BadRequestError(f"{collection} with {', '.join(sorted(unknown))}")
        if collection == "Datastreams" and entity["unitOfMeasurement"].keys() != {"name", "symbol", "definition"}:
            raise BadRequestError("unitOfMeasurement has name, symbol and definition")
        if collection == "Observations" and not re.fullmatch(r"[\d-]+T[\d:.]+Z", entity["phenomenonTime"]):
            raise BadRequestError("phenomenonTime is a time")
        linked = {key: self._link(LINKS[key], value) for key, value in entity.items() if key in LINKS}
        self._count += 1
        identity = f"id-{self._count}" if self._texts else self._count
        self.entities[collection][identity] = {**entity, **linked}
        return identity

    def _link(self, collection: str, value: dict[str, Any]) -> Any:
        """Return the identifier of a linked entity, which is created if it is not given by its identifier."""
        if value.keys() == {"@iot.id"}:
            if value["@iot.id"] not in self.entities[collection]:
                raise BadRequestError(f"no {collection}({value['@iot.id']!r})")
            return value["@iot.id"]
        return self.create(collection, value)

    def values(self, thing: str) -> list[dict[str, Any]]:
        """The observations of all Datastreams of the Thing of this name."""
        things = {key for key, one in self.entities["Things"].items() if one["name"] == thing}
        streams = {key for key, one in self.entities["Datastreams"].items() if one["Thing"] in things}
        return [one for one in self.entities["Observations"].values() if one["Datastream"] in streams]


@contextmanager
def running_server(server: SensorThingsServer, port: int = 0) -> Iterator[str]:
    """The server at work; yields the address of its API."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self, status: int, content: Any = None, location: str = "") -> None:
            body = json.dumps(content).encode() if content is not None else b""
            self.send_response(status)
            if location:
                self.send_header("location", location)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _is_answered(self) -> bool:
            server.authorizations.add(self.headers.get("authorization"))
            if server.answers:
                self._answer(server.answers.pop(0))
                return True
            return False

        def do_GET(self) -> None:
            if self._is_answered():
                return
            parts = urlsplit(self.path)
            collection = parts.path.removeprefix("/sta/v1.1/")
            asked = re.fullmatch(r"name eq '(.*)'", parse_qs(parts.query)["$filter"][0])
            assert asked
            name = asked[1].replace("''", "'")
            found = [key for key, one in server.entities[collection].items() if one["name"] == name]
            self._answer(200, {"value": [{"@iot.id": key, "name": name} for key in found]})

        def do_POST(self) -> None:
            entity = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self._is_answered():
                return
            path = unquote(urlsplit(self.path).path).removeprefix("/sta/v1.1/")
            parent = re.fullmatch(r"(\w+)\((.+)\)/(\w+)", path)
            collection = parent[3] if parent else path
            if parent:
                identity: Any = int(parent[2]) if parent[2].isdecimal() else parent[2].strip("'")
                if identity not in server.entities[parent[1]]:
                    self._answer(404)
                    return
                entity[PARENT[parent[1]]] = {"@iot.id": identity}
            try:
                created = server.create(collection, entity)
            except BadRequestError as error:
                self._answer(400, {"code": 400, "message": str(error)})
                return
            literal = created if isinstance(created, int) else f"'{created}'"
            self._answer(201, None, f"http://elsewhere.example/sta/v1.1/{collection}({literal})")

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_port}/sta/v1.1"
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
