"""OGC SensorThings (API 1.1, part 1): each device a Thing, each model's values of it a Datastream of Observations.

    Result → Observation: result, phenomenonTime, resultQuality (interval, flags), parameters (raw, model, product)

An entity that a server has under the same name is used, the others are created. Results without a value are not sent.
https://docs.ogc.org/is/18-088/18-088.html
"""

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from math import isnan
from threading import Event, Lock
from typing import Any
from urllib.parse import quote, urlsplit

from scare.calibrator.calibrator import Calibrator
from scare.data.flags import flag_names
from scare.data.quantities import display_unit, find_quantity
from scare.live.config import SensorThings
from scare.live.messages import format_time
from scare.live.pipeline import Monitor, Result, finite

TIMEOUT_SECONDS, RETRY_SECONDS = 20.0, 5.0
MEASUREMENT = "http://www.opengis.net/def/observationType/OGC-OM/2.0/OM_Measurement"
POLLUTANTS = "http://dd.eionet.europa.eu/vocabulary/aq/pollutant/"  # of the European Environment Agency
# In that vocabulary; other quantities get a URN of our own.
POLLUTANT_CODES = {"PM10": 5, "PM2.5": 6001, "NO2": 8, "NO": 38, "O3": 7, "CO": 10, "SO2": 1}
ABOUT_THE_SENSOR = "a low-cost sensor, calibrated by scare"


class AnswerError(Exception):
    """The server answered that a request is wrong, so it is not sent again."""


class SensorThingsSink:
    """Sends each value as an Observation, and waits until the server has it."""

    def __init__(self, settings: SensorThings, calibrators: Mapping[str, Calibrator], monitor: Monitor) -> None:
        self._calibrators, self._monitor = calibrators, monitor
        self._root = urlsplit(settings.address.rstrip("/"))
        self._headers = {"content-type": "application/json", "accept": "application/json"}
        if settings.user:
            password = b64encode(f"{settings.user}:{settings.password()}".encode()).decode()
            self._headers["authorization"] = f"Basic {password}"
        self._connection: HTTPConnection | None = None
        self._datastreams: dict[tuple[str, str], str] = {}  # path by device and model
        self._features: dict[str, str] = {}  # id of the FeatureOfInterest by site, or by device without one
        self._lock, self._stopping = Lock(), Event()
        self.problem = ""  # why the server takes nothing now

    def stop(self) -> None:
        """Stop repeating requests that the server did not answer."""
        self._stopping.set()

    def close(self) -> None:
        """Close the connection."""
        self._stopping.set()
        if self._connection is not None:
            self._connection.close()

    def keep(self, number: int) -> None:
        """Do nothing: the server keeps the results itself."""

    def publish(self, results: Sequence[Result]) -> bool:
        """Send all values; False if the process stops while the server cannot be reached.

        What the server refuses is counted as a rejection and not sent again.
        """
        with self._lock:
            return all(self._send(result) for result in results if not isnan(result.calibrated))

    def _send(self, result: Result) -> bool:
        """Send a result, again and again while the server does not answer; False if the process stops meanwhile."""
        while True:
            try:
                self._observe(result)
            except AnswerError as error:
                self._monitor.reject("sensor_things", f"{result.device}: {error}")
            except (OSError, HTTPException, ValueError) as error:
                self.problem = f"the SensorThings server does not answer: {error}"
                if self._connection is not None:
                    self._connection.close()
                self._connection = None
                if self._stopping.wait(RETRY_SECONDS):
                    return False
                continue
            else:
                self._monitor.count("published")
            self.problem = ""
            return True

    def _observe(self, result: Result) -> None:
        """POST a result to its Datastream."""
        key = (result.device, result.model)
        if key not in self._datastreams:
            self._datastreams[key] = self._find_datastream(*key)
        path = self._datastreams[key]
        created = self._post(f"{path}/Observations", self._observation(result))
        if created is None:  # the Datastream is gone: someone has deleted it
            del self._datastreams[key]
            raise AnswerError("its Datastream was deleted; the next value makes a new one")

    def _observation(self, result: Result) -> dict[str, Any]:
        intervals = self._calibrators[result.model].intervals
        level = intervals.level if intervals else None
        quality: list[dict[str, Any]] = [
            {"nameOfMeasure": "flags", "result": {"bits": result.flags, "names": flag_names(result.flags)}}
        ]
        if not isnan(result.low):
            ends = {"low": finite(result.low), "high": finite(result.high), "level": level}
            quality.insert(0, {"nameOfMeasure": "prediction interval", "result": ends})
        about = {"raw": finite(result.raw), "model": result.model, "product": result.product, "level": result.level}
        return {
            "phenomenonTime": format_time(result.time),
            "result": finite(result.calibrated),
            "resultQuality": quality,
            "parameters": {name: fact for name, fact in about.items() if fact not in (None, "")},
            "FeatureOfInterest": self._feature(result.site or result.device),
        }

    def _feature(self, name: str) -> dict[str, Any]:
        """Return a reference to the FeatureOfInterest of this name, which is made if the server has none."""
        if name not in self._features:
            feature = {
                "name": name,
                "description": "where the sensor stands",
                "encodingType": "application/geo+json",
                "feature": {"type": "Feature", "geometry": None, "properties": {"name": name}},
            }
            path = self._find("FeaturesOfInterest", name) or self._post("/FeaturesOfInterest", feature)
            self._features[name] = _id_of(path or "")
        identity = self._features[name]
        return {"@iot.id": int(identity) if identity.isdecimal() else identity.strip("'")}

    def _find_datastream(self, device: str, model: str) -> str:
        """Return the path of a device's Datastream; it is made, with its Thing, if the server has none."""
        name = f"{device}: {model}"
        if found := self._find("Datastreams", name):
            return found
        thing = {"name": device, "description": ABOUT_THE_SENSOR, "properties": {"software": "scare"}}
        path = self._find("Things", device) or self._post("/Things", thing)
        created = self._post(f"{path}/Datastreams", self._datastream(name, device, model))
        if created is None:
            raise AnswerError("its Thing was deleted meanwhile")
        return created

    def _datastream(self, name: str, device: str, model: str) -> dict[str, Any]:
        target = self._calibrators[model].target
        quantity = find_quantity(target.name)
        measured = quantity.name if quantity else target.name
        code = POLLUTANT_CODES.get(measured)
        unit = display_unit(target.unit)
        return {
            "name": name,
            "description": f"{measured} of {device}, calibrated by the model {model}",
            "observationType": MEASUREMENT,
            "unitOfMeasurement": {"name": unit, "symbol": unit, "definition": "https://ucum.org"},
            "Sensor": {
                "name": device,
                "description": ABOUT_THE_SENSOR,
                "encodingType": "text/html",
                "metadata": f"model {model}",
            },
            "ObservedProperty": {
                "name": measured,
                "definition": f"{POLLUTANTS}{code}" if code else f"urn:x-scare:quantity:{quote(measured)}",
                "description": f"calibrated {measured}",
            },
        }

    def _find(self, entities: str, name: str) -> str:
        """Return the path of the entity of this name, empty if there is none."""
        condition = quote("name eq '" + name.replace("'", "''") + "'")  # OData doubles a quote within a text
        _, _, content = self._request("GET", f"/{entities}?$filter={condition}&$top=1")
        matches = content.get("value", [])
        if not matches:
            return ""
        identity = matches[0]["@iot.id"]  # a number, or a text, which stands in quotes
        return f"/{entities}({identity if isinstance(identity, int) else quote(repr(str(identity)))})"

    def _post(self, path: str, entity: Mapping[str, Any]) -> str | None:
        """Create an entity and return its path; None if the entity that `path` leads through was deleted."""
        status, location, _ = self._request("POST", path, json.dumps(entity, ensure_ascii=False).encode())
        if status == 404:
            return None
        match = re.search(r"/(\w+\([^()]*\))$", location)
        if match is None:
            raise AnswerError(f"it does not say where the new entity is: {location[:100]!r}")
        return f"/{match[1]}"

    def _request(self, method: str, path: str, body: bytes | None = None) -> tuple[int, str, dict[str, Any]]:
        """Send a request and return status, Location and content.

        An `OSError` means that the caller may send it again later.
        """
        if self._connection is None:
            kind = HTTPSConnection if self._root.scheme == "https" else HTTPConnection
            self._connection = kind(self._root.hostname or "", self._root.port, timeout=TIMEOUT_SECONDS)
        self._connection.request(method, f"{self._root.path}{path}", body, self._headers)
        answer = self._connection.getresponse()
        text = answer.read()
        # What may succeed later: errors of the server, missing rights, time-outs, too many requests.
        if answer.status >= 500 or answer.status in (401, 403, 408, 429):
            raise OSError(f"it answers {answer.status} to {method} {path}")
        if answer.status >= 400 and answer.status != 404:
            raise AnswerError(f"{answer.status} to {method} {path}: {text[:200].decode('utf-8', 'replace')}")
        content = json.loads(text) if method == "GET" and answer.status == 200 else {}
        return answer.status, answer.getheader("location", ""), content


def _id_of(path: str) -> str:
    """Return the identifier in a path, such as 5 or 'a1' of /Things(5) and /Things('a1')."""
    return path.partition("(")[2].removesuffix(")")
