"""Files go where a user asked for them, whole or not at all: into a folder, or into one zip."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from scare.errors import UsageError
from scare.files import beside, replacing

ZIP = ".zip"
READABLE = 0o100644 << 16  # a plain file that everyone may read, as a zip says it


def check_free(out: Path, force: bool) -> None:
    """Refuse a folder that is not empty, or a zip that is there, unless by `force`."""
    if _is_zip(out):
        if not force and out.exists():
            raise UsageError(f"{out} exists already; give another name, or --force to replace it")
        return
    if out.exists() and not out.is_dir():
        raise UsageError(f"cannot write into {out}: it is a file")
    if not force and out.is_dir() and any(out.iterdir()):
        raise UsageError(f"{out} is not empty; give another folder, or --force to replace its files of these names")


def write_files(out: Path, files: Mapping[str, str | bytes]) -> None:
    """Write texts and bytes by path into a folder; or, where `out` ends in .zip, into a zip with one folder.

    That folder is named like the zip. The same content always gives the same bytes.
    """
    if _is_zip(out):
        _write_zip(out, files)
    else:
        _write_folder(out, files)


def _is_zip(out: Path) -> bool:
    return out.suffix.lower() == ZIP and not out.is_dir()


def _write_zip(out: Path, files: Mapping[str, str | bytes]) -> None:
    with replacing(out) as temporary, ZipFile(temporary, "w") as archive:
        for path, content in sorted(files.items()):
            entry = ZipInfo(f"{out.stem}/{path}")
            entry.compress_type, entry.external_attr = ZIP_DEFLATED, READABLE
            archive.writestr(entry, content)


def _write_folder(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write beside the folder first, then move: a new folder appears whole, files of an old one whole each."""
    temporary = beside(folder)
    try:
        for path, content in files.items():
            (temporary / path).parent.mkdir(parents=True, exist_ok=True)
            (temporary / path).write_bytes(content.encode() if isinstance(content, str) else content)
        if not folder.exists():
            temporary.rename(folder)
            return
        for path in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (temporary / path).replace(folder / path)
    except OSError as error:
        raise UsageError(f"cannot write into {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
