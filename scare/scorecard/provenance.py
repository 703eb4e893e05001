"""Where a card came from: files by their SHA-256, seed, versions, computer and time of making."""

import hashlib
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import scare
from scare.calibrator.calibrator import Calibrator
from scare.scorecard.requirements import Protocol

PACKAGES = ("numpy", "polars", "jax", "ziglang", "unicorn", "capstone")


def trace(
    model: str, files: Sequence[Path], calibrator: Calibrator, arithmetic: str, protocol: Protocol
) -> dict[str, Any]:
    """The origin of a card; a published correction has no file, and what was not trained has no seed."""
    settings = calibrator.facts.get("settings") or {}
    known = Path(model).is_file()
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "model_file": Path(model).name if known else None,
        "model_sha256": digest(Path(model)) if known else None,
        "data": [{"file": path.name, "sha256": digest(path)} for path in files],
        "seed": settings.get("seed"),
        "arithmetic": arithmetic,
        "protocol": asdict(protocol),
        "versions": {"scare": scare.__version__, "python": platform.python_version(), **_versions()},
        "computer": {"system": platform.system(), "machine": platform.machine(), "processor": platform.processor()},
    }


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
