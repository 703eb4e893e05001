"""Live calibration, part by part: speed, latency, devices, overload, kills, long runs; makes docs/benchmarks/live.md.

    python -m benchmarks.live [--parts fleet,gateway] [--out docs/benchmarks/live.md] [--json]

The other sections of a page that exists stay as they are.
"""

import argparse
import json
import re
from datetime import date
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markdown import Markdown

from benchmarks import live_devices, live_fleet, live_gateway, live_kills, live_overload, soak
from scare.files import replacing

PARTS = {  # each has measure(), section(found), SECTION
    "fleet": live_fleet,
    "gateway": live_gateway,
    "devices": live_devices,
    "overload": live_overload,
    "kills": live_kills,
    "soak": soak,
}
HEAD = """# Live

Made by `python -m benchmarks.live --out docs/benchmarks/live.md`; do not edit.
"""


def main() -> None:
    """Measure the parts asked for, print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {part: PARTS[part].measure() for part in options.parts.split(",")}
    old = options.out.read_text(encoding="utf-8") if options.out and options.out.exists() else ""
    page = print_page(old, {part: dated_section(part, facts) for part, facts in found.items()})
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(options.out) as temporary:
            temporary.write_text(page, encoding="utf-8")
    Console(stderr=options.json).print(Markdown(page))
    if options.json:
        print(json.dumps(found, indent=2))


def dated_section(part: str, found: dict[str, Any]) -> str:
    """Render a section of the page, and when it was measured."""
    return f"{PARTS[part].section(found).strip()}\n\nMeasured on {date.today()}.\n"


def print_page(old: str, new: dict[str, str]) -> str:
    """Render the page: the new sections by part, and the others of the old page."""
    kept = {one.partition("\n")[0]: one for one in re.split(r"^(?=## )", old, flags=re.MULTILINE)}
    headings = {part: module.SECTION.template.partition("\n")[0] for part, module in PARTS.items()}
    found = [new.get(part) or kept.get(heading, "") for part, heading in headings.items()]
    return "\n".join([HEAD, *(f"{one.strip()}\n" for one in found if one)])


if __name__ == "__main__":
    main()
