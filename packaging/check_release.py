"""Refuse to release what is not ready: a tag that is not the version, or an address that is a placeholder.

python packaging/check_release.py v0.2.0
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """What keeps this tree from being released as `tag`; one sentence each."""
    found = []
    version = re.search(r'^__version__ = "(.+)"$', (root / "scare" / "__init__.py").read_text(encoding="utf-8"), re.M)
    if version is None or tag != f"v{version[1]}":
        found.append(f"the tag {tag} is not v{version[1] if version else '?'}, the version in scare/__init__.py")
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name, address in project["urls"].items():
        if "example." in address:
            found.append(f"project.urls.{name} of pyproject.toml is a placeholder: {address}")
    if "(unreleased)" in (root / "CHANGELOG.md").read_text(encoding="utf-8"):
        found.append("CHANGELOG.md has an unreleased version")
    return found


if __name__ == "__main__":
    sys.exit("\n".join(problems(sys.argv[1])))
