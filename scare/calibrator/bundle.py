"""A bundle is the `.scare` file: a zip of manifest.json, weights.safetensors, windows.safetensors and card.md.

Nothing in it is code. Names, sizes, the manifest's schema and checksums are checked before anything is decoded; the
same calibrator always gives the same bytes. `weights.safetensors` holds the plan and scaling, `windows.safetensors`
the golden windows with their expected outputs and the validation windows with their references. What they say (finite
numbers, shapes that fit, kernels that exist) is checked by `manifest` and `plan`.
"""

import hashlib
import json
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as decode
from safetensors.numpy import save as encode

from scare.calibrator.limits import check, most
from scare.calibrator.manifest import VERSION, Arrays, Header, Manifest, read_schema
from scare.errors import DataError, UsageError
from scare.files import replacing
from scare.records import convert

MANIFEST, WEIGHTS, WINDOWS, CARD = "manifest.json", "weights.safetensors", "windows.safetensors", "card.md"
MEMBERS = {MANIFEST: "manifest", WEIGHTS: "weights", WINDOWS: "windows", CARD: "card"}  # and the limits of their sizes
DIRECTORY = 4096  # bytes of a zip's list of its members: four need a tenth of it
END = 20 + 22  # bytes of what points to a large zip's end, which ours have none of, and of an end
EPOCH = (1980, 1, 1, 0, 0, 0)


def write(path: Path, facts: dict[str, Any], arrays: Arrays, card: str) -> Path:
    """Write a bundle; the file appears whole or not at all."""
    samples = {name: array for name, array in arrays.items() if _is_sample(name)}
    weights = {name: array for name, array in arrays.items() if not _is_sample(name)}
    members = {WEIGHTS: _encode(weights), WINDOWS: _encode(samples), CARD: card.encode()}
    facts = {**facts, "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}}
    try:
        members = {MANIFEST: json.dumps(facts, indent=1, allow_nan=False).encode(), **members}
    except (TypeError, ValueError) as error:
        raise UsageError(f"cannot write {path}: its facts do not fit into JSON: {error}") from error
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content, zipfile.ZIP_DEFLATED)
    return path


def read(path: Path) -> tuple[Manifest, Arrays]:
    """Manifest and arrays of a bundle; raises what `refusing` turns into a message."""
    _check_file(path)
    with zipfile.ZipFile(path) as archive:
        infos = _check_members(archive)
        facts = json.loads(_read_member(archive, infos[MANIFEST]), parse_constant=_refuse_constant)
        header = convert(facts, Header, "its manifest", unknown="ignore")
        _check_version(*header.version)
        found = read_schema(facts)
        members = {name: _read_member(archive, infos[name]) for name in (CARD, WEIGHTS, WINDOWS)}
    for name, content in members.items():
        if hashlib.sha256(content).hexdigest() != header.sha256[name]:
            raise ValueError(f"{name} was changed after it was written")
    return found, {**decode(members[WEIGHTS]), **decode(members[WINDOWS])}


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turn whatever a bad file causes into one sentence."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: not a .scare file, or cut short; get or save it again") from error
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise DataError(f"{path}: its manifest is incomplete or malformed ({_line(error)})") from error
    except (ValueError, ArithmeticError, RuntimeError, EOFError, MemoryError, SafetensorError, UsageError) as error:
        raise DataError(f"{path}: refused: {_line(error)}") from error


def _line(error: BaseException) -> str:
    """What an error says, on one short line: it may quote the file."""
    return " ".join(str(error).split())[:300]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def _is_sample(name: str) -> bool:
    return name.startswith(("golden.", "validation."))


def _encode(arrays: Arrays) -> bytes:
    return encode({name: np.ascontiguousarray(arrays[name]) for name in sorted(arrays)})


def _check_file(path: Path) -> None:
    """A regular file that ends as a small zip does: nothing to wait for, and no long list of members to read."""
    state = path.stat()
    if not stat.S_ISREG(state.st_mode):
        raise OSError(0, "it is no regular file")
    check(file=state.st_size)
    with path.open("rb") as file:
        file.seek(max(0, state.st_size - END))
        end = file.read()
    if end[-22:-18] != b"PK\5\6" or end[:4] == b"PK\6\7" or int.from_bytes(end[-10:-6], "little") > DIRECTORY:
        raise zipfile.BadZipFile("no end, or not one of ours")


def _check_version(major: int, minor: int) -> None:
    if major > VERSION[0]:
        raise ValueError(
            f"its format is version {major}.{minor} and this scare reads up to {VERSION[0]}.x; upgrade scare to open it"
        )


def _check_members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Exactly the four members, none declared larger than its limit."""
    infos = archive.infolist()
    if sorted(info.filename for info in infos) != sorted(MEMBERS):
        raise ValueError(f"it holds {', '.join(info.filename for info in infos)[:200]} instead of {', '.join(MEMBERS)}")
    check(**{MEMBERS[info.filename]: info.file_size for info in infos})
    return {info.filename: info for info in infos}


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """One member, read no further than its limit: the size a zip declares may be a lie."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise zipfile.BadZipFile("a compression no bundle has")
    with archive.open(info) as member:
        content = member.read(most(MEMBERS[info.filename]) + 1)
    check(**{MEMBERS[info.filename]: len(content)})
    return content
