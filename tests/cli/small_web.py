"""A web of our own making on this computer: archives as those of sensors and stations are laid out."""

import gzip
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlparse
from xml.sax.saxutils import escape
from zipfile import ZipFile

from scare.data.fetch import SOURCES

HOURS = 24


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder; a question for the list of a bucket is answered as one answers, two files at a time."""

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        question = parse_qs(urlparse(self.path).query)
        if "list-type" not in question:
            super().do_GET()
            return
        bucket = Path(self.directory) / urlparse(self.path).path.strip("/")
        prefix, start = question["prefix"][0], int(question.get("continuation-token", ["0"])[0])
        paths = sorted(path for path in bucket.rglob("*.gz") if path.relative_to(bucket).as_posix().startswith(prefix))
        entries = "".join(_entry(path, bucket) for path in paths[start : start + 2])
        more = f"<NextContinuationToken>{start + 2}</NextContinuationToken>" if start + 2 < len(paths) else ""
        space = "http://s3.amazonaws.com/doc/2006-03-01/"
        body = f'<?xml version="1.0"?><ListBucketResult xmlns="{space}">{entries}{more}</ListBucketResult>'.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _entry(path: Path, bucket: Path) -> str:
    key, content = escape(path.relative_to(bucket).as_posix()), path.read_bytes()
    tag = hashlib.md5(content).hexdigest()
    return f"<Contents><Key>{key}</Key><Size>{len(content)}</Size><ETag>&quot;{tag}&quot;</ETag></Contents>"


@contextmanager
def serving(folder: Path) -> Iterator[Path]:
    """The folder on the web; the path of sources whose addresses all lead there, each to a folder of its own."""
    handler = type(
        "Served", (Handler,), {"__init__": lambda s, *given: Handler.__init__(s, *given, directory=str(folder))}
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sources = folder / "sources.toml"
        ours = SOURCES.read_text(encoding="utf-8")
        sources.write_text(re.sub(r'= "https://', f'= "http://127.0.0.1:{server.server_port}/', ours), encoding="utf-8")
        yield sources
        server.shutdown()


def write(path: Path, content: str | bytes) -> None:
    """A file in folders that may not be there yet; gzipped if its name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def write_openaq(web: Path, location: int, day: str) -> None:
    """A day of a location in the desert: PM2.5 and NO2, in long form and local time."""
    head = '"location_id","sensors_id","location","datetime","lat","lon","parameter","units","value"\n'
    place = '"35.1","-106.6"'
    made = (("pm25", "µg/m³", 5), ("no2", "ppm", 0.25), ("um003", "particles/cm³", 1))
    rows = [
        f'{location},{number},"Made up","{day}T{hour:02}:00:00-06:00",{place},"{name}","{unit}","{value + hour}"'
        for hour in range(HOURS)
        for number, (name, unit, value) in enumerate(made)
    ]
    folder = f"records/csv.gz/locationid={location}/year={day[:4]}/month={day[5:7]}"
    name = f"location-{location}-{day.replace('-', '')}.csv.gz"
    write(web / "openaq-data-archive.s3.amazonaws.com" / folder / name, head + "\n".join(rows) + "\n")


def write_sensor_community(web: Path, sensor: int, day: str, by_year: bool = False) -> None:
    """A day of a particle sensor in Stuttgart."""
    head = "sensor_id;sensor_type;location;lat;lon;timestamp;P1;durP1;ratioP1;P2;durP2;ratioP2\n"
    rows = [
        f"{sensor};SDS011;9;48.780;9.180;{day}T{hour:02}:30:00;{10 + hour}.5;;;{4 + hour}.25;;" for hour in range(HOURS)
    ]
    folder = web / "archive.sensor.community" / (f"{day[:4]}/{day}" if by_year else day)
    write(folder / f"{day}_sds011_sensor_{sensor}.csv{'.gz' * by_year}", head + "\n".join(rows) + "\n")
    near = [{"sensor": {"id": sensor, "sensor_type": {"name": "SDS011"}}, "location": {"latitude": "48.78"}}]
    write(web / "data.sensor.community/airrohr/v1/filter/area=48.78,9.18,3", json.dumps(near))


def write_airnow(web: Path, day: str) -> None:
    """Some hours of two stations, and where they are."""
    date = f"{day[5:7]}/{day[8:]}/{day[2:4]}"
    for hour in (0, 1, 23):
        compact = day.replace("-", "")
        name = f"files.airnowtech.org/airnow/{day[:4]}/{compact}/HourlyData_{compact}{hour:02}.dat"
        rows = [
            f"{date}|{hour:02}:00|060371103|Los Angeles|-8|PM2.5|UG/M3|{12 + hour}|South Coast",
            f"{date}|{hour:02}:00|060371103|Los Angeles|-8|OZONE|PPB|{30 + hour}|South Coast",
            f"{date}|{hour:02}:00|840550790026|Milwaukee|-6|PM2.5|UG/M3|7|Wisconsin",
        ]
        write(web / name, "\n".join(rows) + "\n")
    sites = [("840060371103", 34.07, -118.23), ("840550790026", 43.06, -87.91)]
    lines = [f"{name}|PM2.5|1|Made up|Active|A|Agency|R9|{lat}|{lon}|80|-8|US" for name, lat, lon in sites]
    write(web / "files.airnowtech.org/airnow/today/monitoring_site_locations.dat", "\n".join(lines))


def write_aqs(web: Path, year: int) -> None:
    """A year of which two hours are there."""
    head = '"State Code","County Code","Site Num","Parameter Code","POC","Date GMT","Time GMT","Sample Measurement"\n'
    rows = [f'"06","037","1103","44201",1,"{year}-06-01","{hour:02}:00",0.04{hour}' for hour in (7, 8)]
    (web / "aqs.epa.gov/aqsweb/airdata").mkdir(parents=True)
    with ZipFile(web / f"aqs.epa.gov/aqsweb/airdata/hourly_44201_{year}.zip", "w") as archive:
        archive.writestr(f"hourly_44201_{year}.csv", head + "\n".join([*rows, rows[0].replace("1103", "9999")]) + "\n")
