"""Work on a folder that a worker does not see: packed and sent once, unpacked there, what it writes sent back.

The same content is the same bytes: a cluster is sent it once however many jobs there are, and a worker unpacks it once.
"""

import hashlib
import io
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

from scare.files import replacing

Files = dict[str, bytes]  # by name


def pack(folder: Path, paths: Iterable[Path]) -> bytes:
    """Files of a folder as one archive; the same files give the same bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(paths):
            archive.writestr(zipfile.ZipInfo(path.relative_to(folder).as_posix()), path.read_bytes())
    return packed.getvalue()


def work_on_sent(packed: bytes, work: Callable[..., object], *arguments: Any) -> Files:
    """Do work(folder, *arguments, results) on what was sent; what it has written to the folder of results."""
    with TemporaryDirectory() as results:
        work(str(_unpacked(packed)), *arguments, results)
        return {path.name: path.read_bytes() for path in sorted(Path(results).iterdir())}


def keep(files: Files, folder: Path) -> None:
    """Write what was sent back."""
    for name, content in files.items():
        with replacing(folder / name) as temporary:
            temporary.write_bytes(content)


def _unpacked(packed: bytes) -> Path:
    """The folder with this content on this computer, unpacked unless it is there."""
    folder = Path(gettempdir()) / "scare-sent" / hashlib.sha256(packed).hexdigest()
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        with TemporaryDirectory(dir=folder.parent) as beside, zipfile.ZipFile(io.BytesIO(packed)) as archive:
            archive.extractall(Path(beside) / "whole")
            try:
                (Path(beside) / "whole").rename(folder)
            except OSError:  # another worker was faster
                if not folder.exists():
                    raise
    return folder
