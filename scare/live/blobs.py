"""Model files for the boxes themselves: each device's blob, its manifest, and which version the device says it runs.

A device asks with the version that it runs (`If-None-Match`), and gets the file only if there is another one. Files are
signed where the private key is, by `scare export blob`; the gateway has no key and passes them on.
"""

import struct
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256, sha512
from pathlib import Path
from threading import Lock
from time import time
from typing import Any
from urllib.parse import quote

from scare.errors import DataError
from scare.live.config import Model
from scare.words import some_of

MARK, CHECKSUM_BYTES, SIGNATURE_BYTES = b"SCB", 4, 64  # how a file begins, and what it ends with
SEQUENCE = struct.Struct("<216xI")  # where a file has its sequence number, which the signature covers
VERSION_BYTES = 12  # of checksum and signature, as `scare_blob_version` of the C runtime gives them
MOST_BYTES = 1 << 20  # of a model file
MOST_DEVICES = 100_000  # whose version is kept
NEWEST, OTHER, UNKNOWN = "newest", "other", "unknown"


@dataclass(frozen=True)
class Blob:
    """A model file for a device, and the name of its model."""

    model: str
    content: bytes

    @property
    def version(self) -> str:
        """The version of the file, as 24 hexadecimal digits."""
        return self.content[-CHECKSUM_BYTES - SIGNATURE_BYTES :][:VERSION_BYTES].hex()

    @property
    def sequence(self) -> int:
        """A number that is larger in files that were signed later; a device takes no smaller one than it runs."""
        return int(SEQUENCE.unpack_from(self.content)[0])


class Blobs:
    """Model files that devices fetch over the air (`models.NAME.blob` of the config file), and which version each runs.

    `route` finds the model of a device.
    """

    def __init__(self, models: Mapping[str, Model], route: Callable[[str], str | None]) -> None:
        self._files = {name: model.blob for name, model in models.items() if model.blob}
        self._route = route
        self._lock = Lock()
        self._versions: dict[Path, tuple[tuple[int, int], str]] = {}  # by file: its modification time and size; version
        # By device: the version it runs (empty: unknown), and when it last asked.
        self._asked: dict[str, tuple[str, float]] = {}

    def find(self, device: str) -> Blob:
        """Read the file of a device; a DataError says why there is none."""
        model, path = self._place(device)
        try:
            with path.open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise DataError(f"there is no model file for '{device}': {error.strerror or error}") from error
        if not SEQUENCE.size < len(content) <= MOST_BYTES or not content.startswith(MARK):
            raise DataError(f"the model file for '{device}' is not a blob; write it with scare export blob")
        return Blob(model, content)

    def _place(self, device: str) -> tuple[str, Path]:
        """Return the model of a device, and where its file is."""
        model = self._route(device) or ""
        if model not in self._files:
            raise DataError(f"no model file is served to '{device}'; models.NAME.blob of the config file names one")
        # Quoted, so that a device's name with slashes stays one name of a file.
        return model, Path(self._files[model].replace("{device}", quote(device, safe=" ")))

    def _newest(self, device: str) -> str:
        """Return the version of a device's file, read again only if it has changed; empty without one."""
        try:
            _, path = self._place(device)
            status = path.stat()
            stamp = status.st_mtime_ns, status.st_size
            known_stamp, version = self._versions.get(path, (None, ""))
            if stamp != known_stamp:
                version = self.find(device).version
                self._versions[path] = stamp, version
            return version
        except (DataError, OSError):
            return ""

    def record(self, device: str, version: str) -> None:
        """Note that a device has asked, and which version it says it runs."""
        with self._lock:
            if device in self._asked or len(self._asked) < MOST_DEVICES:
                self._asked[device] = version, time()

    def manifest(self, device: str) -> dict[str, Any]:
        """Describe the file of a device and what the device runs.

        What is signed is the file's sequence number and its `sha512`: a device can check both before it has the file.
        """
        blob = self.find(device)
        signature = blob.content[-SIGNATURE_BYTES:]
        return {
            "device": device,
            "model": blob.model,
            "version": blob.version,
            "sequence": blob.sequence,
            "bytes": len(blob.content),
            "sha256": sha256(blob.content).hexdigest(),
            "sha512": sha512(blob.content[: -CHECKSUM_BYTES - SIGNATURE_BYTES]).hexdigest(),
            "signature": signature.hex() if any(signature) else None,  # a file that is not signed has zeros there
            "runs": self.runs(device),
        }

    def listed(self) -> list[dict[str, Any]]:
        """Return the devices that have asked for a file, sorted by name, each with what `runs` says of it."""
        with self._lock:
            devices = sorted(self._asked)
        return [{"device": device, **(self.runs(device) or {})} for device in devices]

    def counts(self) -> Counter[str]:
        """Count the devices that have asked by what they run: the newest file, another one, or unknown."""
        return Counter(box["state"] for box in self.listed())

    def remarks(self) -> list[str]:
        """Return the sentence for the page on devices that do not run their newest file, if there are any."""
        others = [box["device"] for box in self.listed() if box["state"] == OTHER]
        if not others:
            return []
        return [f"Another model file than the newest runs on {some_of(others)}."]

    def runs(self, device: str) -> dict[str, Any] | None:
        """Return the version that a device says it runs, whether that is the newest, and when it asked.

        None if it never asked.
        """
        with self._lock:
            if device not in self._asked:
                return None
            version, when = self._asked[device]
        state = UNKNOWN
        if version:
            state = NEWEST if version == self._newest(device) else OTHER
        return {"runs": version or None, "state": state, "asked": when}
